//! Agents of promptfoo configs, with programs that write the lines of Claude Code and of Codex.

#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use crate::ran::{CONFIG, folder, kindlm_with, rows};

/// A program that writes its arguments, its environment and its input to `$LOG`, and answers like Claude Code.
const CLAUDE: &str = r#"#!/bin/sh
{ for it in "$@"; do printf '[%s]' "$it"; done; echo; pwd; ls -A; env | grep ^CLAUDE_CODE_MAX; } > "$LOG"
read -r line
printf '%s\n' "$line" >> "$LOG"
cat << 'END'
{"type":"system","subtype":"init","session_id":"s"}
{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Skill","input":{"skill":"review"}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"done"}]}}
{"type":"result","subtype":"success","num_turns":1,"result":"It has a bug.","structured_output":{"bugs":1},"total_cost_usd":0.5}
END
cat > /dev/null
"#;

/// A program that writes its arguments, its keys and its input to `$CODEX_LOG`, and answers like Codex.
const CODEX: &str = r#"#!/bin/sh
{ for it in "$@"; do printf '[%s]' "$it"; done; echo; echo "$CODEX_API_KEY-$SECRET"; cat "$4"; echo; cat; } > "$CODEX_LOG"
cat << 'END'
{"type":"thread.started","thread_id":"t"}
{"type":"turn.started"}
{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"{\"a\": 1}"}}
{"type":"turn.completed","usage":{"input_tokens":5,"cached_input_tokens":0,"output_tokens":2}}
END
"#;

/// Creates a folder with the config and the programs.
fn folder_with(config: &str) -> TempDir {
    let folder = folder(&[
        (CONFIG, config),
        ("bin/claude", CLAUDE),
        ("bin/codex", CODEX),
        ("work/a.py", "print(1)\n"),
    ]);
    for name in ["bin/claude", "bin/codex"] {
        let path = folder.path().join(name);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

fn env(folder: &Path) -> [(&'static str, String); 4] {
    let path = std::env::var("PATH").unwrap();
    [
        ("PATH", format!("{}:{path}", folder.join("bin").display())),
        ("LOG", folder.join("log").display().to_string()),
        ("OPENAI_API_KEY", "k1".to_owned()),
        ("SECRET", "hidden".to_owned()),
    ]
}

/// The options are those that version 0.3.263 of the SDK gives to its program for this config in promptfoo.
#[test]
fn claude_gets_the_options_of_the_sdk() {
    let config = "prompts: ['Review {{file}}']
providers:
  - id: anthropic:claude-agent-sdk
    label: claude
    config:
      working_dir: ./work
      append_allowed_tools: [Skill]
      setting_sources: [project]
      max_turns: 7
      sandbox: { enabled: true }
      mcp: { servers: [{ name: weather, command: npx, args: ['-y', w], env: { TOKEN: '{{env.TOKEN}}' } }] }
      plugins: [{ type: local, path: ./plugin }]
      output_format: { type: json_schema, schema: { type: object } }
tests:
  - vars: { file: a.py }
    assert:
      - { type: javascript, value: 'output.bugs === 1' }
      - { type: equals, value: '{\"bugs\":1}' }
      - { type: not-contains, value: It has }
      - { type: cost, threshold: 0.6 }
      - { type: skill-used, value: review }
      - type: javascript
        value: |
          const { toolCalls, skillCalls } = context.providerResponse.metadata;
          const [call] = toolCalls;
          return toolCalls.length === 1 && call.name === 'Skill' && call.input.skill === 'review'
            && call.output === 'done' && call.is_error === false
            && skillCalls[0].name === 'review' && context.metadata.toolCalls[0].id === 't1';
";
    let folder = folder_with(config);
    let env = env(folder.path());
    let env: Vec<(&str, &str)> = env.iter().map(|(name, it)| (*name, it.as_str())).collect();
    let (ran, rows) = rows(folder.path(), CONFIG, &env);
    assert_eq!(rows.len(), 1, "{ran:?}");
    assert_eq!(rows[0]["status"], "passed", "{:#} {ran:?}", rows[0]);
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    for part in [
        "[--max-turns][7]",
        "[--json-schema][{\"type\":\"object\"}]",
        "[--allowedTools][Glob,Grep,LS,Read,Skill]",
        "[--tools][Glob,Grep,LS,Read,Skill]",
        "[--setting-sources=project]",
        "[--strict-mcp-config]",
        "[--plugin-dir][../plugin]",
        "[--permission-mode][default]",
        "[--settings][{\"sandbox\":{\"enabled\":true,\"failIfUnavailable\":true}}]",
        "[--mcp-config][{\"mcpServers\":{\"weather\":{\"type\":\"stdio\",\"command\":\"npx\",\"args\":[\"-y\",\"w\"],\"env\":{\"TOKEN\":\"${TOKEN}\"}}}}]",
    ] {
        assert!(lines[0].contains(part), "{part} in {}", lines[0]);
    }
    assert!(lines[1].ends_with("/work"), "{log}");
    assert_eq!(lines[2..4], ["a.py", "CLAUDE_CODE_MAX_SUBAGENT_SPAWN_DEPTH=5"], "{log}");
    assert!(lines[4].contains("Review a.py"), "{log}");
}

#[test]
fn claude_without_a_folder_has_no_tools() {
    let config = "prompts: ['Hi']
providers: ['anthropic:claude-agent-sdk']
tests: [{ assert: [{ type: contains, value: It has a bug. }] }]
";
    let folder = folder_with(config);
    let env = env(folder.path());
    let env: Vec<(&str, &str)> = env.iter().map(|(name, it)| (*name, it.as_str())).collect();
    let (ran, rows) = rows(folder.path(), CONFIG, &env);
    assert_eq!(rows[0]["status"], "passed", "{rows:#?} {ran:?}");
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[0].contains("[--tools][]"), "{log}");
    assert!(lines[0].contains("[--setting-sources=]"), "{log}");
    let place = Path::new(lines[1]);
    assert!(place.is_absolute() && !place.exists() && !place.starts_with(folder.path()), "{log}");
    assert!(lines[2].starts_with("CLAUDE_CODE_MAX"), "the folder is not empty: {log}");
}

#[test]
fn codex_gets_its_key_its_schema_and_few_variables() {
    let config = "prompts: ['Hi']
providers:
  - id: openai:codex-sdk
    config:
      model: gpt-5.4
      model_reasoning_effort: high
      sandbox_mode: read-only
      skip_git_repo_check: true
      output_schema: { type: object }
      cli_env: { CODEX_LOG: log }
tests: [{ assert: [{ type: equals, value: '{\"a\": 1}' }, { type: javascript, value: 'typeof output === \"string\"' }] }]
";
    let folder = folder_with(config);
    let env = env(folder.path());
    let env: Vec<(&str, &str)> = env.iter().map(|(name, it)| (*name, it.as_str())).collect();
    let (ran, rows) = rows(folder.path(), CONFIG, &env);
    assert_eq!(rows[0]["status"], "passed", "{rows:#?} {ran:?}");
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[0].starts_with("[exec][--json][--output-schema]["), "{log}");
    let rest = "[--model][gpt-5.4][--config][model_reasoning_effort=\"high\"][--sandbox][read-only][--skip-git-repo-check][-]";
    assert!(lines[0].ends_with(rest), "{log}");
    assert_eq!(lines[1..], ["k1-", "{\"type\":\"object\"}", "Hi"], "{log}");
}

#[test]
fn a_missing_agent_is_valid_and_named_in_the_run() {
    let config = "prompts: ['Hi']
providers: ['anthropic:claude-agent-sdk']
tests: [{ assert: [{ type: contains, value: a }] }]
";
    let folder = folder(&[(CONFIG, config)]);
    let env = [("PATH", "/usr/bin:/bin")];
    let ran = kindlm_with(folder.path(), &["validate", "-c", CONFIG], &env);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = kindlm_with(folder.path(), &["test", "-c", CONFIG], &env);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(format!("{ran:?}").contains("claude"), "{ran:?}");
}
