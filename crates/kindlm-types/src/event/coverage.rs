//! Which evidence is complete.

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
    /// What was said.
    Messages,
    /// Calls of tools and their results.
    Actions,
    /// Calls of other agents.
    Subagents,
    /// Skills that were loaded.
    Skills,
    /// Questions to a person.
    InputRequests,
    /// Thoughts.
    Thinking,
    /// Shortenings of the conversation.
    Compactions,
    /// Errors inside the agent.
    Errors,
    /// Tokens.
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

    /// Its word in JSON.
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

/// For which kinds of evidence a source tells everything that happened.
///
/// That something did *not* happen can only be said where the evidence is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Coverage {
    /// Everything that happened is told: KindLM held the conversation itself.
    #[default]
    Complete,
    /// Only these kinds are told in full.
    Only(BTreeSet<Channel>),
}

impl Coverage {
    /// Whether everything of this kind is told.
    pub fn includes(&self, channel: Channel) -> bool {
        match self {
            Self::Complete => true,
            Self::Only(channels) => channels.contains(&channel),
        }
    }

    /// What can be relied on where the source does not say: it tells all of what it tells some of.
    ///
    /// A log without a single tool call may be one that never has any.
    pub fn of_events(events: &[Event]) -> Self {
        events.iter().map(Event::channel).collect()
    }

    /// Everything of this kind is told, too.
    #[must_use]
    pub fn with(mut self, channel: Channel) -> Self {
        if let Self::Only(channels) = &mut self {
            channels.insert(channel);
        }
        self
    }

    /// Not everything of this kind is told.
    #[must_use]
    pub fn without(self, channel: Channel) -> Self {
        let told = Channel::ALL.into_iter().filter(|it| *it != channel && self.includes(*it));
        told.collect()
    }
}

impl Coverage {
    /// What both sources record in full.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Complete, it) | (it, Self::Complete) => it,
            (Self::Only(a), Self::Only(b)) => a.intersection(&b).copied().collect(),
        }
    }
}

/// Which evidence a suite declares complete, where the source does not say so itself.
///
/// Reports show what was declared apart from what the source vouches for.
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
