//! Tests of worktrees, bubblewrap and containers. Some use the real programs if installed, others use fake programs.

use std::fs;
use std::process::Command;

use kindlm_testing::{can_sandbox, installed};
use kindlm_types::workspace::{
    Container, ContainerEngine, Gather, HiddenFiles, Isolation, TestFormat, WorkspaceSpec,
};
use kindlm_types::{WorkFor, Workspaces as _};
use kindlm_workspace::Folders;

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
fn git_works_in_a_worktree_and_nothing_of_it_stays() {
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
    // The agent works in the folder that the suite names, not in the root of the repository.
    let agent = "set -e; test ! -e not-committed.txt; test -e ../other.txt; test \"$(git log --format=%s)\" = first
        echo b >> a.txt; git -c user.name=b -c user.email=b@example.org commit --quiet -am second; git status --short";
    let workspace = suite.agent(&worktree, agent, &[command("git log --format=%s")]).unwrap();
    let paths: Vec<&str> = workspace.changes.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, ["a.txt"]);
    assert_eq!(workspace.commands[0].stdout, "second\nfirst");
    assert_eq!(git(&suite, &["log", "--format=%s", "main"]), "first\n");
    assert_eq!(suite.left(), 0);

    // Git changes by an agent stay in the agent's repository, which has the user's branches and settings.
    git(&suite, &["config", "user.email", "user@example.org"]);
    git(&suite, &["branch", "other"]);
    git(&suite, &["remote", "add", "origin", "https://example.org/repo.git"]);
    let refs = git(&suite, &["for-each-ref"]);
    let agent = "set -e; test \"$(git config user.email)\" = user@example.org; git diff --quiet main; git log --quiet other
        test \"$(git remote get-url origin)\" = https://example.org/repo.git; git config user.name agent
        git checkout --quiet -b mine; echo c >> a.txt; git commit --quiet -am third; git tag done; git branch -D main other
        echo d >> a.txt; git stash --quiet; mkdir -p \"$(git rev-parse --git-path hooks)\"
        echo exit 1 > \"$(git rev-parse --git-path hooks)/pre-commit\"; git config core.bare true";
    suite.agent(&worktree, agent, &[]).unwrap();
    suite.agent(&worktree, agent.replace("core.bare true", "a.b c").as_str(), &[]).unwrap();
    assert_eq!(git(&suite, &["for-each-ref"]), refs);
    assert_eq!(git(&suite, &["stash", "list"]), "");
    assert!(!suite.path(".git/hooks/pre-commit").exists());
    assert_eq!(git(&suite, &["config", "--default", "unset", "core.bare"]), "false\n");

    // Fetched remote branches are available, and the suite can name a commit without a branch.
    git(&suite, &["update-ref", "refs/remotes/origin/main", "main"]);
    git(&suite, &["tag", "v1"]);
    let tree = git(&suite, &["rev-parse", "main^{tree}"]);
    let alone = git(&suite, &["commit-tree", tree.trim(), "-p", "main", "-m", "alone"]);
    let alone = WorkspaceSpec { reference: Some(alone.trim().to_owned()), ..worktree.clone() };
    let agent =
        "set -e; git diff --quiet origin/main; git log --quiet v1; git branch -r -d origin/main
        test \"$(git log -1 --format=%s)\" = alone";
    suite.agent(&alone, agent, &[]).unwrap();
    git(&suite, &["rev-parse", "--verify", "refs/remotes/origin/main"]);
    let unknown = WorkspaceSpec { reference: Some("nowhere".to_owned()), ..worktree.clone() };
    let words = suite.agent(&unknown, "true", &[]).unwrap_err().to_string();
    assert!(words.contains("`workspace.ref` is `nowhere`, which names no commit"), "{words}");

    // Filters of the repository (such as git-lfs) run at checkout.
    git(&suite, &["config", "filter.loud.smudge", "tr a-z A-Z"]);
    suite.write(".gitattributes", "other.txt filter=loud\n");
    git(&suite, &["add", ".gitattributes"]);
    git(&suite, &["commit", "--quiet", "-m", "loud"]);
    suite.agent(&worktree, "test \"$(cat ../other.txt)\" = OTHER", &[]).unwrap();
    let unknown = WorkspaceSpec { reference: Some("--upload-pack=x".to_owned()), ..worktree };
    assert!(suite.agent(&unknown, "true", &[]).unwrap_err().to_string().contains("git rev-parse"));
}

#[test]
fn worktrees_are_made_of_shallow_repositories() {
    if !installed("git") {
        return;
    }
    let whole = Suite::new(&[("repo/a.txt", "a\n")]);
    git(&whole, &["init", "--quiet", "--initial-branch=main"]);
    for message in ["first", "second", "third"] {
        whole.write("repo/a.txt", message);
        git(&whole, &["add", "."]);
        git(&whole, &["commit", "--quiet", "-m", message]);
    }
    let suite = Suite::new(&[]);
    let url = format!("file://{}", whole.options.suite.display());
    git(&suite, &["init", "--quiet", "--initial-branch=main"]);
    git(&suite, &["fetch", "--quiet", "--depth=2", &url, "main"]);
    git(&suite, &["checkout", "--quiet", "--detach", "FETCH_HEAD"]);
    let worktree = WorkspaceSpec { isolation: Isolation::Worktree, ..spec() };
    let agent = "set -e; test \"$(git log --format=%s | tr '\\n' ' ')\" = 'third second '; git fsck --connectivity-only
        echo b >> a.txt; git -c user.name=b -c user.email=b@example.org commit --quiet -am fourth";
    suite.agent(&worktree, agent, &[]).unwrap();
    let first = WorkspaceSpec { reference: Some("HEAD~2".to_owned()), ..worktree };
    let words = suite.agent(&first, "true", &[]).unwrap_err().to_string();
    assert!(words.contains("git fetch --unshallow"), "{words}");
}

#[test]
fn worktrees_hide_files_and_keep_user_files() {
    if !installed("git") {
        return;
    }
    let suite = Suite::new(&[
        ("repo/a.txt", "a\n"),
        ("repo/EVAL.txt", "hidden\n"),
        ("hidden/deep/x", "hidden\n"),
    ]);
    git(&suite, &["init", "--quiet", "--initial-branch=main"]);
    git(&suite, &["add", "."]);
    git(&suite, &["commit", "--quiet", "-m", "first"]);
    // This worktree of the user is missing, as on a disk that is not mounted.
    let own = suite.folder.path().join("own");
    git(&suite, &["worktree", "add", "--quiet", "--detach", own.to_str().unwrap()]);
    fs::remove_dir_all(&own).unwrap();
    let before = git(&suite, &["worktree", "list"]);
    let hidden = |from: &str, to: &str| HiddenFiles { from: from.to_owned(), to: to.to_owned() };
    let spec = WorkspaceSpec {
        isolation: Isolation::Worktree,
        hidden: vec![hidden("repo/EVAL.txt", "EVAL.txt"), hidden("hidden", "")],
        setup: Some("test ! -e EVAL.txt && test ! -e ../hidden".to_owned()),
        ..spec()
    };
    let agent = "set -e; test ! -e EVAL.txt; test ! -e ../hidden; test -z \"$(git status --short)\"
        echo b > b.txt; rm -rf ../.git";
    let workspace = suite.agent(&spec, agent, &[command("cat EVAL.txt deep/x")]).unwrap();
    assert_eq!(workspace.commands[0].stdout, "hidden\nhidden");
    let paths: Vec<&str> = workspace.changes.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, ["b.txt"]);
    assert_eq!(git(&suite, &["worktree", "list"]), before);
    let failing = WorkspaceSpec { setup: Some("exit 3".to_owned()), ..spec };
    assert!(suite.agent(&failing, "true", &[]).is_err());
    assert_eq!(git(&suite, &["worktree", "list"]), before);
    assert_eq!((workspace.kept, suite.left()), (None, 0));
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
    if !can_sandbox() {
        return;
    }
    let outside = suite.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    // Another workspace in the same temporary folder must not be visible.
    let beside = suite.options.temp.join("beside");
    fs::create_dir(&beside).unwrap();
    let agent = format!(
        "test ! -e {} && test ! -e /run/lock && test -z \"$SSH_AUTH_SOCK$DISPLAY$DOCKER_HOST\" && test -z \"$(cat \"$KINDLM_SUITE/EVAL.txt\")\" && ! touch {}/x 2>/dev/null && ! touch \"$KINDLM_SUITE/x\" 2>/dev/null && echo b > b.txt",
        beside.display(),
        outside.display()
    );
    let workspace = suite.agent(&bubblewrap, &agent, &[command("cat EVAL.txt")]).unwrap();
    assert_eq!(workspace.changes.iter().map(|it| it.path.as_str()).collect::<Vec<_>>(), ["b.txt"]);
    assert_eq!(workspace.commands[0].stdout, "hidden");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

/// The agent tries everything that root could do, because most CI containers run the tests as root.
#[test]
fn bwrap_keeps_an_agent_that_tries_to_leave() {
    if !can_sandbox() || !installed("git") {
        return;
    }
    let mut suite = Suite::new(&[
        ("repo/a.txt", "a\n"),
        ("hidden/EVAL.txt", "SECRET\n"),
        ("others/EVAL.txt", "SECRET of another test\n"),
        (".kindlm/runs/1/report.json", "SECRET of an earlier run\n"),
    ]);
    suite.options.hidden = vec!["others".to_owned()];
    git(&suite, &["init", "--quiet", "--initial-branch=main"]);
    git(&suite, &["add", "hidden"]);
    git(&suite, &["commit", "--quiet", "-m", "first"]);
    // Use a folder outside the temporary folder, because the temporary folder is hidden.
    let outside = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let victim = outside.path().join("victim");
    fs::write(&victim, "untouched").unwrap();
    let at = victim.display();
    let suite_at = suite.options.suite.display();
    let hidden = HiddenFiles { from: "hidden".to_owned(), to: String::new() };
    let spec = WorkspaceSpec { isolation: Isolation::Bubblewrap, hidden: vec![hidden], ..spec() };
    let leave = format!(
        "mount -o remount,rw,bind /; mount -o remount,rw /; mount --bind / /mnt; echo x > /mnt{at}
        umount {suite_at}/hidden; umount -l {suite_at}/hidden; umount {suite_at}/.git; umount -l {suite_at}/.kindlm; umount -l /tmp
        cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern && echo core pattern written
        nsenter -t 1 -m true; echo x > {at}; echo x > /proc/1/root{at}; rm -f {at}"
    );
    let look = format!(
        "cat {suite_at}/hidden/EVAL.txt {suite_at}/.kindlm/runs/1/report.json; git -C {suite_at} show HEAD:hidden/EVAL.txt
        grep -r SECRET {suite_at} /proc/1/root{suite_at}; cat /proc/1/root{suite_at}/hidden/EVAL.txt"
    );
    let agent = format!(
        "{{ {leave}; {look}; unshare -rm sh -c 'mount --bind / /mnt; {leave}; {look}'; }} > said 2>&1; grep Cap /proc/self/status > caps; true"
    );
    let workspace = suite.agent(&spec, &agent, &[command("cat EVAL.txt")]).unwrap();
    let said = workspace.change("said").unwrap().text.clone().unwrap();
    assert!(!said.contains("SECRET"), "{said}");
    assert!(!said.contains("core pattern written"), "{said}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched", "{said}");
    let caps = workspace.change("caps").unwrap().text.clone().unwrap();
    let effective = caps.lines().find(|it| it.starts_with("CapEff")).unwrap();
    assert!(effective.ends_with("\t0000000000000000"), "{caps}");
    assert_eq!(workspace.commands[0].stdout, "SECRET", "the checks have it");
    assert_eq!(fs::read_to_string(suite.path("hidden/EVAL.txt")).unwrap(), "SECRET\n");
}

/// The user's worktree has a `.git` file that points to the main repository.
#[test]
fn bwrap_masks_the_history_of_a_worktree_of_the_user() {
    if !can_sandbox() || !installed("git") {
        return;
    }
    let main = Suite::new(&[("repo/a.txt", "a\n"), ("hidden/EVAL.txt", "SECRET\n")]);
    git(&main, &["init", "--quiet", "--initial-branch=main"]);
    git(&main, &["add", "."]);
    git(&main, &["commit", "--quiet", "-m", "first"]);
    let mut suite = Suite::new(&[]);
    let at = suite.path("checkout");
    git(&main, &["worktree", "add", "--quiet", "--detach", at.to_str().unwrap()]);
    suite.options.suite = at;
    let hidden = HiddenFiles { from: "hidden".to_owned(), to: String::new() };
    let spec = WorkspaceSpec { isolation: Isolation::Bubblewrap, hidden: vec![hidden], ..spec() };
    let agent = format!(
        "git -C \"$KINDLM_SUITE\" show HEAD:hidden/EVAL.txt > said 2>&1; git -C {} log >> said 2>&1; true",
        main.options.suite.display()
    );
    let workspace = suite.agent(&spec, &agent, &[command("cat EVAL.txt")]).unwrap();
    let said = workspace.change("said").unwrap().text.clone().unwrap();
    assert!(!said.contains("SECRET") && !said.contains("first"), "{said}");
    assert_eq!(workspace.commands[0].stdout, "SECRET");
}

#[test]
fn bwrap_gets_the_promised_options() {
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
    // This fake `bwrap` logs its arguments, and runs the command after `--`.
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
            assert!(line.contains("--cap-drop ALL"), "{line}");
            assert_eq!(line.contains("--share-net"), network, "{line}");
            assert!(line.contains("--ro-bind / / ") && line.contains(&masked), "{line}");
            assert!(
                line.contains("--die-with-parent") && line.contains("--tmpfs /tmp --tmpfs "),
                "{line}"
            );
            assert!(line.contains("--unsetenv SSH_AUTH_SOCK --unsetenv"), "{line}");
        }
        // The first line is the check that the sandbox starts; the others are the agent and the command.
        assert_eq!(words.lines().count(), 3, "{words}");
        fs::remove_file(suite.path("words")).unwrap();
    }
}

#[test]
fn containers_get_the_promised_options_and_are_ended() {
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

    // This fake engine logs its arguments, and runs the container's command in the folder.
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
        let [probe, agent, agent_end, check, check_end, _] = lines[..] else { panic!("{said}") };
        for line in [probe, agent, check] {
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
        for (started, end) in [(agent, agent_end), (check, check_end)] {
            let name = started.split(' ').nth(5).unwrap();
            assert_eq!(end, format!("{engine} rm --force {name}"));
        }
        fs::remove_file(&words).unwrap();
    }
}

/// Returns a suite with a fake program in place of `bwrap` or a container engine.
fn with(name: &str, fake: &str) -> Suite {
    let mut suite = Suite::new(&[("repo/a.txt", "a\n")]);
    let programs = suite.folder.path().join("programs");
    fs::create_dir(&programs).unwrap();
    program(&programs.join(name), fake);
    suite.options.path = programs.into();
    suite
}

fn isolated(isolation: Isolation) -> WorkspaceSpec {
    let (image, env) = ("node:22".to_owned(), Vec::new());
    let container = Some(Container { image, engine: None, env });
    WorkspaceSpec { isolation, container, ..spec() }
}

#[test]
fn a_sandbox_that_does_not_start_is_no_agent_that_did_nothing() {
    let (bwrap, container) = (Isolation::Bubblewrap, Isolation::Container);
    for (name, isolation, code, stderr, setup, why) in [
        (
            "bwrap",
            bwrap,
            1,
            "bwrap: setting up uid map: Permission denied",
            None,
            "the sandbox of `isolation: bubblewrap`: the sandbox did not start; `bwrap` reported: bwrap: setting up \
             uid map",
        ),
        (
            "docker",
            container,
            125,
            "Unable to find image 'node:22' locally\ndocker: Error response from daemon: pull access denied.\n\nRun 'docker run --help' for more information",
            None,
            "the container did not start; `docker` ended with exit code 125 for the image `node:22`: docker: Error \
             response from daemon: pull access denied; check that `docker info` works, and that the image is \
             available",
        ),
        (
            "docker",
            container,
            127,
            "docker: Error response from daemon: exec: \"sh\": executable file not found",
            Some("true"),
            "the container has no usable `sh`; `docker` ended with exit code 127",
        ),
        (
            "podman",
            container,
            126,
            "Error: crun: open executable: Permission denied",
            None,
            "the container has no usable `sh`; `podman` ended with exit code 126",
        ),
        (
            "podman",
            container,
            127,
            "Error: no config\nsh: 1: agent: not found",
            Some("true"),
            "the sandbox of `isolation: container` failed: the command was not found (exit code 127): Error: no \
             config",
        ),
        ("podman", container, 1, "usage: git", None, "ended with exit code 1: usage: git"),
    ] {
        let fake = format!(
            "#!/bin/sh\n[ \"$1\" = rm ] || {{ cat >&2 <<'E'\n{stderr}\nE\nexit {code}; }}\n"
        );
        let suite = with(name, &fake);
        let spec = WorkspaceSpec { setup: setup.map(str::to_owned), ..isolated(isolation) };
        let words = suite.agent(&spec, "true", &[]).unwrap_err().to_string();
        assert!(words.contains(why), "{words}");
        assert_eq!(suite.left(), 0);
    }
}

/// The sandbox starts for the first command and fails for a later one.
#[test]
fn a_failed_sandbox_is_no_failed_command() {
    let run = "#!/bin/sh\n[ \"$1\" = run ] || exit 0\nwhile [ \"$1\" != sh ]; do shift; done; exec \"$@\"\n";
    let suite = with("docker", run);
    let of = WorkFor::new("a", "b", 0, std::time::Duration::from_mins(1));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let spec = isolated(Isolation::Container);
    let folders = Folders::new(suite.options.clone());
    let open = runtime.block_on(folders.open(&spec, of, &suite.shell)).unwrap();
    for (code, stderr, is_around) in [
        (Some(0), "", false),
        (Some(1), "docker: no", false),
        (Some(125), "", true),
        (Some(127), "sh: 1: agent: not found", false),
        (Some(127), "docker: no sh", true),
        (None, "docker: no", false),
    ] {
        assert_eq!(open.not_started(code, stderr).is_some(), is_around, "{code:?} {stderr}");
    }
    drop(open);
    // The fake fails after the agent has finished. The checks do not run, and must not count as failed.
    let agent = "printf '#!/bin/sh\\n[ \"$1\" = rm ] && exit 0; echo docker: no daemon >&2; exit 125\\n' > ../../../../programs/docker";
    let checks = [command("true")];
    let workspace = suite.agent(&spec, agent, &checks).unwrap();
    let problem = workspace.commands[0].problem.as_deref().unwrap();
    assert!(problem.contains("the container did not start") && problem.contains("no daemon"));
}

#[test]
fn each_execution_has_its_own_container() {
    let run = "#!/bin/sh\necho \"$@\" >> \"$KINDLM_SUITE/words\" 2>/dev/null\n[ \"$1\" = run ] || exit 0\nwhile [ \"$1\" != sh ]; do shift; done; exec \"$@\"\n";
    let suite = with("docker", run);
    let spec = WorkspaceSpec {
        setup: Some("test \"$CI\" = 1".to_owned()),
        ..isolated(Isolation::Container)
    };
    let folders = Folders::new(suite.options.clone());
    let (run, report, timeout) = ("printf '1..1\\nok 1 - a\\n'".to_owned(), None, None);
    let tests =
        [Gather::Tests { run, format: TestFormat::Tap, report, timeout, protect: Vec::new() }];
    for _ in 0..2 {
        let workspace = suite.agent_in(&folders, &spec, "true", &tests).unwrap();
        assert_eq!(workspace.tests[0].problem, None);
    }
    let said = fs::read_to_string(suite.path("words")).unwrap();
    let lines: Vec<&str> = said.lines().filter(|it| it.starts_with("run")).collect();
    let [_, setup, first, tests, second, _] = lines[..] else { panic!("{said}") };
    assert!(setup.contains(" --env CI node:22 "), "{setup}");
    let own = " --env NO_COLOR --env NEXTEST_EXPERIMENTAL_LIBTEST_JSON node:22 ";
    assert!(tests.contains(own), "{tests}");
    let name = |line: &str| line.split(' ').nth(4).unwrap().to_owned();
    assert_ne!(name(first), name(second));
    assert_ne!(name(first), name(tests), "tests run in a fresh copy");
}

#[test]
fn slow_container_setups_are_ended() {
    let mut suite = with("docker", "#!/bin/sh\nexit 0\n");
    suite.shell.too_slow = Some("npm ci");
    let spec = WorkspaceSpec { setup: Some("npm ci".to_owned()), ..isolated(Isolation::Container) };
    let words = suite.agent(&spec, "true", &[]).unwrap_err().to_string();
    assert_eq!(
        words,
        "`workspace.setup`: the command did not end in time: raise `defaults.timeoutMs` or `--timeout`"
    );
    let lines = suite.shell.lines.lock().unwrap();
    let [_, setup, end] = &lines[..] else { panic!("{lines:?}") };
    let name = setup.split(' ').find(|it| it.starts_with("kindlm-start-")).unwrap();
    assert!(end.ends_with(&format!(" rm --force {name}")), "{end}");
    assert_eq!(suite.left(), 0);
}

/// Git sets variables for its hooks that point to the user's repository.
#[test]
fn git_in_a_workspace_is_not_led_away_by_a_hook() {
    if !installed("git") {
        return;
    }
    let suite = Suite::new(&[("repo/a.txt", "a\n")]);
    git(&suite, &["init", "--quiet", "--initial-branch=main"]);
    git(&suite, &["add", "."]);
    git(&suite, &["commit", "--quiet", "-m", "first"]);
    let own = suite.path(".git").display().to_string();
    let hook = format!("GIT_DIR={own} GIT_INDEX_FILE={own}/index GIT_WORK_TREE={own}/..");
    let before = (git(&suite, &["for-each-ref"]), fs::read(suite.path(".git/config")).unwrap());
    let folders = Folders::new(suite.options.clone());
    for isolation in [Isolation::Copy, Isolation::Worktree] {
        let spec = WorkspaceSpec { isolation, ..spec() };
        let of = WorkFor::new("a", "command", 0, LONG);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let open = folders.open(&spec, of, &suite.shell).await.unwrap();
            let (own, agent) = (open.command("", LONG), open.for_agent(&[]));
            assert_eq!(agent.before, None, "on every system");
            let named = open.for_agent(&["GIT_DIR".to_owned()]).without;
            assert!(!named.contains(&"GIT_DIR".to_owned()), "the suite gives it that: {named:?}");
            let commit = "git init --quiet . && git add -A && git -c user.name=b -c user.email=b@example.org commit --quiet --allow-empty -m agent";
            for without in [own.without, agent.without] {
                let mut ran = Command::new("sh");
                ran.args(["-c", commit]).current_dir(open.folder());
                ran.envs(hook.split(' ').filter_map(|it| it.split_once('=')));
                for name in without {
                    ran.env_remove(name);
                }
                let ran = ran.output().unwrap();
                assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
            }
            open.discard(&suite.shell).await;
        });
        let after = (git(&suite, &["for-each-ref"]), fs::read(suite.path(".git/config")).unwrap());
        assert_eq!(after, before, "{isolation:?}");
        assert_eq!(git(&suite, &["status", "--short"]), "");
    }
}

/// Git settings in the environment apply only to the user's repository.
#[test]
fn git_settings_of_one_call_hold_for_one_repository() {
    if !installed("git") {
        return;
    }
    let mut suite = Suite::new(&[("repo/a.txt", "a\n")]);
    git(&suite, &["init", "--quiet", "--initial-branch=main"]);
    git(&suite, &["add", "."]);
    git(&suite, &["commit", "--quiet", "-m", "first"]);
    // With these settings, git fails.
    suite.shell.env = vec![
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "no-key"),
        ("GIT_CONFIG_VALUE_0", "vi"),
    ];
    let spec = WorkspaceSpec { isolation: Isolation::Worktree, ..spec() };
    let words = suite.agent(&spec, "true", &[]).unwrap_err().to_string();
    assert!(words.contains("needs a git repository"), "{words}");
    suite.shell.env[1].1 = "core.editor";
    suite.agent(&spec, "test \"$(git config core.editor)\" != vi", &[]).unwrap();
}

/// The user's settings may name a folder of hooks. These hooks must not run.
#[cfg(unix)]
#[test]
fn no_hook_of_the_user_runs_while_a_worktree_is_made() {
    if !installed("git") {
        return;
    }
    let suite = Suite::new(&[("repo/a.txt", "a\n"), ("repo/secret.test", "x\n")]);
    git(&suite, &["init", "--quiet", "--initial-branch=main"]);
    git(&suite, &["add", "."]);
    git(&suite, &["commit", "--quiet", "-m", "first"]);
    for number in 0..40 {
        git(&suite, &["update-ref", &format!("refs/remotes/origin/b{number}"), "main"]);
    }
    let (hooks, ran) = (suite.path("hooks"), suite.path("ran"));
    fs::create_dir(&hooks).unwrap();
    let hook = format!("#!/bin/sh\necho \"$0\" >> {}\n", ran.display());
    for name in ["reference-transaction", "post-checkout", "post-index-change"] {
        program(&hooks.join(name), &hook);
    }
    git(&suite, &["config", "core.hooksPath", &hooks.display().to_string()]);
    let mut spec = WorkspaceSpec { isolation: Isolation::Worktree, ..spec() };
    let hidden = HiddenFiles { from: "repo/secret.test".to_owned(), to: "s".to_owned() };
    spec.hidden = vec![hidden];
    // All refs are in one file, `packed-refs`.
    let agent = "set -e; test ! -e secret.test; test $(git for-each-ref | wc -l) -eq 41
        test $(find \"$(git rev-parse --git-dir)/refs\" -type f | wc -l) -eq 0";
    suite.agent(&spec, agent, &[]).unwrap();
    assert_eq!(fs::read_to_string(&ran).unwrap_or_default(), "");
}

const LONG: std::time::Duration = std::time::Duration::from_mins(1);
