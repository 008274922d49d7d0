//! Failure codes that belong to no single assertion.

use kindlm_types::FailureCode;

/// A failure code with what it means.
#[derive(Clone, Debug)]
pub struct Code {
    /// The code.
    pub code: FailureCode,
    /// When it is given: one sentence.
    pub summary: &'static str,
}

/// The check needs something that was not recorded; it is errored, never passed or failed.
pub const EVIDENCE_MISSING: FailureCode = FailureCode::new("EVIDENCE_MISSING");

/// The value that a check is `on` does not exist, which is certain.
pub const VALUE_MISSING: FailureCode = FailureCode::new("VALUE_MISSING");

/// A score is below the `threshold` of a list entry.
pub const SCORE_BELOW_THRESHOLD: FailureCode = FailureCode::new("SCORE_BELOW_THRESHOLD");

/// A check of the list form that has no more telling code did not hold.
pub const ASSERTION_FAILED: FailureCode = FailureCode::new("ASSERTION_FAILED");

/// A check written with `not-` held.
pub const NEGATION_FAILED: FailureCode = FailureCode::new("NEGATION_FAILED");

/// Finding out would take too long for a text like this one; the check is errored, never passed or failed.
pub const CHECK_GIVEN_UP: FailureCode = FailureCode::new("CHECK_GIVEN_UP");

/// The codes that any entry of the list form can give, whatever its assertion, with their meaning.
pub static COMMON: &[Code] = &[
    Code {
        code: SCORE_BELOW_THRESHOLD,
        summary: "The check passed by its own measure, but its score is below the entry's `threshold`.",
    },
    Code {
        code: NEGATION_FAILED,
        summary: "The entry was written with `not-`, and the check held.",
    },
    Code {
        code: VALUE_MISSING,
        summary: "The value that the entry is `on` does not exist, so nothing can hold of it.",
    },
    Code {
        code: EVIDENCE_MISSING,
        summary: "The source does not tell what the check looks at, so nothing is known.",
    },
    Code {
        code: CHECK_GIVEN_UP,
        summary: "The check would have taken too long on this output, so nothing is known.",
    },
];
