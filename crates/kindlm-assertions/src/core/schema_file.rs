//! The JSON Schemas of checks. A schema file is read and compiled once per suite.
//!
//! Schemas with unknown keywords or formats are rejected, because a validator ignores unknown keywords and formats.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kindlm_schema::{Lint, Schema};
use kindlm_types::{FileError, Files, MemberPart, Problem, ProblemKind};
use serde_json::Value;

/// A compiled schema, or its problems.
type Compiled = Result<Arc<Schema>, Vec<Fault>>;

/// The schema files loaded so far, by path.
#[derive(Debug, Default)]
pub(crate) struct SchemaFiles(Mutex<HashMap<String, Compiled>>);

/// A problem of a schema, with the advice.
#[derive(Clone, Debug)]
struct Fault {
    message: String,
    help: Option<&'static str>,
    outside: bool,
}

/// The highest number of unknown keywords and formats that are reported per schema.
const TOLD: usize = 5;

impl SchemaFiles {
    /// Reads and compiles the schema at `path`. `pointer` is the place of the path.
    ///
    /// Fails if the file cannot be read, or if its schema is invalid or has unknown keywords or formats.
    pub(crate) fn load(
        &self,
        files: &dyn Files,
        path: &str,
        pointer: &str,
    ) -> Result<Arc<Schema>, Vec<Problem>> {
        // The map is consistent even if a panic elsewhere poisoned the lock.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let compiled = known.entry(path.to_owned()).or_insert_with(|| compile_file(files, path));
        compiled
            .clone()
            .map_err(|faults| faults.into_iter().map(|it| problem(it, pointer)).collect())
    }
}

/// Compiles a schema in the configuration itself. `pointer` is its place.
///
/// Fails if the schema is invalid or has unknown keywords or formats.
pub(crate) fn inline(schema: &Value, pointer: &str) -> Result<Arc<Schema>, Vec<Problem>> {
    let compiled = Schema::compile(schema)
        .map_err(|err| vec![Problem::new(format!("{pointer}{}", err.pointer), err.message)])?;
    let problems: Vec<Problem> = idle(schema)
        .map(|(Lint { pointer: at, message, .. }, place, help)| {
            let problem = Problem::new(format!("{pointer}{at}"), message).with_help(help);
            Problem { place, ..problem }
        })
        .collect();
    if problems.is_empty() { Ok(Arc::new(compiled)) } else { Err(problems) }
}

/// Returns the unknown keywords and formats of a schema, with the advice.
///
/// Ajv's strict mode rejects such schemas too. Validators ignore an unknown keyword, so any value would conform to it.
fn idle(schema: &Value) -> impl Iterator<Item = (Lint, MemberPart, &'static str)> {
    kindlm_schema::lint(schema).into_iter().take(TOLD).map(|lint| {
        let is_format = lint.pointer.ends_with("/format")
            && schema.pointer(&lint.pointer).is_some_and(Value::is_string);
        if is_format {
            (lint, MemberPart::Value, "correct it, or leave `format` out")
        } else {
            (lint, MemberPart::Key, "correct it; the name of an annotation must begin with `x-`")
        }
    })
}

fn problem(fault: Fault, pointer: &str) -> Problem {
    let kind = ProblemKind::File { outside: fault.outside };
    let problem = Problem::new(pointer, fault.message).with_kind(kind);
    match fault.help {
        Some(help) => problem.with_help(help),
        None => problem,
    }
}

fn compile_file(files: &dyn Files, path: &str) -> Compiled {
    let fault = |message: String| vec![Fault { message, help: None, outside: false }];
    let text = files.read_file(path).map_err(|err| {
        vec![Fault {
            message: err.to_string(),
            help: Some("the path is relative to the folder of the config file"),
            outside: matches!(err, FileError::Outside { .. }),
        }]
    })?;
    // Editors may put a byte order mark at the start of a file. This mark is not valid JSON.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let schema: Value = serde_json::from_str(text)
        .map_err(|err| fault(format!("`{path}` is not valid JSON: {err}")))?;
    let compiled = Schema::compile(&schema)
        .map_err(|err| fault(format!("`{path}` is not a usable JSON Schema: {err}")))?;
    let faults: Vec<Fault> = idle(&schema)
        .map(|(Lint { pointer, message, .. }, _, help)| Fault {
            message: format!("in `{path}`, at `{pointer}`: {message}"),
            help: Some(help),
            outside: false,
        })
        .collect();
    if faults.is_empty() { Ok(Arc::new(compiled)) } else { Err(faults) }
}
