//! Tests that the programs that a script has started end with the script's worker.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kindlm_script::{HostOptions, ScriptHost};
use kindlm_testing::installed;
use kindlm_types::script::ScriptRuntime;

use crate::interpreters::with;
use crate::support::{body, folder, options, shown};

/// The limit after which an expected event counts as missing.
const NEVER: Duration = Duration::from_mins(1);

/// Scripts that start one program in the worker's group and one program outside of the group. The scripts write the
/// ids of the programs to a file.
const SCRIPTS: [(ScriptRuntime, &str, &str, &str); 3] = [
    (
        ScriptRuntime::Node,
        "node",
        "const { spawn } = process.mainModule.require('child_process');\n\
         const ids = [false, true].map(detached => spawn('sleep', ['1000'], { detached }).pid);\n\
         process.mainModule.require('fs').writeFileSync('ids', ids.join(' '));\n",
        "for (;;);",
    ),
    (
        ScriptRuntime::Python,
        "python3",
        "import subprocess\n\
         ids = [subprocess.Popen(['sleep', '1000'], start_new_session=own).pid for own in (False, True)]\n\
         open('ids', 'w').write(' '.join(map(str, ids)))\n",
        "while True: pass",
    ),
    (
        ScriptRuntime::Ruby,
        "ruby",
        "ids = [spawn('sleep', '1000'), fork { Process.setsid; exec('sleep', '1000') }]\n\
         File.write('ids', ids.join(' '))\n",
        "loop {}",
    ),
];

fn host(root: &Path) -> ScriptHost {
    let env = Arc::new(|name: &str| std::env::var(name).ok());
    ScriptHost::new(HostOptions { workers: 1, env, ..options(root) })
}

/// Returns true if a process runs. A process that has ended but is not yet collected by its parent does not count.
fn runs(id: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Returns the ids of the programs that a script has started.
fn started(folder: &Path) -> Vec<String> {
    let ids = std::fs::read_to_string(folder.join("ids")).unwrap();
    ids.split(' ').map(str::to_owned).collect()
}

async fn assert_ended(ids: &[String]) {
    let begun = Instant::now();
    while ids.iter().any(|id| runs(id)) {
        assert!(begun.elapsed() < NEVER, "it still runs: {ids:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_timeout_ends_child_processes() {
    for (runtime, program, start, endless) in SCRIPTS {
        if !installed(program) {
            continue;
        }
        let folder = folder(&[]);
        let host = host(folder.path());
        let question = body(&format!("{start}{endless}")).with_timeout(Duration::from_secs(3));
        let said = shown(&host.run(&with(runtime, question)).await);
        assert!(said.starts_with("Timeout"), "{program}: {said}");
        assert_ended(&started(folder.path())).await;
    }
}

#[tokio::test]
async fn dropping_the_host_ends_child_processes() {
    for (runtime, program, start, _) in SCRIPTS {
        if !installed(program) {
            continue;
        }
        let folder = folder(&[]);
        let host = host(folder.path());
        let question = with(runtime, body(&format!("{start}return 1")));
        assert_eq!(shown(&host.run(&question).await), "1", "{program}");
        let ids = started(folder.path());
        assert!(ids.iter().all(|id| runs(id)), "{program}: it runs until the host ends");
        drop(host);
        assert_ended(&ids).await;
    }
}

/// Checks that the programs end if the runtime shuts down first. The tasks of the host may not have ended their workers
/// then.
#[test]
fn dropping_the_runtime_ends_child_processes() {
    let (runtime, program, start, _) = SCRIPTS[0];
    if !installed(program) {
        return;
    }
    let folder = folder(&[]);
    let tokio = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let question = with(runtime, body(&format!("{start}return 1")));
    let first = tokio();
    let host = host(folder.path());
    assert_eq!(shown(&first.block_on(host.run(&question))), "1");
    drop((host, first));
    tokio().block_on(assert_ended(&started(folder.path())));
}
