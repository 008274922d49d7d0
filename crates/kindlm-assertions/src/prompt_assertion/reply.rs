//! Reading a judge's verdicts on a set of rules: every id exactly once.

use serde_json::{Map, Value};

use crate::judging::{objects, text_of};

/// A verdict on one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    pub(super) pass: bool,
    pub(super) reasoning: String,
}

/// What a reply says about a set of rules.
#[derive(Debug)]
pub(super) struct Judgements {
    /// For each rule its verdict, or why there is none, in the order of the rules.
    rules: Vec<(String, Result<Judgement, String>)>,
    /// Ids that are none of the rules', in the order of the reply.
    unknown: Vec<String>,
}

impl Judgements {
    /// Reads a reply about the rules with these ids, or why none of it is the judge's. Never fails: what cannot be read is
    /// a rule without verdict.
    pub(super) fn read<'a>(reply: Result<&str, &str>, ids: impl Iterator<Item = &'a str>) -> Self {
        let objects = reply.map_err(str::to_owned).and_then(objects);
        let found = objects.as_deref().unwrap_or_default();
        let entries = entries(found);
        let entries: Vec<(String, &Map<String, Value>)> =
            entries.into_iter().map(|it| (text_of(it.get("id")), it)).collect();
        let mut rules: Vec<(String, Result<Judgement, String>)> = Vec::new();
        for id in ids {
            let mut about = entries.iter().filter(|(it, _)| it == id).map(|(_, entry)| *entry);
            let verdict = match (about.next(), about.next()) {
                (None, _) => Err(match &objects {
                    Err(why) => why.clone(),
                    Ok(none) if none.is_empty() => "the reply holds no JSON object".to_owned(),
                    Ok(_) => format!("`{id}` is missing"),
                }),
                (Some(entry), None) => judgement(id, entry),
                (Some(_), Some(_)) => Err(format!("`{id}` is given more than once")),
            };
            rules.push((id.to_owned(), verdict));
        }
        let mut unknown: Vec<String> = Vec::new();
        for (id, _) in entries {
            if !rules.iter().any(|(it, _)| *it == id) && !unknown.contains(&id) {
                unknown.push(id);
            }
        }
        Self { rules, unknown }
    }

    /// What is wrong with the reply, if anything, as a fragment.
    pub(super) fn flaw(&self) -> Option<String> {
        let mut flaws: Vec<String> = Vec::new();
        let whys = self.rules.iter().filter_map(|(_, verdict)| verdict.as_ref().err().cloned());
        let unknown = self.unknown.iter().map(|id| format!("`{id}` is none of the ids"));
        for flaw in whys.chain(unknown) {
            if !flaws.contains(&flaw) {
                flaws.push(flaw);
            }
        }
        (!flaws.is_empty()).then(|| flaws.join("; "))
    }

    /// The verdict on a rule, or why there is none.
    pub(super) fn of(&self, id: &str) -> Result<&Judgement, &str> {
        match self.rules.iter().find(|(it, _)| it == id) {
            Some((_, verdict)) => verdict.as_ref().map_err(String::as_str),
            None => Err("it is none of the rules"),
        }
    }

    /// Ids that are none of the rules'.
    pub(super) fn unknown(&self) -> impl Iterator<Item = &str> {
        self.unknown.iter().map(String::as_str)
    }

    /// These verdicts, and for rules without one those of an earlier reply.
    pub(super) fn or(mut self, earlier: Self) -> Self {
        for ((_, verdict), (_, before)) in self.rules.iter_mut().zip(earlier.rules) {
            if verdict.is_err() && before.is_ok() {
                *verdict = before;
            }
        }
        self
    }
}

/// The verdicts in a reply: the items of every `results`, and objects that stand by themselves.
///
/// Not of the first `results` alone: a judge may quote what the output says about the verdict before it gives its own, and
/// then the quotation must not be taken for it. Two verdicts on one id are none.
fn entries(found: &[Map<String, Value>]) -> Vec<&Map<String, Value>> {
    let of = |it| -> Vec<&Map<String, Value>> {
        let object: &Map<String, Value> = it;
        match object.get("results").and_then(Value::as_array) {
            Some(items) => items.iter().filter_map(Value::as_object).collect(),
            None if object.contains_key("id") => vec![object],
            None => Vec::new(),
        }
    };
    found.iter().flat_map(of).collect()
}

fn judgement(id: &str, entry: &Map<String, Value>) -> Result<Judgement, String> {
    match entry.get("pass") {
        Some(&Value::Bool(pass)) => {
            Ok(Judgement { pass, reasoning: text_of(entry.get("reasoning")) })
        }
        Some(_) => Err(format!("`pass` of `{id}` is neither true nor false")),
        None => Err(format!("`{id}` has no `pass`")),
    }
}
