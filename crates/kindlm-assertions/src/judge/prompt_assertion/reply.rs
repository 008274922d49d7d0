//! Reading a judge's verdicts on a set of rules: every id exactly once.

use serde_json::{Map, Value};

use crate::core::judging::{Flaw, objects, text_of};

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
    rules: Vec<(String, Result<Judgement, Flaw>)>,
    /// Ids that are none of the rules', in the order of the reply.
    unknown: Vec<String>,
}

impl Judgements {
    /// Reads a reply about the rules with these ids, or why none of it is the judge's. Never fails: what cannot be read is
    /// a rule without verdict.
    pub(super) fn read<'a>(reply: Result<&str, &str>, ids: impl Iterator<Item = &'a str>) -> Self {
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

    /// The rules that the judge is asked about again, and what was wrong with the reply, as a fragment; `None` if no
    /// second reply can change anything.
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

    /// The verdict on a rule, or why there is none.
    pub(super) fn of(&self, id: &str) -> Result<&Judgement, &Flaw> {
        const UNKNOWN: &Flaw = &Flaw::Unreadable(String::new());
        let rule = self.rules.iter().find(|(it, _)| it == id);
        rule.map_or(Err(UNKNOWN), |(_, verdict)| verdict.as_ref())
    }

    /// Ids that are none of the rules'.
    pub(super) fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// These verdicts with those of a second reply. A verdict of the first reply stays; one of the second reply that
    /// differs from it contradicts it.
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
