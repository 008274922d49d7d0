//! Completions in real shells: the script is loaded, and the Tab key is pressed.
#![expect(clippy::print_stderr, reason = "a test that cannot run says so")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::terminal::Terminal;
use crate::wait_until;

fn suite(folder: &Path) {
    let yaml = "kindlm: 1\nproject: p\nsuite: { name: completed }\nproviders: { echo: {} }\n\
        models: [{ id: small, provider: echo, model: m }]\nprompts: { a: { user: hi } }\ntests:\n  \
        - { name: refunds (a) mug, prompt: a, tags: [orders], expect: { output: { contains: [hi] } } }\n";
    fs::write(folder.join("kindlm.yaml"), yaml).unwrap();
    fs::create_dir(folder.join("other")).unwrap();
    fs::write(folder.join("other/kindlm.yaml"), yaml.replace("small", "large")).unwrap();
    fs::write(folder.join("broken.yaml"), "tests: [").unwrap();
}

fn is_installed(shell: &str) -> bool {
    let found = Command::new(shell).arg("--version").output().is_ok();
    if !found {
        eprintln!("NOT RUN: `{shell}` is not installed");
    }
    found
}

/// Clears the screen, and types a text at the empty prompt.
///
/// Returns when the shell shows the text: a Tab that arrives before the shell reads keys completes nothing in zsh.
fn type_at_prompt(terminal: &mut Terminal, text: &str) {
    // Ctrl-U clears the text that was typed before.
    terminal.type_text("\u{15}clear\n");
    wait_until("the prompt is empty", || terminal.screen().trim() == "READY>");
    terminal.type_text(text);
    terminal.wait_for(&format!("READY> {}", text.trim_end()));
}

/// Presses Tab after each text, and expects the completed line.
fn completes(shell: &str, args: &[&str], setup: &str) {
    if !is_installed(shell) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    suite(folder.path());
    let home = folder.path().to_str().unwrap().to_owned();
    let env = [("HOME", home.as_str()), ("PS1", "READY> ")];
    let mut terminal = Terminal::start(folder.path(), shell, args, &env, 120);
    terminal.wait_for("READY>");
    terminal.type_text(setup);
    // The screen also shows the typed line, so the line must not contain the awaited word `setup`.
    terminal.type_text("clear; echo set''up\n");
    terminal.wait_for("setup");
    for (typed, completed) in [
        ("kindlm expl", "kindlm explain"),
        ("kindlm test refu", "kindlm test refunds\\ \\(a\\)\\ mug"),
        ("kindlm test refunds\\ ", "kindlm test refunds\\ \\(a\\)\\ mug"),
        ("kindlm test --tags o", "kindlm test --tags orders"),
        ("kindlm test --models s", "kindlm test --models small"),
        ("kindlm test -c other --models l", "kindlm test -c other --models large"),
        ("kindlm report --reporter jun", "kindlm report --reporter junit"),
        ("kindlm explain defaults.rep", "kindlm explain defaults.repeat"),
    ] {
        type_at_prompt(&mut terminal, typed);
        terminal.type_text("\t");
        terminal.wait_for(&format!("READY> {completed}"));
    }
    // A broken suite completes nothing, and shows nothing.
    type_at_prompt(&mut terminal, "kindlm test -c broken.yaml --models s");
    terminal.type_text("\tx\n");
    terminal.wait_for("--models sx");
    terminal.type_text("exit\n");
    terminal.end();
}

#[test]
fn bash_completes_names() {
    completes("bash", &["--norc", "--noprofile", "-i"], "source <(kindlm completions bash)\n");
}

#[test]
fn zsh_completes_names() {
    let setup =
        "PS1='READY> '; autoload -Uz compinit; compinit -u; source <(kindlm completions zsh)\n";
    completes("zsh", &["-f", "-i"], setup);
}
