//! The question to the judge about rules that apply.

use std::borrow::Cow;

use kindlm_types::{Execution, Message, ResponseFormat, Role, ecma};
use serde_json::{Value, json};

use super::rule::Rule;
use crate::core::judging::{Inquiry, data_rule, fenced_together};

/// The judge's instructions. They never vary, so that prompt caches hit.
pub(super) const SYSTEM: &str = concat!(
    "You check whether the output of an AI agent keeps a set of rules.\n\n",
    data_rule!(),
    "\n\nYou are given the rules as a JSON array, and after them the input of the agent and its output. Each rule has an \
     `id`, an `instruction` (what the agent was told to do) and `criteria` (questions about the output).\n\n\
     How to judge:\n\
     - Judge each rule by itself, and only by what the output says.\n\
     - Be strict: a rule passes only if every one of its criteria is met. A rule without criteria passes only \
     if its instruction is followed in full.\n\
     - A rule that does not apply to this input is kept.\n\
     - Give every id exactly once, spelt as it is in the rules, and no other id.\n\n\
     Answer with one JSON object and nothing else: ",
    r#"{"mark": "the mark of the BEGIN line", "results": [{"id": "the rule's id", "pass": true or false, "reasoning": "one sentence that says why"}]}"#
);

/// The maximum number of answer tokens: a fixed part, and a part for each rule.
const TOKENS: (u32, u32) = (256, 128);

/// Builds the question about these rules.
///
/// The rules come before the input and output of the case, so that all cases share a prefix and prompt caches hit.
pub(super) fn inquiry(
    model: Option<&String>,
    rules: &[Cow<'_, Rule>],
    execution: &Execution,
) -> Inquiry {
    let count = u32::try_from(rules.len()).unwrap_or(u32::MAX);
    let rules = serde_json::to_value(rules).unwrap_or_default();
    let data = fenced_together(&[
        ("agent input", &agent_input(&execution.input)),
        ("agent output", &execution.output),
    ]);
    let instructions = format!("Rules:\n{}\n\n", ecma::stringify(&rules));
    Inquiry {
        images: Vec::new(),
        model: model.cloned(),
        system: SYSTEM.into(),
        user: format!("{instructions}{}", data.text),
        mark: Some(data.mark),
        // The schema does not contain the ids, because a different schema would change the prefix that prompt caches
        // need.
        format: Some(ResponseFormat::new("verdicts", reply_schema())),
        max_tokens: TOKENS.0.saturating_add(TOKENS.1.saturating_mul(count)),
        sample: 0,
        shared: instructions.len(),
        filled: Vec::new(),
    }
}

/// Returns the agent's input: a single message, or the conversation without system messages.
fn agent_input(messages: &[Message]) -> String {
    let said: Vec<&Message> = messages.iter().filter(|it| it.role != Role::System).collect();
    match said[..] {
        [only] => only.content.clone(),
        _ => said
            .iter()
            .map(|it| format!("{}: {}", speaker(it.role), it.content))
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

fn speaker(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "agent",
        Role::Tool => "tool",
    }
}

fn reply_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "results": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": { "type": "string" },
                        "pass": { "type": "boolean" },
                        "reasoning": { "type": "string" },
                    },
                    "required": ["id", "pass", "reasoning"],
                    "additionalProperties": false,
                },
            },
        },
        "required": ["results"],
        "additionalProperties": false,
    })
}
