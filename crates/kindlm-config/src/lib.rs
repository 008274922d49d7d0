//! Reads `kindlm.yaml` into a [`Suite`](kindlm_engine::Suite), or reports its problems.
//!
//! The reader continues after the first problem. Every [`Diagnostic`] has a place in the file, a message and usually
//! help. Files come from [`Files`](kindlm_types::Files), and environment variables from a function. The crate itself
//! never accesses the disk.
//!
//! ```
//! use kindlm_types::NoFiles;
//!
//! let yaml = r#"
//! kindlm: 1
//! project: demo
//! suite: { name: hello }
//! models: [openai:gpt-4o]
//! prompts: { greet: { user: "Greet {{name}}." } }
//! tests:
//!   - { name: greets, promt: greet, vars: { name: Ada }, expect: { output: { contains: [Ada] } } }
//! "#;
//! let loaded = kindlm_config::load("kindlm.yaml", yaml.as_bytes(), &NoFiles, &|_| None);
//! assert!(loaded.suite.is_none());
//! let text = kindlm_config::render(&loaded.diagnostics[0], false);
//! assert!(text.contains("did you mean `prompt`?"), "{text}");
//!
//! let yaml = yaml.replace("promt", "prompt");
//! let suite = kindlm_config::load("kindlm.yaml", yaml.as_bytes(), &NoFiles, &|_| None).suite.unwrap();
//! assert_eq!(suite.cases[0].name, "greets");
//! assert_eq!(suite.models[0].provider, "openai");
//! ```
#![deny(clippy::disallowed_methods)]

use std::sync::Arc;

mod imports;
mod load;
mod schema;
mod shell;
mod template;
mod written;

pub use imports::{Parts, Programs};
pub use kindlm_source::{
    Code, Diagnostic, Level, MAX_ALIASED, MAX_BYTES, MAX_DEPTH, MAX_NODES, Position, Related, Row,
    Rows, Source, Span, render, rows,
};
pub use load::{
    Imported, Loaded, Sources, SuiteNames, import, import_with, load, load_with, suite_names,
};
pub use schema::{json_schema, json_schema_with};
pub use template::{Filled, fill};

/// Parses YAML for checks that accept a text or a file with YAML.
///
/// `Setup::yaml` of `kindlm-assertions` uses this function.
///
/// # Errors
///
/// Returns a message with a position if the text is not valid YAML or has a duplicate key.
pub fn yaml(text: &str) -> Result<serde_json::Value, String> {
    let value = serde_yaml::from_str(text).map_err(|err| err.to_string())?;
    // `serde_yaml` silently uses the last value of a duplicate key.
    let source = Arc::new(Source::new("yaml", text));
    let mut problems = kindlm_source::read_yaml(&source, 0..text.len()).diagnostics.into_iter();
    problems.find(|it| it.code == Code::DUPLICATE).map_or(Ok(value), |it| {
        let Position { line, column, .. } = it.position();
        Err(format!("{} at line {line} column {column}", it.message))
    })
}
