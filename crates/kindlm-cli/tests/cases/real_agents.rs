//! The real Claude Code and Codex, from their npm packages, with scripted models on this machine.
//!
//! If Linux allows it, they run in a network namespace with only the loopback device. Their environment contains only a
//! fake key, and their home folders are temporary.
#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kindlm_testing::mock::scripted;
use kindlm_testing::{MockServer, installed, not_run};
use kindlm_types::{Report, Verdict};
use kindlm_wire::parse_report;
use serde_json::{Value, json};

use crate::binary;

/// The environment variable that is set in the process inside the namespace.
const INSIDE: &str = "KINDLM_TEST_IN_NAMESPACE";

/// Installs a package once for all test runs.
///
/// If npm is missing or fails, prints a message and returns `None`.
fn package(name: &str, version: &str) -> Option<PathBuf> {
    let key = name.rsplit('/').next().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{key}-{version}"));
    fs::create_dir_all(&folder).unwrap();
    let done = folder.join("installed");
    // Other test processes wait here until the package is installed.
    let lock = fs::File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    if done.exists() {
        return Some(folder);
    }
    if !installed("npm") || !installed("node") {
        return None;
    }
    fs::write(folder.join("package.json"), r#"{"private": true}"#).unwrap();
    let mut npm = Command::new("npm");
    npm.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]);
    npm.arg(format!("{name}@{version}")).current_dir(&folder);
    let output = npm.stdin(Stdio::null()).output().unwrap();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or_default();
        not_run(key, &format!("npm cannot install {name}@{version}: {last}"));
        return None;
    }
    fs::write(done, "").unwrap();
    Some(folder)
}

/// Finds a file in the package for this platform, which npm has selected.
///
/// Returns `None` if the file is missing.
fn native(folder: &Path, scope: &str, prefix: &str, file: &str) -> Option<PathBuf> {
    let platforms = fs::read_dir(folder.join("node_modules").join(scope)).ok()?;
    let mut waiting: Vec<PathBuf> = platforms
        .map(|it| it.unwrap().path())
        .filter(|it| it.file_name().unwrap().to_string_lossy().starts_with(prefix))
        .collect();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(fs::read_dir(path).ok()?.map(|it| it.unwrap().path()));
        } else if path.file_name().is_some_and(|it| it == file) {
            return Some(path);
        }
    }
    None
}

/// Runs a test again in a network namespace with only loopback; returns true if it did.
///
/// Returns false if this is the inner run, or if namespaces are not available.
fn ran_in_a_namespace(test: &str) -> bool {
    const LOOPBACK: &str = "ip link set lo up && exec \"$@\"";
    if std::env::var_os(INSIDE).is_some() {
        return false;
    }
    let unshare = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--net", "--map-root-user", "sh", "-c", LOOPBACK, "sh"]).args(args);
        command
    };
    let possible = unshare(&["true"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !possible.is_ok_and(|it| it.success()) {
        not_run("unshare", "no network namespace here: the agents run with their settings alone");
        return false;
    }
    let own = std::env::current_exe().unwrap();
    let own = own.to_str().unwrap();
    let mut inside = unshare(&[own, "--exact", test, "--nocapture"]);
    let status = inside.env(INSIDE, "1").stdin(Stdio::null()).status().unwrap();
    assert!(status.success(), "it failed in its network namespace");
    true
}

/// Runs a suite whose tests are scripts.
///
/// Returns one line per check, sorted by the name of the test.
fn run(suite: &Value, env: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    fs::create_dir_all(home.join(".codex")).unwrap();
    let work = folder.path().join("shop");
    fs::create_dir(&work).unwrap();
    fs::write(work.join("cart.js"), "export const total = (n) => n * 2;\n").unwrap();
    for (name, value) in env.iter().filter(|(name, _)| *name == "config.toml") {
        fs::write(home.join(".codex").join(name), value).unwrap();
    }
    fs::write(folder.path().join("kindlm.yaml"), suite.to_string()).unwrap();
    let mut kindlm = Command::new(binary());
    kindlm.args(["test", "--reporter", "json"]).current_dir(folder.path()).env_clear();
    let path = std::env::var("PATH").unwrap();
    kindlm.env("PATH", path).env("HOME", &home).env("LANG", "C.UTF-8").env("IS_SANDBOX", "1");
    kindlm.envs(env.iter().filter(|(name, _)| *name != "config.toml").copied());
    let output = kindlm.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let report: Report =
        parse_report(&output.stdout).unwrap_or_else(|err| panic!("{err}: {stderr}"));
    let mut shown = Vec::new();
    for case in &report.cases {
        for execution in &case.executions {
            if let Some(error) = &execution.error {
                shown.push(format!("{} | error | {error:?}", case.case));
            }
            for result in &execution.results {
                let verdict = match &result.verdict {
                    Verdict::Pass => "pass".to_owned(),
                    Verdict::Fail { .. } => "fail".to_owned(),
                    Verdict::Errored { message, .. } => format!("errored ({message})"),
                    Verdict::Skipped { .. } => "skipped".to_owned(),
                };
                shown.push(format!("{} | {verdict} | {}", case.case, result.label));
            }
        }
    }
    shown.sort();
    shown
}

/// Returns a test whose message is a script.
fn test(name: &str, script: &Value, checks: &Value) -> Value {
    let user = format!("SCRIPT {script}");
    json!({
        "name": name, "agent": "real", "workspace": {"from": "./shop"},
        "conversation": [{"turn": "only", "user": user}], "expect": {"assert": checks},
    })
}

fn suite(agent: &Value, tests: &[Value]) -> Value {
    json!({
        "kindlm": 1, "project": "real", "suite": {"name": "real"}, "agents": {"real": agent},
        "defaults": {"concurrency": 4}, "tests": tests,
    })
}

fn call(tool: &str, input: &Value) -> Value {
    json!({"tool": tool, "input": input})
}

fn shell(command: &str) -> Value {
    call("Bash", &json!({"command": command, "description": "x"}))
}

#[test]
fn claude_code_itself_is_read_right() {
    let Some(folder) = package("@anthropic-ai/claude-code", "2.1.197") else { return };
    let Some(claude) = native(&folder, "@anthropic-ai", "claude-code-", "claude") else {
        return not_run("claude-code", "Claude Code has no program for this platform");
    };
    if ran_in_a_namespace("real_agents::claude_code_itself_is_read_right") {
        return;
    }
    let server = MockServer::answering(scripted::anthropic).unwrap();
    let in_background = json!({"command": "true", "description": "x", "run_in_background": true});
    let sub = json!([[shell("echo from-sub > sub.txt")], "sub done"]);
    let sub = json!({"description": "d", "prompt": format!("SCRIPT {sub}"), "subagent_type": "general-purpose"});
    let tests = [
        test(
            "commands",
            &json!([[{"text": "I look."}, shell("bash -lc 'ls; pwd'")], [shell("exit 3")], "All done."]),
            &json!([
                {"type": "message-includes", "value": "All done."},
                {"type": "called-tool", "value": "shell", "input": {"command": {"$regex": "^ls"}}},
                {"type": "not-called-tool", "value": "file_edit"},
                {"type": "no-failed-actions"},
                {"type": "max-tokens", "value": 600}, {"type": "max-tokens", "value": 599}, {"type": "max-cost", "value": 0.1},
            ]),
        ),
        test(
            "background",
            &json!([[call("Bash", &in_background)], "It runs.", "It has ended."]),
            &json!([
                {"type": "message-includes", "value": "It runs."},
                {"type": "not-called-tool", "value": "file_edit"}, {"type": "succeeded"},
            ]),
        ),
        test(
            "subagent",
            &json!([[call("Task", &sub)], "Main done."]),
            &json!([
                {"type": "called-subagent", "value": "general-purpose", "status": "completed"},
                {"type": "called-tool", "value": "shell", "input": {"command": {"$regex": "from-sub"}}},
                {"type": "file-changed", "value": "sub.txt"}, {"type": "not-called-tool", "value": "web_fetch"},
            ]),
        ),
        test("key", &json!([{"status": 401}]), &json!([{"type": "used-no-tools"}])),
    ];
    let args = ["--permission-mode", "acceptEdits", "--allowedTools", "Bash,Read,Task"];
    let agent =
        json!({"type": "claude-code", "command": claude, "args": args, "timeoutMs": 120_000});
    let url = server.url();
    let shown = run(
        &suite(&agent, &tests),
        &[
            ("ANTHROPIC_BASE_URL", &url),
            ("ANTHROPIC_API_KEY", "made-up"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("DISABLE_AUTOUPDATER", "1"),
            ("DISABLE_ERROR_REPORTING", "1"),
            ("DISABLE_TELEMETRY", "1"),
        ],
    );
    insta::assert_snapshot!("real-claude-code", shown.join("\n"));
}

#[test]
fn codex_itself_is_read_right() {
    let Some(folder) = package("@openai/codex", "0.169.0") else { return };
    let Some(codex) = native(&folder, "@openai", "codex-", "codex") else {
        return not_run("codex", "Codex has no program for this platform");
    };
    if ran_in_a_namespace("real_agents::codex_itself_is_read_right") {
        return;
    }
    let server = MockServer::answering(scripted::responses).unwrap();
    let run_it = |command: &str| call("exec_command", &json!({"cmd": command}));
    let patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: cart.js\n@@\n-export const total = (n) => n * 2;\n+export const total = (n) => n * 3;\n*** End Patch\nEOF\n";
    let sub = json!([[run_it("echo from-sub > sub.txt")], "sub done"]);
    let mut spawn = call("spawn_agent", &json!({"message": format!("SCRIPT {sub}")}));
    spawn["namespace"] = "multi_agent_v1".into();
    let until_there = run_it("until [ -f sub.txt ]; do sleep 0.1; done");
    let forbidden = call("drop_database", &json!({"db": "prod"}));
    let mut read_only = test(
        "refused",
        &json!([[run_it(patch)], "Not allowed."]),
        &json!([
            {"type": "not-called-tool", "value": "file_edit"},
            {"type": "called-tool", "value": "file_edit", "status": "rejected"}, {"type": "no-failed-actions"},
        ]),
    );
    read_only["agent"] = "careful".into();
    let tests = [
        test(
            "commands",
            &json!([[{"text": "I look."}, run_it("ls; pwd")], [run_it(patch)], [run_it("exit 3")], "All done."]),
            &json!([
                {"type": "message-includes", "value": "All done."},
                {"type": "called-tool", "value": "shell", "input": {"command": {"$regex": "^ls"}}},
                {"type": "called-tool", "value": "file_edit", "status": "completed"},
                {"type": "file-changed", "value": "cart.js"},
                {"type": "not-called-tool", "value": "web_search"}, {"type": "no-failed-actions"},
                {"type": "max-tokens", "value": 800}, {"type": "max-tokens", "value": 799}, {"type": "max-cost", "value": 0.1},
            ]),
        ),
        test(
            "spawned agent",
            &json!([[spawn], [until_there], "Main done."]),
            &json!([
                {"type": "called-tool", "value": "shell", "input": {"command": {"$regex": "^echo from-sub"}}},
                {"type": "called-subagent", "value": "agent"},
            ]),
        ),
        test(
            "unknown tool",
            &json!([[forbidden], "There is none."]),
            &json!([{"type": "not-called-tool", "value": "drop_database"}, {"type": "used-no-tools"}, {"type": "no-failed-actions"}]),
        ),
        test(
            "search",
            &json!([[{"search": "weather in Bern"}, {"text": "Found."}]]),
            &json!([{"type": "called-tool", "value": "web_search"}, {"type": "not-called-tool", "value": "shell"}]),
        ),
        read_only,
    ];
    let all = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];
    let args = ["--skip-git-repo-check", "--sandbox", "read-only"];
    let agent = json!({"type": "codex", "command": codex, "model": "gpt-5.1", "args": all, "timeoutMs": 120_000});
    let mut suite = suite(&agent, &tests);
    let careful = json!({"type": "codex", "command": codex, "model": "gpt-5.1", "args": args, "timeoutMs": 120_000});
    suite["agents"]["careful"] = careful;
    let config = format!(
        "model_provider = \"mock\"\n[model_providers.mock]\nname = \"mock\"\nbase_url = \"{}/v1\"\nenv_key = \"MOCK_KEY\"\n\
         wire_api = \"responses\"\nrequest_max_retries = 0\nstream_max_retries = 0\n",
        server.url()
    );
    let shown = run(&suite, &[("MOCK_KEY", "made-up"), ("config.toml", &config)]);
    insta::assert_snapshot!("real-codex", shown.join("\n"));
}
