//! Templates in checks, which make an `expect` block depend on the variables of its test.

use std::fmt;

pub use kindlm_template::{Variables, is_template};
use kindlm_types::Problem;
use serde_json::{Map, Value};

/// The environment variables that a template may read when a judge is asked.
#[derive(Clone, Default)]
pub(crate) struct Env(Map<String, Value>);

impl Env {
    /// Creates the environment from the environment variables that the suite permits.
    pub(crate) fn new(variables: Map<String, Value>) -> Self {
        Self(variables)
    }

    /// Returns the variables of a test together with the environment.
    pub(crate) fn with(&self, vars: &Map<String, Value>) -> Variables {
        Variables::new(vars, &self.0)
    }
}

/// Hides the values, because they may be secrets.
impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").finish_non_exhaustive()
    }
}

/// Returns a problem if a text is a template that cannot be parsed.
pub(crate) fn fault(text: &str) -> Option<Problem> {
    let fault = Some(text)
        .filter(|it| is_template(it))
        .and_then(|it| kindlm_template::read_names(it).err())?;
    Some(faulty(format!("the template cannot be read: {fault}")))
}

/// Returns the problem of a template that cannot be parsed or rendered.
pub(crate) fn faulty(message: String) -> Problem {
    Problem::new("", message).with_help(
        "a text with `{{`, `{%` or `{#` is a template; `{% raw %}…{% endraw %}` keeps it unchanged",
    )
}
