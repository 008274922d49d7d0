//! Tests of malicious or faulty scripts. Each script is stopped with a reason, and does not affect later calls.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use kindlm_script::{HostOptions, ScriptHost};
use kindlm_types::script::ScriptQuestion;

use crate::support::{body, folder, options, shown};

/// The behaviour of a script, its code, and the beginning of its result.
pub(crate) const HOSTILE: &[(&str, &str, &str)] = &[
    ("infinite loop", "while (true) {}", "Timeout: it ran longer than 0.4 s and was stopped"),
    (
        "loop that catches everything",
        "while (true) { try { while (true) {} } catch {} finally {} }",
        "Timeout: ",
    ),
    ("catastrophic regular expression", "return /^(a+)+$/.test('a'.repeat(40) + 'b')", "Timeout: "),
    ("microtask loop", "await (async () => { while (true) await null })()", "Timeout: "),
    ("timer loop", "await new Promise(() => setInterval(() => {}, 1))", "Timeout: "),
    (
        "generator without end",
        "return (function* () { while (1) yield 1 })().toArray()",
        "Timeout: ",
    ),
    ("getter that loops, in the result", "return { get x() { while (1); } }", "Timeout: "),
    ("error whose message loops", "throw { get message() { while (1); } }", "Timeout: "),
    (
        "search deaf to interrupts",
        "return 'a'.repeat(2.5e7).includes('a'.repeat(1e7) + 'b')",
        "Timeout: ",
    ),
    (
        "join of 4 billion holes",
        "return Array.prototype.join.call({ length: 4294967295 }, '')",
        "Timeout: ",
    ),
    (
        "copyWithin of 2^53 holes",
        "return Array.prototype.copyWithin.call({ length: 2 ** 53 - 1 }, 0, 1)",
        "Timeout: ",
    ),
    (
        "String.raw of 2^53 parts",
        "return String.raw({ raw: { length: 2 ** 53 - 1 } })",
        "Timeout: ",
    ),
    ("timer in a hundred years", "await new Promise(r => setTimeout(r, 3e12))", "Timeout: "),
    (
        "memory bomb",
        "const a = []; for (;;) a.push(new Array(1e5).fill('x'))",
        "Memory: it used more than 128 MiB of memory",
    ),
    ("string bomb", "const all = []; for (;;) all.push('x'.repeat(1e6) + all.length)", "Memory: "),
    (
        "typed array of 4 GiB",
        "return new Uint8Array(2 ** 32).length",
        "threw invalid array buffer length",
    ),
    (
        "deep recursion",
        "return (function f() { return 1 + f() })()",
        "Memory: it recursed too deeply: its stack is limited to 1024 KiB",
    ),
    ("deeply nested JSON", "return JSON.parse('['.repeat(1e6))", "Memory: "),
    (
        "deeply nested result",
        "let o = {}; for (let i = 0; i < 1e5; i++) o = { o }; return o",
        "Memory: ",
    ),
    ("deeply nested code", "return eval('('.repeat(1e6))", "Memory: "),
    (
        "regular expression with 100000 groups",
        "return new RegExp('(?:'.repeat(1e5) + ')'.repeat(1e5))",
        "threw ",
    ),
    (
        "huge result",
        "return 'x'.repeat(2e7)",
        "Memory: its result is 19 MiB of JSON; at most 16 MiB are taken",
    ),
    (
        "huge console output",
        "for (let i = 0; i < 1e5; i++) console.log('x'.repeat(1000)); return 1",
        "1",
    ),
    (
        "promise that is never resolved",
        "await new Promise(() => {})",
        "NeverResolved: its promise was never resolved",
    ),
    ("process.exit", "process.exit(0)", "Exited: it called `process.exit(0)`"),
    ("process.exit, caught", "for (;;) try { process.exit(0) } catch {}", "Exited: "),
    ("process.abort", "process.abort()", "Exited: "),
    (
        "process.kill",
        "process.kill(process.ppid, 9)",
        "threw a script in the sandbox cannot end other processes",
    ),
    (
        "reading /etc/passwd",
        "return process.mainModule.require('fs').readFileSync('/etc/passwd', 'utf8')",
        "threw reading '/etc/passwd' is not permitted: a script sees no files unless `scripts.read` names their folder",
    ),
    (
        "importing /etc/passwd",
        "return import('/etc/passwd')",
        "Load: '/etc/passwd' lies outside the folder of the suite",
    ),
    (
        "climbing out of the folder",
        "return process.mainModule.require('./../../../../../../etc/hosts')",
        "Load: './../../../../../../etc/hosts' lies outside the folder of the suite",
    ),
    (
        "writing a file",
        "process.mainModule.require('fs').writeFileSync('x', 'y')",
        "threw fs.writeFile: a script in the sandbox cannot write files",
    ),
    (
        "starting a process",
        "return process.mainModule.require('child_process')",
        "Load: Cannot find module 'child_process'",
    ),
    (
        "fetch without permission",
        "return fetch('http://169.254.169.254/latest/meta-data')",
        "threw fetch of 169.254.169.254 is not permitted: a script has no network unless `scripts.net` names its hosts",
    ),
    ("reading the environment", "return Object.keys(process.env)", "[]"),
    (
        "changed prototypes",
        "Object.prototype.then = function () {}; Array.prototype.push = null; return 1",
        "1",
    ),
    (
        "Function constructor",
        "return new Function('return typeof process.binding + typeof require')()",
        r#""functionundefined""#,
    ),
    (
        "waiting on shared memory",
        "return Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
        "threw cannot block in this thread",
    ),
];

pub(crate) fn hostile(code: &str) -> ScriptQuestion {
    body(code).with_timeout(Duration::from_millis(400))
}

/// A measurement of the memory of the workers that this thread has started. Other tests in this process have their own
/// workers. On systems other than Linux the result is 0.
struct Memory {
    stop: mpsc::Sender<()>,
    watcher: std::thread::JoinHandle<u64>,
}

impl Memory {
    fn watch() -> Self {
        let (stop, stopped) = mpsc::channel();
        // The link contains `PID/task/TID` of the reading thread, so it must be read in this thread and not in the
        // watcher.
        let thread = std::fs::read_link("/proc/thread-self").unwrap_or_default();
        let children = std::path::Path::new("/proc").join(thread).join("children");
        let watcher = std::thread::spawn(move || {
            let mut most = 0;
            while stopped.recv_timeout(Duration::from_millis(3))
                == Err(mpsc::RecvTimeoutError::Timeout)
            {
                most = most.max(resident(&children));
            }
            most.max(resident(&children))
        });
        Self { stop, watcher }
    }

    /// Returns the peak memory of a worker, in MiB.
    fn most(self) -> u64 {
        drop(self.stop);
        self.watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn resident(children: &std::path::Path) -> u64 {
    let mut most = 0;
    for child in std::fs::read_to_string(children).unwrap_or_default().split_whitespace() {
        let status = std::fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
        let kib = line.and_then(|it| it.trim().split(' ').next()?.parse::<u64>().ok());
        most = most.max(kib.unwrap_or(0) >> 10);
    }
    most
}

#[tokio::test]
async fn hostile_scripts_are_stopped_and_the_pool_survives() {
    let folder = folder(&[]);
    let host = ScriptHost::new(HostOptions { workers: 2, ..options(folder.path()) });
    let mut wrong = Vec::new();
    for (what, code, expected) in HOSTILE {
        // Only endless scripts get a short timeout, so that a slow machine does not change the other results.
        let question = if expected.starts_with("Timeout") { hostile(code) } else { body(code) };
        let begun = Instant::now();
        let memory = Memory::watch();
        let shown = shown(&host.run(&question).await);
        let most = memory.most();
        println!(
            "| {what} | {:.0} ms | {most} MiB | {} |",
            begun.elapsed().as_secs_f64() * 1e3,
            shown.chars().take(100).collect::<String>()
        );
        // The limit covers the engine's limit, its snapshot, messages to the host, and the program.
        assert!(most <= 400, "{what}: a worker took {most} MiB");
        if !shown.starts_with(expected) {
            wrong.push(format!("{what}: {}", shown.chars().take(200).collect::<String>()));
        }
        let after = body("return [output, {}.then === undefined]").with_timeout(None);
        assert_eq!(
            self::shown(&host.run(&after).await),
            r#"["hello world",true]"#,
            "after: {what}"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Checks that the table in the documentation lists these scripts and results.
#[test]
fn the_page_is_true() {
    let page = include_str!("../../../../docs/scripts.md");
    for (what, _, expected) in HOSTILE {
        let row = page.lines().find(|line| line.starts_with(&format!("| {what} |")));
        let row = row.unwrap_or_else(|| panic!("docs/scripts.md: add a row for `{what}`"));
        assert!(
            row.contains(&format!("| {expected}")),
            "docs/scripts.md: {row}\nshould say: {expected}"
        );
    }
}

fn shown_all(
    results: &[Result<kindlm_types::script::ScriptAnswer, kindlm_types::script::ScriptError>],
) -> Vec<String> {
    results.iter().map(shown).collect()
}

/// Checks that a new worker serves the calls that waited for a killed worker.
#[tokio::test]
async fn a_killed_worker_takes_no_other_call_with_it() {
    let folder = folder(&[]);
    let host = ScriptHost::new(HostOptions { workers: 1, ..options(folder.path()) });
    let deaf = hostile("return String.raw({ raw: { length: 2 ** 53 - 1 } })");
    let mut questions: Vec<ScriptQuestion> =
        (0..20).map(|number| body(&format!("return {number}"))).collect();
    questions.insert(3, deaf.clone());
    questions.insert(9, deaf);
    let results =
        futures_util::future::join_all(questions.iter().map(|question| host.run(question))).await;
    let shown = shown_all(&results);
    let late: Vec<usize> =
        (0..shown.len()).filter(|at| shown[*at].starts_with("Timeout")).collect();
    assert_eq!(late, [3, 9]);
    let numbers: Vec<String> = shown.into_iter().filter(|it| !it.starts_with("Timeout")).collect();
    assert_eq!(numbers, (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
}

/// Checks that a cancelled call does not block the next call.
#[tokio::test]
async fn a_call_that_is_given_up_does_not_block_the_next() {
    let folder = folder(&[]);
    let host = ScriptHost::new(HostOptions { workers: 1, ..options(folder.path()) });
    let question = hostile("while (true) {}");
    let given_up = tokio::time::timeout(Duration::from_millis(50), host.run(&question)).await;
    assert!(given_up.is_err());
    assert_eq!(shown(&host.run(&body("return 1")).await), "1");
}
