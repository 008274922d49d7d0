//! The differences between a past run and the run that resumes it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::{Header, PlannedCase};
use crate::Digest;

/// The maximum number of names of one kind in an error message.
///
/// Further names are counted.
const NAMED: usize = 3;

/// The differences between the run of a journal and another run.
///
/// The [`Display`](fmt::Display) text gives the reasons why the run cannot be resumed. An example is ``the vars of
/// `refund` changed; the model `gpt` is new``.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// The old and the new name of the suite, if they differ.
    pub suite: Option<(String, String)>,
    /// The names of changed, added and removed settings.
    pub settings: Vec<String>,
    /// The ids of models with a different definition.
    pub models_changed: Vec<String>,
    /// The ids of new models.
    pub models_added: Vec<String>,
    /// The ids of removed models.
    pub models_removed: Vec<String>,
    /// The changed cases, one for each test case and model.
    pub cases_changed: Vec<ChangedCase>,
    /// The new cases, each with its model.
    pub cases_added: Vec<(String, String)>,
    /// The removed cases, each with its model.
    pub cases_removed: Vec<(String, String)>,
    /// The old and the new version of KindLM, if they differ. Different versions do not prevent resuming.
    pub version: Option<(String, String)>,
    /// True if the bytes of the config file differ. Different bytes alone do not prevent resuming.
    pub file: bool,
}

/// A test case on a model, with the parts that have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangedCase {
    /// The test case's name.
    pub case: String,
    /// The model's id.
    pub model: String,
    /// The changed parts, such as `prompt`, `tools`, `vars` or `checks`.
    pub parts: Vec<&'static str>,
}

impl Header<'_> {
    /// Compares this header with `now`, the header of the resumed run.
    pub fn compare(&self, now: &Header<'_>) -> Differences {
        let pair = |then: &str, now: &str| (then != now).then(|| (then.to_owned(), now.to_owned()));
        let (models_changed, models_added, models_removed) = changes(&self.models, &now.models);
        let (mut settings, added, removed) = changes(&self.settings, &now.settings);
        settings.extend(added.into_iter().chain(removed));
        settings.sort_unstable();
        let mut differences = Differences {
            suite: pair(&self.suite, &now.suite),
            settings,
            models_changed,
            models_added,
            models_removed,
            version: pair(&self.version, &now.version),
            file: self.suite_digest != now.suite_digest,
            ..Differences::default()
        };
        differences.add_cases(&self.cases, &now.cases);
        differences
    }
}

impl Differences {
    /// Returns true if the run can be resumed.
    ///
    /// In this case, the data that the executions depend on is unchanged.
    pub fn is_empty(&self) -> bool {
        self.suite.is_none()
            && self.cases_changed.is_empty()
            && [&self.cases_added, &self.cases_removed].iter().all(|it| it.is_empty())
            && [&self.settings, &self.models_changed, &self.models_added, &self.models_removed]
                .iter()
                .all(|it| it.is_empty())
    }

    fn add_cases(&mut self, then: &[PlannedCase<'_>], now: &[PlannedCase<'_>]) {
        fn key<'h>(it: &'h PlannedCase<'_>) -> (&'h str, &'h str) {
            (it.case.as_ref(), it.model.as_ref())
        }
        let owned = |(case, model): (&str, &str)| (case.to_owned(), model.to_owned());
        let mut known: HashMap<_, _> = then.iter().map(|it| (key(it), it)).collect();
        for case in now {
            match known.remove(&key(case)) {
                None => self.cases_added.push(owned(key(case))),
                Some(before) => {
                    let parts = changed_parts(before, case);
                    if !parts.is_empty() {
                        let (case, model) = owned(key(case));
                        self.cases_changed.push(ChangedCase { case, model, parts });
                    }
                }
            }
        }
        // A `HashMap` has no order, so iterate over the planned cases.
        let removed = then.iter().filter(|it| known.remove(&key(it)).is_some());
        self.cases_removed = removed.map(|it| owned(key(it))).collect();
    }
}

fn changed_parts(then: &PlannedCase<'_>, now: &PlannedCase<'_>) -> Vec<&'static str> {
    let mut parts = Vec::new();
    let mut add = |part, changed: bool| parts.extend(changed.then_some(part));
    add("prompt", then.prompt != now.prompt);
    add("tools", then.tools != now.tools);
    add("vars", then.vars != now.vars);
    let others = [then.prompt, then.tools, then.vars] != [now.prompt, now.tools, now.vars];
    add("checks", then.checks != now.checks && !others);
    add("number of repeats", then.repeats != now.repeats);
    parts
}

type Named<'a> = BTreeMap<Cow<'a, str>, Digest>;

/// Returns the names whose values differ, the new names, and the removed names.
fn changes(then: &Named<'_>, now: &Named<'_>) -> (Vec<String>, Vec<String>, Vec<String>) {
    let (mut changed, mut added) = (Vec::new(), Vec::new());
    for (name, digest) in now {
        match then.get(name) {
            None => added.push(name.to_string()),
            Some(before) if before != digest => changed.push(name.to_string()),
            Some(_) => {}
        }
    }
    let removed = then.keys().filter(|it| !now.contains_key(*it)).map(ToString::to_string);
    (changed, added, removed.collect())
}

impl fmt::Display for Differences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = Vec::new();
        if let Some((then, now)) = &self.suite {
            said.push(format!("the suite was `{then}` and is `{now}`"));
        }
        let quoted = |names: &[String]| names.iter().map(|it| format!("`{it}`")).collect();
        for (what, names, verb) in [
            ("the setting", &self.settings, Verb::Changed),
            ("the model", &self.models_changed, Verb::Changed),
            ("the model", &self.models_added, Verb::New),
            ("the model", &self.models_removed, Verb::Gone),
        ] {
            said.extend(sentence(what, quoted(names), verb));
        }
        said.extend(self.changed_cases());
        let on = |pairs: &[(String, String)]| {
            pairs.iter().map(|(case, model)| format!("`{case}` on `{model}`")).collect()
        };
        said.extend(sentence("the test", on(&self.cases_added), Verb::New));
        said.extend(sentence("the test", on(&self.cases_removed), Verb::Gone));
        f.write_str(&said.join("; "))
    }
}

impl Differences {
    /// Returns a text for each case, such as ``the prompt and vars of `a` changed``.
    ///
    /// After the first few cases, one text gives the number of the other cases.
    fn changed_cases(&self) -> Vec<String> {
        let mut cases: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for changed in &self.cases_changed {
            let place = *places.entry(&changed.case).or_insert(cases.len());
            if place == cases.len() {
                cases.push((&changed.case, Vec::new()));
            }
            if let Some((_, parts)) = cases.get_mut(place) {
                let new: Vec<&str> =
                    changed.parts.iter().copied().filter(|it| !parts.contains(it)).collect();
                parts.extend(new);
            }
        }
        let mut said: Vec<String> = cases
            .iter()
            .take(NAMED)
            .map(|(case, parts)| format!("the {} of `{case}` changed", listed(parts)))
            .collect();
        if let more @ 1.. = cases.len().saturating_sub(NAMED) {
            said.push(format!("{more} more tests changed"));
        }
        said
    }
}

#[derive(Clone, Copy)]
enum Verb {
    Changed,
    New,
    Gone,
}

/// Returns a text such as ``the models `a` and `b` are new``.
///
/// Returns `None` without names.
fn sentence(what: &str, names: Vec<String>, verb: Verb) -> Option<String> {
    let many = names.len() > 1;
    let more = names.len().saturating_sub(NAMED);
    let mut shown: Vec<String> = names.into_iter().take(NAMED).collect();
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    let verb = match (verb, many) {
        (Verb::Changed, _) => "changed",
        (Verb::New, false) => "is new",
        (Verb::New, true) => "are new",
        (Verb::Gone, false) => "is gone",
        (Verb::Gone, true) => "are gone",
    };
    let plural = if many { "s" } else { "" };
    (!shown.is_empty()).then(|| format!("{what}{plural} {} {verb}", listed(&shown)))
}

/// Joins names as `a`, `a and b`, or `a, b and c`.
fn listed<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => (*only).to_owned(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}
