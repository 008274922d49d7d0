//! The reasons why a comparison cannot be decided.

use kindlm_types::AssertionResult;

use crate::core::codes::CHECK_GIVEN_UP;
use crate::core::scripting::NoVerdict;
use crate::shared::pattern::SearchError;

/// The reason why a comparison cannot be decided.
#[derive(Debug)]
pub(crate) enum Undecided {
    /// A pattern took too long.
    Pattern(SearchError),
    /// A script gave no verdict: it failed, did not run, or returned neither `true` nor `false`.
    Script(NoVerdict),
}

impl From<SearchError> for Undecided {
    fn from(err: SearchError) -> Self {
        Self::Pattern(err)
    }
}

impl From<NoVerdict> for Undecided {
    fn from(err: NoVerdict) -> Self {
        Self::Script(err)
    }
}

impl Undecided {
    /// Returns the errored result of the check.
    pub(crate) fn result(self, id: &str, label: &str) -> Vec<AssertionResult> {
        let (code, message) = match self {
            Self::Pattern(err) => {
                (CHECK_GIVEN_UP, format!("{err}; write a pattern without nested repetitions"))
            }
            Self::Script(NoVerdict { code, message }) => (code, message),
        };
        vec![AssertionResult::errored(id, label, code, message)]
    }
}
