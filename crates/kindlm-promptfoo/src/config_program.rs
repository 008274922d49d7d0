//! Configs that are programs in JavaScript or TypeScript.

use std::sync::Arc;

use kindlm_types::script::{
    RunScript, ScriptOutcome, ScriptQuestion, ScriptRuntime, ScriptSource, ScriptValue,
};
use serde_json::Value;

use super::files::extension;

/// Imports the config. Returns its value, the paths of its functions, and the environment variables that it reads.
///
/// A function that answers tool calls becomes a reference to this function: `file://config.js#providers.0.…`. Other
/// functions cannot be JSON values, and the variables are not set in the sandbox. The caller reports these functions
/// and variables.
const EVALUATE: &str = r#"
const variables = new Set();
const noted = (name) => void (typeof name === "string" && variables.add(name));
process.env = new Proxy({}, { get: (_, name) => noted(name), has: (_, name) => (noted(name), false) });
const module = await import(file);
let value = module.default ?? module;
if (value && value.__esModule && value.default) value = value.default;
if (typeof value === "function") value = await value();
const functions = [];
const callback = /^providers\.\d+\.config\.(?:functionToolCallbacks\.[^.]+|functionCallHandler)$/;
const seen = new Set();
const visit = (it, pointer, parent, key) => {
  if (typeof it === "function") {
    if (callback.test(pointer)) parent[key] = `${file.replace("./", "file://")}#${pointer}`;
    else functions.push(pointer);
  }
  if (!it || typeof it !== "object" || seen.has(it)) return;
  seen.add(it);
  for (const [key, part] of Object.entries(it)) visit(part, pointer ? `${pointer}.${key}` : key, it, key);
};
visit(value, "");
return { value, functions, variables: [...variables] };
"#;

/// A config file that is a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigProgram {
    file: String,
}

impl ConfigProgram {
    /// Returns the program at the path of a config; `None` if the file is not JavaScript or TypeScript.
    pub fn of_config(path: &str) -> Option<Self> {
        let is_program =
            matches!(extension(path).as_str(), "js" | "mjs" | "cjs" | "ts" | "mts" | "cts");
        let file = path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned();
        is_program.then_some(Self { file })
    }
}

/// The value of a config that is a program.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EvaluatedConfig {
    /// The value that the program exports.
    pub value: Value,
    /// The paths of functions in the exported value, such as `tests.0.assert.0.value`. `value` does not contain them.
    pub functions: Vec<String>,
    /// The environment variables that the program read. They had no value.
    pub variables: Vec<String>,
}

/// Runs a config in the sandbox, without permissions.
///
/// Returns the reason as an error if the program throws, does not end, or exceeds the limits of the sandbox.
pub fn evaluate_config(
    program: &ConfigProgram,
    scripts: &Arc<RunScript>,
) -> Result<EvaluatedConfig, String> {
    let file = Value::from(format!("./{}", program.file)).to_string();
    let source = ScriptSource::Body { params: vec!["file".to_owned()], code: EVALUATE.into() };
    let question = ScriptQuestion::new(ScriptRuntime::QuickJs, source).with_args(vec![file.into()]);
    let value = match scripts(&question).map_err(|err| err.message)?.outcome {
        ScriptOutcome::Returned(ScriptValue::Json(value)) => value,
        ScriptOutcome::Returned(_) => return Err("it has no value that can be JSON".to_owned()),
        ScriptOutcome::Threw { message, thrown, .. } => {
            return Err(format!("it threw `{}`", message.unwrap_or(thrown)));
        }
    };
    let texts = |name: &str| -> Vec<String> {
        let texts = value.get(name).and_then(Value::as_array).into_iter().flatten();
        texts.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let (functions, variables) = (texts("functions"), texts("variables"));
    let value = value.get("value").cloned().unwrap_or_default();
    Ok(EvaluatedConfig { value, functions, variables })
}
