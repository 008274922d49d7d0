//! Judges one execution: finds out what the checks ask for, then evaluates them.

mod judges;
mod required;

use std::collections::HashSet;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use kindlm_assertions::{Check, Contest, Evidence};
use kindlm_types::{
    Answer, Answers, AskError, AssertionResult, Execution, Outcome, Question, UsageSum,
};

pub use judges::Judges;
pub(crate) use judges::Told;
pub use required::Halt;
pub(crate) use required::{not_run, up_to_the_last_required};

/// Checks may ask again after an answer, but not for ever.
const MAX_ROUNDS: usize = 16;

/// The results of the checks of an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The results, in the order of the checks.
    pub results: Vec<AssertionResult>,
    /// Their outcome.
    pub outcome: Outcome,
    /// What the questions of these checks cost in US dollars; `None` if a price is not known. Questions
    /// that were asked before cost nothing, and neither do embeddings.
    pub cost_usd: Option<f64>,
    /// Tokens that these questions took.
    pub usage: UsageSum,
    /// Why the checks after a required one were not made, if they were not.
    pub halt: Option<Halt>,
}

/// Evaluates the checks on one execution.
///
/// After a required check that does not hold none is made, and nothing is asked for one.
///
/// Asks what the checks want to know, in rounds, until they ask nothing new (a check that is still asking
/// after 16 rounds is evaluated as it is). Equal questions are asked once. A question without an answer is
/// the check's to report: nothing here fails.
pub async fn judge(
    checks: &[Check],
    execution: &Execution,
    baseline: Option<&str>,
    judges: &Judges<'_>,
) -> Judged {
    judge_seen(checks, Seen { execution, baseline, contest: None }, judges).await
}

/// The evidence of checks before anything is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    /// The execution.
    pub(crate) execution: &'a Execution,
    /// The output of the same case and model in the baseline.
    pub(crate) baseline: Option<&'a str>,
    /// The outputs that it is compared with.
    pub(crate) contest: Option<Contest<'a>>,
}

/// Evaluates the checks as [`judge()`] does, also those that compare.
pub(crate) async fn judge_seen(checks: &[Check], seen: Seen<'_>, judges: &Judges<'_>) -> Judged {
    let Seen { execution, baseline, contest } = seen;
    let mut answers = Answers::default();
    let mut spent = Spent::default();
    let mut results = Vec::with_capacity(checks.len());
    let mut halt: Option<Halt> = None;
    for stage in checks.split_inclusive(|it| it.options.require) {
        if let Some(halt) = &halt {
            results.extend(stage.iter().map(|it| not_run(it, halt)));
            continue;
        }
        for _ in 0..MAX_ROUNDS {
            let evidence = Evidence { execution, answers: &answers, baseline, contest };
            let questions = new_questions(stage, &evidence);
            if questions.is_empty() {
                break;
            }
            // Most checks ask nothing: what asking needs is not part of every execution's future.
            for (question, told) in Box::pin(ask_all(questions, judges)).await {
                spent.add(&told);
                answers.insert(&question, told.answer);
            }
        }
        let evidence = Evidence { execution, answers: &answers, baseline, contest };
        for check in stage {
            let found = check.evaluate(&evidence);
            halt = Halt::of(check, &found);
            results.extend(found);
        }
    }
    let outcome = Outcome::of(&results);
    Judged { results, outcome, cost_usd: spent.cost_usd, usage: spent.usage, halt }
}

fn new_questions(checks: &[Check], evidence: &Evidence<'_>) -> Vec<Question> {
    let mut questions = Vec::new();
    let mut keys = HashSet::new();
    for question in checks.iter().flat_map(|check| check.questions(evidence)) {
        if evidence.answers.get(&question).is_none() && keys.insert(question.key()) {
            questions.push(question);
        }
    }
    questions
}

async fn ask_all(questions: Vec<Question>, judges: &Judges<'_>) -> Vec<(Question, Told)> {
    let asking: FuturesUnordered<_> = questions
        .into_iter()
        .map(|question| async {
            let told = judges.ask(&question).await;
            (question, told)
        })
        .collect();
    asking.collect().await
}

/// The cost and the tokens of asking.
struct Spent {
    cost_usd: Option<f64>,
    usage: UsageSum,
}

impl Default for Spent {
    fn default() -> Self {
        Self { cost_usd: Some(0.0), usage: UsageSum::default() }
    }
}

impl Spent {
    fn add(&mut self, told: &Told) {
        if let (true, Ok(Answer::Text { usage, cost_usd, .. })) = (told.fresh, &told.answer) {
            self.usage.add(*usage);
            self.cost_usd = self.cost_usd.zip(*cost_usd).map(|(sum, cost)| sum + cost);
        }
    }
}

/// No model can answer.
fn nobody(message: impl Into<String>) -> AskError {
    AskError::NobodyToAsk { message: message.into() }
}
