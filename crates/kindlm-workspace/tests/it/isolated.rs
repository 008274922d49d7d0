//! Worktrees, bubblewrap and containers: those that are installed, and what is asked of those that are not.

use std::fs;
use std::process::Command;

use kindlm_testing::installed;
use kindlm_types::workspace::{Container, ContainerEngine, HiddenFiles, Isolation, WorkspaceSpec};

use crate::support::{Suite, command, program, spec};

fn git(suite: &Suite, words: &[&str]) -> String {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
    let output = Command::new("git")
        .args(identity)
        .args(words)
        .current_dir(&suite.options.suite)
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn git_works_in_a_worktree_and_forgets_it_afterwards() {
    if !installed("git") {
        return;
    }
    let suite = Suite::new(&[("repo/a.txt", "a\n"), ("other.txt", "other\n")]);
    let worktree = WorkspaceSpec { isolation: Isolation::Worktree, ..spec() };
    let words = suite.agent(&worktree, "true", &[]).unwrap_err().to_string();
    assert!(words.contains("needs a git repository"), "{words}");

    git(&suite, &["init", "--quiet", "--initial-branch=main"]);
    git(&suite, &["add", "."]);
    git(&suite, &["commit", "--quiet", "-m", "first"]);
    suite.write("repo/not-committed.txt", "x");
    let worktree = WorkspaceSpec { setup: Some("echo made > made.txt".to_owned()), ..worktree };
    // The folder to work in is the one that the suite names, not the top of the repository.
    let agent = "set -e; test ! -e not-committed.txt; test -e ../other.txt; test \"$(git log --format=%s)\" = first
        echo b >> a.txt; git -c user.name=b -c user.email=b@example.org commit --quiet -am second; git status --short";
    let workspace = suite.agent(&worktree, agent, &[command("git log --format=%s")]).unwrap();
    let paths: Vec<&str> = workspace.changes.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, ["a.txt"]);
    assert_eq!(workspace.commands[0].stdout, "second\nfirst");
    assert_eq!(git(&suite, &["log", "--format=%s", "main"]), "first\n");
    assert_eq!(git(&suite, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(suite.left(), 0);
    let unknown = WorkspaceSpec { reference: Some("--upload-pack=x".to_owned()), ..worktree };
    assert!(suite.agent(&unknown, "true", &[]).unwrap_err().to_string().contains("git rev-parse"));
}

#[test]
fn bwrap_keeps_an_agent_in_its_folder() {
    let bubblewrap = WorkspaceSpec {
        isolation: Isolation::Bubblewrap,
        hidden: vec![HiddenFiles { from: "EVAL.txt".to_owned(), to: "EVAL.txt".to_owned() }],
        network: false,
        ..spec()
    };
    let suite = Suite::new(&[("repo/a.txt", "a\n"), ("EVAL.txt", "hidden\n")]);
    // Some machines have it and do not let it make a sandbox.
    let usable = || {
        let words = ["--unshare-all", "--ro-bind", "/", "/", "true"];
        Command::new("bwrap").args(words).status().is_ok_and(|it| it.success())
    };
    if !installed("bwrap") || !usable() {
        return;
    }
    let outside = suite.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let agent = format!(
        "test -z \"$(cat \"$KINDLM_SUITE/EVAL.txt\")\" && ! touch {}/x 2>/dev/null && ! touch \"$KINDLM_SUITE/x\" 2>/dev/null && echo b > b.txt",
        outside.display()
    );
    let workspace = suite.agent(&bubblewrap, &agent, &[command("cat EVAL.txt")]).unwrap();
    assert_eq!(workspace.changes.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), ["b.txt"]);
    assert_eq!(workspace.commands[0].stdout, "hidden");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn bwrap_is_asked_for_what_was_promised() {
    let mut suite = Suite::new(&[("repo/a.txt", "a\n"), ("EVAL.txt", "hidden\n")]);
    let bubblewrap = WorkspaceSpec {
        isolation: Isolation::Bubblewrap,
        hidden: vec![HiddenFiles { from: "EVAL.txt".to_owned(), to: "EVAL.txt".to_owned() }],
        ..spec()
    };
    let programs = suite.folder.path().join("programs");
    suite.options.path = programs.clone().into();
    let words = suite.agent(&bubblewrap, "true", &[]).unwrap_err().to_string();
    assert!(
        words.contains("`isolation: bubblewrap` needs `bwrap`, which is not installed"),
        "{words}"
    );

    fs::create_dir(&programs).unwrap();
    // It stands for bwrap: tells its words, and runs what comes after `--`.
    let fake = "#!/bin/sh\necho \"$@\" >> \"$KINDLM_SUITE/words\"\nwhile [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"\n";
    program(&programs.join("bwrap"), fake);
    let cut_off = WorkspaceSpec { network: false, ..bubblewrap.clone() };
    for (spec, network) in [(bubblewrap, true), (cut_off, false)] {
        let workspace =
            suite.agent(&spec, "echo \"it's\" > b.txt", &[command("cat b.txt")]).unwrap();
        assert_eq!(workspace.commands[0].stdout, "it's");
        let words = fs::read_to_string(suite.path("words")).unwrap();
        let masked = format!("--ro-bind /dev/null {}", suite.path("EVAL.txt").display());
        for line in words.lines() {
            assert!(line.starts_with("--unshare-all"), "{line}");
            assert_eq!(line.contains("--share-net"), network, "{line}");
            assert!(line.contains("--ro-bind / / ") && line.contains(&masked), "{line}");
            assert!(
                line.contains("--die-with-parent") && line.contains("--tmpfs /tmp --ro-bind "),
                "{line}"
            );
        }
        assert_eq!(words.lines().count(), 2, "{words}");
        fs::remove_file(suite.path("words")).unwrap();
    }
}

#[test]
fn containers_are_asked_for_what_was_promised_and_are_ended() {
    let mut suite = Suite::new(&[("repo/a.txt", "a\n")]);
    let programs = suite.folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    suite.options.path = programs.clone().into();
    let container = |engine: Option<ContainerEngine>| WorkspaceSpec {
        isolation: Isolation::Container,
        network: false,
        container: Some(Container {
            image: "node:22".to_owned(),
            engine,
            env: vec!["ANTHROPIC_API_KEY".to_owned()],
        }),
        ..spec()
    };
    let words = suite.agent(&container(None), "true", &[]).unwrap_err().to_string();
    assert!(words.contains("needs `docker` or `podman`, which is not installed"), "{words}");

    // It stands for an engine: tells its words, and runs in the folder what should run in the container.
    let words = suite.path("words");
    let fake = |name: &str| {
        format!(
            "#!/bin/sh\necho {name} \"$@\" >> {}\n[ \"$1\" = run ] || exit 0\nwhile [ \"$1\" != node:22 ]; do shift; done; shift; exec \"$@\"\n",
            words.display()
        )
    };
    program(&programs.join("podman"), &fake("podman"));
    let needs = suite.agent(&container(Some(ContainerEngine::Docker)), "true", &[]).unwrap_err();
    assert!(needs.to_string().contains("needs `docker`, which"), "{needs}");
    for (engine, user) in [("podman", "--userns=keep-id"), ("docker", "--user ")] {
        if engine == "docker" {
            program(&programs.join("docker"), &fake("docker"));
        }
        let workspace =
            suite.agent(&container(None), "echo b > b.txt", &[command("cat b.txt")]).unwrap();
        assert_eq!(workspace.commands[0].stdout, "b");
        assert_eq!(workspace.changes.len(), 1);
        let said = fs::read_to_string(&words).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        let [agent, check, end] = lines[..] else { panic!("{said}") };
        for line in [agent, check] {
            assert!(
                line.starts_with(&format!("{engine} run --rm --init --name kindlm-")),
                "{line}"
            );
            for wanted in [
                ":/workspace --workdir /workspace",
                user,
                "--cap-drop ALL --security-opt no-new-privileges --network none",
                "--env KINDLM_WORKSPACE=/workspace --env ANTHROPIC_API_KEY node:22 sh -c",
            ] {
                assert!(line.contains(wanted), "{wanted}: {line}");
            }
        }
        let name = agent.split(' ').nth(5).unwrap();
        assert_eq!(end, format!("{engine} rm --force {name}"));
        fs::remove_file(&words).unwrap();
    }
}
