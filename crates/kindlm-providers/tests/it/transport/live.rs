//! Tests of the providers with a websocket codec, against a server on this machine.

use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use kindlm_providers::Scripts;
use kindlm_types::script::{
    ScriptAnswer, ScriptError, ScriptOutcome, ScriptQuestion, ScriptRunner, ScriptRuntime,
    ScriptSource, ScriptValue,
};
use kindlm_types::{BoxFuture, FinishReason, Message, Models, Role, ToolSpec, Unlimited};
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Message as Frame, WebSocket, accept_hdr};

use super::*;

/// The steps of a server. In each step, it waits for this number of messages, and then sends its own messages.
type Turns = Vec<(usize, Vec<Frame>)>;

/// The handshake and the messages of a client.
#[derive(Debug)]
struct Seen {
    path: String,
    key: String,
    messages: Vec<Value>,
}

fn text(message: &Value) -> Frame {
    Frame::text(message.to_string())
}

/// Returns a message as Google's server sends it: JSON in a binary frame.
fn binary(message: &Value) -> Frame {
    Frame::binary(message.to_string().into_bytes())
}

/// Starts a server that answers each websocket with the next turns, and passes on what it has seen.
fn serve(websockets: Vec<Turns>) -> (String, Receiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let (sender, seen) = channel();
    std::thread::spawn(move || {
        for (stream, turns) in listener.incoming().zip(websockets) {
            let (mut path, mut key) = (String::new(), String::new());
            #[expect(clippy::result_large_err, reason = "the type is that of the library")]
            let note = |request: &Request, response: Response| {
                path = request.uri().to_string();
                let found = ["x-goog-api-key", "authorization"]
                    .iter()
                    .find_map(|it| request.headers().get(*it));
                let found = found.and_then(|it| it.to_str().ok()).unwrap_or_default();
                found.clone_into(&mut key);
                Ok(response)
            };
            let Ok(mut socket) = accept_hdr(stream.unwrap(), note) else { continue };
            let messages = talk(&mut socket, turns);
            let _ = sender.send(Seen { path, key, messages });
        }
    });
    (url, seen)
}

fn talk(socket: &mut WebSocket<TcpStream>, turns: Turns) -> Vec<Value> {
    let mut messages = Vec::new();
    for (awaited, sent) in turns {
        for _ in 0..awaited {
            let Ok(Frame::Text(text)) = socket.read() else { return messages };
            messages.push(serde_json::from_str(&text).unwrap());
        }
        for frame in sent {
            let _ = socket.send(frame);
        }
    }
    while socket.read().is_ok() {}
    messages
}

/// Adds the numbers `a` and `b` of a call. Fails for other code than that of the test.
#[derive(Debug)]
struct Adding;

impl ScriptRunner for Adding {
    fn run<'a>(
        &'a self,
        question: &'a ScriptQuestion,
    ) -> BoxFuture<'a, Result<ScriptAnswer, ScriptError>> {
        let ScriptSource::Body { params, code } = &question.source else { panic!("{question:?}") };
        assert_eq!(params, &["name", "args"]);
        assert_eq!(&**code, "return ((name, args) => args.a + args.b)(name, args)");
        assert_eq!(&*question.args[0], "\"add\"");
        let args: Value = serde_json::from_str(&question.args[1]).unwrap();
        let sum = args["a"].as_f64().unwrap() + args["b"].as_f64().unwrap();
        let outcome = ScriptOutcome::Returned(ScriptValue::Json(json!(sum)));
        Box::pin(async move { Ok(ScriptAnswer::new(outcome)) })
    }
}

fn scripted_client(config: Value) -> Client {
    let scripts = Scripts::new(Arc::new(Adding), ScriptRuntime::QuickJs, Arc::default());
    let options = client_options().with_scripts(scripts);
    Client::new(&providers(config), &Memory(&[]), options).unwrap()
}

fn with_tool(model: &str) -> Prompt {
    let add = ToolSpec { name: "add".to_owned(), ..ToolSpec::default() };
    Prompt { model: model.to_owned(), tools: vec![add], ..prompt("What is 5 + 6?") }
}

const ADD: &str = "(name, args) => args.a + args.b";

#[tokio::test]
async fn google_live_answers_calls_and_goes_on() {
    let call = json!({"id": "c1", "name": "add", "args": {"a": 5, "b": 6}});
    let count = json!({"promptTokenCount": 3, "responseTokenCount": 4, "totalTokenCount": 7});
    let (url, seen) = serve(vec![vec![
        (1, vec![binary(&json!({"setupComplete": {}}))]),
        (1, vec![binary(&json!({"toolCall": {"functionCalls": [call]}, "usageMetadata": count}))]),
        (
            1,
            vec![
                binary(&json!({"serverContent": {"turnComplete": true}})),
                binary(
                    &json!({"serverContent": {"modelTurn": {"parts": [{"text": "It is 11."}]}}}),
                ),
                binary(&json!({"serverContent": {"turnComplete": true}, "usageMetadata": count})),
            ],
        ),
    ]]);
    let config = json!({"apiKeyEnv": "TOKEN", "baseUrl": url, "answerCalls": ADD});
    let client = scripted_client(json!({"google-live": config}));
    let asked = with_tool("gemini-2.0-flash-live-001");
    let reply = client.complete("google-live", &asked, LONG, &Unlimited).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.usage.total_tokens), ("It is 11.", 14));
    assert_eq!(reply.tool_calls[0].response, Some(json!(11.0)));
    assert_eq!(reply.finish_reason, FinishReason::Stop);
    let seen = seen.recv().unwrap();
    assert_eq!(seen.key, KEY);
    assert!(
        !seen.path.contains(KEY)
            && seen.path.ends_with("v1alpha.GenerativeService.BidiGenerateContent"),
        "{seen:?}"
    );
    assert_eq!(seen.messages[0]["setup"]["model"], "models/gemini-2.0-flash-live-001");
    let response = &seen.messages[2]["toolResponse"]["functionResponses"][0];
    assert_eq!(*response, json!({"id": "c1", "name": "add", "response": {"result": 11.0}}));
}

#[tokio::test]
async fn openai_realtime_answers_calls_and_goes_on() {
    let call = json!({"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{\"a\":5,\"b\":6}"});
    let said =
        json!({"type": "message", "content": [{"type": "output_text", "text": "It is 11."}]});
    let done = |item: &Value| {
        let usage = json!({"input_tokens": 3, "output_tokens": 4, "total_tokens": 7});
        let response = json!({"status": "completed", "output": [item], "usage": usage});
        text(&json!({"type": "response.done", "response": response}))
    };
    let (url, seen) = serve(vec![vec![
        (3, vec![text(&json!({"type": "session.created"})), done(&call)]),
        (2, vec![done(&said)]),
    ]]);
    let config = json!({"apiKeyEnv": "TOKEN", "baseUrl": format!("{url}/v1"), "answerCalls": ADD});
    let client = scripted_client(json!({"openai-realtime": config}));
    let asked = with_tool("gpt-realtime");
    let reply = client.complete("openai-realtime", &asked, LONG, &Unlimited).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.usage.total_tokens), ("It is 11.", 14));
    assert_eq!(reply.tool_calls[0].response, Some(json!(11.0)));
    let seen = seen.recv().unwrap();
    assert_eq!(
        (seen.path.as_str(), seen.key),
        ("/v1/realtime?model=gpt-realtime", format!("Bearer {KEY}"))
    );
    let kinds: Vec<&str> = seen.messages.iter().map(|it| it["type"].as_str().unwrap()).collect();
    let item = "conversation.item.create";
    assert_eq!(kinds, ["session.update", item, "response.create", item, "response.create"]);
    let output = json!({"type": "function_call_output", "call_id": "c1", "output": "11"});
    assert_eq!(seen.messages[3]["item"], output);
}

#[tokio::test]
async fn the_reason_of_a_close_is_the_kind_of_the_error() {
    let close = |code: u16, reason: &str| {
        Frame::Close(Some(CloseFrame { code: code.into(), reason: reason.to_owned().into() }))
    };
    for (code, reason, kind, attempts) in [
        (1007, "API key not valid: sk-test-4f9a8c1d", ProviderErrorKind::Auth, 1),
        (1008, "models/m-1 is not found", ProviderErrorKind::ModelNotFound, 1),
        (1011, "You exceeded your current quota", ProviderErrorKind::QuotaExhausted, 1),
        (1007, "Request contains an invalid argument.", ProviderErrorKind::InvalidRequest, 1),
    ] {
        let (url, _seen) = serve(vec![vec![(1, vec![close(code, reason)])]]);
        let config = json!({"google-live": {"apiKeyEnv": "TOKEN", "baseUrl": url}});
        let asked = client(config).complete("google-live", &prompt("hi"), LONG, &Unlimited).await;
        let err = asked.unwrap_err();
        assert_eq!((err.kind, err.attempts), (kind, attempts), "{err:?}");
        assert!(
            !err.message.contains(KEY) && err.message.contains(&format!("(code {code})")),
            "{err:?}"
        );
    }
}

#[tokio::test]
async fn a_prompt_that_is_not_sent_is_no_attempt() {
    let config = json!({"mine": {"type": "google-live", "apiKeyEnv": "TOKEN"}});
    let mut asked =
        Prompt { model: "gemini-3.1-flash-live-preview".to_owned(), ..prompt("Say hello.") };
    asked.messages.push(Message::new(Role::Assistant, "Hel"));
    let err = client(config).complete("mine", &asked, LONG, &Unlimited).await.unwrap_err();
    assert_eq!((err.kind, err.attempts), (ProviderErrorKind::Unsupported, 0), "{err:?}");
    assert_eq!(err.provider, "mine");
}

#[tokio::test]
async fn without_a_script_runner_nothing_is_sent() {
    let server = server();
    let url = server.url();
    let live = url.replace("http:", "ws:");
    for config in [
        json!({"type": "http", "url": url, "transformResponse": "json.text"}),
        json!({"type": "google-live", "apiKeyEnv": "TOKEN", "baseUrl": live, "answerCalls": ADD}),
        json!({"type": "openai-realtime", "apiKeyEnv": "TOKEN", "baseUrl": live, "answerCalls": ADD}),
    ] {
        let client = client(json!({"mine": config}));
        let err = client.complete("mine", &prompt("hi"), LONG, &Unlimited).await.unwrap_err();
        assert_eq!((err.kind, err.attempts), (ProviderErrorKind::Unsupported, 0), "{err:?}");
        assert!(err.message.contains("scripts are not run here"), "{err:?}");
    }
    assert_eq!(server.count(), 0);
}

#[tokio::test]
async fn an_error_after_a_round_of_calls_may_be_charged() {
    let call = json!({"id": "c1", "name": "add", "args": {"a": 5, "b": 6}});
    let error = json!({"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}});
    let (url, _seen) = serve(vec![vec![
        (1, vec![text(&json!({"setupComplete": {}}))]),
        (1, vec![text(&json!({"toolCall": {"functionCalls": [call]}}))]),
        (1, vec![text(&error)]),
    ]]);
    let config = json!({"apiKeyEnv": "TOKEN", "baseUrl": url, "answerCalls": ADD});
    let client = scripted_client(json!({"google-live": config}));
    let asked = with_tool("gemini-2.0-flash-live-001");
    let err = client.complete("google-live", &asked, LONG, &Unlimited).await.unwrap_err();
    assert_eq!(err.kind, ProviderErrorKind::InvalidRequest, "{err:?}");
    assert!(err.may_be_charged(), "{err:?}");
}

#[tokio::test]
async fn a_broken_exchange_is_repeated_in_a_new_one() {
    let said =
        json!({"serverContent": {"modelTurn": {"parts": [{"text": "Hi."}]}, "turnComplete": true}});
    let (url, _seen) = serve(vec![
        vec![(1, vec![Frame::Close(None)])],
        vec![(1, vec![text(&json!({"setupComplete": {}}))]), (1, vec![text(&said)])],
    ]);
    let config = json!({"google-live": {"apiKeyEnv": "TOKEN", "baseUrl": url}});
    let client = client(config);
    let reply = client.complete("google-live", &prompt("hi"), LONG, &Unlimited).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.attempts), ("Hi.", 2));
}

#[tokio::test]
async fn an_answer_that_breaks_off_may_be_charged() {
    for script in ["transformResponse", "streamResponse"] {
        let (url, _seen) = serve(vec![vec![(1, vec![Frame::Close(None)])]; 8]);
        let config =
            json!({"url": url, "message": "{\"q\": {{ prompt | dump }}}", script: "(it) => it"});
        let client = scripted_client(json!({"websocket": config}));
        let asked = client.complete("websocket", &prompt("hi"), LONG, &Unlimited).await;
        let err = asked.unwrap_err();
        assert_eq!(err.kind, ProviderErrorKind::Connection, "{err:?}");
        assert!(err.may_be_charged(), "{script}: {err:?}");
    }
}

#[tokio::test]
async fn messages_that_are_too_large_or_no_json_are_errors() {
    let large = json!({"serverContent": {"modelTurn": {"parts": [{"text": "x".repeat(40_000)}]}}});
    for (frames, message) in [
        (vec![text(&large), text(&large)], "more than the size limit"),
        (vec![Frame::text("hello")], "the answer is not JSON: `hello`"),
    ] {
        let (url, _seen) = serve(vec![vec![(1, frames)]]);
        let config = json!({"google-live": {"apiKeyEnv": "TOKEN", "baseUrl": url}});
        let asked = client(config).complete("google-live", &prompt("hi"), LONG, &Unlimited).await;
        let err = asked.unwrap_err();
        assert_eq!((err.kind, err.retryable), (ProviderErrorKind::MalformedResponse, false));
        assert!(err.message.contains(message), "{err:?}");
    }
}

#[tokio::test]
async fn a_silent_server_ends_the_exchange() {
    let (url, _seen) = serve(vec![vec![(2, Vec::new())]; 8]);
    let config = json!({"apiKeyEnv": "TOKEN", "baseUrl": url, "idleTimeoutMs": 1});
    let client = client(json!({"google-live": config}));
    let err = client.complete("google-live", &prompt("hi"), LONG, &Unlimited).await.unwrap_err();
    assert_eq!((err.kind, err.retryable), (ProviderErrorKind::Timeout, true), "{err:?}");
    assert!(err.message.contains("sent nothing for 1 ms"), "{err:?}");
}
