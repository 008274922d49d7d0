//! The tools that OpenAI or xAI runs itself, with environment variables in their texts.

use std::collections::BTreeSet;

use kindlm_template::{each_template, environment, is_template, read_names};
use kindlm_types::{Problem, Prompt};
use serde_json::{Map, Value};

use crate::EnvMark;
use crate::dialect::jinja::{Filler, Reading};
use crate::dialect::settings;

/// The tools that OpenAI runs itself, and then the tools that xAI runs. Tools of other types need an answer from the
/// caller.
const HOSTED: [&str; 9] = [
    "web_search",
    "web_search_preview",
    "file_search",
    "code_interpreter",
    "image_generation",
    "mcp",
    "x_search",
    "code_execution",
    "collections_search",
];

/// The authentication schemes that come before a key in a header.
const SCHEMES: [&str; 3] = ["Bearer", "Basic", "Token"];

/// The hosted tools of a configuration that has passed the check.
#[derive(Debug)]
pub(super) struct HostedTools {
    tools: Vec<Map<String, Value>>,
    /// The environment variables in the texts of the tools.
    variables: BTreeSet<String>,
}

impl HostedTools {
    /// Checks tools. Fails with a problem for each tool whose type is not in `HOSTED`, each tool with a secret, and
    /// each invalid template.
    pub(super) fn new(tools: Vec<Map<String, Value>>) -> Result<Self, Vec<Problem>> {
        let mut problems: Vec<Problem> =
            tools.iter().enumerate().filter_map(|(at, tool)| check_type(at, tool)).collect();
        let mut reading = Reading::default();
        for (at, tool) in tools.iter().enumerate() {
            let at = format!("/hostedTools/{at}");
            let tool = Value::Object(tool.clone());
            each_template(&tool, &at, &mut |at, text| {
                reading.text(at, text);
                problems.extend(check_template(at, text));
            });
            if let Value::Object(tool) = without_variables(&tool) {
                let help = "write the name of an environment variable: `{{env.NAME}}`";
                problems
                    .extend(settings::check_secrets(&at, &tool, help).err().into_iter().flatten());
            }
        }
        problems.append(&mut reading.problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self { tools, variables: reading.variables })
    }

    /// Returns the tools for a request, and the placeholders of environment variables in them.
    ///
    /// Fails if a template cannot be rendered.
    pub(super) fn encoded(&self, prompt: &Prompt) -> Result<(Vec<Value>, Vec<EnvMark>), String> {
        let tools = self.tools.iter().cloned().map(Value::Object);
        if self.variables.is_empty() {
            return Ok((tools.collect(), Vec::new()));
        }
        let filler = Filler::new(prompt, &self.variables, false);
        let tools = tools.map(|it| filled(&filler, &it)).collect::<Result<_, _>>()?;
        Ok((tools, filler.marks))
    }
}

/// Renders all texts in a value. They stay texts, even if they are JSON.
fn filled(filler: &Filler, value: &Value) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(filler.text(text)?),
        Value::Array(items) => {
            Value::Array(items.iter().map(|it| filled(filler, it)).collect::<Result<_, _>>()?)
        }
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, it)| Ok((key.clone(), filled(filler, it)?)));
            Value::Object(entries.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

/// Returns a problem for a tool that the API does not run.
fn check_type(at: usize, tool: &Map<String, Value>) -> Option<Problem> {
    let kind = tool.get("type").and_then(Value::as_str);
    if kind.is_some_and(|it| HOSTED.contains(&it)) {
        return None;
    }
    let problem =
        Problem::new(format!("/hostedTools/{at}"), "the API does not run a tool of this type");
    let known = HOSTED.map(|it| format!("`{it}`")).join(", ");
    let help = format!(
        "its `type` must be one of {known}; a tool of your own belongs to the test, in `tools`"
    );
    Some(problem.with_help(help))
}

/// Returns a problem for a template with other names than environment variables.
fn check_template(at: &str, text: &str) -> Option<Problem> {
    let names = read_names(text).ok()?;
    let name = names.undeclared.iter().find(|it| *it != "env")?;
    let message = format!("`{name}` is not filled in: tools are the same in every test");
    Some(Problem::new(at, message).with_help("only `{{env.NAME}}` is filled in"))
}

/// Returns a value without the environment variables in its texts, and without a scheme before them.
fn without_variables(value: &Value) -> Value {
    match value {
        Value::String(text) if is_template(text) => {
            let mut rest = text.clone();
            for name in environment(text) {
                for written in [format!("{{{{env.{name}}}}}"), format!("{{{{ env.{name} }}}}")] {
                    rest = rest.replace(&written, "");
                }
            }
            let is_scheme = SCHEMES.iter().any(|it| rest.trim().eq_ignore_ascii_case(it));
            Value::String(if is_scheme { String::new() } else { rest })
        }
        Value::Array(items) => items.iter().map(without_variables).collect(),
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, it)| (key.clone(), without_variables(it)));
            Value::Object(entries.collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tools(headers: &Value) -> Result<HostedTools, Vec<Problem>> {
        let tool = json!({"type": "mcp", "headers": headers});
        HostedTools::new(vec![serde_json::from_value(tool).unwrap()])
    }

    #[test]
    fn environment_variables_of_tools_become_placeholders() {
        let json = r#"{"a": 1}"#;
        let tools = tools(&json!({"Authorization": "Bearer {{ env.KEY }}", "X": json})).unwrap();
        let (encoded, marks) = tools.encoded(&Prompt::default()).unwrap();
        assert_eq!(marks.len(), 1);
        assert_eq!(marks[0].variable, "KEY");
        let expected = format!("Bearer {}", marks[0].mark);
        assert_eq!(encoded[0]["headers"], json!({"Authorization": expected, "X": json}));
    }

    #[test]
    fn secrets_and_other_variables_are_problems() {
        for (headers, expected) in [
            (json!({"Authorization": "Bearer abc"}), false),
            (json!({"Authorization": "abc {{env.KEY}}"}), false),
            (json!({"X": "{{ question }}"}), false),
            (json!({"X": "{{ env.KEY | upper }}"}), false),
            (json!({"X": "{{ env.KEY"}), false),
            (json!({"Authorization": "{{env.KEY}}"}), true),
            (json!({"X": "plain"}), true),
        ] {
            assert_eq!(tools(&headers).is_ok(), expected, "{headers}");
        }
    }
}
