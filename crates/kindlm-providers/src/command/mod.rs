//! `command`: a program as a model, and as an agent under test.

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

/// The provider `command`.
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
    schema: |generator| generator.subschema_for::<Config>(),
    kind: Kind::Special(|config| Config::read(config).map(|_| ())),
};

/// Which program answers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "CommandConfig")]
pub struct Config {
    /// The command line, for `sh -c`, in the folder of the config file.
    #[schemars(length(min = 1))]
    pub command: String,
    /// The form in which the program gets the prompt.
    #[serde(default)]
    pub input: Input,
    /// Which evidence of the answers is complete. Reports show that it was declared, not observed.
    #[serde(default)]
    pub evidence: Option<DeclaredEvidence>,
}

/// The form in which a program gets the prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Input {
    /// The whole request as one JSON object on stdin.
    #[default]
    Stdin,
    /// As arguments behind the command line: the text of the prompt (a chat as JSON), `{}`, and an object with the
    /// variables of the test under `vars`.
    ///
    /// These are the arguments of promptfoo's `exec` providers: prompt, options, context.
    Argument,
}

impl Config {
    /// Reads the configuration.
    pub fn read(config: &Value) -> Result<Self, Vec<Problem>> {
        let read: Self = serde_json::from_value(config.clone())
            .map_err(|err| vec![Problem::new("", err.to_string())])?;
        if read.command.trim().is_empty() {
            return Err(vec![Problem::new("/command", "the command line is empty")]);
        }
        Ok(read)
    }
}
