//! Asks the judge about every output of a label file, each question once.

use std::collections::{BTreeSet, HashMap};

use futures_util::{StreamExt as _, stream};
use kindlm_assertions::{Check, Evidence, JudgeBlock, Setup, answered_by, compile_with};
use kindlm_engine::{Judges, judge};
use kindlm_types::{Answers, AssertionResult, Execution, Message, Outcome, Role, UsageSum, ecma};
use serde_json::{Map, Value, json};

use super::labels::{JudgeRequest, Label, Labels, Row};
use super::{JudgeOutcome, Sample};
use crate::Failure;

/// The default question for the judge, for rows without a question.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// The criteria in words, for the check `judge`.
    pub criteria: Option<String>,
    /// A set of rules, for the check `prompt-assertion`.
    pub assertions: Option<Value>,
    /// An entry of the list form of `expect.assert`.
    pub check: Option<Value>,
    /// The minimum score that passes, for `criteria`.
    pub min_score: Option<f64>,
}

/// An output, the checks that ask about it, and the labels for the answer.
struct Case {
    execution: Execution,
    checks: Vec<Check>,
    about: String,
    labels: Vec<(u64, Label)>,
}

/// All questions of a calibration.
pub(super) struct Plan {
    cases: Vec<Case>,
    /// The id of the check whose judge is calibrated.
    pub(super) check: String,
    /// The judge and its settings, which are the same for all rows.
    pub(super) judging: JudgeBlock,
    /// The digests of the judge's instructions.
    pub(super) prompts: Vec<String>,
}

/// The judge's verdicts and their cost.
pub(super) struct JudgedLabels {
    /// The outputs with their labels and verdicts.
    pub(super) samples: Vec<Sample>,
    /// The cost of the questions in US dollars; `None` if a price is unknown.
    pub(super) cost_usd: Option<f64>,
    /// The tokens that the judge used.
    pub(super) usage: UsageSum,
}

/// Compiles the checks of every row.
///
/// Rows with the same input, output, variables and question are judged once.
///
/// Fails if a row has a problem, or if every row has a question and `question` has one too. Up to 20 different problems
/// are reported, each with its line.
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
    /// Returns the number of outputs that the judge is asked about.
    pub(super) fn output_count(&self) -> usize {
        self.cases.len()
    }

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
            let case = self.case(&row, &asked, &block, setup)?;
            self.cases.push(case);
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
            // Stored calibrations are found by the id of the check, and a set has another id than the check in it.
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
        let answers = Answers::default();
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
        Ok(Case { execution, checks, about, labels: Vec::new() })
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

/// Asks about every output, and pairs the answers with the labels.
///
/// Up to `concurrency` outputs are judged at once.
///
/// The samples are in the order of the file.
///
/// Calls `on_judged` after each output, with `true` if the output could be judged.
pub(super) async fn ask(
    plan: &Plan,
    judges: &Judges<'_>,
    concurrency: usize,
    on_judged: &(dyn Fn(bool) + Sync),
) -> JudgedLabels {
    let asking = plan.cases.iter().map(|case| async move {
        let found = judge(&case.checks, &case.execution, None, judges).await;
        on_judged(found.outcome != Outcome::Errored);
        found
    });
    let answers: Vec<_> = stream::iter(asking).buffered(concurrency.max(1)).collect().await;
    let mut asked =
        JudgedLabels { samples: Vec::new(), cost_usd: Some(0.0), usage: UsageSum::default() };
    for (case, judged) in plan.cases.iter().zip(answers) {
        asked.usage.extend(judged.usage);
        asked.cost_usd = asked.cost_usd.zip(judged.cost_usd).map(|(sum, more)| sum + more);
        for (line, label) in &case.labels {
            samples(case, *line, label, &judged.results, &mut asked.samples);
        }
    }
    asked.samples.sort_by_key(|it| it.line);
    asked
}

/// Adds a sample for each result that the label is about.
///
/// A label without a rule is about all results. Skipped results are left out.
fn samples(
    case: &Case,
    line: u64,
    label: &Label,
    results: &[AssertionResult],
    samples: &mut Vec<Sample>,
) {
    let id =
        |it: &AssertionResult| it.metadata.get("id").and_then(Value::as_str).map(str::to_owned);
    let wanted = results.iter().filter(|it| label.of.is_none() || id(it) == label.of);
    for result in wanted {
        let Some(judge) = JudgeOutcome::of(result) else { continue };
        let about = id(result).unwrap_or_else(|| case.about.clone());
        let output = case.execution.output.clone();
        let criterion = result.judging.as_ref().and_then(|it| it.criterion.clone());
        samples.push(Sample {
            line,
            about,
            human: label.human,
            judge,
            output,
            criterion,
            answered: answered_by(result).into_iter().map(str::to_owned).collect(),
        });
    }
}
