//! Asks the judge about every output of a label file, each question once.

use std::collections::{BTreeSet, HashMap};

use futures_util::{StreamExt as _, stream};
use kindlm_assertions::{
    Check, Evidence, JudgeBlock, Setup, answered_by, compile_with, fingerprints_of,
};
use kindlm_engine::{Judges, judge};
use kindlm_store::Digest;
use kindlm_types::{AssertionResult, Execution, Message, Outcome, Role, UsageSum, ecma};
use serde_json::{Map, Value, json};

use super::labels::{JudgeRequest, Label, Labels, Row};
use super::{JudgeOutcome, Sample};
use crate::Failure;

/// The default question for the judge, for rows without a question.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The criteria in words, for the check `judge`; `None` without criteria.
    pub criteria: Option<String>,
    /// A set of rules, for the check `prompt-assertion`; `None` without rules.
    pub assertions: Option<Value>,
    /// A check in the form of an entry of the list `expect.assert`; `None` without such a check.
    pub check: Option<Value>,
    /// The minimum score that passes, from 0 to 1, for `criteria`; `None` for the default of the check `judge`.
    pub min_score: Option<f64>,
}

/// An output, the checks that ask about it, and the labels that people gave it.
pub(super) struct Case {
    /// The digest of the output, its input and variables, and the question.
    pub(super) digest: String,
    execution: Execution,
    checks: Vec<Check>,
    about: String,
    labels: Vec<(u64, Label)>,
}

/// All questions of a calibration.
pub(super) struct Plan {
    pub(super) cases: Vec<Case>,
    /// The id of the check whose judge is calibrated.
    pub(super) check: String,
    /// The judge and its settings, which are the same for all rows.
    pub(super) judging: JudgeBlock,
    /// The digests of the judge's instructions.
    pub(super) prompts: Vec<String>,
}

/// The judge's answers to the questions of some cases, and their cost.
pub(super) struct Answers<'p> {
    /// The cases in the order of the file, each with its results.
    pub(super) cases: Vec<(&'p Case, Vec<AssertionResult>)>,
    /// The cost of the questions in US dollars; `None` if a price is unknown.
    pub(super) cost_usd: Option<f64>,
    /// The part of the cost that is known, in US dollars.
    pub(super) known_cost_usd: f64,
    /// The tokens that the judge used.
    pub(super) usage: UsageSum,
}

impl Case {
    /// Returns true if people have labelled the output.
    pub(super) fn is_labelled(&self) -> bool {
        self.labels.iter().any(|(_, label)| label.human.is_some())
    }

    /// Returns the checks that ask about the output.
    pub(super) fn checks(&self) -> &[Check] {
        &self.checks
    }

    /// Returns the output as an execution.
    pub(super) fn execution(&self) -> &Execution {
        &self.execution
    }

    /// Returns the first line of the output in the file.
    pub(super) fn line(&self) -> u64 {
        self.labels.iter().map(|(line, _)| *line).min().unwrap_or_default()
    }
}

/// Returns the verdicts in the results of a case as text, such as `pass`.
///
/// For a set of rules, the text has the verdicts of all rules, each after the id of its rule. They form one text,
/// because verdicts about the same output depend on each other.
///
/// Returns `None` if a verdict is missing, or if all results were skipped.
pub(super) fn verdicts(results: &[AssertionResult]) -> Option<String> {
    let mut all = Vec::new();
    for result in results {
        let verdict = match JudgeOutcome::from_result(result) {
            Some(JudgeOutcome::Decided { pass: true, .. }) => "pass",
            Some(JudgeOutcome::Decided { pass: false, .. }) => "fail",
            Some(JudgeOutcome::Errored { .. }) => return None,
            None => continue,
        };
        all.push(
            result.rule_id().map_or_else(|| verdict.to_owned(), |id| format!("{id}: {verdict}")),
        );
    }
    (!all.is_empty()).then(|| all.join(", "))
}

/// Compiles the checks of every row.
///
/// Rows with the same input, output, variables and question are judged once.
///
/// Fails if a row has a problem, or if `question` is set although every row has its own question. Up to 20 different
/// problems are reported, each with its line.
pub(super) fn plan(
    name: &str,
    labels: Labels,
    question: &Question,
    setup: &Setup<'_>,
) -> Result<Plan, Failure> {
    let mut plan = Plan {
        cases: Vec::new(),
        check: String::new(),
        judging: JudgeBlock::default(),
        prompts: Vec::new(),
    };
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut problems = Vec::new();
    let (rows, mut own) = (labels.rows.len(), 0);
    for row in labels.rows {
        let line = row.line;
        own += usize::from(row.question.is_some());
        let placed = plan.place(row, question, setup, &mut known);
        if let Err(message) = placed {
            // A problem of the default question occurs in every row, so report it once.
            let known = problems.iter_mut().find(|it: &&mut Wrong| it.message == message);
            match known {
                Some(known) => known.more += 1,
                None => problems.push(Wrong { line, message, more: 0 }),
            }
        }
        if problems.len() == 20 {
            break;
        }
    }
    if !problems.is_empty() {
        return Err(Failure::inputs(problems.iter().map(|it| it.in_words(name))));
    }
    if let Some(named) = named(question).filter(|_| own == rows && rows > 0) {
        return Err(Failure::input(format!(
            "`{named}` has no effect: every row of {name} has its own question for the judge"
        ))
        .with_help(format!(
            "remove `{named}`, or remove the column with the question from the table"
        )));
    }
    Ok(plan)
}

/// A problem of a row, with the number of later rows that have the same problem.
struct Wrong {
    line: u64,
    message: String,
    more: usize,
}

impl Wrong {
    fn in_words(&self, file: &str) -> String {
        let Self { line, message, more } = self;
        let more = match more {
            0 => String::new(),
            1 => " (and in 1 more row)".to_owned(),
            more => format!(" (and in {more} more rows)"),
        };
        format!("{file}:{line}: {message}{more}")
    }
}

/// Returns the name of the first given argument that sets the question.
///
/// Returns `None` if no such argument is given.
fn named(question: &Question) -> Option<&'static str> {
    let Question { criteria, assertions, check, .. } = question;
    let named = [
        (criteria.is_some(), "--criteria"),
        (assertions.is_some(), "--assertions"),
        (check.is_some(), "--check"),
    ];
    named.into_iter().find(|(is_given, _)| *is_given).map(|(_, name)| name)
}

impl Plan {
    fn place(
        &mut self,
        row: Row,
        question: &Question,
        setup: &Setup<'_>,
        known: &mut HashMap<String, usize>,
    ) -> Result<(), String> {
        let asked = row.question.clone().or_else(|| common(question)).ok_or(
            "no question for the judge: add a column `criteria`, or give `--criteria`, `--assertions` or `--check`",
        )?;
        let block = block(&asked, question.min_score);
        check_ids(&asked, &row.labels)?;
        let key = json!([row.input, row.output, row.vars, block]).to_string();
        let at = if let Some(at) = known.get(&key) {
            *at
        } else {
            let digest = Digest::from_content(&key).to_string();
            let case = self.case(&row, &asked, &block, setup)?;
            self.cases.push(Case { digest, ..case });
            known.insert(key, self.cases.len() - 1);
            self.cases.len() - 1
        };
        if let Some(case) = self.cases.get_mut(at) {
            case.labels.extend(row.labels.into_iter().map(|it| (row.line, it)));
        }
        Ok(())
    }

    fn case(
        &mut self,
        row: &Row,
        asked: &JudgeRequest,
        block: &Value,
        setup: &Setup<'_>,
    ) -> Result<Case, String> {
        let (checks, problems) = compile_with(block, setup, &row.vars);
        if !problems.is_empty() {
            let said = problems.iter().map(|it| {
                let help = it.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
                format!("{}{help}", it.message)
            });
            return Err(said.collect::<Vec<_>>().join("; "));
        }
        let leaves: Vec<&Check> = checks.iter().flat_map(Check::leaves).collect();
        let kinds: BTreeSet<&str> = checks.iter().map(|it| it.meta.id).collect();
        let kind = kinds.first().copied().unwrap_or_default();
        let [check] = leaves.as_slice() else {
            return Err(format!(
                "`{kind}` consists of several checks: calibrate each one separately"
            ));
        };
        if check.meta.id != kind {
            // Stored calibrations are found by the id of the check. A set and the check in the set have different ids.
            return Err(format!(
                "`{kind}` is a set: write its `{}` as a separate entry",
                check.meta.id
            ));
        }
        let Some(told) = &check.traits.instructions else {
            return Err(format!("`{kind}` asks no judge"));
        };
        if let Some(what) = told.further_evidence() {
            return Err(format!(
                "a verdict of `{kind}` depends on {what}, which a label file does not contain, so people cannot \
                 judge it from an output"
            ));
        }
        let judging = check.judging.as_deref().cloned().unwrap_or_default().settled();
        if self.check.is_empty() {
            kind.clone_into(&mut self.check);
            self.judging = judging;
            self.prompts = told.digests().to_vec();
        } else if self.check != kind {
            return Err(format!(
                "this row is about `{kind}`, but earlier rows are about `{}`: calibrate each one separately",
                self.check
            ));
        } else if self.judging != judging {
            return Err(format!(
                "{} judges this row, but {} judges earlier rows: calibrate each one separately",
                judging.in_words(),
                self.judging.in_words()
            ));
        } else if self.prompts != told.digests() {
            return Err("the judge's instructions differ from those of earlier rows (`rubricPrompt`): calibrate each separately".to_owned());
        }
        let execution = execution(row);
        let answers = kindlm_types::Answers::default();
        let evidence =
            Evidence { execution: &execution, answers: &answers, baseline: None, comparison: None };
        if checks.iter().all(|it| it.questions(&evidence).is_empty()) {
            let mut why = checks.iter().flat_map(|it| it.evaluate(&evidence));
            let why = why.find_map(|it| Some(format!(": {}", it.verdict.message()?)));
            let why = why.unwrap_or_default();
            return Err(format!("`{kind}` asks no judge about this output{why}"));
        }
        let about = match asked {
            JudgeRequest::Criteria(text) => text.clone(),
            JudgeRequest::Assertions(_) => String::new(),
            JudgeRequest::Check(entry) => {
                entry.get("value").map_or_else(|| kind.to_owned(), ecma::text)
            }
        };
        Ok(Case { digest: String::new(), execution, checks, about, labels: Vec::new() })
    }
}

fn common(question: &Question) -> Option<JudgeRequest> {
    let Question { criteria, assertions, check, .. } = question;
    let criteria = criteria.clone().map(JudgeRequest::Criteria);
    criteria
        .or_else(|| assertions.clone().map(JudgeRequest::Assertions))
        .or_else(|| check.clone().map(JudgeRequest::Check))
}

/// Builds the `expect` block that asks the question.
fn block(asked: &JudgeRequest, min_score: Option<f64>) -> Value {
    match asked {
        JudgeRequest::Criteria(text) => {
            let mut check = Map::from_iter([("criteria".to_owned(), Value::from(text.as_str()))]);
            check.extend(min_score.map(|it| ("minScore".to_owned(), Value::from(it))));
            json!({ "judge": [check] })
        }
        JudgeRequest::Assertions(rules) => {
            json!({ "assert": [{ "type": "prompt-assertion", "assertions": rules }] })
        }
        JudgeRequest::Check(entry) => json!({ "assert": [entry] }),
    }
}

/// Checks that every label of a rule set names a rule of the set.
///
/// The name is optional if the set has one rule, or if the label is empty. Labels for other questions must not name a
/// rule.
fn check_ids(asked: &JudgeRequest, labels: &[Label]) -> Result<(), String> {
    let JudgeRequest::Assertions(rules) = asked else {
        return match labels.iter().find_map(|it| it.of.as_deref()) {
            Some(id) => Err(format!("there is a label for the rule `{id}`, but no set of rules")),
            None => Ok(()),
        };
    };
    let rules = rules.as_array().map_or(&[][..], Vec::as_slice);
    let ids: Vec<&str> = rules.iter().filter_map(|it| it.get("id")?.as_str()).collect();
    for label in labels {
        match label.of.as_deref() {
            Some(id) if !ids.contains(&id) => {
                let help = kindlm_types::suggest(id, "rules", ids.iter().copied());
                return Err(format!("there is no rule `{id}`: {help}"));
            }
            None if ids.len() != 1 && label.human.is_some() => {
                return Err(format!(
                    "the label does not name one of the {} rules: add a column `assertion`, or a column \
                     `labels.<id>` for each rule",
                    ids.len()
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn execution(row: &Row) -> Execution {
    let output_json = (!row.output.is_string()).then(|| row.output.clone());
    let input = row.input.as_ref().map(|it| Message::new(Role::User, ecma::text(it)));
    Execution {
        input: input.into_iter().collect(),
        output: ecma::text(&row.output),
        output_json,
        vars: row.vars.clone(),
        ..Execution::default()
    }
}

/// Asks about the output of each case. Up to `concurrency` outputs are judged at once.
///
/// Calls `on_judged` after each output, with `true` if the output could be judged.
pub(super) async fn ask<'p>(
    cases: Vec<&'p Case>,
    judges: &Judges<'_>,
    concurrency: usize,
    on_judged: &(dyn Fn(bool) + Sync),
) -> Answers<'p> {
    let asking = cases.into_iter().map(|case| async move {
        let found = judge(&case.checks, &case.execution, None, judges).await;
        on_judged(found.outcome != Outcome::Errored);
        (case, found)
    });
    let found: Vec<_> = stream::iter(asking).buffered(concurrency.max(1)).collect().await;
    let mut answers = Answers {
        cases: Vec::new(),
        cost_usd: Some(0.0),
        known_cost_usd: 0.0,
        usage: UsageSum::default(),
    };
    for (case, found) in found {
        answers.usage.extend(found.usage);
        answers.cost_usd = answers.cost_usd.zip(found.cost_usd).map(|(sum, more)| sum + more);
        answers.known_cost_usd += found.known_cost_usd;
        answers.cases.push((case, found.results));
    }
    answers
}

impl Answers<'_> {
    /// Pairs the answers with the labels. The samples are in the order of the file.
    pub(super) fn samples(&self) -> Vec<Sample> {
        let mut all = Vec::new();
        for (at, (case, results)) in self.cases.iter().enumerate() {
            for (line, label) in &case.labels {
                all.extend(samples(case, at, *line, label, results));
            }
        }
        all.sort_by_key(|it| it.line);
        all
    }
}

/// Returns a sample for each result that the label is about.
///
/// A label without a rule is about all results. Skipped results are left out.
fn samples(
    case: &Case,
    at: usize,
    line: u64,
    label: &Label,
    results: &[AssertionResult],
) -> impl Iterator<Item = Sample> {
    let is_wanted =
        |it: &&AssertionResult| label.of.is_none() || it.rule_id() == label.of.as_deref();
    results.iter().filter(is_wanted).filter_map(move |result| {
        Some(Sample {
            line,
            about: result.rule_id().map_or_else(|| case.about.clone(), str::to_owned),
            human: label.human,
            judge: JudgeOutcome::from_result(result)?,
            output: case.execution.output.clone(),
            case: at,
            criterion: result.judging.as_ref().and_then(|it| it.criterion.clone()),
            answered: answered_by(result).into_iter().map(str::to_owned).collect(),
            fingerprints: fingerprints_of(result).into_iter().map(str::to_owned).collect(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindlm_types::{FailureCode, Verdict};

    fn rule(id: &str, verdict: Verdict) -> AssertionResult {
        let mut result = AssertionResult::pass("prompt-assertion", id);
        result.verdict = verdict;
        result.with_rule_id(id)
    }

    #[test]
    fn verdicts_of_a_set_count_together() {
        let code = FailureCode::JUDGE_NOT_CONFIGURED;
        let fail = || Verdict::Fail { code: code.clone(), message: String::new() };
        let errored = || Verdict::Errored { code: code.clone(), message: String::new() };
        let single = AssertionResult::pass("judge", "Is polite");
        let tone = || rule("tone", Verdict::Pass);
        for (results, expected) in [
            (vec![], None),
            (vec![single], Some("pass")),
            (vec![tone(), rule("cites", fail())], Some("tone: pass, cites: fail")),
            (vec![tone(), rule("cites", errored())], None),
        ] {
            assert_eq!(verdicts(&results).as_deref(), expected, "{results:?}");
        }
    }
}
