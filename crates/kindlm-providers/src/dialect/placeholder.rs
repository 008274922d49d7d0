//! The placeholders of templates: those that are built in, and test variables.

use kindlm_types::{Problem, ProblemKind, Prompt, Role, nearest};
use serde_json::{Value, json};

use super::prompt::{content_of, message_json, prompt_text};

/// Returns the value of a placeholder. Any name that is not built in is a test variable; `null` if it is undefined.
pub(crate) fn value(name: &str, prompt: &Prompt) -> Value {
    match name {
        "model" => json!(prompt.model),
        "system" => last_message(prompt, Role::System),
        "user" => last_message(prompt, Role::User),
        "temperature" => json!(prompt.params.temperature),
        "maxTokens" => json!(prompt.params.max_tokens),
        "topP" => json!(prompt.params.top_p),
        "seed" => json!(prompt.params.seed),
        "prompt" => json!(prompt_text(prompt)),
        "messages_json" => prompt.messages.iter().map(message_json).collect(),
        "tools_json" => json!(prompt.tools),
        name => prompt.vars.get(name).cloned().unwrap_or_default(),
    }
}

/// The built-in placeholders; all other names are test variables.
pub(crate) const OWN: [&str; 10] = [
    "model",
    "system",
    "user",
    "temperature",
    "maxTokens",
    "topP",
    "seed",
    "prompt",
    "messages_json",
    "tools_json",
];

/// Returns the content of a role's last message, as JSON; an empty text if the role has no message.
fn last_message(prompt: &Prompt, role: Role) -> Value {
    let last = prompt.messages.iter().rfind(|it| it.role == role);
    last.map_or_else(|| json!(""), content_of)
}

/// Returns the problem to report at a pointer if no test defines a variable.
pub(crate) fn undefined(at: &str, name: &str) -> Problem {
    let message = format!("no test has the variable `{name}`: it is empty in every request");
    let help = match nearest(name, OWN) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("give the tests `vars: {{ {name}: … }}`, or remove it"),
    };
    let kind = ProblemKind::MissingVariable { name: name.to_owned(), is_null: false };
    Problem::new(at, message).with_kind(kind).with_help(help)
}
