//! The binary on a pseudo terminal: the progress bar, the keys of `--watch`, colours.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::{NEVER, binary, wait_until};

/// A program on a pseudo terminal, with the screen that its user sees.
pub(crate) struct Terminal {
    child: Child,
    keyboard: pty_process::blocking::Pty,
    seen: Arc<Mutex<Seen>>,
    reader: JoinHandle<()>,
}

struct Seen {
    screen: vt100::Parser,
    bytes: Vec<u8>,
}

impl Terminal {
    /// Starts a program on a terminal of 24 rows. The environment has only `PATH`, `TERM` and `env`.
    pub(crate) fn start(
        folder: &Path,
        program: &str,
        args: &[&str],
        env: &[(&str, &str)],
        columns: u16,
    ) -> Self {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(pty_process::Size::new(24, columns)).unwrap();
        let bin = Path::new(binary()).parent().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let command = pty_process::blocking::Command::new(program).args(args).current_dir(folder);
        let command = command.env_clear().env("PATH", path).env("TERM", "xterm-256color");
        let child = command.envs(env.iter().copied()).spawn(pts).unwrap();
        let size = |it: u16| std::num::NonZeroU16::new(it).unwrap();
        let screen = vt100::Parser::new(size(24), size(columns), 0);
        let seen = Arc::new(Mutex::new(Seen { screen, bytes: Vec::new() }));
        let keyboard = pty;
        let mut output =
            fs::File::from(std::os::fd::AsFd::as_fd(&keyboard).try_clone_to_owned().unwrap());
        let shared = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The read fails when the last program on the terminal has ended.
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                let mut seen = shared.lock().unwrap();
                seen.screen.process(&buffer[..count]);
                seen.bytes.extend_from_slice(&buffer[..count]);
            }
        });
        Self { child, keyboard, seen, reader }
    }

    /// Types text. `\n` is the Enter key.
    pub(crate) fn type_text(&mut self, text: &str) {
        self.keyboard.write_all(text.replace('\n', "\r").as_bytes()).unwrap();
    }

    /// Returns the text of the screen.
    pub(crate) fn screen(&self) -> String {
        self.seen.lock().unwrap().screen.screen().contents()
    }

    /// Waits until the screen shows a text.
    pub(crate) fn wait_for(&self, text: &str) {
        let begun = Instant::now();
        while !self.screen().contains(text) {
            assert!(
                begun.elapsed() < NEVER,
                "the screen does not show `{text}`:\n{}",
                self.screen()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until a text was written this many times.
    fn wait_for_count(&self, text: &str, count: usize) {
        wait_until(&format!("`{text}` is written {count} times"), || {
            let seen = self.seen.lock().unwrap();
            String::from_utf8_lossy(&seen.bytes).matches(text).count() >= count
        });
    }

    /// Waits for the end of the program, and returns its exit code and everything that it wrote.
    pub(crate) fn end(mut self) -> (Option<i32>, String, vt100::Parser) {
        let code = self.child.wait().unwrap().code();
        self.reader.join().unwrap();
        let seen = Arc::into_inner(self.seen).unwrap().into_inner().unwrap();
        (code, String::from_utf8_lossy(&seen.bytes).into_owned(), seen.screen)
    }
}

/// Writes a suite of two commands. Each command writes its name to `ran`; `slow` waits for the file `go`.
fn suite(folder: &Path) {
    let yaml = "kindlm: 1\nproject: p\nsuite: { name: terminal }\ndefaults: { concurrency: 1 }\ntests:\n  \
        - { name: quick, command: \"echo quick >> ran; echo a\", expect: { output: { contains: [a] } } }\n  \
        - { name: slow, command: \"echo slow >> ran; until [ -e go ]; do sleep 0.02; done; echo b\", \
        expect: { output: { contains: [c] } } }\n";
    fs::write(folder.join("kindlm.yaml"), yaml).unwrap();
}

/// Runs the suite in a shell that prints a prompt afterwards, and stops while the second test runs.
fn halfway(folder: &Path, env: &[(&str, &str)]) -> Terminal {
    suite(folder);
    let script = "kindlm test -q; printf 'READY> '; read answer";
    let terminal = Terminal::start(folder, "sh", &["-c", script], env, 80);
    wait_until("the second test runs", || {
        fs::read_to_string(folder.join("ran")).is_ok_and(|it| it.contains("slow"))
    });
    terminal
}

fn finish(folder: &Path, mut terminal: Terminal) -> (String, String) {
    fs::write(folder.join("go"), "").unwrap();
    terminal.wait_for("READY>");
    let screen = terminal.screen();
    terminal.type_text("\n");
    let (_, written, end) = terminal.end();
    assert!(!end.screen().hide_cursor(), "the cursor is visible");
    (screen, written)
}

#[test]
fn the_bar_leaves_a_clean_prompt() {
    let folder = tempfile::tempdir().unwrap();
    suite(folder.path());
    let script = "kindlm test; printf 'READY> '; read answer";
    let terminal = Terminal::start(folder.path(), "sh", &["-c", script], &[], 80);
    terminal.wait_for("█████░░░░░ 1 of 2");
    let (screen, written) = finish(folder.path(), terminal);
    assert!(!screen.contains('█') && !screen.contains('░'), "{screen}");
    assert_eq!(screen.lines().last().map(str::trim_end), Some("READY>"), "{screen}");
    assert!(written.contains("\u{1b}[31m"), "the failure is red");
}

#[test]
fn no_color_has_no_colours() {
    let folder = tempfile::tempdir().unwrap();
    let terminal = halfway(folder.path(), &[("NO_COLOR", "1")]);
    let (_, written) = finish(folder.path(), terminal);
    let is_colour = |it: &str| {
        let end = it.find(|it: char| !it.is_ascii_digit() && it != ';');
        end.is_some_and(|end| end > 0 && it[end..].starts_with('m') && !it.starts_with("0m"))
    };
    assert!(!written.split("\u{1b}[").skip(1).any(is_colour), "{written:?}");
}

#[test]
fn a_dumb_terminal_gets_no_escape_sequence() {
    let folder = tempfile::tempdir().unwrap();
    let terminal = halfway(folder.path(), &[("TERM", "dumb")]);
    let (screen, written) = finish(folder.path(), terminal);
    assert!(!written.contains('\u{1b}'), "{written:?}");
    assert!(screen.contains("FAILED"), "{screen}");
}

#[test]
fn keys_choose_the_tests_of_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    suite(folder.path());
    fs::write(folder.path().join("go"), "").unwrap();
    let mut terminal =
        Terminal::start(folder.path(), "kindlm", &["test", "--watch", "-q"], &[], 80);
    let ran = folder.path().join("ran");
    let mut runs = 0;
    for (keys, expected) in [
        ("", "quick\nslow\n"),
        ("f\n", "slow\n"),
        ("p qui\n", "quick\n"),
        ("nonsense\na\n", "quick\nslow\n"),
    ] {
        fs::write(&ran, "").unwrap();
        terminal.type_text(keys);
        runs += 1;
        terminal.wait_for_count("watching 2 files (exit code", runs);
        assert_eq!(fs::read_to_string(&ran).unwrap(), expected, "{keys:?}");
    }
    terminal.type_text("q\n");
    let (code, _, _) = terminal.end();
    assert_eq!(code, Some(1), "the code of the last run");
}

#[test]
fn evaluated_records_are_text_unless_they_are_echoed() {
    let folder = tempfile::tempdir().unwrap();
    let record =
        r#"{"agent_output": "hi", "note": "seen", "expect": {"output": {"contains": ["hi"]}}}"#;
    fs::write(folder.path().join("records.jsonl"), format!("{record}\n{record}\n")).unwrap();
    let evaluate = |args: &[&str]| {
        let args = [&["evaluate", "--jsonl", "records.jsonl"], args].concat();
        let (code, written, _) = Terminal::start(folder.path(), "kindlm", &args, &[], 80).end();
        assert_eq!(code, Some(0), "{written}");
        written
    };
    let text = evaluate(&[]);
    assert!(text.contains("passed  result 2  ") && !text.contains("seen"), "{text}");
    let echoed = evaluate(&["--echo"]);
    assert!(echoed.contains(r#""note":"seen""#), "{echoed}");
}
