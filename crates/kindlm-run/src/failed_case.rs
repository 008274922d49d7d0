//! A failed case, for display while the run goes on.

use std::fmt;

use kindlm_reporters::one_line;
use kindlm_types::{CaseResult, Outcome, Severity, SourcePlace, error_cause_key};

use crate::secrets::Secrets;

/// The maximum number of characters of the reason.
const REASON_CHARS: usize = 100;

/// A case that failed or could not be judged. Secrets are masked.
///
/// The [`Display`](fmt::Display) text is `✗ <case> · <model>  <reason>  <file>:<line>`; `!` in place of `✗` marks a
/// case that could not be judged.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FailedCase {
    /// The outcome: failed or errored.
    pub outcome: Outcome,
    /// The name of the test case.
    pub case: String,
    /// The model's id; `command` or `transcript` for tests without a model.
    pub model: String,
    /// The label of the first failed check, or the first error.
    pub reason: String,
    /// The source location of the failed check, or else of the test; `None` if neither is known.
    pub place: Option<SourcePlace>,
    /// The key of the error's cause, which is equal for errors with the same cause; `None` if a check failed.
    pub error_cause: Option<String>,
}

impl FailedCase {
    /// Describes a case of a stored report. The secrets in the report are already masked. Returns `None` if the case
    /// neither failed nor is errored. Also returns `None` without a failed check and without an error with a code.
    pub fn of_report(case: &CaseResult) -> Option<Self> {
        Self::from_case(case, &Secrets::default())
    }

    /// Describes a case. Returns `None` if the case neither failed nor is errored. Also returns `None` without a failed
    /// check and without an error with a code, for example because no execution was run.
    pub(crate) fn from_case(case: &CaseResult, secrets: &Secrets) -> Option<Self> {
        if !matches!(case.outcome, Outcome::Failed | Outcome::Errored) {
            return None;
        }
        let findings = case.findings();
        let gate = findings.iter().find(|it| it.result.severity == Severity::Gate);
        let (mut reason, place, error_cause) = if let Some(finding) = gate.or(findings.first()) {
            (finding.result.label.clone(), finding.result.source.clone(), None)
        } else {
            let errors = case.errors();
            let error = errors.iter().map(|it| it.error).find(|it| it.code().is_some())?;
            let code = error.code().map(|it| it.to_string()).unwrap_or_default();
            (format!("{code}: {}", error.message()), None, Some(error_cause_key(error)))
        };
        // Mask secrets before cutting the reason, because a part of a secret would not be found.
        secrets.redact_text(&mut reason);
        let mut reason = one_line(&reason);
        if let Some((end, _)) = reason.char_indices().nth(REASON_CHARS) {
            reason.truncate(end);
            reason.push('…');
        }
        Some(Self {
            outcome: case.outcome,
            case: one_line(&case.case),
            model: one_line(&case.model),
            reason,
            place: place.or_else(|| case.source.clone()),
            error_cause,
        })
    }
}

impl fmt::Display for FailedCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { outcome, case, model, reason, place, .. } = self;
        let mark = if *outcome == Outcome::Failed { '✗' } else { '!' };
        write!(f, "{mark} {case} · {model}  {reason}")?;
        match place {
            Some(place) => write!(f, "  {}", one_line(&place.to_string())),
            None => Ok(()),
        }
    }
}
