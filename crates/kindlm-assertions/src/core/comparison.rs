//! The first questions that checks ask about an execution.

use std::borrow::Cow;

use kindlm_types::{Execution, Question};

use crate::{Candidate, Check, Evidence, OutputComparison};

/// Returns the first questions that checks ask about an execution, each with its check.
///
/// A check that compares outputs gets a second, different output, because it has no question about a single output.
pub fn first_questions<'c>(
    checks: impl IntoIterator<Item = &'c Check>,
    evidence: &Evidence<'_>,
) -> Vec<(&'c Check, Question)> {
    let own = candidate("this", evidence.execution.clone());
    let mut other = candidate("other", evidence.execution.clone());
    other.execution.to_mut().output.push('?');
    let candidates = [own, other];
    let comparison = OutputComparison { candidates: &candidates, own: 0 };
    let compared = Evidence { comparison: Some(comparison), ..*evidence };
    let mut found = Vec::new();
    for check in checks {
        let evidence = if check.compares() { &compared } else { evidence };
        found.extend(check.questions(evidence).into_iter().map(|it| (check, it)));
    }
    found
}

fn candidate(name: &str, execution: Execution) -> Candidate<'_> {
    Candidate { name: name.into(), execution: Cow::Owned(execution), results: &[], is_there: true }
}
