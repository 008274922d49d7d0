//! Measures the time of checks of the output, on large outputs that are slow to check.
//!
//! The outputs have 250 KB and 1 MB. A ratio far above 4 shows that the time of a check is not linear in the length.
//!
//! `cargo bench -p kindlm-assertions`
#![expect(clippy::print_stdout, reason = "a bench tells what it measured")]

use std::time::Instant;

use kindlm_assertions::{Evidence, Setup, compile};
use kindlm_types::{Answers, Execution, NoFiles};
use serde_json::{Value, json};

const SMALL: usize = 250_000;
const LARGE: usize = 1_000_000;

/// Returns the measured checks, each with a value that is expensive to check.
fn entries() -> Value {
    json!([
        {"type": "equals", "value": {"a": 1}},
        {"type": "contains", "value": "xyz"},
        {"type": "icontains", "value": "xyz"},
        {"type": "contains-any", "value": "x1, y1"},
        {"type": "icontains-all", "value": "x1, y1"},
        {"type": "starts-with", "value": "xyz"},
        {"type": "regex", "value": "(\\w+\\s?)+$"},
        {"type": "is-json", "value": {"required": ["zz"]}},
        {"type": "contains-json", "value": {"required": ["zz"]}},
        {"type": "is-xml", "value": "a.b.c"},
        {"type": "contains-xml", "value": "a.b.c"},
        {"type": "is-html"},
        {"type": "contains-html"},
        {"type": "is-sql", "value": {"allowedTables": ["select::null::zz"]}},
        {"type": "contains-sql"},
        {"type": "levenshtein", "value": "abc".repeat(1_000), "threshold": 10},
        {"type": "rouge-n", "value": "a b c"},
        {"type": "bleu", "value": ["a b c", "b c d e"]},
        {"type": "gleu", "value": "a b c"},
        {"type": "meteor", "value": "a b c ".repeat(100)},
        {"type": "word-count", "value": {"max": 10}},
        {"type": "is-refusal"},
        {"type": "tool-call-f1", "value": ["a"]},
        {"type": "is-valid-openai-tools-call"},
    ])
}

/// The texts that are repeated to make the outputs, one text per output.
const PIECES: &[&str] = &[
    "a ",
    "{",
    "{\"a\":[",
    "{a: ",
    "}{",
    "<a>",
    "<a b=\"",
    "<!--",
    "</a>",
    "&",
    "(",
    "SELECT ",
    "a OR ",
    "```\n",
    "```sql\n",
    "\"",
    "a.",
    "\u{1f600}",
    "[",
    "[\n",
    "{\n",
    "I am sorry ",
];

fn main() {
    let (checks, problems) = compile(&json!({"assert": entries()}), &Setup::new(&NoFiles, None));
    assert!(problems.is_empty(), "{problems:?}");
    println!("| check | slowest output | 250 KB | 1 MB | ratio |\n|---|---|---|---|---|");
    // `cargo bench -p kindlm-assertions -- bleu` measures a single check.
    let only: Vec<String> = std::env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    for check in
        checks.iter().filter(|it| only.is_empty() || only.iter().any(|id| id == it.meta.id))
    {
        let timed = |piece: &str, size: usize| {
            let output = piece.repeat(size / piece.len());
            let execution = Execution { output, requests: 1, ..Execution::default() };
            let evidence = Evidence {
                execution: &execution,
                answers: &Answers::default(),
                baseline: None,
                comparison: None,
            };
            let begun = Instant::now();
            assert_eq!(check.evaluate(&evidence).len(), 1);
            begun.elapsed().as_secs_f64() * 1e3
        };
        let measured = PIECES.iter().map(|piece| (piece, timed(piece, SMALL), timed(piece, LARGE)));
        let slowest = measured.max_by(|a, b| a.2.total_cmp(&b.2));
        if let Some((piece, small, large)) = slowest {
            let (id, ratio) = (check.meta.id, large / small.max(0.001));
            println!("| {id} | {piece:?} … | {small:.1} ms | {large:.1} ms | {ratio:.1} |");
        }
    }
}
