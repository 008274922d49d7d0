//! Tests of copied workspaces: their content, their evidence and their removal.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use kindlm_types::workspace::{
    ChangeKind, Gather, HiddenFiles, RecordedFile, TestFormat, TestStatus, Workspace, WorkspaceSpec,
};
use kindlm_workspace::Folders;

use crate::support::{Suite, command, spec};

/// Returns one line per change: kind, path and details.
fn shown(workspace: &Workspace) -> String {
    let line = |it: &kindlm_types::workspace::FileChange| {
        let mut more = String::new();
        for (word, is_so) in [
            (" binary", it.binary),
            (" cut", it.cut),
            (" text", it.text.is_some()),
            (" patch", it.patch.is_some()),
        ] {
            if is_so {
                more.push_str(word);
            }
        }
        if let Some(link) = &it.link {
            write!(more, " -> {link}").unwrap();
        }
        if let Some(executable) = it.executable {
            write!(more, " executable: {executable}").unwrap();
        }
        format!("{} {}{more}\n", it.change.as_str(), it.path)
    };
    workspace.changes.iter().map(line).collect()
}

#[test]
fn a_check_with_its_own_limit_names_it() {
    let mut suite = Suite::new(&[]);
    suite.shell.too_slow = Some("npm test");
    for (timeout, raise) in [
        (Some(Duration::from_millis(50)), "the `timeoutMs` of the check"),
        (None, "`defaults.timeoutMs` or `--timeout`"),
    ] {
        let wanted = [Gather::Command { run: "npm test".to_owned(), timeout }];
        let workspace = suite.agent(&spec(), "true", &wanted).unwrap();
        let problem = workspace.commands[0].problem.as_deref().unwrap();
        assert_eq!(problem, format!("the command did not end in time: raise {raise}"));
    }
}

#[test]
fn changes_of_an_agent_are_recorded_and_nothing_else() {
    let suite = Suite::new(&[
        ("repo/src/a.txt", "one\ntwo\nthree\n"),
        ("repo/src/same.txt", "same\n"),
        ("repo/old.txt", "old\n"),
        ("repo/run.sh", "#!/bin/sh\n"),
        ("repo/data.bin", "\0\0"),
        ("repo/was.bin", "\0\0"),
        ("repo/.git/HEAD", "ref: refs/heads/main\n"),
        ("repo/.kindlm/last-run", "x"),
        ("repo/EVAL.txt", "hidden"),
    ]);
    let spec = WorkspaceSpec {
        setup: Some("echo made > made-by-setup.txt; test ! -e .git; test ! -e .kindlm".to_owned()),
        hidden: vec![HiddenFiles { from: "repo/EVAL.txt".to_owned(), to: "EVAL.txt".to_owned() }],
        ignore: vec!["node_modules/**".to_owned()],
        ..spec()
    };
    let agent = "set -e; test ! -e EVAL.txt; test -f made-by-setup.txt
        printf 'one\\n2\\nthree\\n' > src/a.txt; printf 'same\\n' > src/same.txt; rm old.txt; chmod +x run.sh
        printf 'a\\000c' > data.bin; mkdir -p new/deep node_modules/x .git; echo new > new/deep/b.txt
        echo x > node_modules/x/y; echo x > .git/z; ln -s ../src new/link; touch empty; echo text > was.bin";
    let workspace = suite.agent(&spec, agent, &[]).unwrap();
    assert_eq!(
        shown(&workspace),
        "changed data.bin binary\nadded empty text\nadded new/deep/b.txt text\nadded new/link -> ../src\n\
         deleted old.txt patch\nchanged run.sh text executable: true\nchanged src/a.txt text patch\n\
         changed was.bin binary text\n"
    );
    assert_eq!(
        workspace.change("src/a.txt").unwrap().patch.as_deref(),
        Some("--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n")
    );
    let gone = workspace.change("old.txt").unwrap();
    let patch = "--- a/old.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n";
    assert_eq!((gone.change, gone.patch.as_deref()), (ChangeKind::Deleted, Some(patch)));
    // The suite is unchanged, and no temporary file is left.
    assert_eq!(fs::read_to_string(suite.path("repo/src/a.txt")).unwrap(), "one\ntwo\nthree\n");
    assert!(!suite.path("repo/made-by-setup.txt").exists());
    assert_eq!((workspace.kept, suite.left()), (None, 0));
}

#[test]
fn hidden_files_appear_after_the_agent_has_finished() {
    let suite = Suite::new(&[
        ("repo/a.txt", "a\n"),
        ("hidden/check.sh", "cat __niceeval__/results.json | head -2; cat tests/deep/x; exit 3\n"),
        ("hidden/tests/deep/x", "from the suite"),
        ("one.txt", "one"),
    ]);
    let spec = WorkspaceSpec {
        hidden: vec![
            HiddenFiles { from: "hidden".to_owned(), to: String::new() },
            HiddenFiles { from: "one.txt".to_owned(), to: "two/two.txt".to_owned() },
        ],
        ..spec()
    };
    let outside = suite.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    // The agent tries to block the hidden files, and to redirect the tests to another folder.
    let agent = format!(
        "ls; ln -s {} tests; mkdir check.sh; echo mine > two; ln -s /etc __kindlm__",
        outside.display()
    );
    let wanted = [
        Gather::File { path: "a.txt".to_owned() },
        Gather::File { path: "no.txt".to_owned() },
        Gather::File { path: "__kindlm__/hostname".to_owned() },
        command("sh check.sh"),
        command("cat two/two.txt; echo more > a.txt"),
        Gather::Tests {
            run: "printf '1..1\\nok 1 - fine\\n'".to_owned(),
            format: TestFormat::Tap,
            report: None,
            timeout: None,
            protect: Vec::new(),
        },
        Gather::Tests {
            run: "true".to_owned(),
            format: TestFormat::Junit,
            report: Some("planted.xml".to_owned()),
            timeout: Some(Duration::from_secs(20)),
            protect: Vec::new(),
        },
    ];
    let agent =
        format!("{agent}; echo '<testsuite><testcase name=\"a\"/></testsuite>' > planted.xml");
    let workspace = suite.agent(&spec, &agent, &wanted).unwrap();
    let seen = |path: &str, text: Option<&str>| RecordedFile {
        path: path.to_owned(),
        text: text.map(str::to_owned),
        problem: None,
    };
    assert_eq!(workspace.files[..2], [seen("a.txt", Some("a\n")), seen("no.txt", None)]);
    let problem = workspace.files[2].problem.as_deref().unwrap();
    assert!(problem.contains("led outside"), "{problem}");
    let [check, two] = &workspace.commands[..] else { panic!("{:?}", workspace.commands) };
    assert_eq!(
        (check.exit_code, check.stdout.as_str()),
        (Some(3), "{\n  \"o11y\": {\nfrom the suite")
    );
    assert_eq!((two.exit_code, two.stdout.as_str()), (Some(0), "one"));
    let [tap, junit] = &workspace.tests[..] else { panic!("{:?}", workspace.tests) };
    assert_eq!(tap.tests.iter().map(|it| it.status).collect::<Vec<_>>(), [TestStatus::Passed]);
    assert_eq!(tap.problem, None);
    assert_eq!(junit.tests, []);
    assert!(junit.problem.as_deref().unwrap().contains("did not write `planted.xml`"));
    // A result belongs to a check only if all parameters of the check are equal.
    assert_eq!(wanted.iter().map(|it| tap.answers(it)).filter(|it| *it).count(), 1);
    assert!(tap.answers(&wanted[5]) && junit.answers(&wanted[6]) && check.answers(&wanted[3]));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    // Changes by commands, and hidden files, are not changes of the agent.
    assert_eq!(workspace.change("a.txt"), None);
    assert_eq!(workspace.change("one.txt"), None);
}

#[test]
fn limits_are_kept() {
    let suite = Suite::new(&[("repo/a.txt", "a\n")]);
    for (limited, agent, why) in [
        (
            WorkspaceSpec { max_files: 3, ..spec() },
            "touch b c d",
            "the agent's result has more than the 3 files",
        ),
        (
            WorkspaceSpec { max_bytes: 100, ..spec() },
            "head -c 200 /dev/zero > big",
            "the agent's result has more than the 100 bytes",
        ),
        (
            WorkspaceSpec { max_bytes: 1, ..spec() },
            "true",
            "the folder `repo` has more than the 1 bytes",
        ),
        (
            WorkspaceSpec { max_files: 3, setup: Some("touch b c d".to_owned()), ..spec() },
            "rm *",
            "the start of the workspace has more than the 3 files",
        ),
        (
            WorkspaceSpec { setup: Some("no-such-program-here".to_owned()), ..spec() },
            "true",
            "`workspace.setup` failed: the command was not found (exit code 127): ",
        ),
        (
            WorkspaceSpec { setup: Some("echo why >&2; exit 7".to_owned()), ..spec() },
            "true",
            "`workspace.setup` ended with exit code 7: why",
        ),
        (
            WorkspaceSpec { from: "..".to_owned(), ..spec() },
            "true",
            "outside the folder of the config",
        ),
        (WorkspaceSpec { from: "no".to_owned(), ..spec() }, "true", "`workspace.from` is `no`"),
    ] {
        let words = suite.agent(&limited, agent, &[]).unwrap_err().to_string();
        assert!(words.contains(why), "{words}");
        assert_eq!(suite.left(), 0);
    }
    let little = WorkspaceSpec { max_diff_bytes: 10, ..spec() };
    let agent = "head -c 20 /dev/zero > b; echo 12345678901 > c; echo 1 > d; echo 2 > e; printf 'a\\nb\\n' > a.txt";
    let workspace = suite.agent(&little, agent, &[]).unwrap();
    assert_eq!(
        shown(&workspace),
        "changed a.txt cut\nadded b binary\nadded c cut\nadded d text\nadded e text\n"
    );
    // For the limit, deleted files come last, independent of their names.
    suite.write("repo/0.txt", "12345678\n");
    let folders = Folders::new(suite.options.clone());
    let little = WorkspaceSpec { max_diff_bytes: 12, ..spec() };
    let workspace =
        suite.agent_in(&folders, &little, "rm 0.txt; echo 123456789 > z.txt", &[]).unwrap();
    assert_eq!(shown(&workspace), "deleted 0.txt cut\nadded z.txt text\n");
    // Only the end of a command's output is stored.
    let much = suite.agent(&spec(), "true", &[command("yes | head -c 100000; echo end")]).unwrap();
    let stdout = &much.commands[0].stdout;
    assert!(stdout.starts_with('[') && stdout.ends_with("end") && stdout.len() < 17_000);
}

#[test]
fn a_start_is_made_once_and_nothing_in_it_leads_out() {
    let suite = Suite::new(&[("repo/a.txt", "a\n")]);
    let count = suite.folder.path().join("count");
    let spec = WorkspaceSpec { setup: Some(format!("echo x >> {}", count.display())), ..spec() };
    let folders = Folders::new(suite.options.clone());
    for _ in 0..3 {
        let workspace = suite.agent_in(&folders, &spec, "echo $KINDLM_WORKSPACE", &[]).unwrap();
        assert_eq!(workspace.changes, []);
    }
    assert_eq!(fs::read_to_string(&count).unwrap(), "x\n");
    symlink("../../outside", suite.path("repo/way")).unwrap();
    let words = suite.agent(&spec, "true", &[]).unwrap_err().to_string();
    assert!(words.contains("leads out of the folder, to `../../outside`"), "{words}");
}

/// The agent's process has left its process group, so killing the group does not end the process.
#[cfg(target_os = "linux")]
#[test]
fn leftovers_of_an_agent_are_ended_before_the_checks() {
    let suite = Suite::new(&[("repo/a.txt", "a\n")]);
    let begun = suite.folder.path().join("begun");
    let begun = begun.display();
    // The agent ends after the other process has started. The check only finds that process if it is still running.
    let agent = format!(
        "setsid sh -c 'echo $$ > {begun}; exec sleep 4117' >/dev/null 2>&1 &
        until [ -s {begun} ] && grep -q 4117 /proc/$(cat {begun})/cmdline; do sleep 0.01; done"
    );
    let checks = [command(&format!(
        "grep -c 4117 /proc/$(cat {begun})/cmdline; setsid sleep 4118 >/dev/null 2>&1 &"
    ))];
    let workspace = suite.agent(&spec(), &agent, &checks).unwrap();
    assert_eq!(workspace.changes, []);
    assert_ne!(workspace.commands[0].stdout.trim(), "1");
    let running = std::process::Command::new("ps").args(["-eo", "args"]).output().unwrap();
    let running = String::from_utf8_lossy(&running.stdout).into_owned();
    assert!(!running.contains("sleep 4117") && !running.contains("sleep 4118"), "{running}");
    assert_eq!(suite.left(), 0);
}

#[test]
fn workspaces_are_left_if_asked() {
    let mut suite = Suite::new(&[("repo/a.txt", "a\n")]);
    suite.options.keep = true;
    let folders = Folders::new(suite.options.clone());
    assert_eq!(folders.kept(), None);
    let workspace = suite.agent_in(&folders, &spec(), "echo b > b.txt", &[]).unwrap();
    let kept = workspace.kept.unwrap();
    let all = folders.kept().unwrap();
    drop(folders);
    assert!(kept.starts_with(all.to_str().unwrap()));
    assert_eq!(fs::read_to_string(format!("{kept}/b.txt")).unwrap(), "b\n");
    // The starting state is not kept after the run.
    assert_eq!(fs::read_dir(&all).unwrap().count(), 1);
}

#[test]
fn a_replaced_workspace_is_neither_read_nor_written() {
    let suite = Suite::new(&[("repo/a.txt", "a\n"), ("EVAL.txt", "hidden\n")]);
    let spec = WorkspaceSpec {
        hidden: vec![HiddenFiles { from: "EVAL.txt".to_owned(), to: "EVAL.txt".to_owned() }],
        ..spec()
    };
    let outside = suite.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let outside_path = outside.display();
    let at = "\"$KINDLM_WORKSPACE\"";
    for (agent, expected) in [
        (format!("mv {at} ../away && ln -s {outside_path} {at}"), "was replaced"),
        (format!("mv {at} ../away && cp -r ../away {at}"), "was replaced"),
        (format!("rm -rf {at}"), "was removed or cannot be read"),
    ] {
        let words = suite.agent(&spec, &agent, &[]).unwrap_err().to_string();
        assert!(words.contains(expected), "{agent}: {words}");
        assert_eq!((fs::read_dir(&outside).unwrap().count(), suite.left()), (0, 0), "{agent}");
    }
    // A command of the checks runs the agent's code, which can replace the copy that all commands share.
    let swap = command(&format!("mv {at} ../away && ln -s {outside_path} {at}"));
    let tests = Gather::Tests {
        run: "printf '1..1\\nok 1 - a\\n' > report.tap".to_owned(),
        format: TestFormat::Tap,
        report: Some("report.tap".to_owned()),
        timeout: None,
        protect: Vec::new(),
    };
    let workspace = suite.agent(&spec, "true", &[swap, command("echo ran"), tests]).unwrap();
    assert_eq!(workspace.commands[0].exit_code, Some(0));
    let ran = &workspace.commands[1];
    assert!(ran.problem.as_deref().unwrap().contains("was replaced"), "{ran:?}");
    assert_eq!((ran.exit_code, ran.stdout.as_str()), (None, ""));
    assert_eq!(workspace.tests[0].problem, None, "tests have a copy of their own");
    assert_eq!((fs::read_dir(&outside).unwrap().count(), suite.left()), (0, 0));
}

#[test]
fn nothing_is_held_against_a_start_that_an_agent_has_written_to() {
    let suite = Suite::new(&[("repo/a.txt", "good\n"), ("repo/log/x", "")]);
    let folders = Folders::new(suite.options.clone());
    let spec = WorkspaceSpec { ignore: vec!["log/**".to_owned()], ..spec() };
    // Later agents work with the ignored files too, so a change of these files is an error.
    let away = "at=$(echo ../../start-*) && mv $at/start $at/old && mkdir $at/start";
    for (agent, why) in [
        ("cd ../../start-*/start && echo more >> log/x", "`log/x` in the start of the workspace"),
        (away, "the start of the workspace, `"),
    ] {
        let folders = Folders::new(suite.options.clone());
        let words = suite.agent_in(&folders, &spec, agent, &[]).unwrap_err().to_string();
        assert!(words.contains(why), "{words}");
        assert_eq!(words.contains("was replaced by another folder"), agent == away, "{words}");
    }
    // A change is detected even if the time and the size were reset.
    let poison =
        "cd ../../start-*/start; touch -r a.txt ../at; echo evil > a.txt; touch -r ../at a.txt";
    for agent in [poison, "true"] {
        let words = suite.agent_in(&folders, &spec, agent, &[]).unwrap_err().to_string();
        assert!(words.contains("`a.txt` in the start of the workspace"), "{words}");
        assert!(words.contains("isolation: bubblewrap"), "{words}");
    }
}
