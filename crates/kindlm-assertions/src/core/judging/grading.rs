//! Shared parts of graded checks: the question to a judge, the reply, and the result.

use std::fmt;
use std::sync::Arc;

use kindlm_types::{AssertionResult, FailureCode, Problem, Question, Verdict, ecma};
use serde_json::{Map, Value};

use super::{
    BuiltInQuestion, EVAL_ERROR, Flaw, GradingPrompt, Inquiry, Instructions, Obstacle, PARSE_ERROR,
    digest, short,
};
use crate::core::check::TOLERANCE;
use crate::core::grade::Grade;
use crate::{Assertion, Built, EntryOptions, Evidence, Traits, VerdictRule};

/// The common parts of a graded check: its name, options, prompt and criterion.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The id of the assertion.
    pub(crate) id: &'static str,
    /// The label of the check in results.
    pub(crate) label: String,
    /// The options `not-` and `threshold`.
    pub(crate) own: EntryOptions,
    /// The prompt for the judge.
    pub(crate) prompt: GradingPrompt,
    /// The criterion in a few words, and its digest; `None` without a criterion.
    criterion: Option<(String, String)>,
}

/// The finding of a graded check, before `not-` is applied.
#[derive(Debug)]
pub(crate) struct Graded {
    /// Pass or fail, the score and the reason.
    pub(crate) grade: Grade,
    /// The message if the check fails; `None` to use the reason of `grade` as the message.
    pub(crate) message: Option<String>,
    /// The metadata to add to the result.
    pub(crate) metadata: Map<String, Value>,
}

impl From<Grade> for Graded {
    fn from(grade: Grade) -> Self {
        Self { grade, message: None, metadata: Map::new() }
    }
}

impl Graded {
    /// Adds one entry to the metadata.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.metadata.insert(key.to_owned(), value.into());
        self
    }

    /// Returns the result of a check, inverted for `not-`.
    fn result(self, id: &str, label: &str, own: EntryOptions) -> AssertionResult {
        let Self { mut grade, message: more, metadata } = self;
        if own.negate {
            grade.pass = !grade.pass;
            grade.score = 1.0 - grade.score;
        }
        let mut result = grade.result(id, label);
        if let Verdict::Fail { message, .. } = &mut result.verdict {
            if let Some(more) = more {
                *message = more;
            } else if message.is_empty() {
                "the judge gave no reason".clone_into(message);
            }
        }
        result.metadata.extend(metadata);
        result
    }
}

/// The reason why the judge is not asked.
#[derive(Debug)]
pub(crate) enum NotAsked {
    /// Another question must be answered first.
    First(Box<Question>),
    /// The check cannot be evaluated; this is its result.
    Never(Box<AssertionResult>),
}

impl Frame {
    /// Creates the frame of a check. Its label consists of `name` and `about`.
    pub(crate) fn new(
        id: &'static str,
        name: &str,
        about: &str,
        own: EntryOptions,
        prompt: GradingPrompt,
    ) -> Self {
        let name = own.label(name);
        let label = if about.is_empty() { name } else { format!("{name}: {about}") };
        Self { id, label, own, prompt, criterion: None }
    }

    /// Returns the frame with the criterion that the check judges by.
    pub(crate) fn by(self, criterion: &str) -> Self {
        let name = short(&Value::from(criterion), 80);
        Self { criterion: Some((name, digest(&[criterion]))), ..self }
    }

    /// Returns the instructions for the judges, with the prompts in order of use.
    pub(crate) fn instructions<'a>(
        &'a self,
        prompts: impl IntoIterator<Item = &'a GradingPrompt>,
    ) -> Instructions {
        Instructions::from_prompts(prompts).by(self.criterion.clone())
    }

    /// Returns an errored result.
    pub(crate) fn errored(&self, code: FailureCode, message: impl Into<String>) -> AssertionResult {
        self.with_note(AssertionResult::errored(self.id, &self.label, code, message))
    }

    /// Returns a result with this verdict.
    pub(crate) fn with_verdict(&self, verdict: Verdict) -> AssertionResult {
        self.with_note(AssertionResult::new(self.id, &self.label, verdict))
    }

    /// Returns the errored result of a check that is evaluated before all of its answers exist.
    pub(crate) fn unfinished(&self) -> AssertionResult {
        let message = "an answer that the check needs is missing";
        self.errored(FailureCode::INTERNAL_ERROR, message)
    }

    /// Builds the question from the check's prompt; see [`GradingPrompt::inquiry`].
    ///
    /// If the question cannot be built, the error holds the errored result of the check.
    pub(crate) fn inquiry(
        &self,
        evidence: &Evidence<'_>,
        vars: &[(&str, Value)],
        max_tokens: u32,
        own: impl FnOnce() -> BuiltInQuestion,
    ) -> Result<Inquiry, NotAsked> {
        self.inquiry_by(&self.prompt, evidence, vars, max_tokens, own)
    }

    /// Builds a question from another prompt, for checks that ask several questions.
    ///
    /// If the question cannot be built, the error holds the errored result of the check.
    pub(crate) fn inquiry_by(
        &self,
        prompt: &GradingPrompt,
        evidence: &Evidence<'_>,
        vars: &[(&str, Value)],
        max_tokens: u32,
        own: impl FnOnce() -> BuiltInQuestion,
    ) -> Result<Inquiry, NotAsked> {
        prompt
            .inquiry(evidence, vars, max_tokens, own)
            .map_err(|why| NotAsked::Never(Box::new(self.errored(EVAL_ERROR, cannot_be_put(&why)))))
    }

    /// Returns the errored result for a missing or unreadable reply.
    pub(crate) fn lost(&self, obstacle: &Obstacle<'_>) -> AssertionResult {
        self.with_note(obstacle.result(self.id, &self.label, PARSE_ERROR))
    }

    /// Returns the result of a finding, inverted for `not-`.
    pub(crate) fn result(&self, graded: Graded) -> AssertionResult {
        self.with_note(graded.result(self.id, &self.label, self.own))
    }

    /// Returns the rule that gives the verdict for the score of a result.
    ///
    /// `grade` returns the grade for a score before `not-` is applied; `None` if the score alone does not decide.
    pub(crate) fn verdict_rule(
        &self,
        grade: impl Fn(EntryOptions, f64) -> Option<Grade> + Send + Sync + 'static,
    ) -> VerdictRule {
        let (id, label, own) = (self.id, self.label.clone(), self.own);
        VerdictRule::new(move |score| {
            // With `not-`, the score of a result is inverted already.
            let raw = if own.negate { 1.0 - score.get() } else { score.get() };
            Some(Graded::from(grade(own, raw)?).result(id, &label, own).verdict)
        })
    }

    fn with_note(&self, mut result: AssertionResult) -> AssertionResult {
        let judging = result.judging_mut();
        judging.prompt_digest = Some(self.prompt.digest().to_owned());
        judging.criterion = self.criterion.as_ref().map(|(_, digest)| digest.clone());
        result
    }
}

/// A check that asks a judge one question.
pub(crate) trait Grader: fmt::Debug + Send + Sync {
    /// The parsed content of a reply.
    type Reading;

    /// Returns the common parts of the check.
    fn frame(&self) -> &Frame;

    /// Builds the question, or returns the reason why the judge is not asked.
    fn inquiry(&self, evidence: &Evidence<'_>) -> Result<Inquiry, NotAsked>;

    /// Parses a reply, or returns the reason why it gives no verdict.
    fn parse_reply(&self, evidence: &Evidence<'_>, reply: &str) -> Result<Self::Reading, Flaw>;

    /// Returns the grade for a parsed reply.
    fn grade(&self, evidence: &Evidence<'_>, reading: Self::Reading) -> Graded;

    /// Returns the rule that gives the verdict for a score; `None` if the score alone never decides.
    fn verdict_rule(&self) -> Option<VerdictRule>;

    /// Describes the further evidence that the verdict depends on; `None` without further evidence.
    ///
    /// The output, the input and the variables of the test do not count as further evidence.
    fn further_evidence(&self) -> Option<&'static str> {
        None
    }
}

/// The assertion that asks the single question of a [`Grader`].
#[derive(Debug)]
pub(crate) struct One<T>(pub(crate) T);

impl<T: Grader + 'static> One<T> {
    /// Returns the check as the registry expects it.
    #[expect(clippy::unnecessary_wraps, reason = "what builds a check ends with it")]
    pub(crate) fn built(grader: T) -> Built {
        Ok(Arc::new(Self(grader)))
    }
}

impl<T: Grader> Assertion for One<T> {
    fn traits(&self) -> Traits {
        Traits {
            label: Some(self.0.frame().label.clone()),
            threshold: self.0.frame().own.wants(),
            instructions: {
                let frame = self.0.frame();
                let instructions = frame.instructions([&frame.prompt]);
                Some(match self.0.further_evidence() {
                    Some(what) => instructions.beyond(what),
                    None => instructions,
                })
            },
            verdict_rule: self.0.verdict_rule(),
            ..Traits::OF_OUTPUT
        }
    }

    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        match self.0.inquiry(evidence) {
            Ok(inquiry) => {
                inquiry.questions(evidence.answers, |it| self.0.parse_reply(evidence, it))
            }
            Err(NotAsked::First(question)) => vec![*question],
            Err(NotAsked::Never(_)) => Vec::new(),
        }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let frame = self.0.frame();
        let inquiry = match self.0.inquiry(evidence) {
            Ok(inquiry) => inquiry,
            Err(NotAsked::Never(result)) => return vec![*result],
            Err(NotAsked::First(_)) => return vec![frame.unfinished()],
        };
        vec![match inquiry.verdict(evidence.answers, |it| self.0.parse_reply(evidence, it)) {
            Ok((reading, by)) => by.note(frame.result(self.0.grade(evidence, reading))),
            Err(obstacle) => frame.lost(&obstacle),
        }]
    }
}

/// Returns the error message for a question that cannot be asked.
pub(crate) fn cannot_be_put(why: &str) -> String {
    format!("the question to the judge cannot be built: {why}")
}

/// Moves a problem under a key of the configuration.
pub(crate) fn at(key: &str, problem: Problem) -> Vec<Problem> {
    vec![problem.under(key)]
}

/// Grades a score against a threshold. `default` is the threshold if the check sets none.
pub(crate) fn grade_score(own: EntryOptions, default: f64, score: f64, reason: String) -> Grade {
    let threshold = own.threshold.unwrap_or(default);
    Grade { pass: score >= threshold - TOLERANCE, score, reason }
}

/// Grades the score of a judge's choice. Without a threshold, any score above 0 passes.
pub(crate) fn grade_choice(own: EntryOptions, score: f64, reason: String) -> Grade {
    match own.threshold {
        None => Grade { pass: score > 0.0, score, reason },
        Some(threshold) if score >= threshold - TOLERANCE => Grade { pass: true, score, reason },
        Some(threshold) => {
            let (shown, threshold) = (ecma::number(score), ecma::number(threshold));
            let below = format!("Score {shown} below threshold {threshold}");
            let reason = if reason.is_empty() { below } else { format!("{below}: {reason}") };
            Grade { pass: false, score, reason }
        }
    }
}

/// The default threshold of a check that grades a share.
const SHARE: f64 = 0.5;

/// Grades the share `part / all` against a threshold, which is 0.5 by default.
///
/// If `all` is 0, the score is not finite, so the result is errored.
pub(crate) fn share_held(name: &str, part: usize, all: usize, threshold: Option<f64>) -> Grade {
    let count = |it: usize| u32::try_from(it).map_or(f64::NAN, f64::from);
    held(name, count(part) / count(all), threshold)
}

/// Grades a score against a threshold, which is 0.5 by default.
pub(crate) fn held(name: &str, score: f64, threshold: Option<f64>) -> Grade {
    let threshold = threshold.unwrap_or(SHARE);
    let pass = score >= threshold - TOLERANCE;
    let is = if pass { ">=" } else { "<" };
    let (shown, threshold) = (ecma::to_fixed(score, 2), ecma::number(threshold));
    Grade { pass, score, reason: format!("{name} {shown} is {is} {threshold}") }
}
