//! Tests of commands: their output, and the end of all their processes.
#![cfg(unix)]

use std::path::Path;
use std::time::{Duration, Instant};

use kindlm_providers::command::run;
use kindlm_types::{
    Channel, CommandOutput, CommandSpec, Event, FinishReason, Models, ProviderErrorKind as Kind,
    Unlimited,
};

use super::*;

fn spec(line: &str, timeout: Duration) -> CommandSpec {
    CommandSpec::new(line, timeout)
}

/// Returns a duration for `sleep` that is unique to this test process.
pub(super) fn nap(seconds: u32) -> String {
    format!("{seconds}.{:07}", std::process::id())
}

async fn output(line: &str) -> CommandOutput {
    run(&spec(line, LONG), &std::env::temp_dir()).await.unwrap()
}

/// Waits until no process has this text in its command line. A signal takes effect with a delay.
pub(super) async fn is_gone(mark: &str) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < NEVER {
        let running = std::fs::read_dir("/proc").into_iter().flatten().flatten().any(|it| {
            std::fs::read(it.path().join("cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
        });
        if !running {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

#[tokio::test]
async fn actions_of_a_command_are_recorded() {
    for (line, text, stderr, exit_code) in [
        ("echo hello", "hello", "", Some(0)),
        ("echo out; echo err >&2; exit 3", "out", "err\n", Some(3)),
        ("no-such-program-here 2>/dev/null", "", "", Some(127)),
        ("cat; echo end", "end", "", Some(0)),
        ("kill -9 $$", "", "[kindlm] the command was ended by signal 9\n", None),
        (
            r"printf 'a\377b'; printf x >&2",
            "a\u{fffd}b",
            "x\n[kindlm] stdout is not UTF-8; invalid bytes were replaced by U+FFFD\n",
            Some(0),
        ),
    ] {
        let found = output(line).await;
        assert_eq!(found.text.trim_end(), text, "{line}");
        assert_eq!((found.stderr.as_str(), found.exit_code), (stderr, exit_code), "{line}");
        assert!(found.latency_ms > 0.0);
    }
}

#[tokio::test]
async fn a_command_runs_in_the_folder_of_the_suite() {
    let folder = std::env::temp_dir().canonicalize().unwrap();
    assert_eq!(output("pwd -P").await.text.trim_end(), folder.to_str().unwrap());
    let err = run(&spec("true", LONG), Path::new("/no/such/folder")).await.unwrap_err();
    assert_eq!((err.kind, err.attempts), (Kind::Command, 0));
    assert!(err.message.contains("`/no/such/folder`"), "{err}");
}

#[tokio::test]
async fn protocol_lines_become_tool_calls() {
    let found = output(
        r#"echo before; echo '{"kindlm":"tool_call","name":"f","arguments":{"a":1}}'; echo '{"kindlm":"output_json","data":{"b":2}}'; echo after"#,
    )
    .await;
    assert_eq!(found.text.trim_end(), "before\nafter");
    assert_eq!(
        (found.tool_calls[0].name.as_str(), &found.tool_calls[0].arguments["a"]),
        ("f", &json!(1))
    );
    assert_eq!(found.output_json, Some(json!({"b": 2})));
}

/// A grandchild that keeps the pipes open must not extend the timeout.
#[tokio::test]
async fn weak_point_14_a_timeout_ends_the_whole_group() {
    let nap = nap(3001);
    let line =
        format!("trap '' TERM; (trap '' TERM; echo started; sleep {nap}) & wait; sleep {nap}");
    let started = Instant::now();
    let err =
        run(&spec(&line, Duration::from_millis(500)), &std::env::temp_dir()).await.unwrap_err();
    assert!(started.elapsed() < NEVER, "{:?}", started.elapsed());
    assert_eq!((err.kind, err.retryable), (Kind::Timeout, false));
    assert!(err.message.contains("within 500 ms"), "{err}");
    assert!(is_gone(&format!("sleep\u{0}{nap}")).await);
}

#[tokio::test]
async fn commands_may_finish_after_sigterm() {
    let line = "trap 'echo last words >&2; exit 0' TERM; sleep 3002 & wait";
    at_some_pace(async |factor| {
        let spec = spec(line, Duration::from_millis(500) * factor);
        let err = run(&spec, &std::env::temp_dir()).await.unwrap_err();
        if err.message.contains("last words") { Ok(()) } else { Err(err.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn leftovers_of_a_command_are_ended_with_it() {
    let nap = nap(3003);
    let found = output(&format!("sleep {nap} & echo done")).await;
    assert_eq!((found.text.trim_end(), found.exit_code), ("done", Some(0)));
    assert!(found.latency_ms < LONG.as_secs_f64() * 1e3, "{}", found.latency_ms);
    assert!(is_gone(&format!("sleep\u{0}{nap}")).await);
}

#[tokio::test]
async fn a_command_that_is_given_up_is_ended() {
    let nap = nap(3004);
    let line = format!("sleep {nap}");
    let running = Box::pin(run_in_temp(&line));
    let _ = tokio::time::timeout(Duration::from_millis(300), running).await;
    assert!(is_gone(&format!("sleep\u{0}{nap}")).await);
}

async fn run_in_temp(line: &str) -> Result<CommandOutput, ProviderError> {
    run(&spec(line, LONG), &std::env::temp_dir()).await
}

#[tokio::test]
async fn too_much_output_is_an_error_on_stdout_and_cut_on_stderr() {
    let err = run_in_temp("yes | head -c 20000000").await.unwrap_err();
    assert_eq!(err.kind, Kind::Command);
    assert!(err.message.contains("more than 16 MiB"), "{err}");
    let endless = run_in_temp("yes").await.unwrap_err();
    assert_eq!(endless.kind, Kind::Command);
    let found = output("yes | head -c 20000000 >&2; echo ok").await;
    assert_eq!(found.text.trim_end(), "ok");
    assert!(found.stderr.ends_with("\n[kindlm] stderr was cut after 16 MiB\n"));
}

#[tokio::test]
async fn a_program_can_be_a_model() {
    let line = r#"read -r prompt; case "$prompt" in *'"content":"hi"'*) echo "heard you";; *) exit 9;; esac"#;
    let client = client(json!({"command": {"command": line}}));
    let reply = client.complete("command", &prompt("hi"), LONG, &Unlimited).await.unwrap();
    assert_eq!(
        (reply.text.trim_end(), reply.model.as_str(), reply.attempts),
        ("heard you", "m-1", 1)
    );
    let err = client.complete("command", &prompt("bye"), LONG, &Unlimited).await.unwrap_err();
    assert_eq!((err.kind, err.attempts), (Kind::Command, 1));
    assert_eq!(err.to_string(), "command: the command ended with exit code 9");
}

#[tokio::test]
async fn a_program_sees_the_same_prompt_each_time() {
    let client = client(json!({"command": {"command": "cat"}}));
    let mut texts = Vec::new();
    for sample in [0, 2] {
        let prompt = Prompt { sample, ..prompt("hi") };
        texts.push(client.complete("command", &prompt, LONG, &Unlimited).await.unwrap().text);
    }
    assert_eq!(texts[0], texts[1]);
}

#[tokio::test]
async fn a_program_that_is_a_model_need_not_read_its_prompt() {
    let calls = r#"echo '{"kindlm":"tool_call","name":"f","arguments":{}}'"#;
    let large = prompt(&"x".repeat(1 << 20));
    let reply = client(json!({"command": {"command": calls}}))
        .complete("command", &large, LONG, &Unlimited)
        .await
        .unwrap();
    assert_eq!((reply.tool_calls.len(), reply.finish_reason), (1, FinishReason::ToolCalls));
    let structured = r#"echo '{"kindlm":"output_json","data":{"a":1}}'"#;
    let client = client(json!({"command": {"command": structured}}));
    assert_eq!(
        client.complete("command", &large, LONG, &Unlimited).await.unwrap().text,
        r#"{"a":1}"#
    );
    let err = client_error("echo broken >&2; exit 1").await;
    assert_eq!(err.message, "the command ended with exit code 1: `broken`");
    let err = client_error("kill -15 $$").await;
    assert!(err.message.starts_with("the command was ended by a signal"), "{err}");
}

#[tokio::test]
async fn events_of_a_program_as_a_model_are_recorded() {
    for (line, why) in [
        (
            r#"{"kindlm":"tool_call","name":"pay","arguments":{"to":1,"to":2}}"#,
            "the output of the command has a line that cannot be read: line 1 of stdout: ",
        ),
        (
            r#"{"kindlm":"event","type":"no"}"#,
            "the output of the command has a line that cannot be read: line 1",
        ),
        (r#"{"kindlm":"tool_call","name":"pay""#, "a line of stdout begins like the protocol"),
    ] {
        let err = client_error(&format!("echo '{line}'; echo done")).await;
        assert!(err.message.starts_with(why), "{line}: {err}");
        assert_eq!(err.kind, Kind::Command, "{line}");
    }
    let lines = r#"{"kindlm":"output_json","data":"yes"}
{"kindlm":"event","type":"usage","inputTokens":3,"outputTokens":2,"costUsd":0.5}"#;
    let client = client(json!({"command": {"command": format!("echo '{lines}'")}}));
    let reply = client.complete("command", &prompt("hi"), LONG, &Unlimited).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.output_json), ("yes", Some(json!("yes"))));
    assert_eq!((reply.usage.total_tokens, reply.cost_usd), (5, Some(0.5)));
}

#[tokio::test]
async fn a_call_that_comes_with_its_result_is_evidence() {
    let lines = r#"{"kindlm":"event","type":"action.called","callId":"1","name":"lookup","input":{"id":7}}
{"kindlm":"event","type":"action.result","callId":"1","status":"failed","output":"no"}
{"kindlm":"event","type":"subagent.called","callId":"2","name":"reviewer"}
It was sent."#;
    let client = client(json!({"command": {"command": format!("echo '{lines}'")}}));
    let reply = client.complete("command", &prompt("hi"), LONG, &Unlimited).await.unwrap();
    assert_eq!((reply.text.as_str(), &reply.finish_reason), ("It was sent.", &FinishReason::Stop));
    assert_eq!(reply.tool_calls[0].response, Some(json!("no")));
    let types: Vec<&str> = reply.events.iter().map(Event::type_name).collect();
    assert_eq!(types, ["action.called", "action.result", "subagent.called", "message"]);
}

#[tokio::test]
async fn a_program_as_a_model_declares_its_evidence() {
    use Channel::{Actions, Messages, Subagents};
    for (line, complete) in [
        ("echo done", vec![Messages]),
        ("true", vec![]),
        (
            r#"echo '{"kindlm":"evidence","complete":["actions","subagents"]}'; echo done"#,
            vec![Messages, Actions, Subagents],
        ),
    ] {
        let client = client(json!({"command": {"command": line}}));
        let reply = client.complete("command", &prompt("hi"), LONG, &Unlimited).await.unwrap();
        assert_eq!(reply.coverage, complete.into_iter().collect(), "{line}");
    }
}

async fn client_error(line: &str) -> ProviderError {
    let client = client(json!({"command": {"command": line}}));
    client.complete("command", &prompt("hi"), LONG, &Unlimited).await.unwrap_err()
}

#[tokio::test]
async fn many_commands_run_side_by_side() {
    let running = (0..32)
        .map(|index| tokio::spawn(async move { output(&format!("echo {index}")).await.text }));
    for (index, it) in running.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(it.await.unwrap().trim_end(), index.to_string());
    }
}

#[tokio::test]
async fn a_command_does_not_get_the_variables_that_it_is_without() {
    let mut spec = spec("echo \"${HOME-none} ${PATH:+some}\"", LONG);
    spec.without = vec!["HOME".to_owned()];
    let here = std::env::temp_dir();
    assert_eq!(run(&spec, &here).await.unwrap().text, "none some");
    spec.env = vec![("HOME".to_owned(), "/own".to_owned())];
    assert_eq!(run(&spec, &here).await.unwrap().text, "/own some");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_daemon_ends_with_the_command_that_started_it() {
    if !kindlm_testing::installed("setsid") {
        return;
    }
    let nap = nap(3009);
    // The command ends when the daemon has started.
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "setsid sh -c 'touch begun; exec sleep {nap}' >/dev/null 2>&1 & until [ -e begun ]; do sleep 0.01; done"
    );
    let found = run(&spec(&line, LONG), folder.path()).await.unwrap();
    assert_eq!(found.exit_code, Some(0));
    assert!(is_gone(&nap).await);
}
