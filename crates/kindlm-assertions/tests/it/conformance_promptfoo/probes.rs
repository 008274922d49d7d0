//! The types of checks beyond the text, such as cost, latency, refusals, tool calls and traces.

use kindlm_types::ToolSpec;
use serde_json::Value;

use super::{Differences, agree};

pub(super) const TYPES: &[&str] = &[
    "latency",
    "cost",
    "perplexity",
    "perplexity-score",
    "is-refusal",
    "finish-reason",
    "guardrails",
    "tool-call-f1",
    "is-valid-function-call",
    "is-valid-openai-function-call",
    "is-valid-openai-tools-call",
    "skill-used",
    "trajectory:tool-used",
    "trajectory:tool-sequence",
    "trajectory:tool-args-match",
    "trajectory:step-count",
    "trace-span-count",
    "trace-span-duration",
    "trace-error-spans",
];

#[rustfmt::skip]
const DIFFERENCES: Differences<'_> = &[
    ("`not-` works wherever it is written; promptfoo does not heed it here", &["not-trace-span-count/1", "not-is-valid-openai-tools-call/1"]),
];

#[test]
fn checks_of_more_than_the_text_agree() {
    agree(TYPES, 98, DIFFERENCES);
}

/// Returns the tools of a provider's configuration, in either OpenAI format.
pub(super) fn tools(config: &Value) -> Vec<ToolSpec> {
    let tools = config["tools"].as_array().into_iter().flatten().map(|it| &it["function"]);
    let functions = config["functions"].as_array().into_iter().flatten();
    tools.chain(functions).map(|it| serde_json::from_value(it.clone()).unwrap()).collect()
}
