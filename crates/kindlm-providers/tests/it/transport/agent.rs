//! Tests of agent processes: their input, their output and their end.
#![cfg(unix)]

use std::sync::Arc;
use std::time::Instant;

use kindlm_types::{
    AgentEnd, AgentFolder, AgentKind, AgentReply, AgentSpec, AgentStart, AgentTurn, Agents, Event,
    Facts, NoFiles, ProviderErrorKind as Kind,
};

use super::command::{is_gone, nap};
use super::*;

const HELLO: &str = r#"{"kindlm":"hello","version":1}"#;

fn agent(script: &str) -> AgentStart {
    let spec = AgentSpec { command: Some(script.to_owned()), ..AgentSpec::default() };
    AgentStart {
        id: "mine".to_owned(),
        agent: Arc::new(spec),
        case: "a case".to_owned(),
        timeout: LONG,
        ..AgentStart::default()
    }
}

fn turn(number: u32, text: &str, timeout: Duration) -> AgentTurn {
    AgentTurn { number, label: None, text: text.to_owned(), timeout }
}

fn place(path: &std::path::Path) -> AgentFolder {
    AgentFolder { path: path.to_owned(), ..AgentFolder::default() }
}

fn client() -> Client {
    Client::new(&Map::new(), &NoFiles, ClientOptions::new(env(), std::env::temp_dir())).unwrap()
}

/// Runs a conversation. Returns the agent's replies, the error that ended the conversation, and the agent's end.
async fn talk(
    start: &AgentStart,
    texts: &[&str],
    timeout: Duration,
) -> (Vec<AgentReply>, Option<ProviderError>, AgentEnd) {
    let client = client();
    let mut session = match client.start_agent(start).await {
        Ok(session) => session,
        Err(err) => return (Vec::new(), Some(err), AgentEnd::default()),
    };
    let mut replies = Vec::new();
    for (number, text) in (1..).zip(texts) {
        match session.turn(turn(number, text, timeout)).await {
            Ok(reply) => replies.push(reply),
            Err(err) => return (replies, Some(err), session.end().await),
        }
    }
    (replies, None, session.end().await)
}

#[tokio::test]
async fn one_process_gets_hello_and_every_turn() {
    let script = format!(
        r#"read -r hello; printf "%s\n" "$hello" >&2; echo '{HELLO}'
        while read -r turn; do printf "%s\n" "$turn" >&2; echo '{{"kindlm":"result","text":"'$$'"}}'; done; exit 3"#
    );
    let mut start = agent(&script);
    start.system = Some("Be brief.".to_owned());
    start.vars = json!({"a": 1}).as_object().unwrap().clone();
    let (replies, err, end) = talk(&start, &["one", "two\nlines"], LONG).await;
    assert_eq!(err, None);
    assert_eq!(replies[0].text, replies[1].text, "not the same process");
    assert_eq!(end.exit_code, Some(3));
    let heard: Vec<Value> =
        end.stderr.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(
        heard,
        [
            json!({"kindlm": "hello", "version": 1, "agent": "mine", "case": "a case", "repeat": 0,
                   "system": "Be brief.", "vars": {"a": 1}}),
            json!({"kindlm": "turn", "turn": 1, "user": "one"}),
            json!({"kindlm": "turn", "turn": 2, "user": "two\nlines"}),
        ]
    );
}

#[tokio::test]
async fn failures_name_their_place_and_the_end_of_stderr() {
    let short = Duration::from_millis(400);
    let (oops, waiting) = (nap(3101), nap(3102));
    let ready = format!("echo '{HELLO}'; read -r hello; read -r turn;");
    for (script, kind, said) in [
        (
            "echo lost >&2; exit 4",
            Kind::Command,
            "ended with exit code 4 before it sent `hello`; the end of its stderr: lost",
        ),
        ("no-such-program-here", Kind::Command, "the command was not found (exit code 127)"),
        (
            "echo Loading",
            Kind::MalformedResponse,
            "line 1 of its stdout cannot be read: it is not JSON",
        ),
        (
            &format!("{ready} echo why >&2; exit 2"),
            Kind::Command,
            "exit code 2 before it had answered turn 1; the end of its stderr: why",
        ),
        (
            &format!("{ready} kill -9 $$"),
            Kind::Command,
            "a signal ended it before it had answered turn 1",
        ),
        (
            &format!("{ready} echo oops; sleep {oops}"),
            Kind::MalformedResponse,
            "line 2 of its stdout cannot be read",
        ),
        (
            &format!("{ready} printf '\\377\\n'"),
            Kind::MalformedResponse,
            "line 2 of its stdout is not UTF-8",
        ),
        (
            &format!("{ready} echo waiting >&2; sleep {waiting}"),
            Kind::Timeout,
            "it has not answered turn 1 within 400 ms",
        ),
        (&format!("{ready} yes | tr -d '\\n'"), Kind::Command, "more than 16 MiB to stdout"),
        (
            &format!("{ready} echo '{{\"kindlm\":\"error\",\"message\":\"no key\"}}'"),
            Kind::Command,
            "no key",
        ),
    ] {
        let limit = if kind == Kind::Timeout { short } else { LONG };
        let (replies, err, _) = talk(&agent(script), &["hi"], limit).await;
        let err = err.unwrap();
        assert_eq!((err.kind, err.provider.as_str(), replies.len()), (kind, "mine", 0), "{err}");
        assert!(err.message.contains(said), "{script}: {err}");
        assert!(!err.retryable);
    }
    assert!(
        is_gone(&format!("sleep\u{0}{oops}")).await
            && is_gone(&format!("sleep\u{0}{waiting}")).await
    );
}

#[tokio::test]
async fn the_whole_group_ends_with_the_agent() {
    let (beside, turn_1, end_nap) = (nap(3111), nap(3112), nap(3113));
    let gone = async |nap: &str| is_gone(&format!("sleep\u{0}{nap}")).await;
    let ready =
        format!("sleep {beside} & trap '' TERM; echo '{HELLO}'; read -r hello; read -r turn;");
    // Dropping the session in the middle of a turn ends all processes.
    let client = client();
    let start = agent(&format!("{ready} sleep {turn_1}"));
    let mut session = client.start_agent(&start).await.unwrap();
    let waiting = session.turn(turn(1, "hi", LONG));
    assert!(tokio::time::timeout(Duration::from_millis(200), waiting).await.is_err());
    drop(session);
    assert!(gone(&beside).await && gone(&turn_1).await);
    // This agent keeps running after its stdin is closed.
    let start = agent(&format!("{ready} echo '{{\"kindlm\":\"result\"}}'; sleep {end_nap}"));
    let started = Instant::now();
    let (_, err, end) = talk(&start, &["hi"], LONG).await;
    assert_eq!((err, end.error, end.exit_code), (None, None, None));
    assert!(end.stderr.contains("did not end when its stdin was closed"), "{}", end.stderr);
    let is_error =
        |it: &Event| matches!(it, Event::Error { message } if message.contains("did not end"));
    assert!(end.events.iter().any(is_error), "{:?}", end.events);
    assert!(started.elapsed() > Duration::from_secs(5), "it had no time to end");
    assert!(gone(&beside).await && gone(&end_nap).await);
}

/// Checks that output at the end is read. Unread output would block the agent, so that it would have to be killed.
#[tokio::test]
async fn an_agent_that_writes_much_at_its_end_ends_by_itself() {
    let start = agent(&format!(
        "echo '{HELLO}'; read -r hello; read -r turn; echo '{{\"kindlm\":\"result\"}}'; read -r end
        exec >&-; head -c 300000 /dev/zero | tr '\\0' x >&2; exit 3"
    ));
    let (_, err, end) = talk(&start, &["hi"], LONG).await;
    assert_eq!((err, end.error, end.exit_code), (None, None, Some(3)), "{}", end.stderr);
}

#[tokio::test]
async fn the_last_words_of_codex_are_the_reason() {
    let script = r#"codex() { cat >/dev/null; echo '{"type":"error","message":"no such model"}'; exit 1; }; codex"#;
    let mut start = agent("");
    let command = Some(script.to_owned());
    start.agent = Arc::new(AgentSpec { kind: AgentKind::Codex, command, ..AgentSpec::default() });
    let (_, err, _) = talk(&start, &["hi"], LONG).await;
    let said = err.unwrap().message;
    assert!(
        said.contains("exit code 1 before") && said.contains("last error: no such model"),
        "{said}"
    );
}

#[tokio::test]
async fn events_after_the_answer_are_recorded() {
    let ready =
        format!("echo '{HELLO}'; read -r hello; read -r turn; echo '{{\"kindlm\":\"result\"}}';");
    let start = agent(&format!(
        "{ready} read -r end; echo '{{\"kindlm\":\"event\",\"type\":\"error\",\"message\":\"late\"}}'"
    ));
    let (_, err, end) = talk(&start, &["hi"], LONG).await;
    assert_eq!((err, end.error.as_ref()), (None, None));
    assert_eq!(end.events, [Event::Error { message: "late".to_owned() }]);
    let start = agent(&format!("{ready} echo Bye"));
    let (_, err, end) = talk(&start, &["hi"], LONG).await;
    assert_eq!(err, None);
    assert!(end.error.unwrap().message.contains("line 3 of its stdout cannot be read"));
}

#[tokio::test]
async fn an_agent_gets_the_variables_and_the_folder_that_it_is_given() {
    let script = format!(
        r#"echo '{HELLO}'; read -r hello; read -r turn; pwd -P >&2; env >&2; echo '{{"kindlm":"result"}}'"#
    );
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let mut start = agent(&script);
    let without = vec!["CARGO_PKG_NAME".to_owned(), "TOKEN".to_owned()];
    start.folder = Some(AgentFolder { without: without.clone(), ..place(&folder) });
    let (_, _, end) = talk(&start, &["hi"], LONG).await;
    assert!(end.stderr.contains("CARGO_MANIFEST_DIR=") && !end.stderr.contains("CARGO_PKG_NAME="));
    start.folder = Some(AgentFolder {
        env: vec![("OWN".to_owned(), "1".to_owned())],
        without,
        ..place(&folder)
    });
    let mut spec = (*start.agent).clone();
    spec.env = Some(vec!["TOKEN".to_owned(), "NOT_SET".to_owned()]);
    spec.cwd = Some("/nowhere".to_owned());
    start.agent = Arc::new(spec);
    let (_, err, end) = talk(&start, &["hi"], LONG).await;
    assert_eq!(err, None);
    let lines: Vec<&str> = end.stderr.lines().collect();
    assert_eq!(lines.first(), Some(&folder.to_str().unwrap()));
    assert!(lines.contains(&format!("TOKEN={KEY}").as_str()), "{lines:?}");
    assert!(!lines.iter().any(|it| it.starts_with("CARGO")), "{lines:?}");
    assert!(lines.contains(&"OWN=1"), "{lines:?}");
    // The wrapper command may need all variables, and decides which of them the agent gets. Its last argument is the
    // agent's command line, as one word.
    start.folder = Some(AgentFolder {
        before: Some(
            "exec sh -c 'test -n \"$CARGO_PKG_NAME\" && exec env -i OWN=\"$OWN\" \"$@\"' x sh -c"
                .to_owned(),
        ),
        env: vec![("OWN".to_owned(), "it's".to_owned())],
        names_env: true,
        ..place(&folder)
    });
    let (_, err, end) = talk(&start, &["hi"], LONG).await;
    assert_eq!(err, None);
    let lines: Vec<&str> = end.stderr.lines().collect();
    assert!(lines.contains(&"OWN=it's") && !end.stderr.contains("CARGO"), "{lines:?}");
    start.folder = None;
    let (_, err, _) = talk(&start, &["hi"], LONG).await;
    assert!(err.unwrap().message.contains("the folder `/nowhere`"));
}

#[tokio::test]
async fn long_lines_and_many_of_them_come_through() {
    let script = format!(
        r#"echo '{HELLO}'; read -r hello; read -r turn
        i=0; while [ $i -lt 2000 ]; do echo '{{"kindlm":"event","type":"thinking","text":"Hm."}}'; echo noise >&2; i=$((i+1)); done
        printf '{{"kindlm":"result","text":"'; head -c 2000000 /dev/zero | tr '\0' x; echo '"}}'"#
    );
    let long = "y".repeat(500_000);
    let (replies, err, end) = talk(&agent(&script), &[long.as_str()], LONG).await;
    assert_eq!(err, None);
    assert_eq!(
        (replies[0].text.len(), Facts::from_events(&replies[0].events).thoughts),
        (2_000_000, 2_000)
    );
    assert_eq!(end.stderr.lines().count(), 2_000);
}

#[tokio::test]
async fn known_agents_are_driven_in_their_own_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let transcripts =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../kindlm-agents/src/agent/transcripts");
    let claude = format!(
        r#"claude() {{ echo "$@" >&2
        read -r said; echo "$said" >&2; head -n 21 {transcripts}/claude-code.jsonl
        read -r said; echo "$said" >&2; tail -n 3 {transcripts}/claude-code.jsonl; exit 1; }}; claude"#
    );
    let codex = format!(
        r#"codex() {{ echo "$@" >&2; cat >&2; echo >&2
        case "$*" in *resume*) tail -n 6 {transcripts}/codex.jsonl;; *) head -n 16 {transcripts}/codex.jsonl;; esac; }}; codex"#
    );
    for (kind, script, texts, heard) in [
        (
            AgentKind::ClaudeCode,
            claude,
            ["I fixed `add`.", ""],
            vec![
                "-p --input-format stream-json --output-format stream-json --verbose --append-system-prompt Be brief.",
                r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"fix"}]}}"#,
                r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"commit"}]}}"#,
            ],
        ),
        (
            AgentKind::Codex,
            codex,
            ["I fixed `add`.", "It was reviewed."],
            vec![
                "exec --json -",
                "Be brief.",
                "",
                "fix",
                "exec --json resume 0199a213-81c0-7800-8aa1-bbab2a035a53 -",
                "commit",
            ],
        ),
    ] {
        let spec = AgentSpec { kind, command: Some(script), ..AgentSpec::default() };
        let mut start = agent("");
        start.agent = Arc::new(spec);
        start.system = Some("Be brief.".to_owned());
        start.folder = Some(place(folder.path()));
        let (replies, err, end) = talk(&start, &["fix", "commit"], LONG).await;
        assert_eq!(err, None, "{kind:?}");
        let said: Vec<&str> = replies.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(said, texts, "{kind:?}");
        assert_eq!(end.stderr.lines().collect::<Vec<_>>(), heard);
        assert!(end.metadata.contains_key("sessionId") || end.metadata.contains_key("threadId"));
    }
}

/// Returns an agent of a known kind. It reads a message, writes these lines, and then runs `then`.
fn recorded(kind: AgentKind, lines: &[&str], then: &str) -> AgentStart {
    let lines: Vec<String> = lines.iter().map(|it| format!("'{it}'")).collect();
    let script = format!("f() {{ read -r turn; printf '%s\\n' {}; {then}; }}; f", lines.join(" "));
    let mut start = agent("");
    start.agent = Arc::new(AgentSpec { kind, command: Some(script), ..AgentSpec::default() });
    start
}

const INIT: &str = r#"{"type":"system","subtype":"init","apiKeySource":"ANTHROPIC_API_KEY"}"#;
const RESULT: &str = r#"{"type":"result","subtype":"success","num_turns":1,"result":"It runs.","total_cost_usd":0.5}"#;

#[tokio::test]
async fn background_commands_are_awaited_within_the_turn() {
    let task = |kind: &str| {
        format!(
            r#"{{"type":"system","subtype":"task_started","task_id":"t","task_type":"{kind}"}}"#
        )
    };
    let ended =
        r#"{"type":"system","subtype":"task_notification","task_id":"t","status":"completed"}"#;
    let (command, other) = (task("local_bash"), task("local_agent"));
    let short = Duration::from_millis(400);
    let again = RESULT.replace("It runs.", "It has ended.");
    let start =
        recorded(AgentKind::ClaudeCode, &[INIT, &command, RESULT, ended, &again], "read -r end");
    let (replies, err, _) = talk(&start, &["hi"], LONG).await;
    assert_eq!((replies[0].text.as_str(), err), ("It has ended.", None));
    // A server that keeps running does not delay the answer. The call that started the server has no result, even after
    // a stop.
    let call = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"c","name":"Bash","input":{"command":"serve","run_in_background":true}}]}}"#;
    let begun = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c","content":"running"}]},"tool_use_result":{"backgroundTaskId":"t"}}"#;
    let killed = r#"{"type":"system","subtype":"task_notification","task_id":"t","tool_use_id":"c","status":"stopped"}"#;
    let stop = format!("read -r end; echo '{killed}'");
    let start = recorded(AgentKind::ClaudeCode, &[INIT, call, &command, begun, RESULT], &stop);
    let (replies, err, end) = talk(&start, &["hi"], short).await;
    assert_eq!((replies[0].text.as_str(), replies[0].cost_usd, err), ("It runs.", Some(0.5), None));
    let events: Vec<Event> = replies[0].events.iter().chain(&end.events).cloned().collect();
    assert_eq!(Facts::from_events(&events).actions[0].state.as_str(), "pending");
    assert!(end.metadata["warnings"].to_string().contains("still running"), "{:?}", end.metadata);
    // A subagent that still works may change the answer.
    let start = recorded(AgentKind::ClaudeCode, &[INIT, &other, RESULT], "read -r end");
    let (_, err, _) = talk(&start, &["hi"], short).await;
    assert_eq!(err.unwrap().kind, Kind::Timeout);
}

#[tokio::test]
async fn requests_of_an_agent_that_fail_are_named() {
    let retry = |status: u16| {
        format!(
            r#"{{"type":"system","subtype":"api_retry","attempt":1,"error_status":{status},"error":"why"}}"#
        )
    };
    let (refused, busy) = (retry(401), retry(529));
    let start = recorded(AgentKind::ClaudeCode, &[INIT, &refused], "sleep 3131");
    let (_, err, _) = talk(&start, &["hi"], LONG).await;
    let err = err.unwrap();
    assert!(err.kind == Kind::Command && err.message.contains("answers 401 (why)"), "{err}");
    let start = recorded(AgentKind::ClaudeCode, &[INIT, &busy], "sleep 3131");
    let (_, err, _) = talk(&start, &["hi"], Duration::from_millis(400)).await;
    let said = err.unwrap().message;
    assert!(
        said.contains("its last error: a request to its model failed: 529 why (attempt 1)"),
        "{said}"
    );
    assert!(is_gone("sleep\u{0}3131").await);
}

#[tokio::test]
async fn the_file_of_a_codex_thread_is_found_in_its_home() {
    let recording = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../kindlm-agents/src/agent/recordings/codex/read-only");
    let lines = std::fs::read_to_string(recording.join("lines.jsonl")).unwrap();
    let thread = "01a20866-922d-7e40-849b-25f9b167127b";
    let home = tempfile::tempdir().unwrap();
    let day = home.path().join("sessions/2026/11/23");
    std::fs::create_dir_all(&day).unwrap();
    let lines: Vec<&str> = lines.lines().map(str::trim).collect();
    let mut start = recorded(AgentKind::Codex, &lines, "true");
    for is_there in [false, true] {
        if is_there {
            let file = day.join(format!("rollout-2026-11-23T12-34-29-{thread}.jsonl"));
            std::fs::copy(recording.join("rollout-0.jsonl"), file).unwrap();
        }
        let home = ("CODEX_HOME".to_owned(), home.path().to_str().unwrap().to_owned());
        start.folder = Some(AgentFolder { env: vec![home], ..place(&std::env::temp_dir()) });
        let (replies, err, _) = talk(&start, &["hi"], LONG).await;
        assert_eq!(err, None);
        let told = &replies[0].coverage;
        assert_eq!(told.includes(kindlm_types::Channel::Actions), is_there);
        assert_eq!(
            Facts::from_events(&replies[0].events).actions.len(),
            if is_there { 3 } else { 0 }
        );
    }
}

/// Checks that a killed program is reported, although `sh` exits normally with 128 plus the signal number.
#[tokio::test]
async fn killed_agents_report_the_signal() {
    let start = agent(&format!(
        "echo '{HELLO}'; read -r hello; read -r turn; echo '{{\"kindlm\":\"result\"}}'; read -r end; sh -c 'kill -9 $$'; exit $?"
    ));
    let (_, err, end) = talk(&start, &["hi"], LONG).await;
    assert_eq!((err, end.exit_code), (None, Some(137)));
    let is_error =
        |it: &Event| matches!(it, Event::Error { message } if message.contains("signal 9"));
    assert!(end.events.iter().any(is_error), "{:?}", end.events);
}
