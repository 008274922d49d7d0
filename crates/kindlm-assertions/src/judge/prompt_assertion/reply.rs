//! The parser of a judge's verdicts on a set of rules.

use serde_json::{Map, Value};

use crate::core::judging::{Flaw, objects, text_of};

/// The verdict on one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    pub(super) pass: bool,
    pub(super) reasoning: String,
}

/// The verdicts in a reply on a set of rules.
#[derive(Debug)]
pub(super) struct Judgements {
    /// The id of each rule, with the verdict or the reason why there is none, in order.
    rules: Vec<(String, Result<Judgement, Flaw>)>,
    /// The ids in the reply that no rule has, in order.
    unknown: Vec<String>,
}

impl Judgements {
    /// Reads the verdicts of a reply on the rules with these ids.
    ///
    /// `reply` is the judge's own part of the reply, or the reason why there is none. A verdict that cannot be read is
    /// a flaw of its rule, so this function never fails.
    pub(super) fn from_reply<'a>(
        reply: Result<&str, &str>,
        ids: impl Iterator<Item = &'a str>,
    ) -> Self {
        let objects = reply.map_err(Flaw::from).and_then(objects);
        let found = objects.as_deref().unwrap_or_default();
        let entries = entries(found);
        let entries: Vec<(String, &Map<String, Value>)> =
            entries.into_iter().map(|it| (text_of(it.get("id")), it)).collect();
        let mut rules: Vec<(String, Result<Judgement, Flaw>)> = Vec::new();
        for id in ids {
            let mut about =
                entries.iter().filter(|(it, _)| it == id).map(|(_, it)| judgement(id, it));
            let verdict = match about.next() {
                None => Err(match &objects {
                    Err(why) => why.clone(),
                    Ok(none) if none.is_empty() => "the reply holds no JSON object".into(),
                    Ok(_) => format!("`{id}` is missing").into(),
                }),
                Some(first) if about.any(|it| pass(&it) != pass(&first)) => {
                    Err(Flaw::Contradiction(format!("`{id}` is given more than once, and differs")))
                }
                Some(first) => first.map_err(Flaw::from),
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

    /// Returns the rules to ask the judge about again, and the flaws of the reply.
    ///
    /// The flaws are one text, which is the end of a sentence about the reply. Returns `None` if every rule has a
    /// verdict or a contradiction.
    pub(super) fn open(&self) -> Option<(Vec<&str>, String)> {
        let is_open = |it: &&(String, _)| matches!(it.1, Err(Flaw::Unreadable(_)));
        let open: Vec<&(String, Result<Judgement, Flaw>)> =
            self.rules.iter().filter(is_open).collect();
        if open.is_empty() {
            return None;
        }
        let whys = open.iter().filter_map(|(_, it)| it.as_ref().err().map(ToString::to_string));
        let unknown = self.unknown.iter().map(|id| format!("`{id}` is none of the ids"));
        let mut flaws: Vec<String> = Vec::new();
        for flaw in whys.chain(unknown) {
            if !flaws.contains(&flaw) {
                flaws.push(flaw);
            }
        }
        Some((open.iter().map(|(id, _)| id.as_str()).collect(), flaws.join("; ")))
    }

    /// Returns the verdict on a rule, or the reason why there is none.
    pub(super) fn for_rule(&self, id: &str) -> Result<&Judgement, &Flaw> {
        const UNKNOWN: &Flaw = &Flaw::Unreadable(String::new());
        let rule = self.rules.iter().find(|(it, _)| it == id);
        rule.map_or(Err(UNKNOWN), |(_, verdict)| verdict.as_ref())
    }

    /// Returns the ids that no rule has.
    pub(super) fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// Adds the verdicts of a second reply.
    ///
    /// A verdict of the first reply stays. If the second reply gives a different verdict on the same rule, the result
    /// is a contradiction.
    pub(super) fn completed_by(mut self, second: Self) -> Self {
        for ((id, verdict), (_, again)) in self.rules.iter_mut().zip(second.rules) {
            match (&verdict, &again) {
                (Err(Flaw::Unreadable(_)), _) => *verdict = again,
                (Ok(first), Ok(other)) if first.pass != other.pass => {
                    let why = format!("two replies give different verdicts on `{id}`");
                    *verdict = Err(Flaw::Contradiction(why));
                }
                _ => {}
            }
        }
        self.unknown.extend(second.unknown);
        self
    }
}

fn pass(judgement: &Result<Judgement, String>) -> Option<bool> {
    judgement.as_ref().ok().map(|it| it.pass)
}

/// Returns the verdicts in a reply: the items of every `results` list, and the objects with an `id` outside such lists.
///
/// All `results` lists count, not only the first. A judge may quote the output before it answers, so the first list
/// could be a quotation. Two different verdicts on one id are a contradiction.
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
