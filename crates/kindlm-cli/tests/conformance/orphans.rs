//! Workers end with the program that started them, whatever their script does.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kindlm_testing::installed;
use serde_json::json;

/// The time after which an awaited event counts as failed.
const NEVER: Duration = Duration::from_mins(1);

fn until<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(begun.elapsed() < NEVER, "{what} does not happen");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the running child processes of a process.
fn children(of: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let lists = tasks.filter_map(|it| std::fs::read_to_string(it.path().join("children")).ok());
    lists
        .flat_map(|it| it.split_whitespace().map(|it| it.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

/// Returns true if a process runs; zombies count as ended.
fn runs(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|it| !it.trim().is_empty() && !it.trim().starts_with('Z'))
}

fn suite(folder: &Path, check: &serde_json::Value) -> Child {
    let suite = json!({
        "kindlm": 1, "project": "p", "suite": {"name": "s"},
        "providers": {"echo": {}},
        "models": [{"id": "m", "provider": "echo", "model": "any"}],
        "prompts": {"p": {"user": "hello"}},
        "tests": [{"name": "t", "prompt": "p", "expect": {"assert": [check]}}],
    });
    std::fs::write(folder.join("kindlm.yaml"), suite.to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kindlm"));
    command.args(["test", "--no-journal", "-q"]).current_dir(folder);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Kills the host while a script runs. The host cannot handle this signal.
fn ends_with_its_host(check: &serde_json::Value) {
    let folder = tempfile::tempdir().unwrap();
    let mut host = suite(folder.path(), check);
    let busy = folder.path().join("busy");
    let workers = until("the start of a worker", || {
        let workers = children(host.id());
        (!workers.is_empty()).then_some(workers)
    });
    // A script in the sandbox cannot write a file, so its worker may be killed before the script starts.
    if check["type"] != "javascript" || check["scripts"]["runtime"] == "node" {
        until("the script", || busy.exists().then_some(()));
    }
    host.kill().unwrap();
    host.wait().unwrap();
    until("the end of the worker", || workers.iter().all(|it| !runs(*it)).then_some(()));
}

/// A script that never yields, so that neither limits nor messages reach it.
#[test]
fn a_worker_of_the_sandbox_ends_with_its_host() {
    let deaf = "String.raw({ raw: { length: 2 ** 53 - 1 } })";
    let scripts = json!({"timeoutMs": 3_600_000});
    ends_with_its_host(&json!({"type": "javascript", "value": deaf, "scripts": scripts}));
}

#[test]
fn interpreters_end_with_their_host() {
    let scripts = json!({"timeoutMs": 3_600_000});
    if installed("python3") {
        let code = "open('busy', 'w').close()\nwhile True: pass\n";
        ends_with_its_host(&json!({"type": "python", "value": code, "scripts": scripts}));
    }
    if installed("ruby") {
        let code = "File.write('busy', '')\nloop { }\n";
        ends_with_its_host(&json!({"type": "ruby", "value": code, "scripts": scripts}));
    }
    if installed("node") {
        let code = "const fs = process.mainModule.require('fs');\nfs.writeFileSync('busy', '');\nfor (;;);\n";
        let scripts = json!({"timeoutMs": 3_600_000, "runtime": "node"});
        let check = json!({"type": "javascript", "value": code, "scripts": scripts});
        ends_with_its_host(&check);
    }
}
