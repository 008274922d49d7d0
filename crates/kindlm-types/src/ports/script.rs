//! Users' scripts: their source, permissions and results.
//!
//! An assertion that needs a script asks a [`Question::Script`](crate::Question::Script); a script host
//! (`kindlm-script`) answers. The result of a script (a value, or something thrown) is a [`ScriptAnswer`]. The error
//! for a script that was stopped, or could not be run at all, is a [`ScriptError`].

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::BoxFuture;

/// A script to run once.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptQuestion {
    /// The runtime that runs it.
    pub runtime: ScriptRuntime,
    /// The source to run.
    pub source: ScriptSource,
    /// The arguments, each as JSON text. Shared, as all scripts of one execution see the same context.
    pub args: Vec<Arc<str>>,
    /// Its permissions beyond computing.
    pub permissions: Arc<ScriptPermissions>,
    /// Its timeout; the host's own limit if absent.
    pub timeout: Option<Duration>,
}

/// The runtime of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScriptRuntime {
    /// The JavaScript engine that is built in, in a sandbox.
    #[default]
    QuickJs,
    /// The installed Node.js. Not a sandbox.
    Node,
    /// The installed Python 3. Not a sandbox.
    Python,
    /// The installed Ruby. Not a sandbox.
    Ruby,
}

/// The source of a script.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ScriptSource {
    /// The body of a function.
    Body {
        /// The names of its parameters, one for each argument.
        params: Vec<String>,
        /// The code, with a `return`. It may use `await`.
        code: Arc<str>,
    },
    /// A function that a file exports.
    File {
        /// The file, relative to the host's root folder, with `/` between folders.
        path: String,
        /// The exported function; the default export if absent.
        function: Option<String>,
    },
    /// Something that a JavaScript file exports, of which a function is only one form.
    Export {
        /// The file, as above.
        path: String,
        /// The name of the export; the default export if absent.
        name: Option<String>,
        /// The use of the export.
        usage: ExportUse,
    },
}

/// The use of an export of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExportUse {
    /// A function is called with the arguments; anything else is the result itself.
    Value,
    /// A class is constructed with the first argument, and the method `callApi` called with the others; an object has
    /// the method already, and a function is called in its place.
    Provider,
}

/// Runs scripts for a reader that has to wait: one script, to its end.
pub type RunScript = dyn Fn(&ScriptQuestion) -> Result<ScriptAnswer, ScriptError> + Send + Sync;

/// Compiles a script without running it, and without its imports.
pub type CompileScript = dyn Fn(&ScriptQuestion) -> Result<(), ScriptError> + Send + Sync;

/// Runs scripts.
pub trait ScriptRunner: Send + Sync {
    /// Runs a script to its end. A script that throws has an answer; an error is the obstacle that stopped it.
    fn run<'a>(
        &'a self,
        question: &'a ScriptQuestion,
    ) -> BoxFuture<'a, Result<ScriptAnswer, ScriptError>>;
}

/// The permissions of a script beyond computing. By default: none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScriptPermissions {
    /// Hosts that `fetch` may reach: `example.com`, `*.example.com`, `localhost:8080`.
    pub net: Vec<String>,
    /// Folders that it may read files from, relative to the host's root folder.
    pub read: Vec<String>,
    /// Environment variables that it may read.
    pub env: Vec<String>,
}

/// The result of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptAnswer {
    /// The way in which it ended.
    pub outcome: ScriptOutcome,
    /// The lines that it wrote to the console, in order; bounded by the host.
    pub console: Vec<String>,
}

/// The way in which a script ended.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptOutcome {
    /// It returned, or its promise was resolved.
    Returned(ScriptValue),
    /// It threw, or its promise was rejected.
    Threw {
        /// The error's message; `None` where what was thrown has none (a text, `null`).
        message: Option<String>,
        /// Where, a line for each frame; empty where the engine does not say.
        stack: String,
        /// The thrown value, as text.
        thrown: String,
    },
}

/// A value of JavaScript, with what JSON cannot say.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptValue {
    /// `undefined`.
    Undefined,
    /// Any number, NaN and infinities included.
    Number(f64),
    /// A JSON value other than a bare number. NaN and infinities inside are `{"$num": "NaN"}` and the like.
    /// `undefined` inside is left out of objects and `null` in lists, as `JSON.stringify` does.
    Json(Value),
    /// Something that has no value as data: `function`, `symbol`, `bigint`.
    Opaque {
        /// Its `typeof`.
        type_name: String,
        /// Its text.
        text: String,
    },
}

/// A bare number is a [`ScriptValue::Number`].
impl From<Value> for ScriptValue {
    fn from(value: Value) -> Self {
        match value.as_f64() {
            Some(number) => Self::Number(number),
            None => Self::Json(value),
        }
    }
}

/// Why a script did not end, or could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ScriptError {
    /// The kind of obstacle.
    pub kind: ScriptErrorKind,
    /// The description, and the advice.
    pub message: String,
    /// The lines that it had written to the console until then.
    pub console: Vec<String>,
}

/// The obstacle that stopped a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScriptErrorKind {
    /// It took longer than it may.
    Timeout,
    /// It used more memory, or a deeper stack, than it may.
    Memory,
    /// Its promise was never resolved, and nothing was left to wait for.
    NeverResolved,
    /// It ended its process.
    Exited,
    /// The code, or a file that it needs, cannot be read or parsed.
    Load,
    /// The runtime is not installed, or could not be started.
    Runtime,
    /// The host itself failed.
    Internal,
}

impl ScriptQuestion {
    /// A text that is equal for equal questions and different for different ones.
    pub(crate) fn key(&self) -> String {
        let Self { runtime, source, args, permissions, timeout } = self;
        let mut key = format!("script {runtime:?} {source:?} {permissions:?} {timeout:?}");
        for arg in args {
            // Lengths keep arguments apart.
            key.push(' ');
            key.push_str(&arg.len().to_string());
            key.push(':');
            key.push_str(arg);
        }
        key
    }
}
