//! Users' scripts: their source, permissions and results.
//!
//! An assertion that needs a script returns a [`Question::Script`](crate::Question::Script), and a script host
//! (`kindlm-script`) answers it. A [`ScriptAnswer`] is the returned value or the thrown error. A [`ScriptError`] means
//! that the script was stopped, or could not be run at all.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::BoxFuture;

/// A script to run once.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScriptQuestion {
    /// The runtime.
    pub runtime: ScriptRuntime,
    /// The source.
    pub source: ScriptSource,
    /// The arguments, each as JSON text. They are shared, because all scripts of one execution get the same context.
    pub args: Vec<Arc<str>>,
    /// The permissions for network, files and environment variables.
    pub permissions: Arc<ScriptPermissions>,
    /// The time limit; the host's limit if absent.
    pub timeout: Option<Duration>,
}

/// The runtime of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ScriptRuntime {
    /// The built-in JavaScript engine, in a sandbox.
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
        /// The file, relative to the host's root folder, with `/` as separator.
        path: String,
        /// The exported function; the default export if absent.
        function: Option<String>,
    },
    /// An export of a JavaScript file, which may be a function, a class or a value.
    Export {
        /// The file, relative to the host's root folder, with `/` as separator.
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
    /// A function is called with the arguments; any other export is itself the result.
    Value,
    /// The export is a provider with the method `callApi`.
    ///
    /// A class is constructed with the first argument, and its method is called with all other arguments. The method
    /// of an object is called directly. A function is called in place of the method.
    Provider,
}

/// A function that runs one script and blocks until the script ends.
pub type RunScript = dyn Fn(&ScriptQuestion) -> Result<ScriptAnswer, ScriptError> + Send + Sync;

/// A function that compiles a script without its imports, and does not run it. Fails if the code cannot be parsed.
pub type CompileScript = dyn Fn(&ScriptQuestion) -> Result<(), ScriptError> + Send + Sync;

/// The port to the script host, which answers each [`ScriptQuestion`].
pub trait ScriptRunner: Send + Sync {
    /// Runs a script to its end. Fails if the script is stopped or cannot be run. An exception that the script throws
    /// is an answer, not an error.
    fn run<'a>(
        &'a self,
        question: &'a ScriptQuestion,
    ) -> BoxFuture<'a, Result<ScriptAnswer, ScriptError>>;
}

/// The permissions of a script; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScriptPermissions {
    /// The hosts that `fetch` may access: `example.com`, `*.example.com`, `localhost:8080`.
    pub net: Vec<String>,
    /// The folders from which the script may read files, relative to the host's root folder.
    pub read: Vec<String>,
    /// The environment variables that the script may read.
    pub env: Vec<String>,
}

/// The result of a script that ran to its end.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScriptAnswer {
    /// The returned value or the thrown error.
    pub outcome: ScriptOutcome,
    /// The console output by line, in order; the host limits its size.
    pub console: Vec<String>,
}

impl ScriptAnswer {
    /// Creates the result of a script without console output.
    pub fn new(outcome: ScriptOutcome) -> Self {
        Self { outcome, console: Vec::new() }
    }

    /// Sets the console output.
    #[must_use]
    pub fn with_console(mut self, console: Vec<String>) -> Self {
        self.console = console;
        self
    }
}

/// The returned value or the thrown error of a script.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptOutcome {
    /// The script returned a value, or its promise was resolved.
    Returned(ScriptValue),
    /// The script threw an error, or its promise was rejected.
    Threw {
        /// The error message; `None` if the thrown value has no message (a string, `null`).
        message: Option<String>,
        /// The stack trace, one line for each frame; empty if the engine reports none.
        stack: String,
        /// The thrown value, as text.
        thrown: String,
    },
}

/// A JavaScript value, including values that JSON cannot represent.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptValue {
    /// `undefined`.
    Undefined,
    /// A number, including NaN and infinities.
    Number(f64),
    /// A JSON value other than a number.
    ///
    /// Nested NaN and infinities become objects such as `{"$num": "NaN"}`. As in `JSON.stringify`, nested `undefined`
    /// is omitted from objects and becomes `null` in lists.
    Json(Value),
    /// A value that is not data: `function`, `symbol`, `bigint`.
    Opaque {
        /// The `typeof` of the value.
        type_name: String,
        /// The value as text.
        text: String,
    },
}

/// A number becomes a [`ScriptValue::Number`], any other value a [`ScriptValue::Json`].
impl From<Value> for ScriptValue {
    fn from(value: Value) -> Self {
        match value.as_f64() {
            Some(number) => Self::Number(number),
            None => Self::Json(value),
        }
    }
}

/// The reason why a script was stopped, or could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ScriptError {
    /// The kind of error.
    pub kind: ScriptErrorKind,
    /// The error message with the advice.
    pub message: String,
    /// The console output up to the error.
    pub console: Vec<String>,
}

impl ScriptError {
    /// Creates an error of a script without console output.
    pub fn new(kind: ScriptErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), console: Vec::new() }
    }

    /// Sets the console output.
    #[must_use]
    pub fn with_console(mut self, console: Vec<String>) -> Self {
        self.console = console;
        self
    }
}

/// The kind of a script error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScriptErrorKind {
    /// The script exceeded its time limit.
    Timeout,
    /// The script exceeded its memory or stack limit.
    Memory,
    /// The script waits for a promise that can no longer be resolved.
    NeverResolved,
    /// The script ended its process.
    Exited,
    /// The code, or an imported file, cannot be read or parsed.
    Load,
    /// The runtime is not installed, or could not be started.
    Runtime,
    /// This build of KindLM is without the runtime.
    Unsupported,
    /// An internal error of the script host.
    Internal,
}

impl ScriptQuestion {
    /// Creates a run of a script without arguments and permissions, with the time limit of the host.
    pub fn new(runtime: ScriptRuntime, source: ScriptSource) -> Self {
        Self { runtime, source, args: Vec::new(), permissions: Arc::default(), timeout: None }
    }

    /// Sets the arguments, each as JSON text.
    #[must_use]
    pub fn with_args(mut self, args: Vec<Arc<str>>) -> Self {
        self.args = args;
        self
    }

    /// Sets the permissions.
    #[must_use]
    pub fn with_permissions(mut self, permissions: Arc<ScriptPermissions>) -> Self {
        self.permissions = permissions;
        self
    }

    /// Sets the time limit; `None` for the limit of the host.
    #[must_use]
    pub fn with_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Returns a key that is equal for equal questions, and differs for different ones.
    pub(crate) fn key(&self) -> String {
        let Self { runtime, source, args, permissions, timeout } = self;
        let mut key = format!("script {runtime:?} {source:?} {permissions:?} {timeout:?}");
        for arg in args {
            // The length prefix separates the arguments unambiguously.
            key.push(' ');
            key.push_str(&arg.len().to_string());
            key.push(':');
            key.push_str(arg);
        }
        key
    }
}
