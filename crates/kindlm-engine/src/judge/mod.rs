//! Judges one execution: asks the questions of its checks, then evaluates the checks.

mod judges;
mod required;

use std::collections::HashSet;

use crate::check_places::PlaceFinder;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use kindlm_assertions::{Check, Evidence, OutputComparison};
use kindlm_types::{
    Answer, Answers, AskError, AssertionResult, Execution, JudgeSpending, Outcome, Question,
    UsageSum, Verdict,
};

pub(crate) use judges::JudgeAnswer;
pub use judges::Judges;
pub use required::Halt;
pub(crate) use required::{not_run, up_to_the_last_required};

/// The maximum number of rounds of questions. A check may ask again after each answer.
const MAX_ROUNDS: usize = 16;

/// The results of the checks of an execution.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Judgement {
    /// The results, in the order of the checks.
    pub results: Vec<AssertionResult>,
    /// The number of results of each check, in the order of the checks.
    pub result_counts: Vec<usize>,
    /// The overall outcome, derived from `results`.
    pub outcome: Outcome,
    /// The cost of the questions in US dollars; `None` if a price is not known.
    ///
    /// Stored answers and vectors cost nothing.
    pub cost_usd: Option<f64>,
    /// The known part of the cost in US dollars.
    pub known_cost_usd: f64,
    /// The tokens of the questions and their answers.
    pub usage: UsageSum,
    /// The answers, tokens and money of each judge.
    pub spending: Vec<JudgeSpending>,
    /// The required check that did not hold; `None` if all held. The checks after it are skipped.
    pub halt: Option<Halt>,
}

/// Evaluates checks on an execution. After a required check that does not hold, later checks are skipped.
///
/// The questions of the checks are asked in rounds until there are no new questions. A check that still asks after 16
/// rounds is evaluated with the answers so far. Equal questions are asked once. This function returns no error: checks
/// report missing answers in their results.
pub async fn judge(
    checks: &[Check],
    execution: &Execution,
    baseline: Option<&str>,
    judges: &Judges<'_>,
) -> Judgement {
    judge_evidence(checks, CheckEvidence::new(execution, baseline), judges).await
}

/// A function that receives the results of a check as soon as its questions are answered.
pub type ObserveResults<'a> = &'a (dyn Fn(&[AssertionResult]) + Sync);

/// Evaluates checks like [`judge()`], and passes the results of each check to `observe` when its questions are answered.
///
/// Checks without questions come first. A check that is skipped because of a required check is not passed to `observe`.
pub async fn judge_observed(
    checks: &[Check],
    execution: &Execution,
    baseline: Option<&str>,
    judges: &Judges<'_>,
    observe: ObserveResults<'_>,
) -> Judgement {
    judge_stages(checks, CheckEvidence::new(execution, baseline), judges, Some(observe)).await
}

/// The evidence for checks, without the answers to their questions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckEvidence<'a> {
    /// The execution to judge.
    pub(crate) execution: &'a Execution,
    /// The output of this case and model in the baseline; `None` without such an output.
    pub(crate) baseline: Option<&'a str>,
    /// The outputs to compare, if the checks compare outputs.
    pub(crate) comparison: Option<OutputComparison<'a>>,
    /// The places of the checks, for the results that failed or are errored.
    pub(crate) places: PlaceFinder<'a>,
}

impl<'a> CheckEvidence<'a> {
    /// Creates the evidence without outputs to compare and without places of checks.
    pub(crate) fn new(execution: &'a Execution, baseline: Option<&'a str>) -> Self {
        Self { execution, baseline, comparison: None, places: PlaceFinder::default() }
    }
}

/// Evaluates checks like [`judge()`], including checks that compare outputs.
pub(crate) async fn judge_evidence(
    checks: &[Check],
    seen: CheckEvidence<'_>,
    judges: &Judges<'_>,
) -> Judgement {
    judge_stages(checks, seen, judges, None).await
}

async fn judge_stages(
    checks: &[Check],
    seen: CheckEvidence<'_>,
    judges: &Judges<'_>,
    observe: Option<ObserveResults<'_>>,
) -> Judgement {
    let CheckEvidence { execution, baseline, comparison, places } = seen;
    let mut answers = Answers::default();
    let mut spent = Spent::default();
    let mut results = Vec::with_capacity(checks.len());
    let mut result_counts = Vec::with_capacity(checks.len());
    let mut halt: Option<Halt> = None;
    for stage in checks.split_inclusive(|it| it.options.require) {
        if let Some(halt) = &halt {
            results.extend(stage.iter().map(|it| not_run(it, halt)));
            result_counts.extend(stage.iter().map(|_| 1));
            continue;
        }
        let mut waiting: Vec<&Check> = stage.iter().collect();
        let mut show = |answers: &Answers| {
            let Some(observe) = observe else { return };
            let evidence = Evidence { execution, answers, baseline, comparison };
            waiting.retain(|check| {
                let questions = check.questions(&evidence);
                let is_answered = questions.iter().all(|it| answers.get(it).is_some());
                if is_answered {
                    observe(&check.evaluate(&evidence));
                }
                !is_answered
            });
        };
        show(&answers);
        let mut asked = Vec::new();
        for _ in 0..MAX_ROUNDS {
            let evidence = Evidence { execution, answers: &answers, baseline, comparison };
            let questions = new_questions(stage, &evidence, &mut asked);
            if questions.is_empty() {
                break;
            }
            let mut asking = ask_all(questions, judges);
            while let Some((question, told)) = asking.next().await {
                spent.add(&told);
                answers.insert(&question, told.answer);
                show(&answers);
            }
        }
        let evidence = Evidence { execution, answers: &answers, baseline, comparison };
        for (at, check) in stage.iter().enumerate() {
            let mut found = check.evaluate(&evidence);
            // Another answer may be readable, so the next execution asks again.
            if found.iter().any(is_unreadable) {
                let keys = asked.iter().filter(|(of, _)| *of == at);
                judges.forget(keys.map(|(_, key)| key.as_str()));
            }
            places.note(check, &mut found);
            halt = Halt::from_results(check, &found);
            result_counts.push(found.len());
            results.extend(found);
        }
    }
    let outcome = Outcome::from_results(&results);
    let Spent { cost_usd, known_cost_usd, usage, spending } = spent;
    Judgement { results, result_counts, outcome, cost_usd, known_cost_usd, usage, spending, halt }
}

/// Returns the questions without an answer, each once. `asked` receives the index of each check with the keys of its
/// questions.
fn new_questions(
    checks: &[Check],
    evidence: &Evidence<'_>,
    asked: &mut Vec<(usize, String)>,
) -> Vec<Question> {
    let mut questions = Vec::new();
    let mut keys = HashSet::new();
    for (at, check) in checks.iter().enumerate() {
        for question in check.questions(evidence) {
            if evidence.answers.get(&question).is_none() {
                let key = question.key();
                asked.push((at, key.clone()));
                if keys.insert(key) {
                    questions.push(question);
                }
            }
        }
    }
    questions
}

/// Returns true if a check is errored for another reason than a failed provider, for example an unreadable answer.
fn is_unreadable(result: &AssertionResult) -> bool {
    matches!(result.verdict, Verdict::Errored { .. }) && !result.failed_by_provider()
}

fn ask_all(
    questions: Vec<Question>,
    judges: &Judges<'_>,
) -> FuturesUnordered<impl Future<Output = (Question, JudgeAnswer)>> {
    let ask = |question| async move {
        let told = judges.ask(&question).await;
        (question, told)
    };
    questions.into_iter().map(ask).collect()
}

/// The cost and tokens of questions.
struct Spent {
    cost_usd: Option<f64>,
    known_cost_usd: f64,
    usage: UsageSum,
    spending: Vec<JudgeSpending>,
}

impl Default for Spent {
    fn default() -> Self {
        Self {
            cost_usd: Some(0.0),
            known_cost_usd: 0.0,
            usage: UsageSum::default(),
            spending: Vec::new(),
        }
    }
}

impl Spent {
    fn add(&mut self, told: &JudgeAnswer) {
        let (judge, usage, cost_usd) = match &told.answer {
            Ok(
                Answer::Text { model, usage, cost_usd, .. }
                | Answer::Vector { model, usage, cost_usd, .. },
            ) if told.fresh => (model, usage, cost_usd),
            _ => return,
        };
        let spending = JudgeSpending {
            judge: judge.clone(),
            answers: 1,
            tokens: usage.total_tokens,
            known_usd: cost_usd.unwrap_or(0.0),
            unknown: cost_usd.is_none().into(),
        };
        spending.add_to(&mut self.spending);
        self.usage.add(*usage);
        self.known_cost_usd += cost_usd.unwrap_or(0.0);
        self.cost_usd = self.cost_usd.zip(*cost_usd).map(|(sum, cost)| sum + cost);
    }
}

/// Returns the error for a question that no model can answer.
fn unanswerable(message: impl Into<String>) -> AskError {
    AskError::NobodyToAsk { message: message.into() }
}
