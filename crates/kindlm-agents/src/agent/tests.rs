//! Tests with handwritten agent output. They cover documented formats, odd lines, and lines of other versions.

use kindlm_types::{ActionStatus, Channel, Coverage, Event, Facts, FinishReason, UnsupportedPart};
use proptest::prelude::*;
use serde_json::json;

use super::reported::ReportedTurn;
use super::*;

fn spec(kind: AgentKind) -> AgentSpec {
    AgentSpec { kind, ..AgentSpec::default() }
}

/// Reads an output, and returns its turns and the recorded state after them.
fn turns(kind: AgentKind, output: &str) -> (Vec<ReportedTurn>, Reported) {
    let mut reader = dialect(&spec(kind));
    let mut reported = Reported::default();
    let mut turns = Vec::new();
    for (number, line) in output.lines().enumerate() {
        let step =
            reader.read_line(line, &mut reported).unwrap_or_else(|why| panic!("{number}: {why}"));
        if step == Step::Done {
            turns.push(reported.take_turn());
        }
    }
    (turns, reported)
}

fn in_json(turns: &[ReportedTurn]) -> Value {
    let turn = |it: &ReportedTurn| json!({"text": it.text, "events": it.events});
    turns.iter().map(turn).collect()
}

#[test]
fn a_key_at_the_cut_of_a_line_is_masked() {
    let line = format!("{} sk-{}", "x".repeat(110), "K9".repeat(20));
    assert!(!quoted(&line).contains("K9"), "{}", quoted(&line));
}

#[test]
fn outputs_become_events() {
    for (name, kind, output) in [
        ("claude-code", AgentKind::ClaudeCode, include_str!("transcripts/claude-code.jsonl")),
        ("codex", AgentKind::Codex, include_str!("transcripts/codex.jsonl")),
    ] {
        let (turns, reported) = turns(kind, output);
        assert_eq!(turns.len(), 2);
        insta::assert_json_snapshot!(format!("{name}-events"), in_json(&turns));
        insta::assert_json_snapshot!(format!("{name}-itself"), reported.metadata());
        assert_eq!(reported.coverage().includes(Channel::Actions), kind == AgentKind::ClaudeCode);
        assert!(reported.coverage().includes(Channel::Usage));
    }
}

#[test]
fn each_turn_of_a_process_has_its_own_tokens_and_cost() {
    let tokens = |it: &ReportedTurn| {
        it.usage.map(|it| (it.input_tokens, it.output_tokens, it.cached_input_tokens))
    };
    let (claude, _) = turns(AgentKind::ClaudeCode, include_str!("transcripts/claude-code.jsonl"));
    assert_eq!(
        claude.iter().map(tokens).collect::<Vec<_>>(),
        [Some((9820, 250, Some(9000))), Some((905, 7, Some(900)))]
    );
    let cost = |it: &ReportedTurn| it.cost_usd.map(|it| (it * 1e6).round());
    assert_eq!(claude.iter().map(cost).collect::<Vec<_>>(), [Some(12_500.0), Some(2_500.0)]);
    let (codex, _) = turns(AgentKind::Codex, include_str!("transcripts/codex.jsonl"));
    assert_eq!(
        codex.iter().map(tokens).collect::<Vec<_>>(),
        [Some((24_763, 122, Some(24_448))), Some((25_237, 78, Some(23_552)))]
    );
    assert_eq!(codex[0].cost_usd, None);
}

#[test]
fn messages_of_subagents_are_not_the_answer_but_calls_count() {
    let (claude, _) = turns(AgentKind::ClaudeCode, include_str!("transcripts/claude-code.jsonl"));
    let facts = Facts::from_events(&claude[0].events);
    assert_eq!(facts.said, ["I will look at the file.", "I fixed `add`."]);
    let calls: Vec<_> =
        facts.actions.iter().map(|it| (it.name.unwrap(), it.state.as_str())).collect();
    assert_eq!(
        calls,
        [
            ("Read", "completed"),
            ("Skill", "completed"),
            ("Task", "completed"),
            ("Grep", "completed"),
            ("Edit", "completed"),
            ("Bash", "rejected"),
        ]
    );
    assert_eq!(
        (facts.skills, facts.subagents.len(), facts.compactions),
        (vec!["fixing-bugs"], 1, 1)
    );
    assert_eq!(facts.subagents[0].name, Some("Explore"));
    let facts = Facts::from_events(&claude[1].events);
    assert_eq!(facts.errors, ["error_max_turns: Reached maximum number of turns (1)"]);
    assert_eq!(facts.input_requests[0].prompt.as_deref(), Some("Shall I commit?"));
}

#[test]
fn unknown_lines_are_counted_and_make_evidence_incomplete() {
    for (kind, line, what) in [
        (AgentKind::ClaudeCode, r#"{"type":"oracle"}"#, "oracle"),
        (AgentKind::ClaudeCode, r#"{"type":"system","subtype":"news"}"#, "system/news"),
        (
            AgentKind::ClaudeCode,
            r#"{"type":"assistant","message":{"content":[{"type":"dance"}]}}"#,
            "assistant/dance",
        ),
        (AgentKind::Codex, r#"{"type":"turn.paused"}"#, "turn.paused"),
        (
            AgentKind::Codex,
            r#"{"type":"item.completed","item":{"id":"i","type":"dance"}}"#,
            "item/dance",
        ),
    ] {
        let output = format!(
            "{}\n{line}\n{line}",
            match kind {
                AgentKind::Codex => r#"{"type":"thread.started","thread_id":"t"}"#,
                _ => r#"{"type":"system","subtype":"init","session_id":"s"}"#,
            }
        );
        let (_, reported) = turns(kind, &output);
        assert_eq!(reported.metadata()["unknownLines"], json!({what: 2}), "{line}");
        assert_eq!(reported.unsupported(), [UnsupportedPart::new(what, Vec::new())], "{line}");
        assert_eq!(reported.coverage(), Coverage::default().losing(Channel::ALL), "{line}");
        // The suite can declare that the unknown lines are irrelevant.
        let mut reader = dialect(&AgentSpec { ignore_lines: vec![what.to_owned()], ..spec(kind) });
        let mut reported = Reported::default();
        output
            .lines()
            .for_each(|line| assert_eq!(reader.read_line(line, &mut reported), Ok(Step::More)));
        assert!(reported.coverage().includes(Channel::Messages), "{line}");
    }
}

#[test]
fn the_order_of_keys_does_not_matter() {
    let output = [
        r#"{"version":1,"kindlm":"hello"}"#,
        r#"{"name":"f","arguments":{"a":1},"kindlm":"tool_call"}"#,
        r#"{"type":"thinking","text":"Hm.","kindlm":"event"}"#,
        r#"{"data":[1],"kindlm":"output_json"}"#,
        r#"{"complete":"all","kindlm":"evidence"}"#,
        r#"{"text":"Done.","kindlm":"result"}"#,
    ];
    let (turns, reported) = turns(AgentKind::Kindlm, &output.join("\n"));
    assert_eq!(turns[0].tool_calls[0].arguments, json!({"a": 1}));
    assert_eq!((turns[0].text.as_str(), &turns[0].output_json), ("Done.", &Some(json!([1]))));
    assert!(Channel::ALL.into_iter().all(|it| reported.coverage().includes(it)));
}

#[test]
fn the_last_declaration_of_completeness_counts() {
    let output = [
        r#"{"kindlm":"hello","version":1,"complete":["actions","subagents"]}"#,
        r#"{"kindlm":"result","text":"Done."}"#,
        r#"{"kindlm":"evidence","complete":["subagents"]}"#,
    ];
    let (_, reported) = turns(AgentKind::Kindlm, &output.join("\n"));
    let complete = [Channel::Messages, Channel::Subagents];
    assert_eq!(reported.coverage(), complete.into_iter().collect());
}

#[test]
fn a_refusal_of_claude_is_evidence() {
    let refusal = r#"{"type":"assistant","message":{"stop_reason":"refusal","content":[{"type":"text","text":"No."}]}}"#;
    let answer = refusal.replace(r#""refusal""#, "null");
    let result = r#"{"type":"result","subtype":"success","is_error":true,"num_turns":1,"result":"No.","stop_reason":null}"#;
    let refused = result.replace(r#""stop_reason":null"#, r#""stop_reason":"refusal""#);
    for output in [[refusal, result], [&answer, &refused]] {
        let (turns, _) = turns(AgentKind::ClaudeCode, &output.join("\n"));
        assert_eq!(turns[0].finish_reason, Some(FinishReason::Refusal), "{output:?}");
        assert_eq!(turns[0].text, "No.");
    }
    let ended = result.replace("true", "false").replace("null", r#""end_turn""#);
    let (turns, _) = turns(AgentKind::ClaudeCode, &[refusal, &ended, &answer, &ended].join("\n"));
    let reasons: Vec<_> = turns.iter().map(|it| it.finish_reason.clone()).collect();
    assert_eq!(reasons, [Some(FinishReason::Stop), Some(FinishReason::Stop)]);
}

#[test]
fn background_agents_end_only_when_reported() {
    let call = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Task","input":{"subagent_type":"Explore","run_in_background":true}}]}}"#;
    let began = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"Async agent launched"}]}}"#;
    let ended = |status: &str| {
        format!(
            r#"{{"type":"system","subtype":"task_notification","tool_use_id":"t","status":"{status}","summary":"S"}}"#
        )
    };
    let result =
        r#"{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"Hi"}"#;
    for (notified, states) in [
        (None, vec![]),
        (Some("completed"), vec![("S", ActionStatus::Completed)]),
        (Some("failed"), vec![("S", ActionStatus::Failed)]),
    ] {
        let mut lines = vec![r#"{"type":"system","subtype":"init"}"#.to_owned()];
        lines.extend([call.to_owned(), began.to_owned()]);
        lines.extend(notified.map(ended));
        lines.push(result.to_owned());
        let (turns, reported) = turns(AgentKind::ClaudeCode, &lines.join("\n"));
        let seen: Vec<_> = turns[0]
            .events
            .iter()
            .filter_map(|it| match it {
                Event::SubagentCompleted { output, status, .. } => {
                    Some((output.as_ref()?.as_str()?, *status))
                }
                _ => None,
            })
            .collect();
        assert_eq!(seen, states);
        // The calls of the subagent were not counted, so some may be missing.
        assert!(!reported.coverage().includes(Channel::Actions));
        assert!(reported.coverage().includes(Channel::Messages));
    }
}

#[test]
fn background_commands_have_no_result_before_their_end() {
    let call = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"c","name":"Bash","input":{"command":"npm test","run_in_background":true}}]}}"#;
    let begun = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c","content":"running"}]},"tool_use_result":{"backgroundTaskId":"t"}}"#;
    let started = r#"{"type":"system","subtype":"task_started","task_id":"t","tool_use_id":"c","task_type":"local_bash"}"#;
    let stop = |tool: &str, key: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","id":"s","name":"{tool}","input":{{"{key}":"t"}}}}]}}}}"#
        )
    };
    let update = |status: &str| {
        format!(
            r#"{{"type":"system","subtype":"task_updated","task_id":"t","patch":{{"status":"{status}"}}}}"#
        )
    };
    let notice = |status: &str| {
        format!(
            r#"{{"type":"system","subtype":"task_notification","task_id":"t","tool_use_id":"c","status":"{status}","summary":"S"}}"#
        )
    };
    let (task_stop, kill_shell) = (stop("TaskStop", "task_id"), stop("KillShell", "shell_id"));
    for (lines, expected) in [
        (vec![], "pending"),
        (vec![update("running")], "pending"),
        (vec![update("completed")], "completed"),
        (vec![notice("completed")], "completed"),
        (vec![update("failed"), notice("failed")], "failed"),
        (vec![update("killed"), notice("stopped")], "failed"),
        (vec![notice("stopped")], "failed"),
        (vec![task_stop, update("killed"), notice("stopped")], "completed"),
        (vec![kill_shell, update("killed")], "completed"),
    ] {
        let opening = [call, started, begun].map(str::to_owned);
        let lines: Vec<String> = opening.into_iter().chain(lines).collect();
        let (_, reported) = turns(AgentKind::ClaudeCode, &lines.join("\n"));
        assert_eq!(
            Facts::from_events(&reported.events).actions[0].state.as_str(),
            expected,
            "{lines:?}"
        );
    }
}

#[test]
fn streamlined_lines_replace_unreported_calls() {
    for kind in ["streamlined_text", "streamlined_tool_use_summary"] {
        let lines =
            format!("{{\"type\":\"system\",\"subtype\":\"init\"}}\n{{\"type\":\"{kind}\"}}");
        let (_, reported) = turns(AgentKind::ClaudeCode, &lines);
        assert_eq!(reported.coverage(), Coverage::default().losing(Channel::ALL), "{kind}");
    }
}

#[test]
fn unsupported_parts_of_the_last_message_are_reported() {
    let claude = |id: &str, blocks: &str| {
        format!(r#"{{"type":"assistant","message":{{"id":"{id}","content":[{blocks}]}}}}"#)
    };
    let (text, odd) = (r#"{"type":"text","text":"fine"}"#, r#"{"type":"wobble","text":"secret"}"#);
    let result =
        r#"{"type":"result","subtype":"success","num_turns":1,"result":"fine"}"#.to_owned();
    let item = |rest: &str| format!(r#"{{"type":"item.completed","item":{{"id":"i",{rest}}}}}"#);
    let message = item(r#""type":"agent_message","text":"fine""#);
    let (wobble, call) = (item(r#""type":"wobble""#), item(r#""type":"odd_call""#));
    let done = r#"{"type":"turn.completed"}"#.to_owned();
    let both = format!("{text},{odd}");
    for (kind, lines, unread) in [
        (AgentKind::ClaudeCode, [claude("a", &both), result.clone(), String::new()], true),
        (AgentKind::ClaudeCode, [claude("a", odd), claude("a", text), result.clone()], true),
        (AgentKind::ClaudeCode, [claude("a", odd), claude("b", text), result.clone()], false),
        (AgentKind::Codex, [message.clone(), wobble.clone(), done.clone()], true),
        (AgentKind::Codex, [wobble, message.clone(), done.clone()], false),
        (AgentKind::Codex, [message, call, done], false),
    ] {
        let lines: Vec<String> = lines.into_iter().filter(|it| !it.is_empty()).collect();
        let (turns, reported) = turns(kind, &lines.join("\n"));
        assert_eq!(turns[0].text, "fine");
        assert_eq!(turns[0].unread.is_some(), unread, "{lines:?}");
        assert_eq!(reported.coverage(), Coverage::default().losing(Channel::ALL), "{lines:?}");
    }
}

#[test]
fn calls_without_permission_are_rejected() {
    let called = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"c1","name":"Bash","input":{"command":"ls"}}]}}"#;
    let result = |denials: &str| {
        format!(
            r#"{{"type":"result","subtype":"success","num_turns":1,"result":"ok","permission_denials":[{denials}]}}"#
        )
    };
    let bash = r#"{"tool_name":"Bash","tool_use_id":"c1","tool_input":{"command":"ls"}}"#;
    let nameless = r#"{"tool_name":"Bash","tool_input":{"command":"ls"}}"#;
    for (lines, expected) in [
        (result(bash), vec!["Bash rejected"]),
        (result(nameless), vec!["Bash rejected"]),
        (format!("{called}\n{}", result(nameless)), vec!["Bash pending"]),
        // Each `result` of a process repeats all earlier denials.
        (format!("{}\n{}", result(bash), result(bash)), vec!["Bash rejected"]),
        (
            result(r#"{"tool_name":"Task","tool_use_id":"c2","tool_input":{}}"#),
            vec!["Task rejected"],
        ),
    ] {
        let (turns, reported) = turns(AgentKind::ClaudeCode, &lines);
        let events: Vec<Event> = turns.into_iter().flat_map(|it| it.events).collect();
        let facts = Facts::from_events(&events);
        let actions = facts.actions.iter();
        let actions: Vec<String> = actions
            .map(|it| format!("{} {}", it.name.unwrap_or_default(), it.state.as_str()))
            .collect();
        assert_eq!(actions, expected, "{lines}");
        assert!(facts.subagents.iter().all(|it| it.state.as_str() == "rejected"), "{lines}");
        assert!(!reported.metadata().contains_key("unknownLines"), "{lines}");
    }
    let (_, reported) = turns(AgentKind::ClaudeCode, &result(r#"{"tool":"Bash"}"#));
    assert_eq!(reported.metadata()["unknownLines"], json!({"result/permission_denials": 1}));
}

#[test]
fn uncompleted_codex_items_are_recorded() {
    let item =
        |step: &str, rest: &str| format!(r#"{{"type":"item.{step}","item":{{"id":"i",{rest}}}}}"#);
    let search = r#""type":"web_search","query":"q""#;
    let message = r#""type":"agent_message","text":"He""#;
    let (begun, done) =
        (r#"{"type":"thread.started","thread_id":"t"}"#, r#"{"type":"turn.completed"}"#);
    for (lines, actions, channel) in [
        (vec![item("updated", search)], "web_search pending", None),
        (vec![item("started", search), item("completed", search)], "web_search completed", None),
        (vec![item("updated", message)], "", Some(Channel::Messages)),
        (vec![item("started", message), item("completed", message)], "", None),
        (
            vec![item("updated", r#""type":"command_execution","command":"ls""#)],
            "command_execution pending",
            None,
        ),
    ] {
        let (turns, reported) =
            turns(AgentKind::Codex, &format!("{begun}\n{}\n{done}", lines.join("\n")));
        let facts = Facts::from_events(&turns[0].events);
        let found = facts.actions.iter();
        let found: Vec<String> = found
            .map(|it| format!("{} {}", it.name.unwrap_or_default(), it.state.as_str()))
            .collect();
        assert_eq!(found.join(", "), actions, "{lines:?}");
        assert_eq!(turns[0].unread.is_some(), channel.is_some(), "{lines:?}");
        assert_eq!(reported.coverage().includes(Channel::Messages), channel.is_none(), "{lines:?}");
    }
}

#[test]
fn codex_statuses_are_used_as_reported() {
    let item = |rest: &str| format!(r#"{{"type":"item.completed","item":{{"id":"i",{rest}}}}}"#);
    for (rest, state, unknown) in [
        (r#""type":"command_execution","status":"completed","exit_code":0"#, "completed", None),
        (r#""type":"command_execution","exit_code":2"#, "failed", None),
        (r#""type":"command_execution","status":"declined""#, "rejected", None),
        (
            r#""type":"mcp_tool_call","server":"s","tool":"t","error":{"message":"m"}"#,
            "failed",
            None,
        ),
        (
            r#""type":"file_change","status":"in_progress""#,
            "failed",
            Some("item/file_change/in_progress"),
        ),
    ] {
        let (_, reported) = turns(AgentKind::Codex, &item(rest));
        assert_eq!(Facts::from_events(&reported.events).actions[0].state.as_str(), state, "{rest}");
        let unknowns = reported.metadata().get("unknownLines").cloned();
        assert_eq!(unknowns, unknown.map(|it| json!({it: 1})), "{rest}");
    }
    let error = |message: &str| format!(r#"{{"type":"error","message":"{message}"}}"#);
    let (begun, done) = (r#"{"type":"turn.started"}"#, r#"{"type":"turn.completed"}"#);
    let lines = [&error("early"), begun, &error("one"), done, begun, &error("two"), done];
    let (_, reported) = turns(AgentKind::Codex, &lines.join("\n"));
    assert_eq!(reported.metadata()["warnings"], json!(["early", "one", "two"]));
}

#[test]
fn failed_agents_give_errors_not_evidence() {
    for (kind, lines, why) in [
        (
            AgentKind::ClaudeCode,
            r#"{"type":"result","subtype":"success","is_error":true,"num_turns":1,"result":"Invalid API key · Please run /login"}"#,
            "Claude Code could not answer: Invalid API key · Please run /login",
        ),
        (
            AgentKind::ClaudeCode,
            r#"{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":0,"errors":["No conversation found"]}"#,
            "Claude Code ended with error_during_execution: No conversation found",
        ),
        (
            AgentKind::Codex,
            r#"{"type":"turn.failed","error":{"message":"unexpected status 401"}}"#,
            "the turn of Codex failed: unexpected status 401",
        ),
        (AgentKind::Kindlm, r#"{"kindlm":"error","message":"no key"}"#, "no key"),
    ] {
        let mut reported = Reported::default();
        let step = dialect(&spec(kind)).read_line(lines, &mut reported);
        assert_eq!(step, Ok(Step::Failed(why.to_owned())));
    }
}

#[test]
fn unreadable_lines_name_the_problem() {
    const HELLO: &str = r#"{"kindlm":"hello","version":1}"#;
    for (lines, why) in [
        (vec!["Loading…"], "it is not JSON"),
        (vec!["[1]"], "it is not a JSON object: `[1]`; stdout is for the protocol alone"),
        (vec![r#"{"a":1}"#], "it has no `kindlm`"),
        (
            vec![r#"{"kindlm":"result"}"#],
            "the first line must be `{\"kindlm\":\"hello\",\"version\":1}`",
        ),
        (
            vec![r#"{"kindlm":"hello","version":2}"#],
            "uses version 2 of the protocol, and this KindLM uses 1",
        ),
        (vec![HELLO, HELLO], "sent a second `hello`"),
        (
            vec![r#"{"kindlm":"hello","version":1,"complete":["tools"]}"#],
            "neither \"all\" nor a list of messages",
        ),
        (
            vec![HELLO, r#"{"kindlm":"results"}"#],
            "`results` is not a word of the protocol: did you mean `result`?",
        ),
        (vec![HELLO, r#"{"kindlm":"result","txt":"a"}"#], "unknown field `txt`"),
        (vec![HELLO, r#"{"kindlm":"result","costUsd":-1}"#], "`costUsd` is negative"),
        (
            vec![HELLO, r#"{"kindlm":"event","type":"action.call"}"#],
            "unknown variant `action.call`",
        ),
        (vec![HELLO, r#"{"kindlm":"tool_call"}"#], "cannot be read as `tool_call`"),
    ] {
        let mut reader = dialect(&spec(AgentKind::Kindlm));
        let mut reported = Reported::default();
        let last = lines.iter().map(|line| reader.read_line(line, &mut reported)).last().unwrap();
        let message = last.unwrap_err();
        assert!(message.contains(why), "{lines:?}: {message}");
    }
    for (kind, line, why) in [
        (AgentKind::ClaudeCode, "oops", "it is not JSON"),
        (AgentKind::ClaudeCode, r#"{"type":"assistant"}"#, "has no `message.content`"),
        (
            AgentKind::ClaudeCode,
            r#"{"type":"assistant","message":{"content":[{"type":"tool_use"}]}}"#,
            "has no `id`",
        ),
        (AgentKind::Codex, r#"{"type":"item.completed"}"#, "has no `item`"),
        (
            AgentKind::Codex,
            r#"{"type":"item.started","item":{"type":"command_execution","command":"ls"}}"#,
            "an item of the type `command_execution` has no `id`",
        ),
        (AgentKind::Codex, r#"{"type":"thread.started"}"#, "has no `thread_id`"),
    ] {
        let message = dialect(&spec(kind)).read_line(line, &mut Reported::default()).unwrap_err();
        assert!(message.contains(why), "{line}: {message}");
    }
}

#[test]
fn the_answer_is_recorded_as_one_message() {
    const HELLO: &str = r#"{"kindlm":"hello","version":1,"name":"mine","complete":"all"}"#;
    let message = r#"{"kindlm":"event","type":"message","role":"assistant","text":"Done."}"#;
    for (lines, messages) in [
        (vec![message, r#"{"kindlm":"result"}"#], vec!["Done."]),
        (vec![message, r#"{"kindlm":"result","text":"Done."}"#], vec!["Done."]),
        (vec![message, r#"{"kindlm":"result","text":"Bye."}"#], vec!["Done.", "Bye."]),
        (vec![r#"{"kindlm":"result","text":"Bye."}"#], vec!["Bye."]),
        (vec![r#"{"kindlm":"result"}"#], vec![]),
    ] {
        let output = format!("{HELLO}\n{}", lines.join("\n"));
        let (turns, reported) = turns(AgentKind::Kindlm, &output);
        assert_eq!(Facts::from_events(&turns[0].events).said, messages, "{lines:?}");
        assert_eq!(turns[0].text, messages.last().copied().unwrap_or_default());
        assert_eq!(reported.metadata(), json!({"name": "mine"}).as_object().unwrap().clone());
        assert!(Channel::ALL.into_iter().all(|it| reported.coverage().includes(it)));
    }
}

proptest! {
    /// Any line is either read or refused with a reason; the reader never panics.
    #[test]
    fn no_line_causes_a_panic(line in r#"[\[\]{}:,"a-z0-9 ]{0,60}|\{"type":"[a-z._]{1,16}"(,"[a-z]{1,8}":(1|null|"x"|\[\]|\{\}))*\}"#) {
        for kind in [AgentKind::Kindlm, AgentKind::ClaudeCode, AgentKind::Codex] {
            let _ = dialect(&spec(kind)).read_line(&line, &mut Reported::default());
        }
    }
}
