//! Writes results as text for a terminal, instead of JSON lines.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::mem;

use kindlm_reporters::{one_line, wrapped};
use kindlm_types::{Outcome, ecma};
use kindlm_wire::evaluate::{EvaluatedResult, Evaluation, LineError};
use kindlm_wire::v1::Status;
use serde_json::Value;

/// The maximum number of lines that are shown of a message.
const LINES: usize = 6;
/// The minimum width of a text in columns, without its indentation.
const NARROWEST: usize = 20;

/// A writer that receives JSON lines, and writes a block of text for each of them.
pub(super) struct ReadableResults<'w> {
    to: &'w mut (dyn Write + Send),
    columns: usize,
    /// True if a result without an id is named by its number.
    is_numbered: bool,
    /// The beginning of a line whose end was not received yet.
    line: Vec<u8>,
    /// The number of results for each word, such as `passed`, in order of first appearance.
    counts: Vec<(&'static str, u64)>,
}

impl<'w> ReadableResults<'w> {
    /// Returns a writer for a terminal with this number of columns.
    ///
    /// With `is_numbered`, a result without an id is named by its number, from 1.
    pub(super) fn new(to: &'w mut (dyn Write + Send), columns: usize, is_numbered: bool) -> Self {
        Self { to, columns, is_numbered, line: Vec::new(), counts: Vec::new() }
    }

    /// Writes the number of results if there are several.
    pub(super) fn finish(self) -> io::Result<()> {
        let all = self.total();
        if all < 2 {
            return Ok(());
        }
        let parts: Vec<String> =
            self.counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
        writeln!(self.to, "\n{all} results: {}", parts.join(", "))
    }

    /// Returns the number of results so far.
    fn total(&self) -> u64 {
        self.counts.iter().map(|it| it.1).sum()
    }

    fn count(&mut self, word: &'static str) {
        match self.counts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((word, 1)),
        }
    }

    /// Returns the text of a result. Other lines stay as they are.
    fn text(&mut self, line: &[u8]) -> String {
        if let Ok(evaluation) = serde_json::from_slice::<Evaluation>(line) {
            let (_, word) = look(evaluation.outcome);
            self.count(word);
            let label = match &evaluation.id {
                None if self.is_numbered => format!("result {}", self.total()),
                id => name(id.as_ref(), 0),
            };
            return of_evaluation(&evaluation, label);
        }
        match serde_json::from_slice::<LineError>(line) {
            Ok(it) => {
                self.count("malformed");
                format!(
                    "! malformed  {}\n    {}\n",
                    name(it.id.as_ref(), it.line),
                    one_line(&it.error)
                )
            }
            Err(_) => String::from_utf8_lossy(line).into_owned(),
        }
    }
}

impl Write for ReadableResults<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|it| *it == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = mem::take(&mut self.line);
                let text = self.text(&line);
                for line in text.lines() {
                    writeln!(self.to, "{}", fitted(line, self.columns))?;
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Wraps a line for a terminal, and keeps its indentation. [`wrapped`] indents continuation lines by two more columns.
fn fitted(line: &str, columns: usize) -> String {
    let text = line.trim_start_matches(' ');
    let indent = " ".repeat(line.len() - text.len());
    let room = columns.saturating_sub(indent.len()).max(NARROWEST);
    format!("{indent}{}", wrapped(text, room).replace('\n', &format!("\n{indent}")))
}

/// Returns the mark and the word of an outcome.
fn look(outcome: Outcome) -> (char, &'static str) {
    match outcome {
        Outcome::Passed => ('✓', "passed"),
        Outcome::Scored => ('~', "scored"),
        Outcome::Failed => ('✗', "failed"),
        Outcome::Errored => ('!', "errored"),
        Outcome::Skipped => ('–', "skipped"),
    }
}

/// Returns the id of a record, or else the number of its line. A single record without an id has no line.
fn name(id: Option<&Value>, line: u64) -> String {
    match id {
        Some(id) => one_line(&ecma::text(id)),
        None if line > 0 => format!("line {line}"),
        None => String::new(),
    }
}

fn of_evaluation(it: &Evaluation, label: String) -> String {
    let (mark, word) = look(it.outcome);
    let score = it.weighted_score.or(it.score).map(|it| format!("score {}", ecma::to_fixed(it, 2)));
    let checks = match it.total {
        0 => "no check was judged".to_owned(),
        total => format!("{} of {total} checks passed", it.passed),
    };
    let facts = [Some(label), score, Some(checks)].into_iter().flatten();
    let facts: Vec<String> = facts.filter(|it| !it.is_empty()).collect();
    let mut text = format!("{mark} {word}  {}\n", facts.join("  "));
    it.results.iter().for_each(|it| add_check(&mut text, it));
    text
}

fn add_check(text: &mut String, it: &EvaluatedResult) {
    let (mark, _) = look(match it.status {
        Status::Passed => Outcome::Passed,
        Status::Failed => Outcome::Failed,
        Status::Errored => Outcome::Errored,
        Status::Skipped => Outcome::Skipped,
    });
    // A score of 0 or 1 says no more than the mark.
    let score = it.score.filter(|it| *it > 0.0 && *it < 1.0).map(|it| ecma::to_fixed(it, 2));
    let code = it.failure_code.as_ref().map(|it| one_line(it.as_str()));
    let label = it.id.as_deref().unwrap_or(&it.label);
    let parts = [score, Some(one_line(label)), code].into_iter().flatten();
    let _ = writeln!(text, "    {mark} {}", parts.collect::<Vec<_>>().join("  "));
    if it.status == Status::Passed {
        return;
    }
    let message = it.failure_message.as_deref().unwrap_or_default();
    let reason = it.reasoning.as_deref().filter(|it| !message.contains(*it)).unwrap_or_default();
    for line in message.lines().chain(reason.lines()).filter(|it| !it.is_empty()).take(LINES) {
        let _ = writeln!(text, "      {}", one_line(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_lines_keep_their_indentation() {
        assert_eq!(fitted("    one two three four", 20), "    one two three four");
        assert_eq!(
            fitted("    one two three four five six", 24),
            "    one two three four\n      five six"
        );
    }

    #[test]
    fn results_are_blocks_of_text() {
        let result = |status: &str, label: &str, message: Option<&str>| {
            serde_json::json!({
                "pass": status == "passed", "status": status, "type": "contains", "label": label,
                "score": if status == "passed" { 1.0 } else { 0.0 }, "severity": "gate",
                "failure_code": message.map(|_| "KEYWORD_MISSING"), "failure_message": message,
            })
        };
        let first = serde_json::json!({
            "id": 7, "score": 0.5, "passed": 1, "failed": 1, "total": 2, "outcome": "failed",
            "results": [result("passed", "JSON", None), result("failed", "Contains", Some("no \"hi\"\nin it"))],
        });
        let second = serde_json::json!({"error": "not JSON", "line": 2});
        let mut third = first.clone();
        third["results"] = serde_json::json!([]);
        third.as_object_mut().unwrap().remove("id");
        let mut out = Vec::new();
        let mut text = ReadableResults::new(&mut out, 80, true);
        let all = format!("{first}\n{second}\n{third}\n");
        // Lines may arrive in parts.
        let (begin, end) = all.split_at(20);
        text.write_all(begin.as_bytes()).unwrap();
        text.write_all(end.as_bytes()).unwrap();
        text.finish().unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "✗ failed  7  score 0.50  1 of 2 checks passed\n    ✓ JSON\n    ✗ Contains  KEYWORD_MISSING\n      \
             no \"hi\"\n      in it\n! malformed  line 2\n    not JSON\n✗ failed  result 3  score 0.50  1 of 2 checks \
             passed\n\n3 results: 2 failed, 1 malformed\n"
        );
        let mut out = Vec::new();
        ReadableResults::new(&mut out, 80, false)
            .write_all(format!("{third}\n").as_bytes())
            .unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "✗ failed  score 0.50  1 of 2 checks passed\n");
    }
}
