//! Shared parts of the checks of behaviour, such as call patterns and counts.
//!
//! A check holds, does not hold, or cannot be decided because the source did not record everything. An undecided check
//! is errored, with and without `not-`, because the absence of a record is no proof.

mod call;
mod count;
mod event_type;
mod limit;
mod literal;
mod phrase;
mod undecided;
mod wanted;

use kindlm_types::{AssertionResult, Channel, Execution, ResultEvidence};

pub(crate) use call::{Call, CallPattern, Calls, Fit, State, Tool, shown, tools};
pub(crate) use count::{Count, Counted};
pub(crate) use event_type::EventType;
pub(crate) use limit::Limit;
pub(crate) use literal::refused as refused_literal;
pub(crate) use phrase::{Phrase, PhrasePattern};
pub(crate) use undecided::Undecided;
pub(crate) use wanted::Wanted;

use crate::EntryOptions;
use crate::core::codes::EVIDENCE_MISSING;
pub(crate) use crate::core::gap::Gap;
use crate::core::grade::Grade;
use crate::core::result_evidence::explained;
use crate::shared::pattern::SearchError;
pub(crate) use crate::shared::words::names;

/// The finding of a check of behaviour.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// True if the check holds; `None` if the evidence does not decide.
    pub(crate) holds: Option<bool>,
    /// The reason, worded so that it fits a pass and a failure.
    pub(crate) reason: String,
    /// The missing evidence, which is reported if the check cannot be decided.
    pub(crate) gap: Gap,
}

impl Finding {
    /// Returns the finding for an event that must occur in the evidence of a channel.
    ///
    /// A recorded occurrence proves that the event happened. A missing record proves the opposite only if the source
    /// records all evidence of the channel.
    pub(crate) fn occurs(
        execution: &Execution,
        channel: Channel,
        occurs: bool,
        reason: impl Into<String>,
    ) -> Self {
        let holds =
            if occurs { Some(true) } else { execution.is_complete_for(channel).then_some(false) };
        Self { holds, reason: reason.into(), gap: Gap::incomplete(execution, channel) }
    }

    /// Returns the finding for an event that must not occur: the opposite of [`Self::occurs`].
    pub(crate) fn does_not_occur(
        execution: &Execution,
        channel: Channel,
        occurs: bool,
        reason: impl Into<String>,
    ) -> Self {
        let Self { holds, reason, gap } = Self::occurs(execution, channel, occurs, reason);
        Self { holds: holds.map(|it| !it), reason, gap }
    }

    /// Returns the result like [`Self::result`], with the evidence of a failure.
    pub(crate) fn result_with<I: IntoIterator<Item = ResultEvidence>>(
        self,
        (id, label): (&str, &str),
        own: EntryOptions,
        evidence: impl Fn() -> I,
    ) -> Vec<AssertionResult> {
        explained(self.result(id, label, own), evidence)
    }

    /// Returns the result, inverted for `not-`; errored if the finding is undecided.
    pub(crate) fn result(self, id: &str, label: &str, own: EntryOptions) -> Vec<AssertionResult> {
        let Some(holds) = self.holds else {
            let message = format!("{}, but {}", self.reason, self.gap.describe());
            return vec![AssertionResult::errored(id, label, EVIDENCE_MISSING, message)];
        };
        vec![Grade::with(holds != own.negate, self.reason).result(id, label)]
    }
}

/// Returns the result of a check whose pattern took too long.
pub(crate) fn given_up(id: &str, label: &str, err: &SearchError) -> Vec<AssertionResult> {
    Undecided::from(err.clone()).result(id, label)
}
