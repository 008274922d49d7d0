//! Tests of scoring in fresh copies, with agents that try to cheat.

use kindlm_testing::installed;
use kindlm_types::workspace::{
    FileChange, Gather, HiddenFiles, Isolation, TestFormat, TestStatus, TestsRan, WorkspaceSpec,
};

use crate::support::{Suite, command, spec};

/// Returns a suite whose setup creates a test runner in the ignored folder `deps`.
///
/// The hidden test expects that the agent's program prints `2`.
fn suite() -> Suite {
    Suite::new(&[
        ("repo/program.sh", "echo 1\n"),
        ("repo/settings", "strict\n"),
        ("repo/lib/a", "a\n"),
        (
            "hidden/EVAL.sh",
            "code=0; if [ \"$(sh program.sh)\" = 2 ]; then echo 'ok 1 - two'; else code=1; echo 'not ok 1 - two'; fi; echo 1..1; exit $code\n",
        ),
    ])
}

fn scored() -> WorkspaceSpec {
    WorkspaceSpec {
        setup: Some("mkdir -p deps; printf 'exec sh \"$1\"\\n' > deps/run".to_owned()),
        hidden: vec![HiddenFiles { from: "hidden".to_owned(), to: String::new() }],
        ignore: vec!["deps/**".to_owned()],
        ..spec()
    }
}

fn tests(protect: &[&str]) -> Gather {
    Gather::Tests {
        run: "sh deps/run EVAL.sh".to_owned(),
        format: TestFormat::Tap,
        report: None,
        timeout: None,
        protect: protect.iter().map(|&it| it.to_owned()).collect(),
    }
}

/// Returns the status of the only test.
///
/// With a problem, or without exactly one test, returns the problem and the tests.
fn verdict(ran: &TestsRan) -> String {
    match (&ran.problem, &ran.tests[..]) {
        (None, [test]) => match test.status {
            TestStatus::Passed => "passed".to_owned(),
            TestStatus::Failed => "failed".to_owned(),
            TestStatus::Skipped => "skipped".to_owned(),
        },
        (problem, tests) => format!("{problem:?} {tests:?}"),
    }
}

const GOOD: &str = "echo 'echo 2' > program.sh";
const FORGED: &str = "printf 'echo ok 1 - two; echo 1..1\\n' >";

#[test]
fn only_changes_of_visible_paths_are_scored() {
    let suite = suite();
    for (agent, expected) in [
        ("true".to_owned(), "failed"),
        (GOOD.to_owned(), "passed"),
        // The runner in the ignored folder always comes from the starting state, regardless of the agent's changes.
        (format!("{FORGED} deps/run"), "failed"),
        (format!("rm -rf deps; mkdir evil; {FORGED} evil/run; ln -s evil deps"), "failed"),
        (format!("{GOOD}; rm -rf deps"), "passed"),
        (format!("{GOOD}; rm -rf deps; echo x > deps"), "passed"),
        // The hidden files replace everything at their paths.
        (format!("{FORGED} EVAL.sh"), "failed"),
        (format!("{FORGED} other; ln -s other EVAL.sh"), "failed"),
        ("mkdir EVAL.sh; ln -s / __kindlm__".to_owned(), "failed"),
        // The tested code replaces the hidden test while it runs.
        ("printf 'echo 2; echo : > EVAL.sh\\n' > program.sh".to_owned(), "was changed while"),
    ] {
        let workspace = suite.agent(&scored(), &agent, &[tests(&[])]).unwrap();
        let verdict = verdict(&workspace.tests[0]);
        let is_expected =
            verdict == expected || (expected.contains(' ') && verdict.contains(expected));
        assert!(is_expected, "{agent}: {verdict}");
        assert_eq!(suite.left(), 0);
    }
}

#[test]
fn a_fresh_copy_has_every_change_of_the_agent() {
    let suite = suite();
    let agent = "set -e; rm lib/a; rmdir lib; echo file > lib; mkdir -p new/deep; echo x > new/deep/x; ln -s ../program.sh new/link
        rm settings; mkdir settings; echo in > settings/in; chmod +x program.sh; mkfifo pipe; mkdir empty";
    let shown = command(
        "cat lib new/deep/x settings/in; readlink new/link; test -x program.sh; test ! -e pipe; ls -A | tr '\\n' ' '",
    );
    let workspace = suite.agent(&scored(), agent, &[shown, command("cat deps/run")]).unwrap();
    let [ran, deps] = &workspace.commands[..] else { panic!("{:?}", workspace.commands) };
    assert_eq!(
        ran.stdout,
        "file\nx\nin\n../program.sh\nEVAL.sh __kindlm__ __niceeval__ deps lib new program.sh settings",
        "{ran:?}"
    );
    assert_eq!(deps.stdout, "exec sh \"$1\"");
    // The changes contain only the agent's work, not the files that were added to the copy.
    let marked: Vec<String> = workspace.changes.iter().map(FileChange::marked).collect();
    assert_eq!(
        marked.join(" "),
        "+lib -lib/a +new/deep/x +new/link +pipe program.sh -settings +settings/in"
    );
}

#[test]
fn protected_files_are_those_of_the_start() {
    let suite = suite();
    let cat = |path: &str| command(&format!("cat {path} 2>&1; ls -A {path}"));
    for (agent, protect, path, expected) in [
        ("echo loose > settings", "settings", "settings", "strict\nsettings"),
        ("rm settings", "settings", "settings", "strict\nsettings"),
        (
            "rm settings; mkdir settings; echo x > settings/x",
            "settings",
            "settings",
            "strict\nsettings",
        ),
        ("echo b > lib/a; echo c > lib/c", "lib/**", "lib/*", "a\nlib/a"),
        ("rm -r lib; echo x > lib", "lib/**", "lib/*", "a\nlib/a"),
        ("rm -r lib; ln -s / lib", "lib/**", "lib/*", "a\nlib/a"),
    ] {
        let workspace = suite.agent(&scored(), agent, &[cat(path), tests(&[protect])]).unwrap();
        assert_eq!(workspace.commands[0].stdout, expected, "{agent}");
        assert_ne!(workspace.changes, [], "{agent}");
    }
}

/// A command runs the agent's code, which could replace the runner of later tests.
#[test]
fn commands_share_a_copy_and_tests_have_their_own() {
    let suite = suite();
    let build = command("sh program.sh");
    let wanted = [build, command("cat made"), tests(&[]), tests(&["settings"])];
    let agent = format!("cat > program.sh <<'E'\necho here > made; {FORGED} deps/run\nE");
    let workspace = suite.agent(&scored(), &agent, &wanted).unwrap();
    assert_eq!(workspace.commands[1].stdout, "here");
    assert_eq!(verdict(&workspace.tests[0]), "failed");
    assert_eq!(workspace.tests.len(), 2);
}

/// A process of the agent cannot find the folder in which the tests run.
///
/// The daemon has cleared its environment and left its process group.
#[cfg(target_os = "linux")]
#[test]
fn a_daemon_of_the_agent_does_not_reach_the_tests() {
    if !installed("setsid") {
        return;
    }
    let suite = suite();
    // The daemon runs until the test creates a stop file.
    let outside = suite.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let at = outside.display();
    let daemon = format!(
        "for i in $(seq 600); do [ -e {at}/stop ] && exit; {FORGED} EVAL.sh; echo x > {at}/ran; sleep 0.02; done"
    );
    suite.write("daemon.sh", &daemon);
    let agent = format!(
        "env -i \"$(command -v setsid)\" sh \"$KINDLM_SUITE/daemon.sh\" >/dev/null 2>&1 &
        for i in $(seq 600); do [ -e {at}/ran ] && exit 0; sleep 0.02; done; exit 1"
    );
    let workspace = suite.agent(&scored(), &agent, &[tests(&[])]);
    std::fs::write(outside.join("stop"), "").unwrap();
    assert_eq!(verdict(&workspace.unwrap().tests[0]), "failed");
}

#[test]
fn tests_find_the_commits_of_the_agent_not_its_hooks() {
    if !installed("git") {
        return;
    }
    let suite = suite();
    let git = "git init -q . && git add -A && git -c user.name=a -c user.email=a@example.org commit -qm first";
    let ran =
        std::process::Command::new("sh").args(["-c", git]).current_dir(suite.path("")).status();
    assert!(ran.unwrap().success());
    let spec = WorkspaceSpec { isolation: Isolation::Worktree, ..scored() };
    let hook = suite.folder.path().join("ran");
    let at = hook.display();
    let agent = format!(
        "set -e; echo 'echo 2' > program.sh; git checkout -q -b mine
        git -c user.name=b -c user.email=b@example.org commit -qam second; echo staged > new; git add new
        git config alias.x '!touch {at}'; git config core.fsmonitor 'touch {at}'; rm -rf ../.git/hooks; mkdir ../.git/hooks
        printf '#!/bin/sh\\ntouch {at}\\n' > ../.git/hooks/post-index-change; chmod +x ../.git/hooks/post-index-change; rm -f {at}"
    );
    let asked = command(
        "git log --format=%s; git branch --show-current; git status --short; git x 2>&1 | head -1",
    );
    let workspace = suite.agent(&spec, &agent, &[asked, tests(&[])]).unwrap();
    let stdout = &workspace.commands[0].stdout;
    assert!(stdout.starts_with("second\nfirst\nmine\nA  new\n"), "{stdout}");
    assert!(stdout.contains("'x' is not a git command"), "{stdout}");
    assert!(!hook.exists());
    assert_eq!(verdict(&workspace.tests[0]), "passed");
    // If the agent removed its repository, the copy has no repository.
    let gone = "rm -rf ../.git";
    let workspace = suite.agent(&spec, gone, &[command("git log")]).unwrap();
    assert_ne!(workspace.commands[0].exit_code, Some(0));
}
