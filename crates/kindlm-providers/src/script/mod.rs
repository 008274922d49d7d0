//! `script`: a program in JavaScript, Python or Ruby as the model.

#[cfg(feature = "http")]
mod ask;

use kindlm_types::{DeclaredEvidence, Problem};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

#[cfg(feature = "http")]
pub(crate) use ask::ask;

use crate::{Kind, Meta, Registration};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "script",
        summary: "A program in JavaScript, Python or Ruby as the model, in the form of promptfoo's custom providers.",
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
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ScriptConfig")]
#[expect(clippy::struct_field_names, reason = "the keys of the configuration")]
pub(crate) struct Config {
    /// The file, relative to the folder of the config file: `.js`, `.mjs`, `.cjs`, `.ts`, `.mts`, `.cts`, `.py` or
    /// `.rb`.
    #[schemars(length(min = 1))]
    file: String,
    /// The export to call: a class or an object with `callApi`, or a function. By default the default export; in
    /// Python and Ruby the function `call_api`.
    #[serde(default)]
    #[schemars(length(min = 1))]
    #[cfg_attr(
        not(feature = "http"),
        expect(dead_code, reason = "only read with the feature `http`")
    )]
    function: Option<String>,
    /// Additional configuration, passed to the program unchanged.
    #[serde(default)]
    #[cfg_attr(
        not(feature = "http"),
        expect(dead_code, reason = "only read with the feature `http`")
    )]
    config: Map<String, Value>,
    /// The kinds of evidence that you declare complete in every answer. Reports show them as declared, not observed.
    #[serde(default)]
    #[expect(dead_code, reason = "`declared` reads it, for every provider")]
    evidence: Option<DeclaredEvidence>,
}

/// The file extensions of JavaScript and TypeScript.
const JAVASCRIPT: [&str; 6] = ["js", "mjs", "cjs", "ts", "mts", "cts"];

impl Config {
    /// Parses the configuration. Fails if its form is invalid, or the file has an unsupported extension.
    pub(crate) fn from_value(config: &Value) -> Result<Self, Vec<Problem>> {
        let read: Self = serde_json::from_value(config.clone())
            .map_err(|err| vec![Problem::new("", err.to_string())])?;
        let ending = read.ending();
        if !matches!(ending.as_str(), "py" | "rb") && !JAVASCRIPT.contains(&ending.as_str()) {
            let message = format!("`{}` is not a supported program", read.file);
            let help = "programs are .js, .mjs, .cjs, .ts, .mts, .cts, .py and .rb files";
            return Err(vec![Problem::new("/file", message).with_help(help)]);
        }
        Ok(read)
    }

    fn ending(&self) -> String {
        self.file.rsplit_once('.').map_or("", |(_, it)| it).to_ascii_lowercase()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unsupported_file_extensions_are_problems() {
        let read = Config::from_value(&json!({"file": "p.exe"}));
        assert_eq!(read.unwrap_err()[0].pointer, "/file");
        for file in ["p.js", "p.mts", "p.py", "p.rb"] {
            assert!(Config::from_value(&json!({"file": file})).is_ok(), "{file}");
        }
    }
}
