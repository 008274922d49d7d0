//! Evidence that is missing where it decides, and the advice to its source.

use kindlm_types::{Channel, Execution};

use crate::core::recorded::{Source, known_missing};

/// Missing evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    /// Evidence of this kind is known to be missing, for this reason.
    Missing(Channel, String),
    /// Evidence of this kind may be incomplete; its source can declare it complete.
    Untold(Channel, Source),
    /// The results of so many calls are missing.
    Unanswered(usize),
    /// Of so many calls of this kind more than that: what was called, with what, or where.
    Half(Channel, usize),
}

impl Gap {
    /// The gap of evidence of a kind that may be incomplete.
    pub(crate) fn untold(execution: &Execution, channel: Channel) -> Self {
        match known_missing(execution, channel) {
            Some(why) => Self::Missing(channel, why),
            None => Self::Untold(channel, Source::of(execution)),
        }
    }

    /// The missing evidence and the advice, in words.
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

/// The items of a kind of evidence, in words.
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
