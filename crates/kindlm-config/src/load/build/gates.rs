//! Checks of gates that name a part of the suite: an assertion, a named score or a tag. Unknown names are errors.
//!
//! Gates that need more tests than the suite has cause warnings.

use std::collections::{BTreeSet, HashSet};

use kindlm_assertions::{Check, Evidence};
use kindlm_engine::TestCase;
use kindlm_engine::gates::{LowBound, Subject};
use kindlm_source::{Code, Piece};
use kindlm_types::{
    Answers, AssertionResult, Execution, MemberPart, NOT, PROMPT_ASSERTION, cluster_of, percent,
    pointer, prompt_assertion_id, suggest, thousands,
};

use super::Builder;

/// The names of the checks of a suite; empty if no gate needs these names.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The ids and labels of checks, and the ids of rules.
    assertions: BTreeSet<String>,
    /// The names of scores.
    metrics: BTreeSet<String>,
    /// True if a check, such as a script, can return scores whose names are not in the config file.
    has_open_metrics: bool,
}

impl Names {
    /// Adds the names of a check.
    fn add(&mut self, check: &Check) {
        for leaf in check.leaves() {
            self.assertions.insert(id_of(leaf));
            self.has_open_metrics |= leaf.traits.names_scores;
        }
        self.add_options(check);
        // Without evidence, most results are errored. But each rule of a prompt still returns a result with its id.
        let (execution, answers) = (Execution::default(), Answers::default());
        let evidence =
            Evidence { execution: &execution, answers: &answers, baseline: None, comparison: None };
        check.evaluate(&evidence).iter().for_each(|it| self.add_rule(it));
    }

    /// Adds the id, label and metric of a check, and of the checks that the check contains.
    fn add_options(&mut self, check: &Check) {
        self.assertions.insert(id_of(check));
        self.assertions.extend(check.options.label.clone());
        self.metrics.extend(check.options.metric.clone());
        check.traits.parts.iter().flat_map(|it| it.iter()).for_each(|it| self.add_options(it));
    }

    /// Adds the ids of the rules of prompts.
    fn add_rule(&mut self, result: &AssertionResult) {
        if result.assertion == PROMPT_ASSERTION {
            self.assertions.insert(prompt_assertion_id(result).to_owned());
        }
        result.parts().iter().for_each(|it| self.add_rule(it));
    }
}

/// Returns the id of the check that a key of the block `output` belongs to; `None` for other names.
fn nested_in(name: &str) -> Option<&'static str> {
    matches!(name, "format" | "contains" | "notContains" | "not-contains" | "maxLength")
        .then_some("schema")
}

/// Returns the id of a check as the suite writes it, such as `not-contains`.
fn id_of(check: &Check) -> String {
    format!("{}{}", if check.is_negated { NOT } else { "" }, check.meta.id)
}

impl Builder<'_> {
    /// Records the names of these checks, if a gate names a part of the suite.
    pub(super) fn note_names(&mut self, checks: &[Check]) {
        if self.base.suite.gates.iter().any(|it| it.subject().is_some()) {
            for check in checks {
                self.gate_names.add(check);
            }
        }
    }

    /// Reports gates that name an assertion, score or tag that the suite does not have.
    ///
    /// Reports nothing if the suite has errors, because the names of tests with errors are unknown. Reports nothing
    /// either if only models are loaded. Names of metrics are not checked if a check can return named scores that the
    /// config file does not list.
    pub(super) fn report_unknown_subjects(&mut self, piece: Piece<'_>) {
        if !self.base.sink.errors.is_empty() || self.base.around.only_models {
            return;
        }
        let tags: BTreeSet<&str> =
            self.cases.iter().flat_map(|it| it.tags.iter().map(|it| &**it)).collect();
        let names = &self.gate_names;
        let all = |of: &BTreeSet<String>| of.iter().cloned().collect::<Vec<_>>();
        let mut unknown = Vec::new();
        for gate in &self.base.suite.gates {
            let Some(subject) = gate.subject() else { continue };
            let (key, one, name, known) = match subject {
                Subject::Assertion(name) => {
                    ("assertions", "assertion", name, all(&names.assertions))
                }
                Subject::Metric(_) if names.has_open_metrics => continue,
                Subject::Metric(name) => ("metrics", "metric", name, all(&names.metrics)),
                Subject::Tag(name) => {
                    ("tags", "tag", name, tags.iter().map(|it| (*it).to_owned()).collect())
                }
            };
            if known.iter().any(|it| it == name) {
                continue;
            }
            let is_derived = key == "metrics"
                && self.base.suite.derived_metrics.iter().any(|it| it.name == name);
            let (message, help) = if is_derived {
                let message = format!("`{name}` is a derived metric, which has no gate");
                (message, "name the score of a check instead".to_owned())
            } else {
                let message = format!("no test of the suite has the {one} `{name}`");
                let nested = nested_in(name)
                    .filter(|it| key == "assertions" && names.assertions.contains(*it));
                let help = nested.map_or_else(
                    || suggest(name, key, known.iter().map(String::as_str)),
                    |check| format!("`{name}` in an `output` block belongs to the check `{check}`; name that, or a label"),
                );
                (message, help)
            };
            let at = format!("/gates/{key}/{}", pointer::segment(name));
            let diagnostic = piece.error(Code::UNKNOWN_REFERENCE, &at, MemberPart::Key, message);
            unknown.push(diagnostic.with_help(help));
        }
        for diagnostic in unknown {
            self.base.sink.push(diagnostic);
        }
    }

    /// Reports gates that cannot pass because the suite has too few tests. With so few tests, the lower end of the
    /// confidence interval is always below the minimum of the gate.
    ///
    /// Reports nothing if the suite has errors, because tests with errors are missing.
    pub(super) fn report_low_bounds(&mut self, piece: Piece<'_>) {
        if !self.base.sink.errors.is_empty() || self.base.around.only_models {
            return;
        }
        let mut warnings = Vec::new();
        for gate in &self.base.suite.gates {
            let Some(bound) = gate.low_bound() else { continue };
            let tag = match gate.subject() {
                Some(Subject::Tag(tag)) => Some(tag),
                _ => None,
            };
            let (tests, clusters) = self.planned(tag);
            // A gate accepts a value up to 1e-9 below its minimum.
            if tests == 0 || LowBound::highest(clusters) + 1e-9 >= bound.min {
                continue;
            }
            let name = match gate.subject() {
                Some(Subject::Tag(name) | Subject::Assertion(name) | Subject::Metric(name)) => {
                    format!("/{}", pointer::segment(name))
                }
                None => String::new(),
            };
            let at = format!("/gates/{}{name}/value", bound.gate);
            let message = format!(
                "with {}, the lower end of the interval is at most {}% even if everything passes",
                counted(tests, clusters),
                percent(LowBound::highest(clusters))
            );
            let diagnostic = piece.error(Code::NO_EFFECT, &at, MemberPart::Value, message);
            warnings.push(diagnostic.with_help(needed(bound)).into_warning());
        }
        for warning in warnings {
            self.base.sink.push(warning);
        }
    }

    /// Counts the tests that run, and their clusters. With `tag`, only tests with this tag count.
    fn planned(&self, tag: Option<&str>) -> (u64, u64) {
        let is_one = |it: &&TestCase| {
            it.skip.is_none() && tag.is_none_or(|tag| it.tags.iter().any(|it| it == tag))
        };
        let mut clusters = HashSet::new();
        let mut tests = 0;
        for it in self.cases.iter().filter(is_one) {
            tests += 1;
            clusters.insert(cluster_of(it.cluster.as_deref(), &it.name));
        }
        (tests, clusters.len() as u64)
    }
}

/// Formats a number of tests as `10 tests`, or as `10 tests in 2 clusters`.
fn counted(tests: u64, clusters: u64) -> String {
    let plural = |count: u64, word: &str| {
        format!("{} {word}{}", thousands(count), if count == 1 { "" } else { "s" })
    };
    if clusters == tests {
        return plural(tests, "test");
    }
    format!("{} in {}", plural(tests, "test"), plural(clusters, "cluster"))
}

/// Returns help for a minimum that the suite cannot reach.
fn needed(bound: LowBound<'_>) -> String {
    match bound.needed_clusters() {
        Some(needed) => format!(
            "{}% needs {} tests if everything passes; repeats and models of a test, and tests of a `cluster`, count once",
            percent(bound.min),
            thousands(needed)
        ),
        None => "no number of tests can show this minimum; write a `value` below 1".to_owned(),
    }
}
