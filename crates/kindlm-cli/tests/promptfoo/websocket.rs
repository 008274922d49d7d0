//! Websockets of a promptfoo config, with a server on this machine.
//!
//! The expected values are the messages of promptfoo 0.123.1 to the same server, and its outputs.

use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, accept};

use crate::ran::{CONFIG, folder, kindlm_with, rows};

const TOKEN: &str = "secret-token-5678";

/// Starts a server that answers each message with these texts. The receiver gets the messages.
fn serve(answers: &'static [&'static str]) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}/chat", listener.local_addr().unwrap());
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut socket) = accept(stream.unwrap()) else { continue };
            let Ok(Message::Text(text)) = socket.read() else { continue };
            let _ = sender.send(text.to_string());
            for answer in answers {
                let _ = socket.send(Message::text(*answer));
            }
            let _ = socket.close(None);
            while socket.read().is_ok() {}
        }
    });
    (url, received)
}

fn config(url: &str, settings: &str) -> String {
    format!(
        "prompts: ['Say \"hi\" to {{{{name}}}}']\n\
         providers: [{{ id: '{url}', config: {settings} }}]\n\
         tests: [{{ vars: {{ name: Ada }}, assert: [{{ type: javascript, value: 'true' }}] }}]\n"
    )
}

#[test]
fn one_message_is_an_answer() {
    for (answer, settings, expected) in [
        (
            &[r#"{"output":"hello","n":[1]}"#][..],
            "transformResponse: 'data.output'",
            json!("hello"),
        ),
        (&[r#"{"output":"hello","n":[1]}"#], "transformResponse: 'data.n'", json!([1])),
        (&["plain words"], "responseParser: 'data.length'", json!(11.0)),
        (&["plain words", "more"], "x: 1", json!("plain words")),
    ] {
        let (url, received) = serve(answer);
        let settings =
            format!("{{ messageTemplate: '{{\"q\": {{{{prompt | dump}}}}}}', {settings} }}");
        let folder = folder(&[(CONFIG, &config(&url, &settings))]);
        let (ran, rows) = rows(folder.path(), CONFIG, &[]);
        assert_eq!(rows.len(), 1, "{settings}: {ran:?}");
        let row = &rows[0];
        let output = if row["outputJson"].is_null() { &row["output"] } else { &row["outputJson"] };
        assert_eq!(*output, expected, "{settings}: {ran:?}");
        assert_eq!(received.recv().unwrap(), r#"{"q": "Say \"hi\" to Ada"}"#);
    }
}

#[test]
fn several_messages_are_an_answer() {
    let answers = &[r#"{"text":"one "}"#, r#"{"text":"two","done":true}"#, r#"{"text":"late"}"#];
    let (url, _received) = serve(answers);
    let settings = "{ messageTemplate: '{{prompt}}', streamResponse: '(all, event, context) => { const { text, done } = \
        JSON.parse(event.data); return [{ output: (all.output ?? context.vars.name + \": \") + text }, done === true] }' }";
    let folder = folder(&[(CONFIG, &config(&url, settings))]);
    let (ran, rows) = rows(folder.path(), CONFIG, &[]);
    assert_eq!(rows.len(), 1, "{ran:?}");
    assert_eq!(rows[0]["output"], "Ada: one two", "{ran:?}");
}

#[test]
fn failures_of_a_websocket_are_errors_without_secrets() {
    let settings = "{ messageTemplate: 'k={{env.TOKEN}}', transformResponse: '({ error: data })' }";
    let (url, received) = serve(&["secret-token-5678 is not known"]);
    let (closing, _) = serve(&[]);
    for (url, message) in [
        (url.as_str(), "[redacted] is not known"),
        (closing.as_str(), "the server closed the websocket before the answer"),
        ("ws://127.0.0.1:9/none", "127.0.0.1:9"),
    ] {
        let folder = folder(&[(CONFIG, &config(url, settings))]);
        let args = ["test", "-c", CONFIG, "--reporter", "json=ran.json"];
        let ran = kindlm_with(folder.path(), &args, &[("TOKEN", TOKEN)]);
        assert_eq!(ran.code, 3, "{url}: {ran:?}");
        let report = std::fs::read_to_string(folder.path().join("ran.json")).unwrap();
        let shown = format!("{report}{}{}", ran.stdout, ran.stderr);
        assert!(shown.contains(message), "{url}: {ran:?}");
        assert!(!shown.contains(TOKEN), "{url}: {ran:?}");
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["cases"][0]["executions"][0]["outcome"], "errored", "{url}: {ran:?}");
    }
    assert_eq!(received.recv().unwrap(), format!("k={TOKEN}"));
}
