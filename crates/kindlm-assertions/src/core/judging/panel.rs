//! Who judges: one model or a jury of several, each asked once or several times.
//!
//! A check asks as if there were one judge. The panel puts its questions to every seat, has it evaluate the answers of
//! each, and takes the results together; so whatever asks a judge can be judged by a jury.

use std::collections::BTreeSet;
use std::sync::Arc;

use kindlm_types::ask::Seat;
use kindlm_types::{AssertionResult, Problem, Question, Score, Verdict, ecma};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::votes::{Ballot, How, combine};
use super::{ANSWERED, Instructions};
use crate::{Assertion, Check, Evidence, Setup};

/// Most answers that one judge gives to one question.
const MOST_SAMPLES: u32 = 25;

/// The default temperature of a judge that is asked several times.
const VARIED: f64 = 0.7;

/// The judges, and the rule that joins several judgements.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct JudgeBlock {
    /// The id of the model that judges; the suite's `defaults.judge.model`, else its first model if it is not given.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// The ids of several models that judge: a jury.
    #[schemars(length(min = 1))]
    pub models: Option<Vec<String>>,
    /// The number of samples of each judge.
    #[schemars(range(min = 1, max = 25))]
    pub samples: Option<u32>,
    /// The temperature of the judge, from 0 to 2; 0.7 if a judge is asked several times, else 0.
    #[schemars(range(min = 0, max = 2))]
    pub temperature: Option<f64>,
    /// The rule that joins the answers of one judge: `median`, `majority` or `mean`.
    pub agg: Option<Agg>,
    /// The rule that joins the verdicts of a jury: `majority`, `median`, `unanimous` or `veto`.
    pub jury: Option<Jury>,
    /// The least number of readable judgements of the jury (without a jury: of the samples).
    #[schemars(range(min = 1, max = 100))]
    pub quorum: Option<u32>,
}

/// The rule that joins several answers of one judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Agg {
    /// The median of the scores.
    #[default]
    Median,
    /// The verdict of more than half of them.
    Majority,
    /// The mean of the scores.
    Mean,
}

/// The rule that joins the verdicts of a jury.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Jury {
    /// The verdict of more than half of them; a tie does not pass.
    #[default]
    Majority,
    /// The median of their scores.
    Median,
    /// Passes if all of them pass.
    Unanimous,
    /// Fails if one of them fails.
    Veto,
}

impl JudgeBlock {
    /// The keys, as they stand beside the other options of a check.
    pub(crate) const KEYS: [&'static str; 7] =
        ["model", "models", "samples", "temperature", "agg", "jury", "quorum"];

    /// True if it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// True if it says who judges.
    pub fn names_judges(&self) -> bool {
        self.model.is_some() || self.models.is_some()
    }

    /// What this block says, and what `below` says where it is silent. Who judges is one thing, whether it is one
    /// model or several.
    #[must_use]
    pub fn over(self, below: &Self) -> Self {
        let (model, models, jury, quorum) = if self.names_judges() {
            (self.model, self.models, self.jury, self.quorum)
        } else {
            let quorum = self.quorum.or(below.quorum);
            (below.model.clone(), below.models.clone(), self.jury.or(below.jury), quorum)
        };
        Self {
            model,
            models,
            jury,
            quorum,
            samples: self.samples.or(below.samples),
            temperature: self.temperature.or(below.temperature),
            agg: self.agg.or(below.agg),
        }
    }

    /// What is wrong with the block by itself, whatever models there are. Problems point from the block.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut push = |key: &str, message: String, help: &str| {
            problems.push(Problem::new(format!("/{key}"), message).with_help(help));
        };
        if self.model.is_some() && self.models.is_some() {
            let help = "`model` is one judge, `models` is a jury: keep one of the two";
            push("models", "`model` is given as well".to_owned(), help);
        }
        let models = self.models.as_deref().unwrap_or_default();
        let mut seen = BTreeSet::new();
        for (index, id) in models.iter().enumerate() {
            if !seen.insert(id) {
                let help = "every judge has one vote; `samples` asks a judge several times";
                push(&format!("models/{index}"), format!("`{id}` is named twice"), help);
            }
        }
        if self.samples.is_some_and(|it| it == 0 || it > MOST_SAMPLES) {
            let message = format!("must be from 1 to {MOST_SAMPLES}");
            push("samples", message, "3 or 5 show whether a judge agrees with itself");
        }
        if self.temperature.is_some_and(|it| !(0.0..=2.0).contains(&it)) {
            let help = "0 is for one answer, 0.7 for several that may differ";
            push("temperature", "must be from 0 to 2".to_owned(), help);
        }
        let jurors = models.len();
        match (self.quorum, self.samples) {
            (Some(quorum), _) if jurors > 1 && quorum as usize > jurors => {
                let message = format!("{quorum} judges cannot be had of {jurors}");
                push("quorum", message, "the quorum is how many of the jury must have judged");
            }
            (Some(quorum), Some(samples)) if jurors < 2 && samples > 1 && quorum > samples => {
                let message = format!("{quorum} answers cannot be had of {samples}");
                let help =
                    "without a jury, the quorum is how many of the `samples` must be readable";
                push("quorum", message, help);
            }
            _ => {}
        }
        problems
    }

    /// What this block says without effect, where a check is judged as `whole` says. Problems point from the block.
    pub fn idle(&self, whole: &Self) -> Vec<Problem> {
        let several = whole.models.as_ref().is_some_and(|it| it.len() > 1);
        let samples = whole.samples.unwrap_or(1) > 1;
        let idle = |key: &str, is_idle: bool, message: &str, help: &str| {
            is_idle.then(|| Problem::key(format!("/{key}"), message).with_help(help))
        };
        let (no_jury, asked_once) =
            ("no effect: there is one judge, and no jury", "no effect: the judge is asked once");
        let problems = [
            idle(
                "jury",
                self.jury.is_some() && !several,
                no_jury,
                "name several judges in `models`",
            ),
            idle(
                "agg",
                self.agg.is_some() && !samples,
                asked_once,
                "ask several times with `samples: 3`",
            ),
            idle(
                "quorum",
                self.quorum.is_some() && !several && !samples,
                "no effect: there is one judge, who is asked once",
                "name several in `models`, or ask several times with `samples: 3`",
            ),
        ];
        problems.into_iter().flatten().collect()
    }

    /// The panel that this makes, with what is wrong with it.
    pub(crate) fn panel(&self, setup: &Setup<'_>) -> Result<Panel, Vec<Problem>> {
        let mut problems = self.problems();
        let named = self.model.iter().map(|it| ("/model".to_owned(), it));
        let models = self.models.iter().flatten().enumerate();
        let named = named.chain(models.map(|(index, it)| (format!("/models/{index}"), it)));
        problems.extend(named.filter_map(|(at, id)| setup.check_model(&at, id)));
        if !problems.is_empty() {
            return Err(problems);
        }
        let jurors = match (&self.models, &self.model) {
            (Some(models), _) => models.iter().cloned().map(Some).collect(),
            (None, model) => vec![model.clone()],
        };
        Ok(Panel {
            jurors,
            samples: self.samples.unwrap_or(1).max(1),
            temperature: self.temperature,
            agg: self.agg.unwrap_or_default(),
            jury: self.jury.unwrap_or_default(),
            quorum: self.quorum,
            judging: self.settled(),
        })
    }

    /// The same with nothing in it that has no effect: two blocks have judges judge alike if they are equal so. Who
    /// judges remains open where it is.
    #[must_use]
    pub fn settled(&self) -> Self {
        let samples = self.samples.unwrap_or(1).max(1);
        let mut models = self.models.clone().unwrap_or_default();
        // Each has one vote, wherever it stands.
        models.sort_unstable();
        let several = models.len() > 1;
        let usual = if samples > 1 { VARIED } else { 0.0 };
        let (agg, jury) = (self.agg.unwrap_or_default(), self.jury.unwrap_or_default());
        let enough = match jury {
            _ if !several => more_than_half(samples as usize),
            Jury::Unanimous => models.len(),
            Jury::Majority | Jury::Median | Jury::Veto => more_than_half(models.len()),
        };
        let quorum = self.quorum.filter(|_| several || samples > 1);
        Self {
            model: if several {
                None
            } else {
                self.model.clone().or_else(|| models.first().cloned())
            },
            models: several.then_some(models),
            samples: (samples > 1).then_some(samples),
            temperature: self.temperature.filter(|it| it.total_cmp(&usual).is_ne()),
            agg: (samples > 1).then_some(agg),
            jury: several.then_some(jury),
            quorum: quorum.filter(|it| *it as usize != enough),
        }
    }
}

impl JudgeBlock {
    /// The same with other names for the models.
    #[must_use]
    pub fn renamed(&self, name: impl Fn(&str) -> String) -> Self {
        let models = self.models.as_ref().map(|it| it.iter().map(|it| name(it)).collect());
        Self { model: self.model.as_deref().map(&name), models, ..self.clone() }
    }

    /// Who judges, and how, in words that stand in the middle of a sentence.
    pub fn in_words(&self) -> String {
        let it = self.settled();
        let mut how = Vec::new();
        if let (Some(samples), Some(agg)) = (it.samples, it.agg) {
            let each = if it.models.is_some() { "each " } else { "" };
            how.push(format!("{each}asked {samples} times, {}", agg.word()));
        }
        if let Some(temperature) = it.temperature {
            how.push(format!("temperature {}", ecma::number(temperature)));
        }
        if let Some(quorum) = it.quorum {
            how.push(format!("quorum {quorum}"));
        }
        let how = if how.is_empty() { String::new() } else { format!(" ({})", how.join(", ")) };
        match (it.models, it.jury) {
            (Some(models), Some(jury)) => {
                format!("the jury {}, {}{how}", models.join(" + "), jury.word())
            }
            _ => format!("{}{how}", it.model.as_deref().unwrap_or("the judge")),
        }
    }
}

impl Agg {
    fn word(self) -> &'static str {
        match self {
            Self::Median => "median",
            Self::Majority => "majority",
            Self::Mean => "mean",
        }
    }
}

impl Jury {
    fn word(self) -> &'static str {
        match self {
            Self::Majority => "majority",
            Self::Median => "median",
            Self::Unanimous => "unanimous",
            Self::Veto => "veto",
        }
    }
}

/// Under which key results say how they were judged.
const JUDGING: &str = "judging";

/// Who judged a result, and how, as far as it says: [settled](JudgeBlock::settled), with the ids of models as the run
/// had them. `None` if no model judged.
pub fn judged_by(result: &AssertionResult) -> Option<JudgeBlock> {
    if let Some(told) = result.metadata.get(JUDGING) {
        return JudgeBlock::deserialize(told).ok();
    }
    let model = result.metadata.get("judgeModel").and_then(Value::as_str)?;
    Some(JudgeBlock { model: Some(model.to_owned()), ..JudgeBlock::default() })
}

/// The vendors' names of the models that judged a result, where they are others than those that were asked for.
pub fn answered_by(result: &AssertionResult) -> Vec<&str> {
    let panel = result.metadata.get("panel").and_then(|it| it.get("votes"));
    let votes = panel.and_then(Value::as_array).into_iter().flatten();
    let votes = votes.filter_map(|it| it.get(ANSWERED)?.as_str());
    let alone = result.metadata.get(ANSWERED).and_then(Value::as_str);
    let names: BTreeSet<&str> = alone.into_iter().chain(votes).collect();
    names.into_iter().collect()
}

/// Who judges a check.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Panel {
    /// The model of each juror; `None` for the suite's judge.
    jurors: Vec<Option<String>>,
    /// How often each is asked.
    samples: u32,
    /// The temperature, if one is set.
    temperature: Option<f64>,
    agg: Agg,
    jury: Jury,
    quorum: Option<u32>,
    /// The block that it was made of, [settled](JudgeBlock::settled).
    judging: JudgeBlock,
}

impl Panel {
    /// The assertion as it is judged by this panel.
    pub(crate) fn judging(self, assertion: Arc<dyn Assertion>) -> Arc<dyn Assertion> {
        if self.jurors == [None] && self.samples == 1 && self.temperature.is_none() {
            return assertion;
        }
        Arc::new(Paneled { panel: self, assertion })
    }

    /// Says in a result how it was judged, so that a verdict of three samples is never taken for one of one.
    fn tell(&self, result: &mut AssertionResult) {
        let mut judging = self.judging.clone();
        if judging.models.is_none() {
            let of_votes = || result.metadata.get("panel")?.get("votes")?.get(0)?.get("judge");
            let model = result.metadata.get("judgeModel").or_else(of_votes).and_then(Value::as_str);
            judging.model = model.map(str::to_owned).or(judging.model);
        }
        // What can be read can be written.
        let told = serde_json::to_value(&judging).unwrap_or_default();
        let told = told.as_object().into_iter().flatten().filter(|(_, it)| !it.is_null());
        let told: Map<String, Value> = told.map(|(key, it)| (key.clone(), it.clone())).collect();
        // One model that is asked once is named already.
        if told.keys().any(|key| key != "model") {
            result.metadata.insert(JUDGING.to_owned(), Value::Object(told));
        }
    }

    fn seats(&self) -> impl Iterator<Item = Seat> + '_ {
        // Answers that cannot differ say nothing about whether a judge agrees with itself.
        let temperature = self.temperature.or((self.samples > 1).then_some(VARIED));
        self.jurors.iter().flat_map(move |model| {
            (0..self.samples).map(move |sample| Seat {
                model: model.clone(),
                sample,
                samples: self.samples,
                temperature,
            })
        })
    }

    /// How the answers of one juror are taken together.
    fn by_juror(&self) -> Ballot {
        let how = match self.agg {
            Agg::Median => How::Median,
            Agg::Majority => How::Majority,
            Agg::Mean => How::Mean,
        };
        let own = self.quorum.filter(|_| self.jurors.len() == 1);
        Ballot {
            how,
            quorum: own.map_or(more_than_half(self.samples as usize), |it| it as usize),
            who: "samples",
        }
    }

    /// How the jurors are taken together.
    fn by_jury(&self) -> Ballot {
        let all = self.jurors.len();
        let (how, quorum) = match self.jury {
            Jury::Majority => (How::Majority, more_than_half(all)),
            Jury::Median => (How::Median, more_than_half(all)),
            Jury::Unanimous => (How::All, all),
            Jury::Veto => (How::All, more_than_half(all)),
        };
        Ballot { how, quorum: self.quorum.map_or(quorum, |it| it as usize), who: "jurors" }
    }
}

fn more_than_half(all: usize) -> usize {
    all / 2 + 1
}

/// An assertion that a panel judges.
#[derive(Debug)]
struct Paneled {
    panel: Panel,
    assertion: Arc<dyn Assertion>,
}

impl Assertion for Paneled {
    fn questions(&self, evidence: &Evidence<'_>) -> Vec<Question> {
        let mut questions = Vec::new();
        for seat in self.panel.seats() {
            let answers = evidence.answers.seen_from(&seat);
            let asked = self.assertion.questions(&Evidence { answers: &answers, ..*evidence });
            questions.extend(asked.into_iter().map(|it| seat.put(it)));
        }
        questions
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let mut jurors = Vec::new();
        let mut seats = self.panel.seats();
        for _ in &self.panel.jurors {
            let samples = seats.by_ref().take(self.panel.samples as usize).map(|seat| {
                let answers = evidence.answers.seen_from(&seat);
                let results = self.assertion.evaluate(&Evidence { answers: &answers, ..*evidence });
                (seat, results)
            });
            jurors.push(samples.collect::<Vec<_>>());
        }
        let decide = |score: Score| self.assertion.decide(score);
        let mut results = combine(jurors, &self.panel.by_juror(), &self.panel.by_jury(), &decide);
        for result in &mut results {
            self.panel.tell(result);
        }
        results
    }

    fn hides_its_value(&self) -> bool {
        self.assertion.hides_its_value()
    }

    fn label(&self) -> Option<&str> {
        self.assertion.label()
    }

    fn wants(&self) -> Option<f64> {
        self.assertion.wants()
    }

    fn sees_output(&self) -> bool {
        self.assertion.sees_output()
    }

    fn needs_output(&self) -> bool {
        self.assertion.needs_output()
    }

    fn decide(&self, score: Score) -> Option<Verdict> {
        self.assertion.decide(score)
    }

    fn is_tie(&self, result: &AssertionResult) -> bool {
        self.assertion.is_tie(result)
    }

    fn compares(&self) -> bool {
        self.assertion.compares()
    }

    fn instructions(&self) -> Option<Instructions<'_>> {
        self.assertion.instructions()
    }

    fn parts(&self) -> &[Check] {
        self.assertion.parts()
    }

    fn weighs(&self) -> bool {
        self.assertion.weighs()
    }
}
