//! The `judging` block: one judge or a jury of several, each asked once or several times.

use std::collections::BTreeSet;

use kindlm_types::{Problem, ecma};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The highest number of samples per judge and question.
const MOST_SAMPLES: u32 = 25;

/// The default temperature of a judge that is asked several times.
pub(super) const VARIED: f64 = 0.7;

/// The judges, and the rules that combine several judgements.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct JudgeBlock {
    /// The id of the model that judges.
    ///
    /// The default is `defaults.judge.model` of the suite, else the first model of the suite.
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// The ids of several models that judge: a jury.
    #[schemars(length(min = 1))]
    pub models: Option<Vec<String>>,
    /// The number of samples per judge: 1 to 25, by default 1.
    #[schemars(range(min = 1, max = 25))]
    pub samples: Option<u32>,
    /// The temperature of the judge, from 0 to 2.
    ///
    /// The default is 0.7 if a judge is asked several times, else 0.
    #[schemars(range(min = 0, max = 2))]
    pub temperature: Option<f64>,
    /// The rule that combines the samples of one judge: `median` (default), `majority` or `mean`.
    pub agg: Option<Agg>,
    /// The rule that combines the verdicts of a jury: `majority` (default), `median`, `unanimous` or `veto`.
    pub jury: Option<Jury>,
    /// The lowest number of jurors that must give a readable judgement. Without a jury, the lowest number of readable
    /// samples.
    ///
    /// The default is more than half; for the jury rule `unanimous`, all jurors.
    #[schemars(range(min = 1, max = 100))]
    pub quorum: Option<u32>,
}

/// The rule that combines the samples of one judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Agg {
    /// The median of the scores.
    #[default]
    Median,
    /// The verdict of more than half of the samples.
    Majority,
    /// The mean of the scores.
    Mean,
}

/// The rule that combines the verdicts of a jury.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Jury {
    /// The verdict of more than half of the jurors; a tie does not pass.
    #[default]
    Majority,
    /// The median of the scores.
    Median,
    /// Passes if all jurors pass.
    Unanimous,
    /// Fails if one juror fails.
    Veto,
}

impl JudgeBlock {
    /// The keys of the block. A check can also have these keys beside its own keys.
    pub(crate) const KEYS: [&'static str; 7] =
        ["model", "models", "samples", "temperature", "agg", "jury", "quorum"];

    /// Returns true if no option is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if the block names the judges.
    pub fn names_judges(&self) -> bool {
        self.model.is_some() || self.models.is_some()
    }

    /// Returns this block, completed with the options of `below` that this block does not set.
    ///
    /// `model` and `models` count as one option here. If this block names judges, `jury` and `quorum` of `below` do not
    /// apply.
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

    /// Returns the problems that do not depend on the configured models.
    ///
    /// Pointers start at the block.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut push = |key: &str, message: String, help: &str| {
            problems.push(Problem::new(format!("/{key}"), message).with_help(help));
        };
        if self.model.is_some() && self.models.is_some() {
            let help = "`model` is one judge, `models` is a jury: keep one of the two";
            push("models", "`model` is set as well".to_owned(), help);
        }
        let models = self.models.as_deref().unwrap_or_default();
        let mut seen = BTreeSet::new();
        for (index, id) in models.iter().enumerate() {
            if !seen.insert(id) {
                let help = "every judge has one vote; `samples` asks a judge several times";
                push(&format!("models/{index}"), format!("duplicate judge `{id}`"), help);
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
                let message = format!("a quorum of {quorum} is more than the {jurors} judges");
                push("quorum", message, "the quorum is the number of judges that must vote");
            }
            (Some(quorum), Some(samples)) if jurors < 2 && samples > 1 && quorum > samples => {
                let message = format!("a quorum of {quorum} is more than the {samples} samples");
                let help =
                    "the quorum of a single judge is the number of `samples` that must be readable";
                push("quorum", message, help);
            }
            _ => {}
        }
        problems
    }

    /// Returns a problem for each option of this block that has no effect.
    ///
    /// `whole` has the options that apply to the check, inherited options included. Pointers of the problems start at this
    /// block.
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
                "no effect: there is one judge, which is asked once",
                "name several in `models`, or ask several times with `samples: 3`",
            ),
        ];
        problems.into_iter().flatten().collect()
    }

    /// Returns the block in a normal form, without the options that have no effect.
    ///
    /// Two blocks judge alike if their normal forms are equal. Without a named judge, `model` and `models` stay `None`.
    #[must_use]
    pub fn settled(&self) -> Self {
        let samples = self.samples.unwrap_or(1).max(1);
        let mut models = self.models.clone().unwrap_or_default();
        // Each juror has one vote, so the order does not matter.
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
    /// Returns the block with each model id replaced by the result of `name`.
    #[must_use]
    pub fn renamed(&self, name: impl Fn(&str) -> String) -> Self {
        let models = self.models.as_ref().map(|it| it.iter().map(|it| name(it)).collect());
        Self { model: self.model.as_deref().map(&name), models, ..self.clone() }
    }

    /// Describes the judges and their options, for the middle of a sentence.
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

/// Returns the smallest majority of `all`.
pub(super) fn more_than_half(all: usize) -> usize {
    all / 2 + 1
}
