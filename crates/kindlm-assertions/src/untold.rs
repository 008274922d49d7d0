//! Checks of what was said, where nobody has told what was said.
//!
//! The output of an execution is what the agent said, and empty if it said nothing. Spans are the one source that may not
//! tell: instrumentations record texts only if they are asked to. Then an empty output proves nothing, either way.

use kindlm_types::{AssertionResult, Channel, Execution};

use crate::codes::EVIDENCE_MISSING;

/// Assertions that look at the output and at everything else, or leave that to others.
const OF_EVERYTHING: [&str; 6] =
    ["assert-set", "javascript", "not-assert-set", "python", "ruby", "webhook"];

/// Whether nobody has told the output that an assertion would look at.
pub(crate) fn is_untold(id: &str, execution: &Execution) -> bool {
    execution.trace.is_some()
        && execution.output.is_empty()
        && execution.output_json.is_none()
        && !execution.coverage.includes(Channel::Messages)
        && !OF_EVERYTHING.contains(&id)
}

/// Whether spans may have left out calls of tools: that none was seen is no proof then.
pub(crate) fn calls_are_untold(execution: &Execution) -> bool {
    execution.trace.is_some() && !execution.coverage.includes(Channel::Actions)
}

/// The result of a check of an output that nobody has told.
pub(crate) fn untold(id: &str, label: Option<&str>) -> Vec<AssertionResult> {
    let message = "The spans do not tell what the agent said: let its instrumentation record texts \
        (`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true` for OpenTelemetry's own), or name the attribute in \
        `trace.spanMapping.outputTextAttr`";
    vec![AssertionResult::errored(id, label.unwrap_or(id), EVIDENCE_MISSING, message)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindlm_types::{Coverage, Trace};

    #[test]
    fn only_spans_may_not_tell() {
        let traced = || Execution {
            trace: Some(Box::new(Trace::default())),
            coverage: Coverage::Only(std::collections::BTreeSet::new()),
            ..Execution::default()
        };
        let said = Execution { output: "yes".to_owned(), ..traced() };
        let silent = Execution { coverage: Coverage::Complete, ..traced() };
        let command = Execution { trace: None, ..traced() };
        for (execution, id, expected) in [
            (traced(), "contains", true),
            (traced(), "javascript", false),
            (said, "contains", false),
            (silent, "contains", false),
            (command, "contains", false),
        ] {
            assert_eq!(is_untold(id, &execution), expected, "{id}");
        }
    }
}
