//! The names of event types in suites.

use kindlm_types::Channel;
use schemars::JsonSchema;
use serde::Deserialize;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(crate) enum EventType {
    #[serde(rename = "message")]
    Message,
    #[serde(rename = "action.called")]
    ActionCalled,
    #[serde(rename = "action.result")]
    ActionResult,
    #[serde(rename = "subagent.called")]
    SubagentCalled,
    #[serde(rename = "subagent.completed")]
    SubagentCompleted,
    #[serde(rename = "skill.loaded")]
    SkillLoaded,
    #[serde(rename = "input.requested")]
    InputRequested,
    #[serde(rename = "thinking")]
    Thinking,
    #[serde(rename = "compaction")]
    Compaction,
    #[serde(rename = "error")]
    Error,
    #[serde(rename = "usage")]
    Usage,
}

impl EventType {
    /// Returns the name of the type.
    ///
    /// The name equals [`Event::type_name`](kindlm_types::Event::type_name).
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::ActionCalled => "action.called",
            Self::ActionResult => "action.result",
            Self::SubagentCalled => "subagent.called",
            Self::SubagentCompleted => "subagent.completed",
            Self::SkillLoaded => "skill.loaded",
            Self::InputRequested => "input.requested",
            Self::Thinking => "thinking",
            Self::Compaction => "compaction",
            Self::Error => "error",
            Self::Usage => "usage",
        }
    }

    /// Returns the kind of evidence that events of this type belong to.
    pub(crate) fn channel(self) -> Channel {
        match self {
            Self::Message => Channel::Messages,
            Self::ActionCalled | Self::ActionResult => Channel::Actions,
            Self::SubagentCalled | Self::SubagentCompleted => Channel::Subagents,
            Self::SkillLoaded => Channel::Skills,
            Self::InputRequested => Channel::InputRequests,
            Self::Thinking => Channel::Thinking,
            Self::Compaction => Channel::Compactions,
            Self::Error => Channel::Errors,
            Self::Usage => Channel::Usage,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindlm_types::Event;

    #[test]
    fn every_type_of_event_has_its_word_here() {
        for name in Event::TYPES {
            let event: EventType = serde_json::from_value(name.into()).unwrap();
            assert_eq!(event.as_str(), name);
        }
    }
}
