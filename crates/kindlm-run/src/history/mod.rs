//! Follows a suite, or a case of a suite, over the stored runs.

mod past;
mod series;

use std::collections::BTreeSet;

use kindlm_engine::Pattern;
use kindlm_reporters::history_text;
use kindlm_store::Runs;
use kindlm_types::SuiteInfo;
use kindlm_wire::history::History;
use kindlm_wire::v1::RunHead;

pub(crate) use self::past::PastRuns;
use self::series::{case_series, suite_series};
use crate::reports::json_text;
use crate::suites::SuiteKey;
use crate::{Failure, SuiteFolder, World};

/// The maximum number of cases that an error message names.
const NAMED: usize = 5;

/// The settings of a history.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HistoryConfig {
    /// The test case: its name, a part of the name, a glob, or `/a regular expression/`. `None` for the whole suite.
    pub case: Option<String>,
    /// The ids of the models; all models if empty.
    pub models: Vec<String>,
    /// The maximum number of runs, at least 1.
    pub limit: usize,
}

impl HistoryConfig {
    /// Creates the settings for a test case and models, with the maximum number of runs.
    pub fn new(case: Option<String>, models: Vec<String>, limit: usize) -> Self {
        Self { case, models, limit }
    }
}

/// Returns the history of a suite, or of one case.
///
/// Without `of`, returns the history of the suite of the newest run.
///
/// # Errors
///
/// Fails if there is no finished run, or if the folder of runs cannot be read. Also fails if `config` has an invalid
/// pattern or selects no case, several cases, or a model without results.
pub fn history(
    world: &World,
    place: &SuiteFolder,
    of: Option<SuiteKey>,
    config: &HistoryConfig,
) -> Result<History, Failure> {
    let runs = Runs::new(place.state());
    let of = match of {
        Some(of) => of,
        None => suite_of_newest(world, place, &runs)?,
    };
    let no_run = || {
        Failure::input(format!(
            "there is no finished run of the suite `{}` yet in `{}`",
            of.name(),
            place.state().display()
        ))
        .with_help(format!("run {} first", of.test_command()))
    };
    let past = PastRuns::new(world, runs, of.clone());
    let newest = past.newest(config.limit);
    let last = newest.heads.last().ok_or_else(no_run)?;
    let (project, suite) = (last.project.clone(), last.suite.clone());
    let (case, series) = match &config.case {
        None => (None, vec![suite_series(&past, &newest.heads)]),
        Some(pattern) => {
            let name = case_name(&past, &newest.heads, pattern)?;
            let models = models(&past, &newest.heads, &name, &config.models)?;
            let series = models.iter().map(|it| case_series(&past, &newest.heads, &name, it));
            (Some(name.clone()), series.collect())
        }
    };
    let mut history = History::new(project, suite, series);
    history.case = case;
    history.has_older = newest.has_older;
    Ok(history)
}

/// Returns the history as text for a terminal, or as a JSON object.
///
/// # Errors
///
/// Fails if the object cannot be written.
pub fn render(history: &History, as_json: bool) -> Result<String, Failure> {
    if as_json { json_text(history) } else { Ok(history_text(history)) }
}

/// Returns the suite of the newest run that can be read.
fn suite_of_newest(world: &World, place: &SuiteFolder, runs: &Runs) -> Result<SuiteKey, Failure> {
    for id in runs.list().map_err(|err| Failure::store(&err))?.iter().rev() {
        match runs.head(id) {
            Ok(head) => return Ok(SuiteKey::new(place, &suite_info(head))),
            Err(err) => world.notify(&format!("the history has no run `{id}`: {err}")),
        }
    }
    Err(Failure::input(format!("there is no finished run yet in `{}`", place.state().display()))
        .with_help("run `kindlm test` first"))
}

fn suite_info(head: RunHead) -> SuiteInfo {
    let RunHead { project, suite: name, config_path, .. } = head;
    SuiteInfo { project, name, config_path, ..SuiteInfo::default() }
}

/// Returns the pattern if a case has exactly this name, or else the name of the only case that matches.
///
/// Fails if no case or several cases match.
fn case_name(past: &PastRuns, heads: &[RunHead], pattern: &str) -> Result<String, Failure> {
    let mut names = BTreeSet::new();
    for head in heads {
        let results = past.results(&head.run);
        names.extend(results.iter().flat_map(|it| it.cases.keys().map(|key| key.0.clone())));
    }
    if names.contains(pattern) {
        return Ok(pattern.to_owned());
    }
    let matcher: Pattern = pattern
        .parse()
        .map_err(|err: kindlm_engine::PatternError| Failure::input(err.to_string()))?;
    let found: Vec<&String> = names.iter().filter(|it| matcher.is_match(it)).collect();
    match &*found {
        [only] => Ok((*only).clone()),
        [] => {
            let failure = Failure::input(format!("no stored run has a case `{pattern}`"));
            Err(match kindlm_types::nearest(pattern, names.iter().map(String::as_str)) {
                Some(near) => failure.with_help(format!("did you mean `{near}`?")),
                None => failure.with_help("`kindlm test --list` shows the cases of the suite"),
            })
        }
        several => {
            let listed = several.iter().take(NAMED).map(|it| format!("`{it}`"));
            let mut listed: Vec<String> = listed.collect();
            let more = several.len().saturating_sub(NAMED);
            listed.extend((more > 0).then(|| format!("and {more} more")));
            let count = several.len();
            Err(Failure::input(format!("`{pattern}` matches {count} cases: {}", listed.join(", ")))
                .with_help("name one of them"))
        }
    }
}

/// Returns the models of a case, starting with the models of the newest run. If `wanted` is not empty, other models are
/// left out. Fails if a wanted model has no result of the case.
fn models(
    past: &PastRuns,
    heads: &[RunHead],
    case: &str,
    wanted: &[String],
) -> Result<Vec<String>, Failure> {
    let mut all: Vec<String> = Vec::new();
    for results in heads.iter().rev().filter_map(|it| past.results(&it.run)) {
        for (_, model) in results.cases.keys().filter(|key| key.0 == case) {
            if !all.contains(model) {
                all.push(model.clone());
            }
        }
    }
    if let Some(unknown) = wanted.iter().find(|it| !all.contains(it)) {
        let message = format!("no stored run has the case `{case}` on the model `{unknown}`");
        let known = all.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ");
        return Err(Failure::input(message).with_help(format!("it ran on {known}")));
    }
    all.retain(|it| wanted.is_empty() || wanted.contains(it));
    Ok(all)
}

#[cfg(test)]
mod tests;
