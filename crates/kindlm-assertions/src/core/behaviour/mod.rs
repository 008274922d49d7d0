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
pub(crate) use crate::core::gap::Gap;
use crate::core::grade::Grade;
use crate::shared::pattern::SearchError;
pub(crate) use crate::shared::words::names;

/// The finding of a check of behaviour.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// True if it holds; `None` if the evidence does not decide.
    pub(crate) holds: Option<bool>,
    /// The finding in words that fit either verdict.
    pub(crate) reason: String,
    /// The missing evidence, where it decides.
    pub(crate) gap: Gap,
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

/// The result of a check whose pattern took too long.
pub(crate) fn given_up(id: &str, label: &str, err: &SearchError) -> Vec<AssertionResult> {
    Undecided::from(err.clone()).result(id, label)
}
