//! Agents in sandboxes, and the clean-up after an interrupt.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use kindlm_testing::can_sandbox;
use serde_json::Value;

use crate::binary;

/// An agent that reports its environment in two turns. Both turns work in the same folder.
const AGENT: &str = r#"read -r hello; echo '{"kindlm":"hello","version":1}'
while read -r turn; do
  echo more >> notes.txt
  echo '{"kindlm":"result","text":"'"$(pwd) token=$TOKEN other=$OTHER hidden=$(cat "$KINDLM_SUITE/check.sh" 2>/dev/null) lines=$(grep -c more notes.txt)"'"}'
done"#;

/// Writes a suite with one test of one agent, and returns its folder.
///
/// The parent folder also contains a folder for temporary files.
fn suite(folder: &Path, command: &str, workspace: &str) -> std::path::PathBuf {
    let suite = folder.join("suite");
    fs::create_dir_all(suite.join("repo")).unwrap();
    fs::create_dir_all(folder.join("temp")).unwrap();
    fs::write(suite.join("repo/a.txt"), "a\n").unwrap();
    fs::write(suite.join("check.sh"), "test $(grep -c more notes.txt) = 2\n").unwrap();
    fs::write(suite.join("agent.sh"), AGENT).unwrap();
    let yaml = format!(
        "kindlm: 1\nproject: p\nsuite: {{ name: s }}\n\
         agents: {{ own: {{ command: '{command}', env: [TOKEN] }} }}\n\
         tests:\n  - name: works\n    agent: own\n    workspace: {{ from: repo, hidden: [check.sh], {workspace} }}\n\
         \x20   conversation: [{{ turn: a, user: hi }}, {{ turn: b, user: again }}]\n\
         \x20   expect: {{ assert: [{{ type: file-changed, value: notes.txt }}, {{ type: not-file-changed, value: a.txt }}, {{ type: command-succeeded, value: sh check.sh }}] }}\n"
    );
    fs::write(suite.join("kindlm.yaml"), yaml).unwrap();
    suite
}

fn kindlm(suite: &Path, path: &str) -> Command {
    let mut command = Command::new(binary());
    command.args(["test", "--reporter", "json"]).current_dir(suite);
    command.env("TMPDIR", suite.parent().unwrap().join("temp"));
    command.env("PATH", path).env("TOKEN", "t-1").env("OTHER", "o-1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the suite; returns the only case of the report, and the exit code.
fn run(suite: &Path, path: &str) -> (Value, Option<i32>) {
    report_of(kindlm(suite, path).spawn().unwrap())
}

fn report_of(child: Child) -> (Value, Option<i32>) {
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|err| panic!("{err}: {}", String::from_utf8_lossy(&output.stderr)));
    (report["cases"][0].clone(), output.status.code())
}

fn left(suite: &Path) -> usize {
    fs::read_dir(suite.parent().unwrap().join("temp")).unwrap().count()
}

/// Writes a program, and returns a `PATH` in which it comes first.
fn with(folder: &Path, name: &str, text: &str) -> String {
    let programs = folder.join("programs");
    fs::create_dir_all(&programs).unwrap();
    fs::write(programs.join(name), text).unwrap();
    fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", programs.display(), std::env::var("PATH").unwrap())
}

#[test]
fn an_agent_is_spoken_with_in_a_sandbox_of_bwrap() {
    if !can_sandbox() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let line = r#"sh "$KINDLM_SUITE/agent.sh""#;
    let suite = suite(folder.path(), line, "isolation: bubblewrap, network: false");
    let (case, code) = run(&suite, &std::env::var("PATH").unwrap());
    assert_eq!((&case["outcome"], code), (&Value::from("passed"), Some(0)), "{case:#}");
    let said = case["executions"][0]["output"].as_str().unwrap();
    assert!(said.ends_with("/work token=t-1 other= hidden= lines=2"), "{said}");
    assert_eq!(left(&suite), 0);
}

/// A script that replaces Docker.
///
/// The containerized program gets stdin only with `--interactive`, and only the named environment variables.
const ENGINE: &str = r#"#!/bin/sh
echo "$@" >> "$KINDLM_SUITE/words"
[ "$1" = run ] || exit 0
interactive=no; env=KINDLM_WORKSPACE=/workspace
while [ "$1" != node:22 ]; do
  case "$1" in
    --interactive) interactive=yes ;;
    --env) case "$2" in *=*) ;; *) eval "env=\"\$env $2=\$$2\"" ;; esac ;;
  esac
  shift
done
shift
if [ $interactive = yes ]; then exec env -i PATH="$PATH" $env "$@"; fi
exec "$@" < /dev/null
"#;

#[test]
fn an_agent_is_spoken_with_in_a_container() {
    let folder = tempfile::tempdir().unwrap();
    let path = with(folder.path(), "docker", ENGINE);
    let line = folder.path().join("suite/agent.sh").display().to_string();
    let container = "isolation: container, image: \"node:22\", engine: docker";
    let suite = suite(folder.path(), &format!("sh {line}"), container);
    let (case, code) = run(&suite, &path);
    assert_eq!((&case["outcome"], code), (&Value::from("passed"), Some(0)), "{case:#}");
    let said = case["executions"][0]["output"].as_str().unwrap();
    assert!(said.ends_with("/work token=t-1 other= hidden= lines=2"), "{said}");
    let words = fs::read_to_string(suite.join("words")).unwrap();
    let runs: Vec<&str> = words.lines().filter(|it| it.contains("--interactive")).collect();
    let [agent] = runs[..] else { panic!("{words}") };
    assert!(agent.contains(" --env TOKEN node:22 sh -c sh "), "{agent}");
    assert_eq!(left(&suite), 0);
}

/// The sandbox starts for the availability check, but not for the agent.
///
/// An agent that did nothing must not pass negative checks.
#[test]
fn a_sandbox_that_does_not_start_for_an_agent_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let refuses = "#!/bin/sh\ncase \"$*\" in *--interactive*) echo 'docker: no space left' >&2; exit 125;; esac\nexit 0\n";
    let path = with(folder.path(), "docker", refuses);
    let container = "isolation: container, image: \"node:22\", engine: docker";
    let suite = suite(folder.path(), "agent", container);
    let (case, code) = run(&suite, &path);
    assert_eq!((&case["outcome"], code), (&Value::from("errored"), Some(3)), "{case:#}");
    let why = case["executions"][0]["error"].to_string();
    assert!(why.contains("exit code 125") && why.contains("docker: no space left"), "{why}");
    assert_eq!(left(&suite), 0);
}

#[test]
fn a_second_interrupt_ends_an_agent_and_removes_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    // KindLM finds a process outside the process group by the path of the workspace.
    let agent = format!(
        "{} setsid sleep 3301 & sleep 3302 & echo \"$! $(pwd)\" > \"$KINDLM_SUITE/begun\"; wait",
        r#"read -r hello; echo "{\"kindlm\":\"hello\",\"version\":1}"; read -r turn;"#
    );
    let suite = suite(folder.path(), &agent, "isolation: copy");
    let mut child = kindlm(&suite, &std::env::var("PATH").unwrap()).spawn().unwrap();
    let (pid, place) = loop {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before the agent had begun");
        let begun = fs::read_to_string(suite.join("begun")).unwrap_or_default();
        if let Some((pid, place)) = begun.strip_suffix('\n').and_then(|it| it.split_once(' ')) {
            break (pid.to_owned(), place.to_owned());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    assert!(Path::new(&place).is_dir());
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    for _ in 0..2 {
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        // Send the second signal only after the first signal was handled.
        stderr.read_line(&mut String::new()).unwrap();
    }
    let (case, code) = report_of(child);
    assert_eq!((&case["outcome"], code), (&Value::from("errored"), Some(130)), "{case:#}");
    assert_eq!(left(&suite), 0);
    let mark = format!("KINDLM_WORKSPACE={place}");
    let lives = || {
        fs::read_dir("/proc").unwrap().flatten().any(|it| {
            let environment = fs::read(it.path().join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|it| it == mark.as_bytes())
        })
    };
    let is_over = || !lives() && !Path::new(&format!("/proc/{pid}")).exists();
    crate::wait_until("the end of what the agent has started", is_over);
}
