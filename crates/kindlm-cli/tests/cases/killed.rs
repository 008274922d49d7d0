//! Runs that are killed at random moments and resumed.
//!
//! No stored result is lost, and no request with a stored result is sent again.
#![cfg(unix)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::journaled::{Counting, REPORTS, assert_same, ended, journaled, kindlm, reports};

const CASES: usize = 500;
const KILLS: u32 = 200;

/// A pseudo-random number generator (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[derive(Default, Debug)]
struct Counts {
    kills: u32,
    before_a_journal: u32,
    before_a_request: u32,
    runs: u32,
    requests: u32,
    repeated_requests: u32,
}

/// Runs a process, and kills it at a random moment if `kill` is set.
///
/// Returns true if the process was killed before its end.
fn work(folder: &Path, counting: &Counting, key: &str, kill: Option<&mut Random>) -> bool {
    let resume = if journaled(folder).is_some() { &["--resume"][..] } else { &[] };
    let args = [&["test", "-q"], resume, &REPORTS[..]].concat();
    let mut child = kindlm(folder, key, &args).spawn().unwrap();
    if let Some(random) = kill {
        // Kill the process either during start-up or after a number of requests, and after a random pause.
        let requests = if random.below(5) == 0 { 0 } else { 1 + random.below(45) };
        let pause = if requests == 0 { random.below(150_000) } else { random.below(6_000) };
        while counting.count_by(key) < usize::try_from(requests).unwrap()
            && child.try_wait().unwrap().is_none()
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(pause));
        child.kill().unwrap();
    }
    let (code, stderr) = ended(child.wait_with_output().unwrap());
    assert!(matches!(code, None | Some(1)), "{code:?} {stderr}");
    code.is_none()
}

/// Runs one suite in a series of processes, each of which resumes the run. Counts the results in `counts`.
///
/// Kills each process at a random moment, until a process ends first, or until `KILLS` processes were killed in all
/// runs. Panics if a stored result is lost or requested again.
fn run(counting: &Counting, random: &mut Random, expected: &[String; 2], counts: &mut Counts) {
    counts.runs += 1;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    counting.suite(folder, CASES);
    // The cases that were stored after each process.
    let mut kept: Vec<BTreeSet<u32>> = vec![BTreeSet::new()];
    let key = |process: usize| format!("key-{}-{process}", counts.runs);
    loop {
        let key = key(kept.len());
        let kill = (counts.kills < KILLS).then_some(&mut *random);
        let killed = work(folder, counting, &key, kill);
        let now = journaled(folder);
        if killed {
            counts.kills += 1;
            counts.before_a_journal += u32::from(now.is_none());
            counts.before_a_request += u32::from(counting.by(&key).is_empty());
        }
        let (now, before) = (now.unwrap_or_default(), kept.last().unwrap());
        assert!(now.is_superset(before), "lost: {:?}", before.difference(&now));
        kept.push(now);
        if !killed {
            break;
        }
    }
    assert_eq!(kept.last().unwrap().len(), CASES);
    let (mut asked, mut in_flight) = (BTreeMap::new(), BTreeMap::new());
    for (process, pair) in (1..).zip(kept.windows(2)) {
        for (case, times) in counting.by(&key(process)) {
            assert_eq!(times, 1, "process {process} asked for {case}");
            assert!(!pair[0].contains(&case), "{case} was kept, and process {process} asked again");
            *asked.entry(case).or_insert(0) += 1;
            *in_flight.entry(case).or_insert(0) += u32::from(!pair[1].contains(&case));
        }
    }
    for (case, times) in asked {
        assert_eq!(times, 1 + in_flight[&case], "{case}");
        counts.requests += times;
        counts.repeated_requests += times - 1;
    }
    assert_same(&reports(folder), expected);
}

#[test]
fn a_killed_run_loses_nothing_and_pays_once() {
    let seed = std::env::var("KINDLM_TEST_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(42);
    println!("seed {seed}");
    let mut random = Random(seed);
    let counting = Counting::start(Duration::from_millis(4));
    let undisturbed = tempfile::tempdir().unwrap();
    counting.suite(undisturbed.path(), CASES);
    assert!(!work(undisturbed.path(), &counting, "whole", None));
    let expected = reports(undisturbed.path());
    let mut counts = Counts::default();
    while counts.kills < KILLS {
        run(&counting, &mut random, &expected, &mut counts);
    }
    println!("{counts:?}");
    assert!(counts.runs > 1 && counts.before_a_request > 0, "{counts:?}");
}

#[test]
fn programs_do_not_outlive_a_run_that_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // KindLM registers a program with the guard, which ends the program if KindLM is killed, and only then reads its
    // stderr. The output of this line exceeds the size of a pipe, so the program is registered when the line ends.
    let guarded = "head -c 1000000 /dev/zero >&2";
    // A process that has left its process group is found on Linux only.
    let leaves = cfg!(target_os = "linux") && kindlm_testing::installed("setsid");
    let daemon = "setsid sh -c 'echo $$ >> begun; exec sleep 3308' &";
    let model = format!("{}echo $$ >> begun; exec sleep 3307", if leaves { daemon } else { "" });
    // Child processes end with the program, even if they ignore the signal to terminate.
    let programs = [
        (
            "agent.sh",
            "sleep 3304 & echo $! >> begun; echo $$ >> begun; trap '' TERM; sleep 3305; sleep 3306",
        ),
        ("model.sh", &model),
        ("done.sh", "echo done"),
    ];
    for (name, text) in programs {
        fs::write(folder.join(name), format!("{guarded}\n{text}")).unwrap();
    }
    let suite = "kindlm: 1\nproject: p\nsuite: { name: s }\nproviders: { command: { command: sh model.sh } }\n\
        models: [{ id: m, provider: command, model: m }]\nagents: { a: { command: sh agent.sh } }\nprompts: { p: { user: hi } }\n\
        tests:\n  - { name: done, command: sh done.sh, expect: {} }\n  - { name: command, command: sh agent.sh, expect: {} }\n  \
        - { name: agent, agent: a, prompt: p, expect: {} }\n  - { name: model, prompt: p, models: [m], expect: {} }\n";
    fs::write(folder.join("kindlm.yaml"), suite).unwrap();
    let mut child = kindlm(folder, "", &["test"]).spawn().unwrap();
    let begun = loop {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before the programs had begun");
        let begun = fs::read_to_string(folder.join("begun")).unwrap_or_default();
        if begun.ends_with('\n') && begun.lines().count() == 5 + usize::from(leaves) {
            break begun;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    child.kill().unwrap();
    child.wait().unwrap();
    let lives = |pid: &&str| {
        let output = Command::new("kill").args(["-0", pid]).stderr(Stdio::null()).status();
        output.unwrap().success()
    };
    for _ in 0..1000 {
        if !begun.lines().any(|it| lives(&it)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let left: Vec<&str> = begun.lines().filter(lives).collect();
    panic!("{left:?} outlived the run");
}
