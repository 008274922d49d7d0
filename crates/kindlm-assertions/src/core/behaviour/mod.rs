//! What checks of behaviour share: reading what happened, and saying only what the evidence allows.
//!
//! A check holds, does not hold, or cannot be decided, because the source does not tell everything that happened. What
//! cannot be decided is errored, whichever way round the check is written: that nothing was seen is no proof.

mod call;
mod count;
mod event_type;
mod limit;
mod literal;
mod phrase;
mod undecided;
mod wanted;

use kindlm_types::{AssertionResult, Channel, Execution};

pub(crate) use call::{Call, CallPattern, Calls, Fit, State, Tool, shown};
pub(crate) use count::{Count, Counted};
pub(crate) use event_type::EventType;
pub(crate) use limit::Limit;
pub(crate) use literal::refused as refused_literal;
pub(crate) use phrase::{Phrase, PhrasePattern};
pub(crate) use undecided::Undecided;
pub(crate) use wanted::Wanted;

use crate::Own;
use crate::core::codes::EVIDENCE_MISSING;
pub(crate) use crate::core::evidence::Source;
use crate::core::evidence::known_missing;
use crate::core::grade::Grade;
use crate::shared::pattern::SearchError;

/// What a check of behaviour found.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// Whether it holds; `None` where the evidence does not say.
    pub(crate) holds: Option<bool>,
    /// What was found, in words that fit either verdict.
    pub(crate) reason: String,
    /// What is not known, where that decides.
    pub(crate) gap: Gap,
}

/// What is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    /// Evidence of this kind is known to be missing, for this reason.
    Missing(Channel, String),
    /// How complete evidence of this kind is, and how its source declares it complete.
    Untold(Channel, Source),
    /// How so many calls ended, or what they gave.
    Unanswered(usize),
    /// Of so many calls of this kind more than that: what was called, with what, or where.
    Half(Channel, usize),
}

impl Finding {
    /// What one can say of something that was looked for among everything of a kind that is told: what was seen
    /// has happened, and what was not seen has not if everything is told.
    pub(crate) fn seen(
        execution: &Execution,
        channel: Channel,
        seen: bool,
        reason: impl Into<String>,
    ) -> Self {
        let holds = if seen { Some(true) } else { execution.tells_all(channel).then_some(false) };
        Self { holds, reason: reason.into(), gap: Gap::untold(execution, channel) }
    }

    /// The same for something that must not have been seen.
    pub(crate) fn unseen(
        execution: &Execution,
        channel: Channel,
        seen: bool,
        reason: impl Into<String>,
    ) -> Self {
        let Self { holds, reason, gap } = Self::seen(execution, channel, seen, reason);
        Self { holds: holds.map(|it| !it), reason, gap }
    }

    /// The result of the check, turned round where it is written with `not-`.
    pub(crate) fn result(self, id: &str, label: &str, own: Own) -> Vec<AssertionResult> {
        let Some(holds) = self.holds else {
            let message = format!("{}, but {}", self.reason, self.gap.words());
            return vec![AssertionResult::errored(id, label, EVIDENCE_MISSING, message)];
        };
        vec![Grade::with(holds != own.negate, self.reason).result(id, label)]
    }
}

impl Gap {
    /// That not everything of a kind is known to be recorded.
    pub(crate) fn untold(execution: &Execution, channel: Channel) -> Self {
        match known_missing(execution, channel) {
            Some(why) => Self::Missing(channel, why),
            None => Self::Untold(channel, Source::of(execution)),
        }
    }

    /// What is not known, and what to do so that it is.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Missing(channel, why) => {
                format!("it is known that not all {} were recorded: {why}", of(channel))
            }
            Self::Untold(channel, source) => {
                let what = of(channel);
                let advice = source.declares(channel);
                format!("it is not known whether all {what} were recorded; {advice}")
            }
            Self::Unanswered(1) => {
                "it is not known how a call ended, or what it gave: tell its `action.result`"
                    .to_owned()
            }
            Self::Unanswered(calls) => {
                format!(
                    "it is not known how {calls} calls ended, or what they gave: tell each `action.result`"
                )
            }
            Self::Half(channel, calls) => {
                let of = if calls == 1 { "a call".to_owned() } else { format!("{calls} calls") };
                let (called, ended) = match channel {
                    Channel::Subagents => ("subagent.called", "subagent.completed"),
                    _ => ("action.called", "action.result"),
                };
                format!(
                    "not everything that decides is known of {of}: tell all of `{called}` and `{ended}`"
                )
            }
        }
    }
}

/// The result of a check whose pattern took too long.
pub(crate) fn given_up(id: &str, label: &str, err: &SearchError) -> Vec<AssertionResult> {
    Undecided::from(err.clone()).result(id, label)
}

/// What a kind of evidence is made of, in words.
fn of(channel: Channel) -> &'static str {
    match channel {
        Channel::Messages => "messages",
        Channel::Actions => "tool calls",
        Channel::Subagents => "calls of other agents",
        Channel::Skills => "loaded skills",
        Channel::InputRequests => "questions to a person",
        Channel::Thinking => "thoughts",
        Channel::Compactions => "compactions",
        Channel::Errors => "errors",
        Channel::Usage => "tokens",
    }
}

/// A list of names as a text of a report, cut where it gets long; `(none)` if it is empty.
pub(crate) fn names<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    const SHOWN: usize = 20;
    let mut names = names.into_iter();
    let shown: Vec<&str> = names.by_ref().take(SHOWN).collect();
    match (shown.is_empty(), names.count()) {
        (true, _) => "(none)".to_owned(),
        (false, 0) => shown.join(", "),
        (false, more) => format!("{} and {more} more", shown.join(", ")),
    }
}
