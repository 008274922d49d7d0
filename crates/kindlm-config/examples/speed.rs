//! Measures the time for reading config files.
//!
//! Run `cargo run --release -p kindlm-config --example speed`.
#![expect(clippy::print_stdout, reason = "it is a program for the terminal")]

use std::fmt::Write as _;
use std::time::Instant;

use kindlm_types::NoFiles;

const HEAD: &str = "kindlm: 1
project: demo
suite: { name: speed }
models: [openai:gpt-4o]
prompts: { greet: { system: Be polite., user: 'Greet {{name}}.' } }
tests:
";

/// Makes a suite with `count` tests.
fn tests(count: usize) -> String {
    (0..count).fold(HEAD.to_owned(), |mut text, it| {
        let _ = write!(
            text,
            "  - name: test {it}
    prompt: greet
    vars: {{ name: Ada {it} }}
    tags: [a, b]
    expect:
      output: {{ contains: [Ada], maxLength: 500 }}
      guardrails: {{ keywords: {{ deny: [secret] }} }}
      toolCalls: [{{ tool: lookup, argsMatch: {{ id: {it} }} }}]
"
        );
        text
    })
}

/// Makes a file of 50 MB by repeating a text.
fn fill(start: &str, part: &str, end: &str) -> String {
    format!("{start}{}{end}", part.repeat(50_000_000 / part.len()))
}

fn main() {
    let files = [
        ("1 test", tests(1)),
        ("1 test, warm", tests(1)),
        ("1,000 tests", tests(1_000)),
        ("20,000 tests", tests(20_000)),
        ("50 MB of tests", tests(170_000)),
        ("50 MB of comment", fill(&format!("{}# ", tests(1)), "x", "\n")),
        ("50 MB of one quoted text", fill("kindlm: \"", "words, ", "\"\n")),
        ("50 MB of one plain text", fill("kindlm: ", "words ", "\n")),
        ("50 MB of one block text", fill("kindlm: |\n", "  some line of a long text\n", "")),
        ("50 MB of one folded text", fill("kindlm: >\n", "  some line of a long text\n", "")),
        ("50 MB of list items", fill("kindlm: [", "a, ", "]\n")),
        ("50 MB of long list items", fill("kindlm:\n", &format!("- {}\n", "word ".repeat(12)), "")),
        ("50 MB of open brackets", fill("", "[", "")),
        ("50 MB of white space", fill("kindlm:", " ", "1\n")),
        ("50 MB of empty lines", fill("kindlm: 1\n", "\n", "")),
        ("50 MB of aliases", fill("a: &a x\nb: [", "*a, ", "]\n")),
        ("50 MB of a wrong byte", fill("", "\u{0}", "")),
        (
            "50 MB of unknown keys",
            (0..4_000_000).fold(String::new(), |mut text, it| {
                let _ = writeln!(text, "k{it}: 1");
                text
            }),
        ),
    ];
    for (what, text) in files {
        let start = Instant::now();
        let loaded = kindlm_config::load("kindlm.yaml", text.as_bytes(), &NoFiles, &|_| None);
        let took = start.elapsed();
        let said = match (&loaded.suite, loaded.diagnostics.first()) {
            (Some(suite), _) => format!("{} tests", suite.cases.len()),
            (None, Some(first)) => first.message.clone(),
            (None, None) => String::new(),
        };
        println!("{what:28} {:9.1} ms  {said}", took.as_secs_f64() * 1e3);
    }
}
