//! Tests with recorded output of real agents. The agents are Claude Code 2.1.197 and Codex 0.169.0 with scripted
//! models.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use kindlm_types::{Channel, Event, UsageSum};

use super::reported::ReportedTurn;
use super::rollout::ThreadFile;
use super::*;

fn recordings(kind: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/agent/recordings").join(kind);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Returns the files of the thread and of its subagents after this many turns.
fn files(folder: &Path, turns: usize) -> Result<rollout::Files, String> {
    let mut files = Vec::new();
    for number in 0.. {
        let path = folder.join(format!("rollout-{number}.jsonl"));
        let Ok(content) = fs::read_to_string(path) else { break };
        let mut lines: Vec<String> = content.lines().map(str::to_owned).collect();
        let meta: Value = serde_json::from_str(&lines[0]).unwrap();
        let ends = lines.iter().enumerate().filter(|it| it.1.contains(r#""type":"task_started""#));
        if let Some((next, _)) =
            ends.skip(turns).take(1).next().filter(|_| folder.ends_with("conversation"))
        {
            lines.truncate(next);
        }
        let thread = meta["payload"]["id"].as_str().unwrap().to_owned();
        files.push(ThreadFile { thread, lines });
    }
    if files.is_empty() { Err("no file".to_owned()) } else { Ok(files) }
}

fn show(event: &Event) -> String {
    let short = |value: &Value| {
        let text = value.to_string();
        text.chars().take(160).collect::<String>()
    };
    match event {
        Event::Message { text, .. } => format!("says {}", short(&text.as_str().into())),
        Event::Thinking { text } => format!("thinks {text:?}"),
        Event::ActionCalled { call_id, name, tool, input } => {
            let tool = tool.unwrap_or_else(|| kindlm_types::ToolKind::of_name(name));
            format!("{call_id} calls {name} ({}) {}", tool.as_str(), short(input))
        }
        Event::ActionResult { call_id, output, status } => {
            format!("{call_id} {status:?} {}", output.as_ref().map(short).unwrap_or_default())
        }
        Event::SubagentCalled { call_id, name, .. } => format!("{call_id} calls the agent {name}"),
        Event::SubagentCompleted { call_id, output, status } => {
            format!("{call_id} agent {status:?} {}", output.as_ref().map(short).unwrap_or_default())
        }
        Event::Usage { usage, cost_usd } => {
            let (input, output) = (usage.input_tokens, usage.output_tokens);
            format!("tokens {input} + {output}, ${:.5}", cost_usd.unwrap_or_default())
        }
        other => format!("{other:?}"),
    }
}

fn show_turn(turn: &ReportedTurn, shown: &mut String) {
    for event in &turn.events {
        writeln!(shown, "  {}", show(event)).unwrap();
    }
}

fn show_all(kind: AgentKind, lines: &str, folder: Option<&Path>) -> String {
    let spec = AgentSpec { kind, ..AgentSpec::default() };
    let (mut reader, mut reported, mut shown) =
        (dialect(&spec), Reported::default(), String::new());
    let mut turns = 0;
    for line in lines.lines() {
        match reader.read_line(line, &mut reported) {
            Ok(Step::More | Step::Ready) => {}
            Ok(Step::Done) => {
                turns += 1;
                if let Some(folder) = folder {
                    reader.settle(files(folder, turns), &mut reported);
                }
                let turn = reported.take_turn();
                show_turn(&turn, &mut shown);
                let reason = turn.finish_reason.as_ref().map(|it| format!(" ({it:?})"));
                writeln!(shown, "  answers {:?}{}", turn.text, reason.unwrap_or_default()).unwrap();
                if let Some(ms) = turn.first_token_ms {
                    writeln!(shown, "  first token after {ms} ms").unwrap();
                }
            }
            Ok(Step::Failed(why)) => writeln!(shown, "  fails: {why}").unwrap(),
            Err(why) => panic!("{line}: {why}"),
        }
    }
    let late = reader.ends_late(&mut reported);
    let rest = reported.take_turn();
    show_turn(&rest, &mut shown);
    if late {
        writeln!(shown, "  answers late {:?}", rest.text).unwrap();
    }
    if let Some(error) = reader.last_error() {
        writeln!(shown, "  last error: {error}").unwrap();
    }
    let complete = Channel::ALL.into_iter().filter(|it| reported.coverage().includes(*it));
    let complete: Vec<&str> = complete.map(Channel::as_str).collect();
    writeln!(shown, "  complete: {}", complete.join(", ")).unwrap();
    for key in ["warnings", "unknownLines"] {
        if let Some(value) = reported.metadata().get(key) {
            writeln!(shown, "  {key}: {value}").unwrap();
        }
    }
    shown
}

#[test]
fn recordings_of_claude_code_become_evidence() {
    let mut all = String::new();
    for path in recordings("claude-code") {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let shown = show_all(AgentKind::ClaudeCode, &fs::read_to_string(&path).unwrap(), None);
        writeln!(all, "{name}\n{shown}").unwrap();
    }
    insta::assert_snapshot!("recorded-claude-code", all);
}

#[test]
fn recordings_of_codex_become_evidence() {
    let mut all = String::new();
    for folder in recordings("codex") {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let lines = fs::read_to_string(folder.join("lines.jsonl")).unwrap();
        let shown = show_all(AgentKind::Codex, &lines, Some(&folder));
        writeln!(all, "{name}\n{shown}").unwrap();
    }
    insta::assert_snapshot!("recorded-codex", all);
}

/// Checks that the lines alone are no evidence that a call was *not* made. Only the thread's file is such evidence.
#[test]
fn codex_lines_alone_are_incomplete_for_calls() {
    for (name, channels) in [
        ("tools", vec!["messages", "inputRequests", "errors", "usage"]),
        ("read-only", vec!["messages", "inputRequests", "errors", "usage"]),
        ("spawn", vec!["inputRequests", "errors"]),
    ] {
        let folder = recordings("codex").into_iter().find(|it| it.ends_with(name)).unwrap();
        let lines = fs::read_to_string(folder.join("lines.jsonl")).unwrap();
        let shown = show_all(AgentKind::Codex, &lines, Some(Path::new("/nowhere")));
        let complete = shown.lines().find_map(|it| it.trim().strip_prefix("complete: ")).unwrap();
        assert_eq!(complete, channels.join(", "), "{name}");
        assert!(shown.contains("the evidence of calls is incomplete"), "{shown}");
    }
}

/// Checks that unreported actions count as lost. A declaration of the suite must not override evidence that is known to
/// be missing.
#[test]
fn unreported_actions_of_subagents_are_lost() {
    const OF_AGENTS: [Channel; 3] = [Channel::Actions, Channel::Subagents, Channel::Skills];
    for (kind, name, channels) in [
        (AgentKind::Codex, "codex/tools/lines.jsonl", &[][..]),
        (AgentKind::Codex, "codex/spawn/lines.jsonl", &super::codex::OF_SPAWNED),
        (AgentKind::ClaudeCode, "claude-code/background-command.jsonl", &[]),
        (AgentKind::ClaudeCode, "claude-code/background-agent.jsonl", &OF_AGENTS),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/agent/recordings").join(name);
        let (mut reader, mut reported) =
            (dialect(&AgentSpec { kind, ..AgentSpec::default() }), Reported::default());
        let lines = fs::read_to_string(path).unwrap();
        // The actions of a background subagent are not reported before its end.
        let started = lines.lines().take_while(|it| !it.contains("task_notification"));
        for line in started {
            reader.read_line(line, &mut reported).unwrap();
        }
        reader.settle(Err("there is no file".to_owned()), &mut reported);
        assert_eq!(reported.coverage().lost(), &channels.iter().copied().collect(), "{name}");
    }
}

/// Checks that KindLM does not trust a file that contradicts the lines. The agent can write to the file.
#[test]
fn a_file_that_contradicts_the_lines_is_not_used() {
    let folder = recordings("codex").into_iter().find(|it| it.ends_with("spawn")).unwrap();
    let lines = fs::read_to_string(folder.join("lines.jsonl")).unwrap();
    let whole = files(&folder, 1).unwrap();
    let without = |number: usize, what: &str| {
        let mut files = whole.clone();
        files[number].lines.retain(|it| !it.contains(what));
        files
    };
    let with = |item: &str, next: &str| {
        let mut files = whole.clone();
        let at = files[0].lines.len() - 3;
        for payload in [next, item] {
            let line = r#"{"timestamp":"2026-11-23T12:34:00.280Z","type":"response_item","payload":PAYLOAD}"#;
            let kind = if payload == "{}" { "event_msg" } else { "response_item" };
            files[0]
                .lines
                .insert(at, line.replace("PAYLOAD", payload).replace("response_item", kind));
        }
        files
    };
    for (files, why) in [
        (without(0, "spawned."), "the end of the turn"),
        (without(0, r#""type":"task_complete""#), "the end of the turn"),
        (without(0, r#""type":"message""#), "a message that Codex reported"),
        (without(0, r#""name":"exec_command""#), "it lacks calls of `shell`"),
        (without(1, r#""type":"task_complete""#), "still at work"),
        (whole[..1].to_vec(), "the file of a spawned agent is missing"),
        (
            with(
                r#"{"type":"function_call","call_id":"x","name":"exec_command","arguments":"{\"cmd\":\"npm test\"}"}"#,
                r#"{"type":"function_call_output","call_id":"x","output":"Process exited with code 0"}"#,
            ),
            "a call of `shell` that Codex did not report",
        ),
        (
            with(
                r#"{"type":"message","role":"assistant","content":[{"text":"All tests pass."}]}"#,
                "{}",
            ),
            "a message that Codex did not report",
        ),
        (without(0, "token_usage_record"), ""),
        (without(1, "no such text"), ""),
    ] {
        let (mut reader, mut reported) = (
            dialect(&AgentSpec { kind: AgentKind::Codex, ..AgentSpec::default() }),
            Reported::default(),
        );
        for line in lines.lines() {
            reader.read_line(line, &mut reported).unwrap();
        }
        reader.settle(Ok(files), &mut reported);
        let warnings = reported.metadata().get("warnings").cloned().unwrap_or_default().to_string();
        assert!(warnings.contains(why), "{why}: {warnings}");
        assert_eq!(reported.coverage().includes(Channel::Actions), why.is_empty(), "{why}");
        assert_eq!(reported.coverage().includes(Channel::Usage), why.is_empty(), "{why}");
        let tokens = reported.take_turn().usage.unwrap().total_tokens;
        let is_used = why.is_empty() || why.contains("spawned") || why.contains("at work");
        assert_eq!(tokens > 360, is_used && !why.contains("missing"), "{why}: {tokens}");
    }
}

/// Checks that the tokens of later results in the same turn count, too.
#[test]
fn background_costs_are_counted() {
    let path =
        recordings("claude-code").into_iter().find(|it| it.ends_with("background-command.jsonl"));
    let (mut reader, mut reported) = (
        dialect(&AgentSpec { kind: AgentKind::ClaudeCode, ..AgentSpec::default() }),
        Reported::default(),
    );
    for line in fs::read_to_string(path.unwrap()).unwrap().lines() {
        reader.read_line(line, &mut reported).unwrap();
    }
    let turn = reported.take_turn();
    let mut sum = UsageSum::default();
    sum.add(turn.usage.unwrap());
    assert_eq!((turn.text.as_str(), sum.total().total_tokens), ("bg finished.", 600));
    assert!((turn.cost_usd.unwrap() - 0.005_67).abs() < 1e-9);
}
