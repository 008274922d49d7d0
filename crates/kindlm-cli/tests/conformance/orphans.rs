//! Workers, and the programs that their scripts start, end with KindLM, whatever a script does.
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

/// Returns the user CPU time of a process, in hundredths of a second.
fn computed(process: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let user = stat.rsplit(')').next().and_then(|it| it.split_whitespace().nth(11));
    user.and_then(|it| it.parse().ok()).unwrap_or_default()
}

/// Returns true if a process runs; zombies count as ended.
fn runs(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|it| !it.trim().is_empty() && !it.trim().starts_with('Z'))
}

/// A process that is killed when this guard is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn suite(folder: &Path, check: &serde_json::Value) -> Killed {
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
    Killed(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// Kills KindLM while a script runs, and checks that all its processes end.
///
/// A script outside the sandbox writes the ids of the programs that it started.
fn ends_with_its_host(check: &serde_json::Value) {
    let folder = tempfile::tempdir().unwrap();
    let host = suite(folder.path(), check);
    // A starting interpreter needs less than a second of CPU time.
    let worker = until("an endless script", || {
        children(host.0.id()).into_iter().find(|it| computed(*it) > 100)
    });
    let mut all = vec![worker];
    if check["type"] != "javascript" || check["scripts"]["runtime"] == "node" {
        let ids = std::fs::read_to_string(folder.path().join("ids")).unwrap();
        all.extend(ids.split(' ').map(|it| it.parse::<u32>().unwrap()));
    }
    assert!(all.iter().all(|it| runs(*it)), "{all:?}");
    drop(host);
    until("the end of all processes", || all.iter().all(|it| !runs(*it)).then_some(()));
}

/// The script never yields, so neither limits nor messages reach it.
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
        let code = "import subprocess\n\
                    ids = [subprocess.Popen(['sleep', '1000'], start_new_session=own).pid for own in (False, True)]\n\
                    open('ids', 'w').write(' '.join(map(str, ids)))\n\
                    while True: pass\n";
        ends_with_its_host(&json!({"type": "python", "value": code, "scripts": scripts}));
    }
    if installed("ruby") {
        let code = "ids = [spawn('sleep', '1000'), fork { Process.setsid; exec('sleep', '1000') }]\n\
                    File.write('ids', ids.join(' '))\n\
                    loop { }\n";
        ends_with_its_host(&json!({"type": "ruby", "value": code, "scripts": scripts}));
    }
    if installed("node") {
        let code = "const { spawn } = process.mainModule.require('child_process');\n\
                    const ids = [false, true].map(detached => spawn('sleep', ['1000'], { detached }).pid);\n\
                    process.mainModule.require('fs').writeFileSync('ids', ids.join(' '));\n\
                    for (;;);\n";
        let scripts = json!({"timeoutMs": 3_600_000, "runtime": "node"});
        let check = json!({"type": "javascript", "value": code, "scripts": scripts});
        ends_with_its_host(&check);
    }
}
