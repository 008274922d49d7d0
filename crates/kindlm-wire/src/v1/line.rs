//! Executions as the lines of a journal.

use kindlm_types::{AssertionResult, ExecutionResult, Verdict};
use serde::ser::Error as _;

use super::Execution;
use super::same::Same;

/// A writer of [`Execution`]s in compact JSON.
///
/// The writer serializes equal results of consecutive executions only once.
///
/// ```
/// use kindlm_wire::v1;
/// # fn show(result: &kindlm_types::ExecutionResult) -> serde_json::Result<()> {
/// let (mut writer, mut text) = (v1::LineWriter::default(), Vec::new());
/// writer.write(result, &mut text)?;
/// assert_eq!(text, serde_json::to_vec(&v1::Execution::from(result))?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct LineWriter(Same<AssertionResult>);

impl LineWriter {
    /// Appends the line of an execution, without a line end. After an error, the output may end with a partial line.
    pub fn write(&mut self, result: &ExecutionResult, to: &mut Vec<u8>) -> serde_json::Result<()> {
        const EMPTY: &[u8] = b"\"results\":[]";
        const LIST: usize = 2;
        let mut line = Execution::from(result);
        let results = &result.results;
        let is_plain = !results.is_empty() && results.iter().all(is_plain);
        let made = if is_plain { self.0.json(results, || &line.results)? } else { None };
        let Some(made) = made else { return serde_json::to_writer(to, &line) };
        line.results.clear();
        let start = to.len();
        serde_json::to_writer(&mut *to, &line)?;
        // The first match is the key `results`: quotes in a text are escaped, and no field before `results` has keys of
        // the user.
        let found = to[start..].windows(EMPTY.len()).position(|it| it == EMPTY);
        let end =
            start + EMPTY.len() + found.ok_or_else(|| serde_json::Error::custom("no results"))?;
        to.splice(end - LIST..end, made.get().bytes());
        Ok(())
    }
}

/// Returns true if equal results have equal JSON.
///
/// A plain result has passed. It has no metadata, evidence, components or named scores, no `judging` and no `set`, and
/// no negative weight or score. Other equal results may have different JSON: the key order of equal metadata may
/// differ, and numbers, such as those of evidence, may be -0.0, which equals 0.0 but has other JSON.
fn is_plain(it: &AssertionResult) -> bool {
    matches!(it.verdict, Verdict::Pass)
        && it.metadata.is_empty()
        && it.judging.is_none()
        && it.set.is_none()
        && it.components.is_empty()
        && it.named_scores.is_empty()
        && it.evidence.is_empty()
        && it.weight.is_sign_positive()
        && it.score.is_none_or(|it| it.get().is_sign_positive())
}

#[cfg(test)]
mod tests {
    use kindlm_types::{Bound, ResultEvidence};

    use super::*;

    #[test]
    fn equal_measures_keep_their_sign() {
        let mut writer = LineWriter::default();
        for actual in [0.0, -0.0] {
            let mut passed = AssertionResult::pass("latency", "fast");
            passed.evidence.push(ResultEvidence::Measure {
                name: "latency".to_owned(),
                actual: Some(actual),
                limit: 1.0,
                bound: Bound::AtMost,
                unit: None,
            });
            let result = ExecutionResult::new(kindlm_types::Execution::default(), vec![passed]);
            let mut line = Vec::new();
            writer.write(&result, &mut line).unwrap();
            assert_eq!(line, serde_json::to_vec(&Execution::from(&result)).unwrap());
        }
    }
}
