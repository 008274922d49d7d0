//! Tests of the response store: requests that are sent, answers that are stored, and answers that are loaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kindlm_store::responses::{Mode, Recorded, Responses, Tally};
use kindlm_types::{
    AttemptBudget, BoxFuture, Channel, Coverage, Embedding, Event, FinishReason, Media, MediaKind,
    Message, Models, Params, Prompt, ProviderError, ProviderErrorKind, Reply, ResponseFormat, Role,
    ToolCall, ToolChoice, ToolSpec, Unlimited, Usage,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::arbitrary;

/// A model port with a fixed answer, which counts its requests.
struct Fake {
    reply: Mutex<Result<Reply, ProviderError>>,
    vector: Vec<f64>,
    asked: AtomicUsize,
}

impl Fake {
    fn new(reply: Reply) -> Self {
        Self {
            reply: Mutex::new(Ok(reply)),
            vector: vec![0.1, -1.5e-7, 1.797_693_134_862_315_7e308, f64::MIN_POSITIVE],
            asked: AtomicUsize::new(0),
        }
    }

    fn saying(text: &str) -> Self {
        Self::new(Reply { latency_ms: 812.345_678, attempts: 2, ..Reply::text(text) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn says(&self, text: &str) {
        *self.reply.lock().unwrap() = Ok(Reply { latency_ms: 7.0, ..Reply::text(text) });
    }

    fn store(&self, folder: &Path, mode: Mode) -> Recorded<&Self> {
        Recorded::new(self, Responses::new(folder, mode))
    }
}

impl Models for Fake {
    fn complete<'a>(
        &'a self,
        _provider: &'a str,
        _prompt: &'a Prompt,
        _timeout: Duration,
        _budget: &'a dyn AttemptBudget,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(self.reply.lock().unwrap().clone()))
    }

    fn embed<'a>(
        &'a self,
        _provider: &'a str,
        _model: &'a str,
        _text: &'a str,
        _timeout: Duration,
    ) -> BoxFuture<'a, Result<Embedding, ProviderError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(Embedding::new(
            self.vector.clone(),
            Usage::counted(Some(3), Some(0), None, None),
        ))))
    }

    fn has_answer(&self, _provider: &str, _prompt: &Prompt) -> bool {
        false
    }

    fn limits_calls(&self) -> bool {
        false
    }
}

fn prompt(user: &str) -> Prompt {
    Prompt {
        model: "gpt-4o".to_owned(),
        messages: vec![Message::new(Role::System, "Be kind."), Message::new(Role::User, user)],
        params: Params { temperature: Some(0.0), ..Params::default() },
        tools: Vec::new(),
        tool_choice: None,
        response_format: None,
        sample: 0,
        ..Prompt::default()
    }
}

/// Sends a prompt to `openai`. The future is ready at once, because [`Fake`] never waits.
fn ask(models: &impl Models, prompt: &Prompt) -> Result<Reply, ProviderError> {
    block_on(models.complete("openai", prompt, Duration::from_mins(1), &Unlimited))
}

fn embed(models: &impl Models, text: &str) -> Result<Arc<[f64]>, ProviderError> {
    embedding(models, text).map(|it| it.vector)
}

fn embedding(models: &impl Models, text: &str) -> Result<Embedding, ProviderError> {
    block_on(models.embed("openai", "embed-3", text, Duration::from_mins(1)))
}

fn block_on<T>(future: BoxFuture<'_, T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let mut files: Vec<PathBuf> = list(folder).flat_map(|it| list(&it)).collect();
    files.sort_unstable();
    files
}

/// Returns the path of the only file of a store.
fn only(folder: &Path) -> PathBuf {
    let [file] = files(folder).try_into().unwrap();
    file
}

/// Returns the digest in the file name for a changed prompt.
fn digest_of(change: impl FnOnce(&mut Prompt)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut prompt = prompt("Where is order 7?");
    change(&mut prompt);
    ask(&Fake::saying("x").store(folder.path(), Mode::Record), &prompt).unwrap();
    only(folder.path()).file_stem().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn each_mode_sends_and_stores_as_documented() {
    // The columns: mode, if an answer is stored, number of requests, answer, stored answer.
    for (mode, recorded, asked, says, file) in [
        (Mode::Live, false, 1, Some("new"), None),
        (Mode::Live, true, 1, Some("new"), Some("old")),
        (Mode::Cache, false, 1, Some("new"), Some("new")),
        (Mode::Cache, true, 0, Some("old"), Some("old")),
        (Mode::Record, false, 1, Some("new"), Some("new")),
        (Mode::Record, true, 1, Some("new"), Some("new")),
        (Mode::Replay, false, 0, None, None),
        (Mode::Replay, true, 0, Some("old"), Some("old")),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let prompt = prompt("Where is order 7?");
        if recorded {
            ask(&Fake::saying("old").store(folder.path(), Mode::Record), &prompt).unwrap();
        }
        let fake = Fake::saying("new");
        let store = fake.store(folder.path(), mode);
        let reply = ask(&store, &prompt);
        assert_eq!(fake.asked(), asked, "{mode} {recorded}");
        assert_eq!(reply.as_ref().ok().map(|it| it.text.as_str()), says, "{mode} {recorded}");
        let kept = files(folder.path()).pop().map(|it| fs::read_to_string(it).unwrap());
        let kept = kept.map(|it| serde_json::from_str::<Value>(&it).unwrap());
        assert_eq!(kept.as_ref().and_then(|it| it["response"]["text"].as_str()), file, "{mode}");
        let from_store = asked == 0 && says.is_some();
        if let Ok(reply) = reply {
            assert_eq!(
                (reply.cached, reply.attempts),
                (from_store, if from_store { 0 } else { 2 })
            );
        }
        let tally = store.responses().tally();
        assert_eq!(tally.recalled, u64::from(from_store));
        let is_kept = matches!(mode, Mode::Cache | Mode::Record) && !from_store;
        assert_eq!((tally.answered, tally.kept), (is_kept.into(), is_kept.into()), "{mode}");
    }
}

#[test]
fn a_file_is_readable_and_always_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let mut asked = prompt("Where is order 7?\nI need it.");
    asked.sample = 1;
    asked.tools = vec![ToolSpec {
        name: "lookup_order".to_owned(),
        description: None,
        parameters: Some(json!({"type": "object", "properties": {"id": {"type": "integer"}}})),
    }];
    let reply = Reply {
        tool_calls: vec![ToolCall {
            id: "call_9xz".to_owned(),
            name: "lookup_order".to_owned(),
            arguments: json!({"id": 7}),
            ..ToolCall::default()
        }],
        usage: Usage { input_tokens: 12, output_tokens: 4, total_tokens: 16, ..Usage::default() },
        finish_reason: FinishReason::ToolCalls,
        model: "gpt-4o-2024-08-06".to_owned(),
        latency_ms: 812.345_678,
        ..Reply::text("")
    };
    ask(&Fake::new(reply).store(folder.path(), Mode::Record), &asked).unwrap();
    let file = only(folder.path());
    assert_eq!(fs::read_to_string(&file).unwrap(), include_str!("recording.json"));
    // The file name must stay the same in future versions, so that old recordings are found.
    let name = "9f6551631ef8f1cffbd6e48ad03ac10189583ad1f7899cafc655f14bcbd986f7";
    assert_eq!(
        file.strip_prefix(folder.path()).unwrap().to_str().unwrap(),
        format!("{}/{name}.json", &name[..2])
    );
}

#[test]
fn the_file_name_depends_on_the_whole_request() {
    let same = digest_of(|_| {});
    let others = [
        digest_of(|it| it.model.push('x')),
        digest_of(|it| it.messages[0].content.push('x')),
        digest_of(|it| it.messages.swap(0, 1)),
        digest_of(|it| it.params.temperature = Some(0.1)),
        digest_of(|it| it.params.seed = Some(1)),
        digest_of(|it| it.tools.push(ToolSpec::default())),
        digest_of(|it| it.tool_choice = Some(ToolChoice::None)),
        digest_of(|it| {
            it.response_format = Some(ResponseFormat::new("x", json!({"type": "object"})));
        }),
        digest_of(|it| it.sample = 1),
        digest_of(|it| it.sample = 2),
    ];
    let distinct: std::collections::BTreeSet<&String> = others.iter().chain([&same]).collect();
    assert_eq!(distinct.len(), others.len() + 1);
    assert_eq!(same, digest_of(|_| {}));
}

#[test]
fn ids_that_providers_make_up_do_not_matter() {
    let conversation = |first: &str, second: &str| {
        let call =
            |id: &str| ToolCall { id: id.to_owned(), name: "f".to_owned(), ..ToolCall::default() };
        let (first, second) = (call(first), call(second));
        digest_of(|it| {
            let calls = vec![first.clone(), second.clone()];
            it.messages.push(Message { tool_calls: calls, ..Message::new(Role::Assistant, "") });
            it.messages.push(Message::tool_result(&second, "2"));
            it.messages.push(Message::tool_result(&first, "1"));
        })
    };
    assert_eq!(conversation("call_a", "call_b"), conversation("toolu_9", "toolu_8"));
    assert_ne!(conversation("call_a", "call_b"), conversation("call_a", "call_a"));
    assert_eq!(conversation("", ""), conversation("", ""), "commands give none");
}

#[test]
fn answers_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let reply = Reply {
        output_json: Some(json!({"a": 1})),
        text: "Très \"bien\"\n".to_owned(),
        tool_calls: vec![ToolCall {
            malformed_arguments: Some("{".to_owned()),
            response: Some(Value::Null),
            ..ToolCall::default()
        }],
        events: vec![Event::Thinking { text: "Hm.".to_owned() }],
        coverage: Coverage::Only([Channel::Usage].into()),
        usage: Usage { cached_input_tokens: Some(3), ..Usage::default() },
        finish_reason: FinishReason::Other("eos".to_owned()),
        model: "m".to_owned(),
        fingerprint: Some("fp_1".to_owned()),
        refusal: Some("no".to_owned()),
        log_probs: Some(vec![-0.25, -1.5]),
        metadata: serde_json::Map::from_iter([(
            "guardrails".to_owned(),
            serde_json::json!({"flagged": false}),
        )]),
        cost_usd: Some(0.125),
        response: Some(json!({"raw": [1, null]})),
        images: Vec::new(),
        latency_ms: 12.5,
        first_token_ms: Some(3.25),
        attempts: 3,
        cached: false,
    };
    ask(&Fake::new(reply.clone()).store(folder.path(), Mode::Cache), &prompt("a")).unwrap();
    let fake = Fake::saying("never");
    let again = ask(&fake.store(folder.path(), Mode::Replay), &prompt("a")).unwrap();
    assert_eq!(again, Reply { cached: true, attempts: 0, ..reply });
    assert_eq!(fake.asked(), 0);
}

#[test]
fn answer_with_images_is_not_cached() {
    for (mode, stored) in [(Mode::Cache, 0), (Mode::Record, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let media = Media::of_bytes(MediaKind::Image, "image/png", "image.png", b"png");
        let fake = Fake::new(Reply { images: vec![media], ..Reply::text("an image") });
        let store = fake.store(folder.path(), mode);
        for _ in 0..2 {
            assert_eq!(ask(&store, &prompt("a")).unwrap().images.len(), 1, "{mode}");
        }
        assert_eq!((fake.asked(), files(folder.path()).len()), (2, stored), "{mode}");
        assert_eq!(store.responses().tally().answered, 2, "{mode}");
    }
}

#[test]
fn vectors_are_stored_exactly_and_on_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::saying("never");
    let first = embed(&fake.store(folder.path(), Mode::Cache), "a text").unwrap();
    let again = embed(&fake.store(folder.path(), Mode::Replay), "a text").unwrap();
    assert_eq!((first.to_vec(), fake.asked()), (again.to_vec(), 1));
    assert_eq!(
        fs::read_to_string(only(folder.path())).unwrap(),
        "{\n  \"schemaVersion\": 1,\n  \"request\": {\n    \"model\": \"embed-3\",\n    \"provider\": \"openai\",\n    \"text\": \"a text\"\n  },\n  \"response\": {\n    \"vector\": [0.1,-1.5e-7,1.7976931348623157e+308,2.2250738585072014e-308],\n    \"inputTokens\": 3\n  }\n}\n"
    );
    let stored = embedding(&fake.store(folder.path(), Mode::Replay), "a text").unwrap();
    assert_eq!((stored.cached, stored.usage.input_tokens), (true, 3));
    let cache = fake.store(folder.path(), Mode::Cache);
    assert!(cache.has_vector("openai", "embed-3", "a text"));
    assert!(!cache.has_vector("openai", "embed-3", "another text"));
    let err = embed(&fake.store(folder.path(), Mode::Replay), "another text").unwrap_err();
    assert_eq!(err.kind, ProviderErrorKind::NotRecorded);
    assert!(err.message.contains(r#"/text: recorded "a text", asked "another text""#), "{err}");
}

#[test]
fn a_vector_outside_of_json_is_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake { vector: vec![f64::NAN], ..Fake::saying("never") };
    let store = fake.store(folder.path(), Mode::Cache);
    assert!(embed(&store, "a").unwrap()[0].is_nan());
    assert!(store.responses().failure().unwrap().contains("a number that JSON cannot hold"));
}

#[test]
fn failures_are_not_stored() {
    let folder = tempfile::tempdir().unwrap();
    ask(&Fake::saying("old").store(folder.path(), Mode::Record), &prompt("a")).unwrap();
    let fake = Fake::saying("never");
    *fake.reply.lock().unwrap() =
        Err(ProviderError::new(ProviderErrorKind::Server, "openai", "it broke"));
    let store = fake.store(folder.path(), Mode::Record);
    assert_eq!(ask(&store, &prompt("a")).unwrap_err().kind, ProviderErrorKind::Server);
    assert_eq!(store.responses().tally(), Tally::default());
    let replayed = ask(&fake.store(folder.path(), Mode::Replay), &prompt("a")).unwrap();
    assert_eq!(replayed.text, "old");
}

#[test]
fn recording_again_changes_a_file_only_where_the_answer_changed() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::saying("yes");
    ask(&fake.store(folder.path(), Mode::Record), &prompt("a")).unwrap();
    let before = fs::read_to_string(only(folder.path())).unwrap();
    fake.says("yes");
    let later =
        Responses::new(folder.path(), Mode::Record).with_recorded_at("2026-11-20T14:00:00Z");
    ask(&Recorded::new(&fake, later), &prompt("a")).unwrap();
    assert_eq!(fs::read_to_string(only(folder.path())).unwrap(), before, "only its time differs");
    fake.says("no");
    let later =
        Responses::new(folder.path(), Mode::Record).with_recorded_at("2026-11-20T14:00:00Z");
    ask(&Recorded::new(&fake, later), &prompt("a")).unwrap();
    let after = fs::read_to_string(only(folder.path())).unwrap();
    assert!(after.contains("\"text\": \"no\"") && after.contains("\"latencyMs\": 7.0"), "{after}");
    assert!(after.contains("\"recordedAt\": \"2026-11-20T14:00:00Z\""), "{after}");
}

#[test]
fn secrets_are_in_no_file_and_no_name() {
    const SECRET: &str = "hunter2-hunter2";
    const KEY: &str = "sk-proj-AbCdEf0123456789xyz";
    let folder = tempfile::tempdir().unwrap();
    let said = format!("You said {SECRET} and {KEY}");
    let fake = Fake::saying(&said);
    let store = |secret: &str, mode| {
        Recorded::new(
            &fake,
            Responses::new(folder.path(), mode)
                .with_secrets(&kindlm_redact::Secrets::new([secret])),
        )
    };
    let first = store(SECRET, Mode::Cache);
    let live = ask(&first, &prompt(&format!("My key is {SECRET}, or {KEY}"))).unwrap();
    assert_eq!(live.text, said, "what is passed on is what was said");
    assert_eq!(
        first.responses().tally(),
        Tally { answered: 1, kept: 1, redacted: 1, ..Tally::default() }
    );
    let text = fs::read_to_string(only(folder.path())).unwrap();
    assert!(!text.contains("hunter2") && !text.contains("AbCdEf"), "{text}");
    assert!(text.contains("My key is [redacted], or sk-[redacted]"), "{text}");
    // A different key on another machine finds the same recording.
    let other = ask(
        &store("other-s3cr3t", Mode::Replay),
        &prompt(&format!("My key is other-s3cr3t, or {KEY}")),
    );
    let other = other.unwrap();
    assert_eq!(other.text, "You said [redacted] and sk-[redacted]");
    assert!(!format!("{first:?}", first = first.responses()).contains("hunter2"));
}

/// Files of earlier versions have no `completeFor` for wrapped agents.
#[test]
fn a_stored_answer_of_a_wrapped_agent_is_not_complete() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::saying("x");
    let store = |mode| Responses::new(folder.path(), mode);
    ask(&Recorded::new(&fake, store(Mode::Record)), &prompt("a")).unwrap();
    assert!(!fs::read_to_string(only(folder.path())).unwrap().contains("completeFor"));
    for (responses, is_complete) in [
        (store(Mode::Replay), true),
        (store(Mode::Replay).with_wrapped_agent("other"), true),
        (store(Mode::Replay).with_wrapped_agent("openai"), false),
        (store(Mode::Cache).with_wrapped_agent("openai"), false),
    ] {
        let reply = ask(&Recorded::new(&fake, responses), &prompt("a")).unwrap();
        assert!(reply.cached);
        assert_eq!(reply.coverage.includes(Channel::Actions), is_complete);
    }
}

#[test]
fn another_setup_of_a_provider_is_another_request() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::saying("x");
    let store = |provider, setup| {
        Recorded::new(&fake, Responses::new(folder.path(), Mode::Cache).with_setup(provider, setup))
    };
    for (provider, setup, asked) in [
        ("openai", "https://a.example", 1),
        ("openai", "https://b.example", 2),
        ("openai", "https://a.example", 2),
        ("other", "https://a.example", 3),
        ("other", "https://b.example", 3),
    ] {
        ask(&store(provider, setup), &prompt("a")).unwrap();
        assert_eq!(fake.asked(), asked, "{provider} {setup}");
    }
}

#[test]
fn a_miss_names_the_nearest_recording() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::saying("x");
    let message = |prompt: &Prompt| {
        let err = ask(&fake.store(folder.path(), Mode::Replay), prompt).unwrap_err();
        assert_eq!(
            (err.kind, err.retryable, err.attempts),
            (ProviderErrorKind::NotRecorded, false, 0)
        );
        assert!(!err.message.contains('\n'));
        err.message.replace(folder.path().to_str().unwrap(), "responses")
    };
    let advice = "run once with `--responses cache` to record what is missing";
    assert_eq!(message(&prompt("a")), format!("there are no recordings in `responses`: {advice}"));

    let story =
        |name: &str| prompt(&format!("Tell {name} where the parcel with the red ribbon is"));
    for it in [
        prompt("What is the capital of France?"),
        story("Ada"),
        Prompt { sample: 1, ..story("Ada") },
    ] {
        ask(&fake.store(folder.path(), Mode::Record), &it).unwrap();
    }
    fs::write(folder.path().join("README.md"), "not a recording").unwrap();
    fs::create_dir_all(folder.path().join("zz")).unwrap();
    fs::write(folder.path().join("zz/broken.json"), "{").unwrap();
    let asked = fake.asked();

    let told = message(&story("Bob"));
    assert!(
        told.starts_with("this request is not recorded; the nearest recording `responses/"),
        "{told}"
    );
    assert!(
        told.ends_with(&format!(
            r#".json` differs in /messages/1/content: recorded "Tell Ada where the parcel with the red ribbon is", asked "Tell Bob where the parcel with the red ribbon is"; {advice}"#
        )),
        "{told}"
    );
    let told = message(&Prompt { sample: 2, ..story("Ada") });
    assert!(told.contains("differs in /sample: recorded "), "{told}");
    let other = Prompt { model: "gpt-5".to_owned(), ..story("Ada") };
    assert_eq!(
        message(&other),
        format!(
            "none of the 3 recordings in `responses` has answers of `gpt-5` from `openai`: {advice}"
        )
    );
    assert_eq!(fake.asked(), asked, "nothing was sent");
}

#[test]
fn a_spoiled_recording_is_named_and_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::saying("x");
    ask(&fake.store(folder.path(), Mode::Record), &prompt("a")).unwrap();
    let file = only(folder.path());
    let good = fs::read_to_string(&file).unwrap();
    for (text, says) in [
        (good[..good.len() - 3].to_owned(), "EOF while parsing"),
        ("[]".to_owned(), "invalid"),
        (good.replace("\"schemaVersion\": 1", "\"schemaVersion\": 2"), "it has `schemaVersion` 2"),
        ("{\"schemaVersion\": 3, \"other\": 1}".to_owned(), "it has `schemaVersion` 3"),
        (good.replace("Be kind.", "Be rude."), "its request does not match its name"),
        (good.replace("\"x\"", "7"), "invalid type"),
    ] {
        fs::write(&file, text).unwrap();
        for mode in [Mode::Cache, Mode::Replay] {
            let err = ask(&fake.store(folder.path(), mode), &prompt("a")).unwrap_err();
            assert_eq!(err.kind, ProviderErrorKind::NotRecorded);
            assert!(
                err.message
                    .contains(&format!("the recording `{}` cannot be used: ", file.display()))
            );
            assert!(err.message.contains(says), "{err}");
            assert!(err.message.ends_with("; remove it, or record it again"), "{err}");
        }
    }
    assert_eq!(fake.asked(), 1);
    // A user may edit an answer, and format the file freely.
    let edited: Value = serde_json::from_str(&good.replace("\"x\"", "\"edited\"")).unwrap();
    fs::write(&file, edited.to_string()).unwrap();
    assert_eq!(ask(&fake.store(folder.path(), Mode::Replay), &prompt("a")).unwrap().text, "edited");
    // A machine crash can leave an empty file.
    fs::write(&file, "").unwrap();
    assert!(ask(&fake.store(folder.path(), Mode::Replay), &prompt("a")).is_err());
    assert_eq!(ask(&fake.store(folder.path(), Mode::Cache), &prompt("a")).unwrap().text, "x");
    assert_eq!(fs::read_to_string(&file).unwrap(), good);
}

#[test]
fn an_answer_that_cannot_be_stored_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let in_the_way = folder.path().join("responses");
    fs::write(&in_the_way, "a file where the folder should be").unwrap();
    for (mode, second) in [(Mode::Cache, true), (Mode::Record, false)] {
        let fake = Fake::saying("paid for");
        let store = fake.store(&in_the_way, mode);
        assert_eq!(ask(&store, &prompt("a")).unwrap().text, "paid for");
        let failure = store.responses().failure().unwrap().to_owned();
        assert!(failure.starts_with("cannot make the folder `"), "{failure}");
        // In the record mode, no further request is sent after an answer could not be stored.
        let again = ask(&store, &prompt("b"));
        assert_eq!(again.is_ok(), second, "{mode}");
        if let Err(err) = again {
            assert_eq!(
                err.message,
                format!("not sent, because the answer could not be stored: {failure}")
            );
        }
        assert_eq!(fake.asked(), 1 + usize::from(second));
    }
}

#[test]
fn unusable_folders_are_reported_before_sending() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    for (path, mode, says) in [
        ("new", Mode::Live, None),
        ("new", Mode::Replay, Some("cannot read the recordings in `")),
        ("file/x", Mode::Cache, Some("cannot make the folder `")),
        ("file/x", Mode::Record, Some("cannot make the folder `")),
        ("file/x", Mode::Replay, Some("cannot read the recordings in `")),
        ("new", Mode::Cache, None),
        ("new", Mode::Record, None),
        ("new", Mode::Replay, None),
    ] {
        let responses = Responses::new(folder.path().join(path), mode);
        let said = responses.check().err().map(|err| err.to_string());
        match says {
            None => assert_eq!(said, None, "{path} {mode}"),
            Some(says) => assert!(said.clone().unwrap_or_default().starts_with(says), "{said:?}"),
        }
    }
    assert_eq!(
        fs::read_dir(folder.path().join("new")).unwrap().count(),
        0,
        "nothing is left behind"
    );
}

#[test]
fn a_folder_may_be_shared() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let fake = Fake::saying("the same for all");
                for round in 0..25 {
                    let it = prompt(&format!("question {round}"));
                    let mode = if round % 2 == 0 { Mode::Cache } else { Mode::Record };
                    let reply = ask(&fake.store(folder.path(), mode), &it).unwrap();
                    assert_eq!(reply.text, "the same for all");
                }
            });
        }
    });
    assert_eq!(files(folder.path()).len(), 25, "nothing temporary is left");
}

#[test]
fn modes_are_words() {
    for mode in [Mode::Live, Mode::Cache, Mode::Record, Mode::Replay] {
        assert_eq!(mode.to_string().parse(), Ok(mode));
    }
    assert_eq!(
        "Cache".parse::<Mode>().unwrap_err().to_string(),
        "unknown mode `Cache`: use `live`, `cache`, `record` or `replay`"
    );
}

/// Returns the same value with the keys of every object in reverse order.
fn reversed(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(reversed).collect(),
        Value::Object(map) => map
            .iter()
            .rev()
            .map(|(key, it)| (key.clone(), reversed(it)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_order_of_keys_does_not_matter_and_the_sample_does(
        parameters in arbitrary::json(),
        messages in prop::collection::vec(arbitrary::message(), 0..4),
        samples in any::<[u32; 2]>(),
    ) {
        let with = |parameters: Value, sample| digest_of(|it| {
            it.messages = messages.clone();
            it.sample = sample;
            it.tools = vec![ToolSpec { parameters: Some(parameters), ..ToolSpec::default() }];
        });
        let [one, two] = samples;
        prop_assert_eq!(with(parameters.clone(), one), with(reversed(&parameters), one));
        prop_assert_eq!(one == two, with(parameters.clone(), one) == with(parameters.clone(), two));
    }

    #[test]
    fn any_answer_comes_back_once_without_secrets(
        text in arbitrary::text(),
        tool_calls in prop::collection::vec(arbitrary::tool_call(), 0..3),
        finish_reason in arbitrary::finish_reason(),
        messages in prop::collection::vec(arbitrary::message(), 0..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let reply = Reply { tool_calls, finish_reason, ..Reply::text(text) };
        let prompt = Prompt { messages, ..prompt("") };
        let fake = Fake::new(reply.clone());
        ask(&fake.store(folder.path(), Mode::Record), &prompt).unwrap();
        let again = ask(&fake.store(folder.path(), Mode::Replay), &prompt).unwrap();
        prop_assert_eq!(again, Reply { cached: true, attempts: 0, ..reply });
    }
}
