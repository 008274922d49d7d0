//! The reasons why a reply of a judge gives no verdict.

use std::fmt;

/// The reason why a reply gives no verdict. The text describes the reply, such as `it holds no JSON object`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The reply cannot be read. The judge is asked again.
    Unreadable(String),
    /// The reply contains two verdicts that exclude each other.
    ///
    /// The judge is not asked again, because a second reply would only choose one of the verdicts.
    Contradiction(String),
}

impl From<String> for Flaw {
    fn from(why: String) -> Self {
        Self::Unreadable(why)
    }
}

impl From<&str> for Flaw {
    fn from(why: &str) -> Self {
        Self::Unreadable(why.to_owned())
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) | Self::Contradiction(why) => f.write_str(why),
        }
    }
}
