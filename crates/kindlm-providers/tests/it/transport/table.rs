//! A table of all failures between a prompt and a reply.
//!
//! The test generates `docs/reference/provider-errors.md`, with the exact error messages. `KINDLM_BLESS=1` rewrites the
//! page. Review the result.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use std::sync::{Mutex, PoisonError};

use kindlm_engine::{CaseBody, Model, RunOptions, Suite, TestCase, gates};
use kindlm_testing::mock::{MockReply, closed_address};
use kindlm_types::{
    AttemptBudget, BoxFuture, Embedding, Limits, Models, Ports, ProviderErrorKind as Kind, Reply,
};

use super::tls::{ELSEWHERE_AUTHORITY, serve, serve_as_elsewhere};
use super::*;

/// The cause of a failure.
enum Injected {
    /// The server gives this answer to every request.
    Always(MockReply),
    /// The server gives this answer to the first request; the next request succeeds.
    Once(MockReply),
    /// A redirect to another server, which must not receive the request.
    Elsewhere,
    /// The request goes to this address.
    At(String),
}
use Injected::{Always, At, Elsewhere, Once};

/// The expected result.
enum Expected {
    /// An error after this number of attempts: 3 if it is retryable.
    Fails(Kind, u32),
    /// A reply after this number of attempts.
    Answers(u32),
}
use Expected::{Answers, Fails};

struct Row {
    name: &'static str,
    injected: Injected,
    expected: Expected,
}

fn row(name: &'static str, injected: Injected, expected: Expected) -> Row {
    Row { name, injected, expected }
}

/// A delay beyond every timeout of the table.
const LATE: Duration = Duration::from_secs(30);

fn statuses() -> Vec<Row> {
    let coded = |status, code: &str, message: &str| {
        let error =
            json!({"error": {"message": message, "type": "invalid_request_error", "code": code}});
        Always(MockReply::json(&error).with_status(status))
    };
    let error = |status, message| Always(MockReply::error(status, message));
    vec![
        row("400", error(400, "Invalid value for `temperature`."), Fails(Kind::InvalidRequest, 1)),
        row(
            "400, the prompt is too long",
            coded(
                400,
                "context_length_exceeded",
                "This model's maximum context length is 8192 tokens.",
            ),
            Fails(Kind::ContextLength, 1),
        ),
        row(
            "400, the prompt is refused",
            coded(400, "content_filter", "The prompt was filtered."),
            Fails(Kind::ContentFilter, 1),
        ),
        row("401", error(401, "Incorrect API key provided."), Fails(Kind::Auth, 1)),
        row("402", error(402, "Payment required."), Fails(Kind::QuotaExhausted, 1)),
        row("403", error(403, "You have insufficient permissions."), Fails(Kind::Auth, 1)),
        row(
            "403, of that request alone",
            error(403, "This content is not available."),
            Fails(Kind::InvalidRequest, 1),
        ),
        row(
            "404, the model is unknown",
            coded(404, "model_not_found", "The model `gpt-9` does not exist."),
            Fails(Kind::ModelNotFound, 1),
        ),
        row("408", error(408, "Request timed out."), Fails(Kind::Timeout, 3)),
        row("409", error(409, "The resource is locked."), Fails(Kind::Server, 3)),
        row("413", error(413, "Request exceeds the maximum size."), Fails(Kind::InvalidRequest, 1)),
        row("422", error(422, "Field required: messages."), Fails(Kind::InvalidRequest, 1)),
        row("429", error(429, "Rate limit reached."), Fails(Kind::RateLimited, 3)),
        row(
            "429, the account is empty",
            coded(429, "insufficient_quota", "You exceeded your current quota."),
            Fails(Kind::QuotaExhausted, 1),
        ),
        row("500", error(500, "The server had an error."), Fails(Kind::Server, 3)),
        row(
            "502, from a proxy that speaks HTML",
            Always(MockReply::html().with_status(502)),
            Fails(Kind::Server, 3),
        ),
        row("503", error(503, "Service unavailable."), Fails(Kind::Overloaded, 3)),
        row(
            "503, without a body",
            Always(MockReply::empty().with_status(503)),
            Fails(Kind::Overloaded, 3),
        ),
        row("504", error(504, "Gateway timeout."), Fails(Kind::Server, 3)),
        row("529", error(529, "Overloaded."), Fails(Kind::Overloaded, 3)),
    ]
}

fn waits() -> Vec<Row> {
    let refused = || MockReply::error(429, "Rate limit reached.");
    vec![
        row(
            "429 once, with `Retry-After` in seconds",
            Once(refused().with_header("retry-after", "1")),
            Answers(2),
        ),
        row(
            "429 once, with `Retry-After` as a date",
            Once(
                refused()
                    .with_header("date", "Sun, 06 Nov 1994 08:49:37 GMT")
                    .with_header("retry-after", "Sun, 06 Nov 1994 08:49:38 GMT"),
            ),
            Answers(2),
        ),
        row(
            "429, with a `Retry-After` of more than a minute",
            Always(refused().with_header("retry-after", "3600")),
            Fails(Kind::RateLimited, 1),
        ),
        row("503 once", Once(MockReply::error(503, "Service unavailable.")), Answers(2)),
    ]
}

/// Returns the rows about connections. A slow machine needs a larger `factor` for the delays.
fn connections(factor: u32) -> Vec<Row> {
    let ok = || MockReply::text("ok");
    vec![
        row(
            "the connection is refused",
            At(format!("http://{}", closed_address().unwrap())),
            Fails(Kind::Connection, 3),
        ),
        row(
            "the host has no address",
            At("http://no-such-host.invalid".to_owned()),
            Fails(Kind::Connection, 3),
        ),
        row("reset before an answer", Always(MockReply::reset()), Fails(Kind::Connection, 3)),
        row("closed before an answer", Always(MockReply::hang_up()), Fails(Kind::Connection, 3)),
        row("reset in the body", Always(ok().reset_in_body()), Fails(Kind::Connection, 3)),
        row("closed in the body", Always(ok().close_in_body()), Fails(Kind::Connection, 3)),
        row("reset once", Once(MockReply::reset()), Answers(2)),
        row(
            "TLS: the authority is not trusted",
            At(format!("https://{}", serve())),
            Fails(Kind::Connection, 1),
        ),
        row(
            "TLS: the certificate is for another host",
            At(format!("https://{}", serve_as_elsewhere())),
            Fails(Kind::Connection, 1),
        ),
        row("no headers in time", Always(ok().after(LATE)), Fails(Kind::Timeout, 3)),
        row("the body stalls", Always(ok().body_after(LATE)), Fails(Kind::Timeout, 3)),
        row(
            "the body drips for too long",
            Always(ok().dripping(Duration::from_millis(250) * factor)),
            Fails(Kind::Timeout, 3),
        ),
        row(
            "a redirect to another scheme, host or port",
            Elsewhere,
            Fails(Kind::InvalidRequest, 1),
        ),
        row(
            "a redirect that drops the body",
            Always(MockReply::redirect(302, "/login")),
            Fails(Kind::InvalidRequest, 1),
        ),
        row(
            "a redirect to nowhere",
            Always(MockReply::raw(307, "text/plain", "")),
            Fails(Kind::InvalidRequest, 1),
        ),
    ]
}

fn bodies() -> Vec<Row> {
    let json = |body: &[u8]| MockReply::raw(200, "application/json", body);
    let whole = br#"{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}"#;
    let malformed = || Fails(Kind::MalformedResponse, 1);
    vec![
        row("an endless body", Always(MockReply::endless()), malformed()),
        row("a body that is announced too large", Always(json(&[b' '; 70_000])), malformed()),
        row("a gzip bomb", Always(MockReply::gzip_bomb(1 << 30)), malformed()),
        row(
            "damaged gzip",
            Always(json(b"not gzip").with_header("content-encoding", "gzip")),
            malformed(),
        ),
        row("truncated JSON", Always(MockReply::truncated_json()), malformed()),
        row("HTML instead of JSON", Always(MockReply::html()), malformed()),
        row(
            "text instead of JSON",
            Always(MockReply::raw(200, "text/plain", "It works!")),
            malformed(),
        ),
        row(
            "JSON that is called text",
            Always(MockReply::raw(200, "text/plain", *whole)),
            Answers(1),
        ),
        row("an empty body", Always(MockReply::empty()), malformed()),
        row("JSON of something else", Always(json(br#"["ok"]"#)), malformed()),
        row(
            "invalid UTF-8",
            Always(json(b"{\"choices\":[{\"message\":{\"content\":\"caf\xe9\"}}]}")),
            malformed(),
        ),
        row(
            "200 with an error",
            Always(json(br#"{"error":{"message":"Provider returned error","code":502}}"#)),
            Fails(Kind::Server, 3),
        ),
    ]
}

/// Returns a model's answer with these calls.
fn calling(calls: &Value) -> MockReply {
    MockReply::json(&json!({"choices": [
        {"message": {"content": null, "tool_calls": calls}, "finish_reason": "tool_calls"},
    ]}))
}

fn tool_calls() -> Vec<Row> {
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}});
    vec![
        row(
            "tool calls that share an id",
            Always(calling(&json!([call("a", "{}"), call("a", "{}"), call("a", "{}")]))),
            Answers(1),
        ),
        row(
            "tool arguments that are not JSON",
            Always(calling(&json!([call("a", "{\"city\": \"Ber")]))),
            Answers(1),
        ),
    ]
}

/// Describes a reply for the page.
fn describe_reply(reply: &Reply) -> String {
    let mut told = match reply.attempts {
        1 => "no error".to_owned(),
        attempts => format!("no error: attempt {attempts} is answered"),
    };
    let ids: Vec<String> = reply.tool_calls.iter().map(|it| format!("`{}`", it.id)).collect();
    if ids.len() > 1 {
        let _ = write!(told, ": the calls are kept apart as {}", ids.join(", "));
    }
    for text in reply.tool_calls.iter().filter_map(|it| it.malformed_arguments.as_ref()) {
        let _ = write!(
            told,
            ": the arguments are kept as `{text}`, and no check takes them for others"
        );
    }
    told
}

/// A client that also records the answer of the wrapped client.
struct RecordingHost<'a>(&'a Client, Mutex<Option<Result<Reply, ProviderError>>>);

impl Models for RecordingHost<'_> {
    fn complete<'a>(
        &'a self,
        provider: &'a str,
        prompt: &'a Prompt,
        timeout: Duration,
        budget: &'a dyn AttemptBudget,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        Box::pin(async move {
            let result = Models::complete(self.0, provider, prompt, timeout, budget).await;
            *self.1.lock().unwrap() = Some(result.clone());
            result
        })
    }

    fn embed<'a>(
        &'a self,
        provider: &'a str,
        model: &'a str,
        text: &'a str,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Embedding, ProviderError>> {
        Models::embed(self.0, provider, model, text, timeout)
    }

    fn has_answer(&self, _provider: &str, _prompt: &Prompt) -> bool {
        false
    }

    fn limits_calls(&self) -> bool {
        false
    }
}

/// Runs a suite with one test and no checks. Returns the client's answer, the error message of the report, and the exit
/// code.
async fn run_of_one(
    client: &Client,
    timeout: Duration,
) -> (Result<Reply, ProviderError>, Option<String>, u8) {
    let body = CaseBody { answers_tools: false, ..CaseBody::prompt("hi") };
    let suite = Suite {
        models: vec![Model {
            id: "m".to_owned(),
            provider: "openai".to_owned(),
            name: "m-1".to_owned(),
            params: Params::default(),
            price: None,
            limits: Limits::default(),
            tells_vars: false,
            offers: [].into(),
            declared: std::collections::BTreeSet::new(),
            agent: None,
        }],
        cases: vec![TestCase::new("the test", body).on(&["m"])],
        gates: gates::defaults(),
        ..Suite::default()
    };
    let options = RunOptions { timeout: Some(timeout), ..RunOptions::default() };
    let heard = RecordingHost(client, Mutex::default());
    let report = kindlm_engine::run(&suite, &options, Ports::new(&heard)).await.unwrap();
    let said =
        report.cases[0].executions[0].error.as_ref().map(kindlm_types::ExecutionError::message);
    let result = heard.1.into_inner().unwrap_or_else(PoisonError::into_inner).unwrap();
    (result, said, report.exit_status().code())
}

/// Runs a row. Returns it with the error message or the description of the reply, and the exit code.
///
/// A timeout may expire before a busy machine has sent the request, so timeout rows are retried with longer timeouts.
async fn run(row: Row) -> (Row, String, u8) {
    let (name, mut result) = (row.name, attempt(row, 1).await);
    for factor in [5, 25] {
        let slower = connections(factor).into_iter().find(|it| it.name == name && is_late(it));
        match (&result, slower) {
            (Err(_), Some(slower)) => result = attempt(slower, factor).await,
            _ => break,
        }
    }
    result.unwrap_or_else(|failure| panic!("{name}: {failure}"))
}

/// Returns true if the row ends in a timeout of the client. The row `408` does not: its server answers immediately.
fn is_late(row: &Row) -> bool {
    matches!(row.expected, Fails(Kind::Timeout, _)) && row.name != "408"
}

async fn attempt(row: Row, factor: u32) -> Result<(Row, String, u8), String> {
    let (server, elsewhere) = (server(), server());
    let mut base = server.url();
    match &row.injected {
        Always(reply) => server.push_all(vec![reply.clone(); 3]),
        Once(reply) => server.push(reply.clone()),
        Elsewhere => server.push(MockReply::redirect(307, &format!("{}/v1", elsewhere.url()))),
        At(url) => base.clone_from(url),
    }
    let config =
        json!({"openai": {"apiKeyEnv": "OPENAI_API_KEY", "baseUrl": format!("{base}/v1")}});
    let mut options = client_options();
    let idle_timeout = Duration::from_millis(500);
    options.transport.idle_timeout = idle_timeout * factor;
    options.transport.ca_pem = Some(ELSEWHERE_AUTHORITY.into());
    let client = Client::new(&providers(config), &Memory(&[]), options).unwrap();
    let timeout = if is_late(&row) { Duration::from_secs(1) } else { LONG };
    let (result, said, exit_code) = run_of_one(&client, timeout * factor).await;
    let (is_expected, attempts) = match (&result, &row.expected) {
        (Ok(reply), Answers(attempts)) => (reply.attempts == *attempts, *attempts),
        (Err(err), Fails(kind, attempts)) => {
            let is_expected = (err.kind, err.attempts) == (*kind, *attempts);
            (is_expected && err.retryable == (*attempts == 3), *attempts)
        }
        _ => (false, 0),
    };
    let requests = server.count();
    let is_counted = matches!(row.injected, At(_)) || requests == attempts as usize;
    if !is_expected || !is_counted {
        return Err(format!("{requests} requests: {result:?}"));
    }
    assert_eq!(elsewhere.count(), 0, "{}", row.name);
    let told = result.map_or_else(|_| said.unwrap(), |reply| describe_reply(&reply));
    assert!(!told.contains(KEY), "{}: {told}", row.name);
    let address = |url: &str| url.split_once("//").map(|(_, it)| it.to_owned()).unwrap();
    let told = told
        .replace(&address(&elsewhere.url()), "elsewhere.example.com")
        .replace(&address(&base), "api.example.com")
        .replace("127.0.0.1", "api.example.com")
        .replace(&milliseconds(timeout * factor), &milliseconds(timeout))
        .replace(&milliseconds(idle_timeout * factor), &milliseconds(idle_timeout));
    Ok((row, told, exit_code))
}

fn milliseconds(duration: Duration) -> String {
    format!(" {} ms", duration.as_millis())
}

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/provider-errors.md");

const INTRODUCTION: &str = "<!-- Generated by `cargo xtask bless`. Do not edit. -->

# Provider errors

Which errors a provider can cause, how often KindLM sends the request, and the message in the report.
Each row is a run of a suite with one test against a server that fails in this way, with default gates.
The examples name `openai`. All providers over HTTP behave the same.

- KindLM sends a request that may succeed later three times in all, with growing pauses.
- An execution without a reply is *errored*: it is neither passed nor failed. The run ends with exit code 3, whatever the gates decide.
- After a refused key (401) or an empty account, KindLM sends nothing more to the provider.
- After a 403 that names the key or a permission (`auth`), KindLM sends nothing more to the model. Any other 403 refuses one request
  (`invalid_request`).

Calls that keep failing open the circuit, so that a dead server costs seconds and not hours:

| what happens | nothing more is sent to | after |
|---|---|---|
| the provider cannot be reached (refused, DNS, TLS, reset) | the provider | 3 consecutive calls; if it has answered before, 3 consecutive calls and 3 minutes |
| 403, 404 or 405, and the model has never answered | the model | 3 calls |
| 5xx, timeouts or unreadable answers, and the model has never answered | the model | 10 calls |

A call counts after its retries. Requests that are not sent are errored at once with the same cause, and the rest of the run
continues. If the provider may charge for the attempt before a retry that is not sent, the error of that attempt stays, followed by
`not sent again:` and the cause. `kindlm test --resume` sends the missing requests.
";

#[tokio::test]
async fn every_failure_has_a_kind_and_a_clear_message() {
    let mut page = INTRODUCTION.to_owned();
    for (title, rows) in [
        ("The provider answers with an error", statuses()),
        ("The provider asks to wait", waits()),
        ("The connection fails", connections(1)),
        ("The answer cannot be read", bodies()),
        ("The answer is odd", tool_calls()),
    ] {
        let _ = write!(
            page,
            "\n## {title}\n\n| what happens | kind | sent | exit code | what is said |\n|---|---|--:|--:|---|\n"
        );
        let rows: Vec<_> = rows.into_iter().map(|row| tokio::spawn(run(row))).collect();
        for row in rows {
            let (row, told, exit_code) = row.await.unwrap();
            let told = told.replace('|', "\\|");
            let (kind, sent) = match row.expected {
                Fails(kind, sent) => (format!("`{}`", name_of(kind)), sent),
                Answers(sent) => ("–".to_owned(), sent),
            };
            let _ = writeln!(page, "| {} | {kind} | {sent} | {exit_code} | {told} |", row.name);
        }
    }
    if std::env::var_os("KINDLM_BLESS").is_some() {
        std::fs::create_dir_all(Path::new(PAGE).parent().unwrap()).unwrap();
        std::fs::write(PAGE, &page).unwrap();
    }
    // Some error messages differ on other operating systems.
    if !cfg!(target_os = "linux") {
        return;
    }
    let committed = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(page == committed, "`provider-errors.md` is stale: run `cargo xtask bless`");
}

fn name_of(kind: Kind) -> String {
    serde_json::to_value(kind).unwrap().as_str().unwrap().to_owned()
}
