//! Completeness of the recorded evidence.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Event;

/// A kind of evidence.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum Channel {
    /// Messages of the agent and the user.
    Messages,
    /// Tool calls and their results.
    Actions,
    /// Calls of subagents (other agents) and their results.
    Subagents,
    /// Skills that were loaded.
    Skills,
    /// Questions of the agent to a person.
    InputRequests,
    /// Reasoning that the model emitted.
    Thinking,
    /// Compactions: the agent shortened its conversation history.
    Compactions,
    /// Errors inside the agent.
    Errors,
    /// Token counts.
    Usage,
}

impl Channel {
    /// All channels.
    pub const ALL: [Self; 9] = [
        Self::Messages,
        Self::Actions,
        Self::Subagents,
        Self::Skills,
        Self::InputRequests,
        Self::Thinking,
        Self::Compactions,
        Self::Errors,
        Self::Usage,
    ];

    /// Returns the name of the channel in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Actions => "actions",
            Self::Subagents => "subagents",
            Self::Skills => "skills",
            Self::InputRequests => "inputRequests",
            Self::Thinking => "thinking",
            Self::Compactions => "compactions",
            Self::Errors => "errors",
            Self::Usage => "usage",
        }
    }
}

/// The kinds of evidence that a source records completely.
///
/// A check can assert the absence of an event only where the evidence is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Coverage {
    /// Everything that happened is recorded, because KindLM ran the conversation itself.
    #[default]
    Complete,
    /// Only these kinds are recorded in full.
    Only(BTreeSet<Channel>),
    /// Some evidence is known to be lost, even if the suite declares it complete.
    Lossy {
        /// The kinds that are recorded in full.
        complete: BTreeSet<Channel>,
        /// The kinds of which some evidence is lost: at least one kind, and no kind in `complete`.
        lost: BTreeSet<Channel>,
    },
}

impl Coverage {
    /// Builds a coverage from the complete kinds and the lost kinds.
    ///
    /// If `complete_for` is `None`, all kinds are complete. A lost kind is never complete, even if `complete_for`
    /// contains it.
    pub fn new(complete_for: Option<BTreeSet<Channel>>, lost: BTreeSet<Channel>) -> Self {
        complete_for.map_or(Self::Complete, Self::Only).losing(lost)
    }

    /// Returns true if all events of this kind are recorded.
    pub fn includes(&self, channel: Channel) -> bool {
        self.complete_for().is_none_or(|it| it.contains(&channel))
    }

    /// Returns the kinds that are recorded in full; `None` if all kinds are recorded in full.
    pub fn complete_for(&self) -> Option<&BTreeSet<Channel>> {
        match self {
            Self::Complete => None,
            Self::Only(complete) | Self::Lossy { complete, .. } => Some(complete),
        }
    }

    /// Returns the kinds of which some evidence is known to be lost.
    pub fn lost(&self) -> &BTreeSet<Channel> {
        static NONE: BTreeSet<Channel> = BTreeSet::new();
        match self {
            Self::Complete | Self::Only(_) => &NONE,
            Self::Lossy { lost, .. } => lost,
        }
    }

    /// Returns the default coverage for a source that declares nothing.
    ///
    /// A kind is complete if at least one event of this kind was recorded. A log without tool calls may come from a
    /// source that never records tool calls.
    pub fn of_events(events: &[Event]) -> Self {
        events.iter().map(Event::channel).collect()
    }

    /// Adds a kind to the complete kinds, unless some evidence of this kind is lost.
    #[must_use]
    pub fn with(mut self, channel: Channel) -> Self {
        match &mut self {
            Self::Only(complete) => {
                complete.insert(channel);
            }
            Self::Lossy { complete, lost } if !lost.contains(&channel) => {
                complete.insert(channel);
            }
            Self::Complete | Self::Lossy { .. } => {}
        }
        self
    }

    /// Removes a kind from the complete kinds.
    #[must_use]
    pub fn without(self, channel: Channel) -> Self {
        let complete = Channel::ALL.into_iter().filter(|it| *it != channel && self.includes(*it));
        Self::new(Some(complete.collect()), self.lost().clone())
    }

    /// Marks kinds as lost, and removes them from the complete kinds.
    #[must_use]
    pub fn losing(self, channels: impl IntoIterator<Item = Channel>) -> Self {
        let mut lost = self.lost().clone();
        lost.extend(channels);
        if lost.is_empty() {
            return self;
        }
        let complete = Channel::ALL.into_iter();
        let complete = complete.filter(|it| self.includes(*it) && !lost.contains(it)).collect();
        Self::Lossy { complete, lost }
    }

    /// Returns the coverage of two sources together.
    ///
    /// A kind is complete if both sources record it completely. A kind that either source has lost is lost.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        let complete = match (self.complete_for(), other.complete_for()) {
            (None, it) | (it, None) => it.cloned(),
            (Some(a), Some(b)) => Some(a & b),
        };
        Self::new(complete, self.lost() | other.lost())
    }
}

/// The kinds of evidence that the suite declares complete.
///
/// The declaration is for sources that do not report the completeness of their evidence. Reports list declared
/// completeness separately from what the source itself reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "DeclaredEvidence")]
pub struct DeclaredEvidence {
    /// The kinds of evidence that the source records in full: `actions`, `subagents`, `messages`, …
    #[schemars(length(min = 1))]
    pub complete: BTreeSet<Channel>,
}

impl FromIterator<Channel> for Coverage {
    fn from_iter<I: IntoIterator<Item = Channel>>(channels: I) -> Self {
        Self::Only(channels.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Channel::{Actions, Messages, Usage};

    #[test]
    fn lost_evidence_stays_lost() {
        let lossy = || Coverage::Only([Actions, Messages].into()).losing([Actions]);
        let whole = || Coverage::Complete;
        assert_eq!(Coverage::new(None, BTreeSet::new()), whole());
        assert_eq!(whole().losing([]), whole());
        for (coverage, complete) in [
            (lossy(), vec![Messages]),
            (lossy().with(Actions), vec![Messages]),
            (lossy().with(Usage), vec![Messages, Usage]),
            (lossy().without(Messages), vec![]),
            (lossy().and(&whole()), vec![Messages]),
            (whole().and(&lossy()), vec![Messages]),
            (Coverage::Only([Actions, Usage].into()).and(&lossy()), vec![]),
            (Coverage::new(Some([Actions, Usage].into()), [Actions].into()), vec![Usage]),
        ] {
            assert_eq!(coverage.lost(), &[Actions].into(), "{coverage:?}");
            assert_eq!(coverage.complete_for(), Some(&complete.into_iter().collect()));
        }
        assert!(!whole().losing([Actions]).includes(Actions));
        assert!(whole().losing([Actions]).includes(Usage));
    }
}
