//! The outcomes of checks, with names that are the same for all records.

use std::collections::HashSet;

use kindlm_types::{AssertionResult, PROMPT_ASSERTION, Score, Verdict};

use super::super::judging::Instructions;
use crate::{Check, Series, Traits};

/// The outcome for one record: of a check, or of one rule in a `prompt-assertion`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CheckOutcome {
    /// The name of the check, or the id of the rule. Neither the evidence nor the variables of the record change it.
    pub name: String,
    /// `failed` if one result failed, else `errored` if one is errored, else `passed` if one passed, else `skipped`.
    pub status: &'static str,
    /// The lowest score of the results; `None` if the status is `errored` or `skipped`, or if no result has a score.
    pub score: Option<f64>,
    /// The id of the check that asks a judge; for an `assert-set`, of the first such check inside. `None` if no check
    /// asks a judge.
    pub judged: Option<&'static str>,
}

/// Returns the outcomes of checks. `counts` has the number of results of each check, in the order of `checks`.
///
/// Unlike the labels of results, the [names](Check::name) are the same for all records with these checks. `mask` masks
/// the secrets in a name. If several masked names are equal, all but the first get a number: `javascript`,
/// `javascript (2)`.
pub fn check_outcomes(
    checks: &[Check],
    results: &[AssertionResult],
    counts: &[usize],
    mask: impl Fn(&mut String),
) -> Vec<CheckOutcome> {
    let mut names = HashSet::new();
    let mut outcomes = Vec::with_capacity(results.len());
    let mut rest = results;
    for (check, count) in checks.iter().zip(counts) {
        let (own, later) = rest.split_at((*count).min(rest.len()));
        rest = later;
        for mut outcome in check.outcomes(own) {
            mask(&mut outcome.name);
            outcome.name = unique(&outcome.name, &mut names);
            outcomes.push(outcome);
        }
    }
    outcomes
}

/// Returns a name that is not in `names` yet, and adds it to `names`.
///
/// If `name` itself is in `names`, the lowest free number from 2 is added: `javascript (2)`.
fn unique(name: &str, names: &mut HashSet<String>) -> String {
    let mut found = name.to_owned();
    let mut number = 1;
    while !names.insert(found.clone()) {
        number += 1;
        found = format!("{name} ({number})");
    }
    found
}

impl Check {
    /// Returns the name of the check: its label, or else its id.
    ///
    /// Templates in the name are as written if the check was compiled
    /// [`with_written_labels`](crate::Setup::with_written_labels).
    pub fn name(&self) -> String {
        let options = &self.options;
        if let Some(label) = &options.label {
            return label.clone();
        }
        let own = self.written_traits().label.as_deref().unwrap_or(self.meta.id);
        let is_marked = own.starts_with("Not: ");
        let not = if self.is_negated && !is_marked { "Not: " } else { "" };
        match self.selectors().next() {
            Some(path) => format!("{not}{own} (on {path})"),
            None => format!("{not}{own}"),
        }
    }

    /// Returns the traits with the templates as written, if the check has templates.
    fn written_traits(&self) -> &Traits {
        self.written.as_ref().unwrap_or(&self.traits)
    }

    /// Returns the parts of this check that are counted separately; empty if the check has a label, `not-` or `on`.
    fn series(&self) -> &[Series] {
        let is_whole =
            self.options.label.is_some() || self.is_negated || self.selectors().next().is_some();
        if is_whole { &[] } else { &self.written_traits().series }
    }

    /// Returns one outcome for each part or rule of this check, else one outcome for the whole check.
    fn outcomes(&self, results: &[AssertionResult]) -> Vec<CheckOutcome> {
        let rules = self.rules();
        let series = self.series();
        if !series.is_empty() {
            let is_of = |it: &AssertionResult, series: &Series| {
                series.labels.iter().any(|label| it.label.starts_with(label))
            };
            let of_series = |one: &Series| {
                // A result that belongs to no part is about the whole check.
                let is_about = |it: &&AssertionResult| {
                    is_of(it, one) || !series.iter().any(|other| is_of(it, other))
                };
                self.outcome(one.name.clone(), results.iter().filter(is_about))
            };
            return series.iter().map(of_series).collect();
        }
        if rules.is_empty() {
            return vec![self.outcome(self.name(), results.iter())];
        }
        let of_rule = |rule: &&str| {
            // A result without a rule is about the whole check.
            let is_about = |it: &&AssertionResult| it.rule_id().is_none_or(|id| id == *rule);
            self.outcome((*rule).to_owned(), results.iter().filter(is_about))
        };
        rules.iter().map(of_rule).collect()
    }

    /// Returns the ids of the rules that have results of their own.
    fn rules(&self) -> Vec<&str> {
        // With `not-`, all rules together have one result.
        if self.meta.id != PROMPT_ASSERTION || self.is_negated {
            return Vec::new();
        }
        let instructions = self.traits.instructions.as_ref();
        let rules = instructions.map(Instructions::criteria).unwrap_or_default();
        rules.iter().map(|it| it.name.as_str()).collect()
    }

    fn outcome<'r>(
        &self,
        name: String,
        results: impl Iterator<Item = &'r AssertionResult>,
    ) -> CheckOutcome {
        let (mut status, mut score) = ("skipped", None);
        for result in results {
            let rank = |status: &str| match status {
                "failed" => 3,
                "errored" => 2,
                "passed" => 1,
                _ => 0,
            };
            let own = result.verdict.status();
            status = if rank(own) > rank(status) { own } else { status };
            if matches!(result.verdict, Verdict::Pass | Verdict::Fail { .. }) {
                let own = result.score.map(Score::get);
                score = own.into_iter().chain(score).reduce(f64::min);
            }
        }
        // An errored or skipped check has no score, even if some of its results have a score.
        let score = score.filter(|_| matches!(status, "passed" | "failed"));
        let judged = self.leaves().into_iter().find(|it| it.judging.is_some());
        CheckOutcome { name, status, score, judged: judged.map(|it| it.meta.id) }
    }
}

#[cfg(test)]
mod tests {
    use kindlm_types::{Answers, Completeness, Coverage, Execution, NoFiles, Trace};
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::{Evidence, Setup, compile_with};

    /// Returns the outcomes of checks on an output as `name: status`.
    fn outcomes(expect: &Value, vars: &Value, execution: &Execution) -> Vec<String> {
        let vars: Map<String, Value> = vars.as_object().unwrap().clone();
        let setup = Setup::new(&NoFiles, None).with_written_labels();
        let (checks, problems) = compile_with(expect, &setup, &vars);
        assert!(problems.is_empty(), "{problems:?}");
        let answers = Answers::default();
        let evidence = Evidence::new(execution, &answers);
        let found: Vec<_> = checks.iter().map(|it| it.evaluate(&evidence)).collect();
        let counts: Vec<usize> = found.iter().map(Vec::len).collect();
        let found = check_outcomes(&checks, &found.concat(), &counts, |name| {
            *name = name.replace("hidden", "***");
        });
        found.iter().map(|it| format!("{}: {}", it.name, it.status)).collect()
    }

    fn output(text: &str) -> Execution {
        Execution { output: text.to_owned(), ..Execution::default() }
    }

    #[test]
    fn keywords_have_one_outcome_if_they_pass_or_fail() {
        let expect =
            json!({"guardrails": {"keywords": {"deny": ["bad", "evil"], "allow": ["good"]}}});
        for (text, status) in
            [("good", "passed"), ("evil and bad", "failed"), ("bad good", "failed")]
        {
            let found = outcomes(&expect, &json!({}), &output(text));
            assert_eq!(found, [format!("keywords: {status}")], "{text}");
        }
    }

    #[test]
    fn each_key_of_the_output_and_of_a_tool_has_an_outcome() {
        let expect = json!({
            "output": {
                "format": "json", "schema": {"type": "object"}, "contains": ["a", "{{name}}"],
                "notContains": ["b"], "maxLength": 20,
            },
            "toolCalls": [
                {"tool": "find", "argsMatch": {"id": "{{name}}"}, "order": 0},
                {"tool": "pay", "shouldNotCall": true},
            ],
        });
        let names = ["output.schema", "output.contains", "output.notContains", "output.maxLength"];
        let tools =
            ["Tool called: find", "Tool args: find", "Tool order: find", "Tool NOT called: pay"];
        for (text, statuses) in [
            ("{\"a\": \"Ann\"}", ["passed", "passed", "passed", "passed"]),
            ("{\"a\": \"b\"}", ["passed", "failed", "failed", "passed"]),
            ("[\"a\", \"Ann\", 123456789]", ["failed", "passed", "passed", "failed"]),
            // The other keys are not evaluated.
            ("Ann", ["failed", "skipped", "skipped", "skipped"]),
        ] {
            let found = outcomes(&expect, &json!({"name": "Ann"}), &output(text));
            let of_tools = ["failed", "skipped", "skipped", "passed"];
            let names = tools.iter().zip(of_tools).chain(names.iter().zip(statuses));
            let expected: Vec<String> = names.map(|(name, it)| format!("{name}: {it}")).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn masked_and_numbered_names_are_unique() {
        let label = |text: &str| json!({"type": "contains", "value": "x", "label": text});
        let labels = ["a *** (2)", "a hidden", "a ***", "a hidden"].map(label);
        let found = outcomes(&json!({"assert": labels}), &json!({}), &output("x"));
        let names = ["a *** (2)", "a ***", "a *** (3)", "a *** (4)"];
        assert_eq!(found, names.map(|it| format!("{it}: passed")));
    }

    #[test]
    fn names_do_not_depend_on_variables_and_evidence() {
        let expect = json!({
            "output": {"contains": ["{{name}}"], "notContains": ["{{name}}!"]},
            "assert": [
                {"type": "contains", "value": "{{name}}"},
                {"type": "not-contains", "value": "{{name}}!"},
                {"type": "contains", "value": "x{{name}}", "label": "greets"},
                {"type": "icontains", "value": "{{name}}", "on": "input"},
                {"type": "contains", "value": "fixed"},
                {"type": "contains", "value": "fixed"},
                {"type": "not-icontains", "value": "{{name}}"},
                {"type": "latency", "maxMs": 5},
            ],
        });
        let unknown = Execution {
            trace: Some(Box::new(Trace::default())),
            completeness: Completeness {
                coverage: Coverage::Only(std::collections::BTreeSet::new()),
                ..Completeness::default()
            },
            ..Execution::default()
        };
        let names = |found: Vec<String>| -> Vec<String> {
            found.iter().map(|it| it.rsplit_once(": ").unwrap().0.to_owned()).collect()
        };
        let first = names(outcomes(&expect, &json!({"name": "Ann Smith"}), &output("Ann Smith")));
        assert!(first.iter().all(|it| !it.contains("Ann")), "{first:?}");
        assert!(first.iter().any(|it| it.contains("{{name}}")), "{first:?}");
        let unique: std::collections::BTreeSet<&String> = first.iter().collect();
        assert_eq!(unique.len(), first.len(), "{first:?}");
        for (name, execution) in
            [("Bob", output("Bob")), ("Eve", output("fixed")), ("Joe", unknown)]
        {
            assert_eq!(
                names(outcomes(&expect, &json!({"name": name}), &execution)),
                first,
                "{name}"
            );
        }
    }

    #[test]
    fn each_rule_has_an_outcome_without_a_reply() {
        let rule = |id: &str| json!({"id": id, "instruction": "Is polite to {{name}}.", "criteria": ["Is polite."]});
        let rules = json!([rule("polite"), rule("short")]);
        let expect = json!({"assert": [{"type": "prompt-assertion", "assertions": rules}]});
        let vars = json!({"name": "Ann"});
        let missing = Execution {
            completeness: Completeness {
                gaps: vec!["a span is missing".to_owned()],
                ..Completeness::default()
            },
            ..Execution::default()
        };
        for execution in [output("x"), missing] {
            let found = outcomes(&expect, &vars, &execution);
            assert_eq!(found, ["polite: errored", "short: errored"]);
        }
        let expect = json!({"assert": [{"type": "not-prompt-assertion", "assertions": rules}]});
        let found = outcomes(&expect, &vars, &output("x"));
        assert_eq!(found, ["Not: prompt-assertion: errored"]);
    }
}
