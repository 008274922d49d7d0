//! A prompt that the user wrote: the source of the messages, and the names in their templates.

use kindlm_template::read_names;
use kindlm_types::{Problem, ProblemKind, Role, nearest};
use serde::Deserialize;
use serde_json::Value;

use super::{RubricMessage, RubricPrompt};
use crate::Setup;

/// The prefix of a prompt that names a file.
const FILE: &str = "file://";

/// One message of the prompt, with its place in the configuration.
#[derive(Clone, Debug)]
pub(super) struct RubricPart {
    pub(super) role: Role,
    pub(super) content: String,
    /// The JSON pointer from the place of the prompt.
    at: String,
    /// The start of an error message: the file, and the number of the message in the file.
    ///
    /// Empty if the pointer leads to the message.
    within: String,
    /// The names that the template needs and does not set itself.
    refers: Vec<String>,
    /// The needed names, and the names that the template only tests with `is defined`.
    names: Vec<String>,
}

impl RubricPart {
    fn new(message: RubricMessage, at: String, within: String) -> Result<Self, Problem> {
        let RubricMessage { role, content } = message;
        match read_names(&content) {
            // A name that the template tests before its use may be undefined, so `needed` does not have it.
            Ok(read) => {
                let refers = read.needed.into_iter().collect();
                let names = read.undeclared.into_iter().collect();
                Ok(Self { role, content, at, within, refers, names })
            }
            Err(why) => {
                Err(Problem::new(at, format!("{within}the template cannot be read: {why}")))
            }
        }
    }

    /// Returns true if the message uses one of these names.
    pub(super) fn uses_any(&self, names: &[&str]) -> bool {
        self.names.iter().any(|it| names.contains(&it.as_str()))
    }

    /// Returns a problem for the first needed name that is not in `known`; `None` if all are. `env` is always permitted.
    pub(super) fn unknown(&self, known: &[&str]) -> Option<Problem> {
        let name = self.refers.iter().find(|it| *it != "env" && !known.contains(&it.as_str()))?;
        let message = format!("{}there is no variable `{name}` for this prompt", self.within);
        let near = nearest(name, known.iter().copied());
        let near = near.map(|it| format!("did you mean `{it}`? ")).unwrap_or_default();
        let known = known.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ");
        let help = format!(
            "{near}known here: {known}; `{{% if {name} is defined %}}` checks if a test has it"
        );
        let problem = Problem::new(self.at.clone(), message);
        Some(problem.with_kind(ProblemKind::UnknownReference).with_help(help))
    }
}

/// Returns the messages of a prompt.
///
/// Pointers of problems start at the prompt. Fails if the file cannot be read, or if a message or template is invalid.
pub(super) fn messages(
    prompt: RubricPrompt,
    setup: &Setup<'_>,
) -> Result<Vec<RubricPart>, Problem> {
    let text = match prompt {
        RubricPrompt::Messages(messages) => {
            let said = messages.into_iter().enumerate();
            return said
                .map(|(index, it)| RubricPart::new(it, format!("/{index}/content"), String::new()))
                .collect();
        }
        RubricPrompt::Text(text) => text,
    };
    let Some(path) = text.strip_prefix(FILE) else {
        return in_text(text, "");
    };
    let content = setup.texts.load_text(path, setup.files)?;
    let content = content.strip_prefix('\u{feff}').unwrap_or(&content).trim();
    let unreadable = |why: &dyn std::fmt::Display| {
        Problem::new("", format!("`{path}` cannot be read: {why}"))
            .with_kind(ProblemKind::File { outside: false })
    };
    let ending = path.rsplit_once('.').map_or("", |(_, it)| it).to_ascii_lowercase();
    let value = match ending.as_str() {
        "json" => serde_json::from_str(content).map_err(|err| unreadable(&err))?,
        "yaml" | "yml" => {
            let parse = setup.yaml.ok_or_else(|| unreadable(&"YAML is not read here"))?;
            parse(content).map_err(|why| unreadable(&why))?
        }
        _ => return in_text(content.to_owned(), path),
    };
    in_value(value, path)
}

/// Returns the messages in a text: one user message, or a JSON list of messages.
///
/// `path` is the file of the text, or empty if the text is in the configuration. Fails for invalid JSON, and for an invalid
/// message or template.
fn in_text(text: String, path: &str) -> Result<Vec<RubricPart>, Problem> {
    // A text that is a list of objects with roles is a chat, not a single message.
    if text.trim_start().starts_with('[') && text.contains("\"role\"") {
        return match serde_json::from_str(&text) {
            Ok(value) => in_value(value, path),
            Err(err) => {
                let whose = if path.is_empty() { String::new() } else { format!("`{path}`: ") };
                let message = format!("{whose}the messages are not JSON: {err}");
                Err(Problem::new("", message).with_help(
                    "they must be JSON before variables are filled in, such as `{\"role\": \"user\", \"content\": \"{{ output }}\"}`",
                ))
            }
        };
    }
    let within = if path.is_empty() { String::new() } else { format!("in `{path}`, ") };
    let message = RubricMessage { role: Role::User, content: text };
    Ok(vec![RubricPart::new(message, String::new(), within)?])
}

/// Returns the messages in a value: a list of messages, or a text as one user message.
///
/// `path` is the file of the value, or empty if the value is in the configuration. Fails for any other value, and for an
/// invalid message or template.
fn in_value(value: Value, path: &str) -> Result<Vec<RubricPart>, Problem> {
    let whose = if path.is_empty() { String::new() } else { format!("in `{path}`, ") };
    let items = match value {
        Value::Array(items) if !items.is_empty() => items,
        Value::String(text) => {
            let message = RubricMessage { role: Role::User, content: text };
            return Ok(vec![RubricPart::new(message, String::new(), whose)?]);
        }
        _ => {
            let message = format!("{whose}there are no messages");
            return Err(Problem::new("", message).with_help(
                "write a list of messages, each with `role` (`system`, `user`) and `content`",
            ));
        }
    };
    let said = items.into_iter().enumerate().map(|(index, item)| {
        let within = format!("{whose}message {}: ", index + 1);
        match RubricMessage::deserialize(&item) {
            Ok(message) => RubricPart::new(message, String::new(), within),
            Err(err) => Err(Problem::new("", format!("{within}{err}")).with_help(
                "a message has `role` (`system`, `user`) and `content`, and nothing else",
            )),
        }
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindlm_types::{FileError, Files};
    use std::sync::Arc;

    /// A folder with one file.
    #[derive(Debug)]
    struct One(&'static str, &'static str);

    impl Files for One {
        fn read_file(&self, path: &str) -> Result<Arc<str>, FileError> {
            let path = path.to_owned();
            if path == self.0 {
                Ok(self.1.into())
            } else {
                Err(FileError::NotFound { path, folder: "suite".to_owned() })
            }
        }

        fn glob(&self, _pattern: &str) -> Result<Vec<String>, FileError> {
            Ok(Vec::new())
        }
    }

    fn load_messages(name: &'static str, content: &'static str, prompt: &str) -> Vec<String> {
        let files = One(name, content);
        // The JSON parser replaces the YAML parser, because JSON is valid YAML.
        let yaml = |text: &str| serde_json::from_str(text).map_err(|err| err.to_string());
        let setup = Setup::new(&files, None).with_yaml(yaml);
        match messages(RubricPrompt::Text(prompt.to_owned()), &setup) {
            Ok(said) => said
                .iter()
                .map(|it| match it.unknown(&["output"]) {
                    None => format!("{:?}: {}", it.role, it.content)
                        .replace("System", "system")
                        .replace("User", "user"),
                    Some(problem) => format!("{}: {}", problem.pointer, problem.message),
                })
                .collect(),
            Err(problem) => vec![format!("{}: {}", problem.pointer, problem.message)],
        }
    }

    #[test]
    fn messages_come_from_texts_and_files() {
        let two = r#"[{"role": "system", "content": "Judge."}, {"role": "user", "content": "{{ output }}"}]"#;
        let both = ["system: Judge.", "user: {{ output }}"];
        assert_eq!(load_messages("", "", two), both);
        for name in ["a.json", "a.yaml", "a.YML", "a.txt"] {
            assert_eq!(load_messages(name, two, &format!("file://{name}")), both, "{name}");
        }
        assert_eq!(
            load_messages("a.txt", " Is {{ output }} good? ", "file://a.txt"),
            ["user: Is {{ output }} good?"]
        );
        assert_eq!(load_messages("", "", "[1] {{ output }}"), ["user: [1] {{ output }}"]);
        assert_eq!(
            load_messages("a.json", r#""{{ output }}""#, "file://a.json"),
            ["user: {{ output }}"]
        );
    }

    #[test]
    fn prompt_problems_name_file_and_message() {
        for (name, content, prompt, expected) in [
            ("", "", "{{ x }}", ": there is no variable `x` for this prompt"),
            ("", "", "{{ x", ": the template cannot be read"),
            ("a.md", "{{ x }}", "file://a.md", ": in `a.md`, there is no variable `x`"),
            (
                "a.json",
                r#"[{"role": "user", "content": "{{ x }}"}]"#,
                "file://a.json",
                ": in `a.json`, message 1: there is no variable `x`",
            ),
            ("a.json", "[{]", "file://a.json", ": `a.json` cannot be read: key must be a string"),
            ("a.yaml", "{", "file://a.yaml", ": `a.yaml` cannot be read: EOF"),
            ("a.json", "[]", "file://a.json", ": in `a.json`, there are no messages"),
            ("a.json", "{}", "file://a.json", ": in `a.json`, there are no messages"),
            (
                "a.json",
                r#"[{"role": "user"}]"#,
                "file://a.json",
                ": in `a.json`, message 1: missing field `content`",
            ),
            ("b.json", "", "file://a.json", ": `a.json` does not exist"),
            (
                "",
                "",
                r#"[{"role": "user", "content": {{ output }}}]"#,
                ": the messages are not JSON: key must be a string",
            ),
        ] {
            let said = load_messages(name, content, prompt);
            assert!(said.len() == 1 && said[0].contains(expected), "{prompt}: {said:?}");
        }
    }
}
