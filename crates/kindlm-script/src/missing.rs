//! The errors and the worker of a build without the feature `javascript`.

use kindlm_types::script::{ScriptError, ScriptErrorKind, ScriptRuntime};

const MESSAGE: &str = "this build of KindLM cannot run JavaScript: `cargo install --path crates/kindlm-cli --features full` builds one that can; in a crate, enable the feature `javascript` of `kindlm-script`";

/// Fails if this build has no engine for a runtime.
pub(crate) fn check(runtime: ScriptRuntime) -> Result<(), ScriptError> {
    match runtime {
        ScriptRuntime::QuickJs => Err(ScriptError::new(ScriptErrorKind::Unsupported, MESSAGE)),
        _ => Ok(()),
    }
}

/// The worker of a build without the built-in engine.
pub mod worker {
    use std::io::Write as _;

    use super::MESSAGE;
    use crate::typescript;

    /// Writes to stderr that this build cannot run JavaScript. Returns the exit code 70.
    ///
    /// With the argument `typescript`, the function converts TypeScript from stdin instead, which fails without the
    /// feature `typescript`.
    pub fn main() -> u8 {
        if let Some(exit_code) = typescript::convert_stdin() {
            return exit_code;
        }
        // If stderr is closed, nothing can be reported; the exit code still shows the failure.
        let _ = writeln!(std::io::stderr(), "script worker: {MESSAGE}");
        70
    }
}

#[cfg(test)]
mod tests {
    use kindlm_types::script::{ScriptQuestion, ScriptSource};

    use super::*;
    use crate::{HostOptions, ScriptHost};

    #[tokio::test]
    async fn javascript_is_an_error_that_names_the_command() {
        // The host must not start this program.
        let host = ScriptHost::new(HostOptions::new("missing", [] as [&str; 0], "."));
        let source = ScriptSource::Body { params: Vec::new(), code: "return 1".into() };
        let question = ScriptQuestion::new(ScriptRuntime::QuickJs, source.clone());
        for err in [host.run(&question).await.err(), host.compile(&question).await.err()] {
            assert_eq!(err.unwrap().message, MESSAGE);
        }
        let question = ScriptQuestion::new(ScriptRuntime::Node, source);
        assert_eq!(host.compile(&question).await, Ok(()));
    }
}
