//! JSON Schemas that configuration refers to by path, each read and compiled once for a suite.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kindlm_schema::Schema;
use kindlm_types::{FileError, Files, Problem, ProblemKind};
use serde_json::Value;

use crate::Setup;

/// A compiled schema, or why there is none.
type Compiled = Result<Arc<Schema>, Fault>;

/// The schema files that were already asked for, by path.
#[derive(Debug, Default)]
pub(crate) struct SchemaFiles(Mutex<HashMap<String, Compiled>>);

/// What is wrong with a schema, and what to do about it.
#[derive(Clone, Debug)]
struct Fault {
    message: String,
    help: Option<&'static str>,
    outside: bool,
}

/// Reads and compiles the schema at `path`; `pointer` is where the path is written.
pub(crate) fn load(setup: &Setup<'_>, path: &str, pointer: &str) -> Result<Arc<Schema>, Problem> {
    // The map is whole even if a panic elsewhere poisoned the lock.
    let mut known = setup.schemas.0.lock().unwrap_or_else(PoisonError::into_inner);
    let compiled = known.entry(path.to_owned()).or_insert_with(|| read(setup.files, path));
    compiled.clone().map_err(|fault| problem(fault, pointer))
}

/// Compiles a schema that is written in the configuration itself; `pointer` is where it stands.
pub(crate) fn inline(schema: &Value, pointer: &str) -> Result<Arc<Schema>, Problem> {
    Schema::compile(schema)
        .map(Arc::new)
        .map_err(|err| Problem::new(format!("{pointer}{}", err.pointer), err.message))
}

fn problem(fault: Fault, pointer: &str) -> Problem {
    let kind = ProblemKind::File { outside: fault.outside };
    let problem = Problem::new(pointer, fault.message).with_kind(kind);
    match fault.help {
        Some(help) => problem.with_help(help),
        None => problem,
    }
}

fn read(files: &dyn Files, path: &str) -> Compiled {
    let fault = |message: String| Fault { message, help: None, outside: false };
    let text = files.read(path).map_err(|err| Fault {
        message: err.to_string(),
        help: Some("the path is relative to the folder of the config file"),
        outside: matches!(err, FileError::Outside { .. }),
    })?;
    // Editors put a byte order mark in front of files; JSON has none.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let schema: Value = serde_json::from_str(text)
        .map_err(|err| fault(format!("`{path}` is not valid JSON: {err}")))?;
    Schema::compile(&schema)
        .map(Arc::new)
        .map_err(|err| fault(format!("`{path}` is not a usable JSON Schema: {err}")))
}
