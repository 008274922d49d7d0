//! The index of the cases, by which the script filters, sorts and lists them.

use std::collections::HashMap;
use std::fmt::{Display, Write as _};

use kindlm_types::{
    CaseResult, ExecutionError, FailureCode, Outcome, PROMPT_ASSERTION, Summary, cause_key,
    prompt_assertion_id,
};

use super::failed;
use crate::RenderError;
use crate::amount::reported;

/// The columns of the index, with one entry for each case.
///
/// Each column is a JSON text, so that an index of 100,000 cases needs little memory.
#[derive(Default)]
pub(super) struct Index<'a> {
    causes: Causes<'a>,
    tests: Names,
    models: Names,
    tags: Names,
    codes: Names,
    rules: Names,
    tools: Names,
    files: Names,
    columns: Vec<(&'static str, String)>,
    count: usize,
}

/// Names with their indices, in order of first appearance.
#[derive(Default)]
struct Names {
    list: Vec<String>,
    places: HashMap<String, usize>,
}

impl Names {
    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.list.len();
        self.list.push(name.to_owned());
        self.places.insert(name.to_owned(), place);
        place
    }

    /// Returns the indices of the names without duplicates, as JSON.
    fn places<'n>(&mut self, names: impl Iterator<Item = &'n str>) -> String {
        let mut places: Vec<usize> = Vec::new();
        for name in names {
            let place = self.place(name);
            if !places.contains(&place) {
                places.push(place);
            }
        }
        json(&places)
    }
}

/// The causes of the summary, by which cases are grouped.
#[derive(Default)]
struct Causes<'a> {
    by_key: HashMap<&'a str, usize>,
    titles: Vec<(Option<&'a str>, &'a str)>,
}

impl<'a> Causes<'a> {
    fn from_summary(summary: &'a Summary) -> Self {
        let causes = summary.causes.iter();
        Self {
            by_key: causes.clone().enumerate().map(|(at, it)| (it.key.as_str(), at)).collect(),
            titles: causes
                .map(|it| (it.code.as_ref().map(FailureCode::as_str), it.title.as_str()))
                .collect(),
        }
    }

    /// Returns the indices of the causes of a case.
    fn of_case(&self, case: &CaseResult) -> Vec<usize> {
        let mut found: Vec<usize> = Vec::new();
        let findings = case.failing_findings();
        let of_checks = findings.iter().filter_map(|it| cause_key(it.result));
        found.extend(of_checks.filter_map(|it| self.by_key.get(it.as_str())));
        found.extend(case.errors().iter().filter_map(|it| self.of_error(it.error)));
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Returns the index of the cause of an error; `None` if no cause matches.
    ///
    /// The title of a cause has `…` in place of variable parts. A cause matches if its code is equal and the message
    /// has the other parts of the title in order.
    fn of_error(&self, error: &ExecutionError) -> Option<usize> {
        let (code, message) = (error.code(), error.message());
        let line = message.lines().next().unwrap_or_default();
        self.titles.iter().position(|(known, title)| {
            let mut rest = line;
            *known == code.as_ref().map(FailureCode::as_str)
                && title.split('…').all(|part| match rest.find(part) {
                    Some(at) => {
                        rest = &rest[at + part.len()..];
                        true
                    }
                    None => false,
                })
        })
    }
}

impl<'a> Index<'a> {
    pub(super) fn new(summary: &'a Summary) -> Self {
        let mut index = Self { causes: Causes::from_summary(summary), ..Self::default() };
        for model in &summary.models {
            index.models.place(&model.model);
        }
        index
    }

    /// Adds a case. `chunk` is the number of its chunk, and `place` is its position in the chunk.
    pub(super) fn add(&mut self, case: &CaseResult, chunk: usize, place: usize) {
        let results = || case.executions.iter().flat_map(|it| &it.results);
        let violated = results()
            .filter(|it| it.assertion == PROMPT_ASSERTION && !it.verdict.held())
            .map(prompt_assertion_id);
        let calls = case.executions.iter().flat_map(|it| &it.execution.tool_calls);
        let counts = case.repeat_counts();
        let repeats: String = match case.executions.as_slice() {
            [] | [_] => String::new(),
            many => many.iter().map(|it| digit(it.outcome)).collect(),
        };
        let turns = case.executions.iter().map(|it| it.execution.turns.len()).max();
        let tokens = reported(case.total_tokens);
        let file = case.source.as_ref().map(|it| self.files.place(&it.file));
        let entries: [(&'static str, String); 19] = [
            ("test", self.tests.place(&case.case).to_string()),
            ("model", self.models.place(&case.model).to_string()),
            ("outcome", digit(case.outcome).to_string()),
            ("held", counts.held().to_string()),
            ("of", counts.executed().to_string()),
            ("repeats", format!("\"{repeats}\"")),
            ("score", number(mean_score(case), 3)),
            ("means", format!("\"{}\"", shown_mean(case))),
            ("ms", number(case.latency_avg_ms, 0)),
            ("tokens", tokens.map_or_else(|| "null".to_owned(), |it| it.to_string())),
            ("usd", number(case.cost.usd(), 6)),
            ("turns", turns.unwrap_or_default().to_string()),
            ("tags", self.tags.places(case.tags.iter().map(String::as_str))),
            ("codes", self.codes.places(case.failure_codes.iter().map(FailureCode::as_str))),
            ("causes", json(&self.causes.of_case(case))),
            ("rules", self.rules.places(violated)),
            ("tools", self.tools.places(calls.map(|it| it.name.as_str()))),
            ("file", file.map_or_else(|| "-1".to_owned(), |it| it.to_string())),
            ("at", format!("[{chunk},{place}]")),
        ];
        if self.columns.is_empty() {
            self.columns = entries.iter().map(|(name, _)| (*name, String::new())).collect();
        }
        for ((_, column), (_, entry)) in self.columns.iter_mut().zip(entries) {
            if self.count > 0 {
                column.push(',');
            }
            column.push_str(&entry);
        }
        self.count += 1;
    }

    /// Returns the whole index as JSON.
    pub(super) fn into_json(self, chunks: usize) -> Result<String, RenderError> {
        let mut all = format!("{{\"count\":{},\"chunks\":{chunks}", self.count);
        for (name, names) in [
            ("tests", &self.tests),
            ("models", &self.models),
            ("tags", &self.tags),
            ("codes", &self.codes),
            ("rules", &self.rules),
            ("tools", &self.tools),
            ("files", &self.files),
        ] {
            let list = serde_json::to_string(&names.list).map_err(|err| failed(&err))?;
            write!(all, ",\"{name}\":{list}")?;
        }
        all.push_str(",\"columns\":{");
        for (at, (name, column)) in self.columns.iter().enumerate() {
            write!(all, "{}\"{name}\":[{column}]", if at > 0 { "," } else { "" })?;
        }
        all.push_str("}}");
        Ok(all)
    }
}

/// Returns the mean score over the executions; `None` without a score.
fn mean_score(case: &CaseResult) -> Option<f64> {
    let mut mean = kindlm_types::Mean::default();
    case.executions
        .iter()
        .filter_map(kindlm_types::ExecutionResult::score)
        .for_each(|it| mean.add(it));
    mean.value()
}

/// Returns the mean score with two decimals; empty if the score is 0 or 1, or close to the share of repeats that held.
fn shown_mean(case: &CaseResult) -> String {
    let counts = case.repeat_counts();
    let held = f64::from(counts.held()) / f64::from(counts.executed().max(1));
    let is_new = |it: &f64| *it > 0.0 && *it < 1.0 && (it - held).abs() >= 0.005;
    mean_score(case).filter(is_new).map(|it| format!("{it:.2}")).unwrap_or_default()
}

fn number(value: Option<f64>, digits: usize) -> String {
    value
        .filter(|it| it.is_finite())
        .map_or_else(|| "null".to_owned(), |it| format!("{it:.digits$}"))
}

fn json(places: &[impl Display]) -> String {
    let places: Vec<String> = places.iter().map(ToString::to_string).collect();
    format!("[{}]", places.join(","))
}

fn digit(outcome: Outcome) -> char {
    match outcome {
        Outcome::Passed => '0',
        Outcome::Scored => '1',
        Outcome::Failed => '2',
        Outcome::Errored => '3',
        Outcome::Skipped => '4',
    }
}
