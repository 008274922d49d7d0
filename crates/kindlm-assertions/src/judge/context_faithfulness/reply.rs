//! The parser of the statements of an answer, and of the verdicts on them.

use serde_json::Value;

use crate::core::judging::{Flaw, objects, only, unmarked};

/// The start of the list of all verdicts in prose.
const IN_ORDER: &str = "final verdict for each statement in order:";
/// The start of the verdict on one statement in prose.
const VERDICT: &str = "verdict:";

/// Reads the statements in a reply: in JSON, or one per line.
///
/// A JSON list may be empty; an empty reply is an error.
pub(super) fn read_statements(reply: &str) -> Result<Vec<String>, Flaw> {
    if let Some(statements) = only(&objects(reply)?, "statements")? {
        let items = statements.as_array().ok_or("`statements` is not a list")?;
        let text = |it: &Value| it.as_str().map(str::to_owned).ok_or("a statement is not a text");
        return Ok(items.iter().map(text).collect::<Result<_, _>>()?);
    }
    let lines = reply.lines().map(|it| unmarked(it).to_owned()).filter(|it| !it.is_empty());
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { Err("it is empty".into()) } else { Ok(lines) }
}

/// Reads the verdicts on `count` statements; true means that the context supports the statement.
///
/// Fails unless the reply has a valid verdict on each statement.
pub(super) fn read_verdicts(reply: &str, count: usize) -> Result<Vec<bool>, Flaw> {
    let objects = objects(reply)?;
    let verdicts = match only(&objects, "verdicts")? {
        Some(Value::Array(items)) => {
            let supported = |it: &Value| it.get("supported").and_then(Value::as_bool);
            let read: Option<Vec<bool>> = items.iter().map(supported).collect();
            read.ok_or("`supported` of a verdict is neither true nor false")?
        }
        Some(_) => return Err("`verdicts` is not a list".into()),
        None => in_prose(reply)?,
    };
    if verdicts.len() == count {
        Ok(verdicts)
    } else {
        Err(format!("there are {count} statements, and it has verdicts on {}", verdicts.len())
            .into())
    }
}

fn in_prose(reply: &str) -> Result<Vec<bool>, Flaw> {
    let lower = reply.to_lowercase();
    if let Some((_, list)) = lower.rsplit_once(IN_ORDER) {
        return split_words(list).map(verdict).collect();
    }
    let one = |text: &str| {
        let line = text.lines().find(|it| !it.trim().is_empty()).unwrap_or_default();
        if is_both(line) {
            return Err(Flaw::Contradiction("a verdict is both yes and no".to_owned()));
        }
        verdict(split_words(line).next().unwrap_or("nothing"))
    };
    lower.split(VERDICT).skip(1).map(one).collect()
}

/// Returns true if a line starts with both verdicts: `yes and no`, `no/yes`.
///
/// The judge's reasons may follow on the same line.
fn is_both(line: &str) -> bool {
    let words: Vec<&str> = split_words(line).collect();
    let are_both = |a: &str, b: &str| matches!((a, b), ("yes", "no") | ("no", "yes"));
    match words.as_slice() {
        [first, "and" | "or", second, ..] | [first, second] => are_both(first, second),
        [first, second, ..] => {
            are_both(first, second) && line.contains(&format!("{first}/{second}"))
        }
        _ => false,
    }
}

fn verdict(word: &str) -> Result<bool, Flaw> {
    match word {
        "yes" => Ok(true),
        "no" => Ok(false),
        other => Err(format!("the verdict `{other}` is neither yes nor no").into()),
    }
}

fn split_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|it: char| !it.is_alphanumeric()).filter(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_has_one_verdict() {
        for (reply, expected) in [
            (r#"{"verdicts": [{"supported": true}, {"supported": false}]}"#, Ok(vec![true, false])),
            ("1. x. Verdict: Yes\n2. y. Verdict: no.", Ok(vec![true, false])),
            ("Final verdict for each statement in order: Yes. No.", Ok(vec![true, false])),
            ("Verdict: Yes", Err("there are 2 statements, and it has verdicts on 1")),
            ("1. Verdict: Yes and no\n2. Verdict: no", Err("a verdict is both yes and no")),
            ("1. Verdict: no/yes, who knows\n2. Verdict: no", Err("a verdict is both yes and no")),
            (
                "1. Verdict: Yes, there is no doubt.\n2. Verdict: No. Yes is wrong",
                Ok(vec![true, false]),
            ),
            (
                r#"{"verdicts": []} {"verdicts": [{"supported": true}, {"supported": true}]}"#,
                Err("it gives several different `verdicts`"),
            ),
            ("Verdict: perhaps", Err("the verdict `perhaps` is neither yes nor no")),
            ("", Err("there are 2 statements, and it has verdicts on 0")),
            (
                r#"{"verdicts": [{"supported": "yes"}]}"#,
                Err("`supported` of a verdict is neither true nor false"),
            ),
        ] {
            let read = read_verdicts(reply, 2).map_err(|flaw| flaw.to_string());
            assert_eq!(read, expected.map_err(str::to_owned), "{reply}");
        }
    }

    #[test]
    fn statements_are_a_list_or_lines() {
        for (reply, expected) in [
            (r#"{"statements": ["a", "b"]}"#, Ok(vec!["a", "b"])),
            (r#"{"statements": []}"#, Ok(vec![])),
            ("1. a\n\n- b", Ok(vec!["a", "b"])),
            (r#"{"statements": [1]}"#, Err("a statement is not a text")),
            (" \n", Err("it is empty")),
        ] {
            let read = read_statements(reply).map_err(|flaw| flaw.to_string());
            let expected = expected.map(|it| it.into_iter().map(str::to_owned).collect());
            assert_eq!(read, expected.map_err(str::to_owned), "{reply}");
        }
    }
}
