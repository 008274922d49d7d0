//! `command`: a program as the model, and as the agent under test.

#[cfg(all(feature = "process", feature = "http"))]
mod model;

use kindlm_types::{DeclaredEvidence, Problem};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

pub use kindlm_agents::protocol;
#[cfg(feature = "process")]
pub use kindlm_agents::run;
#[cfg(feature = "process")]
pub use kindlm_process::MAX_OUTPUT;
#[cfg(all(feature = "process", feature = "http"))]
pub(crate) use model::ask;

use crate::{Kind, Meta, Registration};

/// The registration of the provider `command`.
pub static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "command",
        summary: "A program as the model: the prompt on its stdin, the answer on its stdout.",
        since: "0.1.0",
        key_variable: None,
        shorthand: false,
        wraps_agent: true,
        docs: include_str!("docs.md"),
    },
    schema: |it| it.reference::<Config>(),
    kind: Kind::Special(|config| Config::from_value(config).map(|_| ())),
};

/// The program that answers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "CommandConfig")]
pub struct Config {
    /// The command line, for `sh -c`, in the folder of the config file.
    #[schemars(length(min = 1))]
    pub command: String,
    /// The form in which the program receives the prompt; `stdin` by default.
    #[serde(default)]
    pub input: Input,
    /// The kinds of evidence that you declare complete in every answer. Reports show them as declared, not observed.
    #[serde(default)]
    pub evidence: Option<DeclaredEvidence>,
}

/// The form in which a program receives the prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Input {
    /// The whole request as one JSON object on stdin.
    #[default]
    Stdin,
    /// Three arguments after the command line, in the format of promptfoo's `exec` providers: prompt, options, context.
    ///
    /// The prompt is text (a chat is JSON), the options are `{}`, and the context holds the variables of the test under
    /// `vars`.
    Argument,
}

impl Config {
    /// Parses the configuration. Fails if its form is invalid or the command line is empty.
    pub fn from_value(config: &Value) -> Result<Self, Vec<Problem>> {
        let read: Self = serde_json::from_value(config.clone())
            .map_err(|err| vec![Problem::new("", err.to_string())])?;
        if read.command.trim().is_empty() {
            return Err(vec![Problem::new("/command", "the command line is empty")]);
        }
        match input_problem(read.input, cfg!(unix)) {
            Some(problem) => Err(vec![problem]),
            None => Ok(read),
        }
    }
}

/// Returns the problem of `input: argument` on a system without `sh`; `None` for any other configuration.
///
/// Without `sh`, `cmd` runs the command line. No quotes keep `cmd` from interpreting an argument, so the text of a
/// prompt could run commands.
fn input_problem(input: Input, has_sh: bool) -> Option<Problem> {
    if has_sh || input == Input::Stdin {
        return None;
    }
    let message = "`argument` does not work on Windows, because `cmd` interprets the prompt";
    Some(
        Problem::new("/input", message)
            .with_help("write `input: stdin`, and read the prompt from stdin"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_need_a_shell_with_quotes() {
        for (input, has_sh, is_valid) in [
            (Input::Stdin, true, true),
            (Input::Stdin, false, true),
            (Input::Argument, true, true),
            (Input::Argument, false, false),
        ] {
            let problem = input_problem(input, has_sh);
            assert_eq!(problem.is_none(), is_valid, "{input:?} {has_sh}");
            let help = problem.and_then(|it| it.help);
            assert!(is_valid || help.is_some_and(|it| it.contains("input: stdin")));
        }
    }
}
