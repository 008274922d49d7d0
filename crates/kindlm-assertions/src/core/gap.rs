//! Missing evidence that prevents a decision, with advice for the source of the evidence.

use kindlm_types::{Channel, Execution};

use crate::core::recorded::{Source, known_missing};

/// The missing evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    /// Evidence of this kind is certainly missing, for this reason.
    Missing(Channel, String),
    /// Evidence of this kind may be incomplete. The source can declare the evidence complete.
    Incomplete(Channel, Source),
    /// The results of this number of calls are missing.
    Unanswered(usize),
    /// The records of this number of calls lack more than the result, such as the tool or the arguments.
    Half(Channel, usize),
}

impl Gap {
    /// Returns the missing evidence of a kind that may be incomplete. Includes the reason if it is known.
    pub(crate) fn incomplete(execution: &Execution, channel: Channel) -> Self {
        match known_missing(execution, channel) {
            Some(why) => Self::Missing(channel, why),
            None => Self::Incomplete(channel, Source::from_execution(execution)),
        }
    }

    /// Describes the missing evidence, with advice for the user unless the reason is known.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Missing(channel, why) => {
                format!("not all {} were recorded: {why}", plural_of(channel))
            }
            Self::Incomplete(channel, source) => {
                let what = plural_of(channel);
                let advice = source.declares(channel);
                format!("some {what} may not have been recorded; {advice}")
            }
            Self::Unanswered(1) => {
                "the end or the result of a call was not recorded: report its `action.result`"
                    .to_owned()
            }
            Self::Unanswered(calls) => {
                format!(
                    "the ends or results of {calls} calls were not recorded: report each `action.result`"
                )
            }
            Self::Half(channel, calls) => {
                let of = if calls == 1 { "a call".to_owned() } else { format!("{calls} calls") };
                let (called, ended) = match channel {
                    Channel::Subagents => ("subagent.called", "subagent.completed"),
                    _ => ("action.called", "action.result"),
                };
                format!(
                    "the record of {of} is incomplete: report all fields of `{called}` and `{ended}`"
                )
            }
        }
    }
}

/// Returns the plural noun for a kind of evidence.
fn plural_of(channel: Channel) -> &'static str {
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
