//! The failure codes that several assertions share.

use kindlm_types::FailureCode;

/// A failure code with its meaning.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Code {
    /// The code.
    pub code: FailureCode,
    /// The condition under which the code is given, in one sentence.
    pub summary: &'static str,
}

impl Code {
    /// Creates a code with its meaning.
    pub const fn new(code: FailureCode, summary: &'static str) -> Self {
        Self { code, summary }
    }
}

/// The check needs evidence that was not recorded, so it is errored.
pub const EVIDENCE_MISSING: FailureCode = FailureCode::new("EVIDENCE_MISSING");

/// The value that `on` selects certainly does not exist.
pub const VALUE_MISSING: FailureCode = FailureCode::new("VALUE_MISSING");

/// The score is below the `threshold` of the list entry.
pub const SCORE_BELOW_THRESHOLD: FailureCode = FailureCode::new("SCORE_BELOW_THRESHOLD");

/// A check in an `assert` list did not hold, and the assertion has no more specific code.
pub const ASSERTION_FAILED: FailureCode = FailureCode::new("ASSERTION_FAILED");

/// The entry has `not-`, and the check without `not-` held, so the entry fails.
pub const NEGATION_FAILED: FailureCode = FailureCode::new("NEGATION_FAILED");

/// The evaluation would take too long for this text, so the check is errored.
pub const CHECK_GIVEN_UP: FailureCode = FailureCode::new("CHECK_GIVEN_UP");

/// The codes that every entry of an `assert` list can give, with their meaning.
pub static COMMON: &[Code] = &[
    Code {
        code: SCORE_BELOW_THRESHOLD,
        summary: "The check itself passed, but its score is below the entry's `threshold`.",
    },
    Code { code: NEGATION_FAILED, summary: "The entry has `not-`, and the check held." },
    Code {
        code: VALUE_MISSING,
        summary: "The value that `on` names does not exist, so the check cannot hold.",
    },
    Code {
        code: EVIDENCE_MISSING,
        summary: "The source did not record the evidence that the check needs.",
    },
    Code {
        code: CHECK_GIVEN_UP,
        summary: "The check would have taken too long on this output, so it is errored.",
    },
];
