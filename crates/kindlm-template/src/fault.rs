//! Errors in templates.

use std::fmt;
use std::ops::Range;

use minijinja::{Error, ErrorKind};

use crate::engine::FUEL;

/// An error in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The description of the error.
    pub message: String,
    /// The advice for correcting the template; `None` without advice.
    pub help: Option<String>,
    /// The range of the error in the template, in bytes; `None` if the range is unknown.
    pub range: Option<Range<usize>>,
    /// The line of the error, from 1; `None` for a template of one line, or if the line is unknown.
    pub line: Option<usize>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(help) = &self.help {
            write!(f, ": {help}")?;
        }
        if let Some(line) = self.line {
            write!(f, " (line {line} of the text)")?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}

/// The start of the engine's message for an unknown statement.
const UNKNOWN_STATEMENT: &str = "unknown statement ";

impl Fault {
    /// Creates an error without help and without a place.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, range: None, line: None }
    }

    /// Converts an error of the engine.
    pub(crate) fn of_error(template: &str, err: &Error) -> Self {
        let words = err.detail().map_or_else(|| err.kind().to_string(), str::to_owned);
        let line = err.line().filter(|_| template.contains('\n'));
        let (message, help) = match words.strip_prefix(UNKNOWN_STATEMENT) {
            Some(name) => of_statement(name),
            None if err.kind() == ErrorKind::OutOfFuel => {
                let help = "loop over fewer items, or put the result of the computation into a variable of the test";
                (format!("it takes more than {FUEL} steps"), Some(help.to_owned()))
            }
            None => (words, None),
        };
        Self { message, help, range: None, line }
    }

    /// Converts an error of the engine during rendering.
    ///
    /// `found` is the error about the first unknown name that the analysis of the template found. `found` replaces the
    /// engine's error about the same name, because `found` has suggestions.
    pub(crate) fn of_evaluation(template: &str, err: &Error, found: Option<Self>) -> Self {
        let unknown = [
            ErrorKind::UnknownFilter,
            ErrorKind::UnknownTest,
            ErrorKind::UnknownFunction,
            ErrorKind::UnknownMethod,
        ];
        let told = Self::of_error(template, err);
        match found.filter(|_| unknown.contains(&err.kind())) {
            // The analysis reports custom filters as unknown, so `found` may be about another name than the engine's error.
            Some(fault) => {
                let name = fault.range.clone().and_then(|it| template.get(it)).unwrap_or_default();
                if told.message.contains(name) { fault } else { told }
            }
            None => told,
        }
    }
}

/// Returns the error message and the help for an unknown statement.
fn of_statement(name: &str) -> (String, Option<String>) {
    if name == "raw" {
        let help = "write `{% raw %}` before the literal text and `{% endraw %}` after it";
        return ("`{% raw %}` is not complete".to_owned(), Some(help.to_owned()));
    }
    let message = format!("there is no statement `{{% {name} %}}`");
    let help = match name {
        "include" | "import" | "from" | "extends" | "block" => {
            "a template cannot include other templates: copy the text of the other template to this place, or put it into a variable"
        }
        "macro" | "call" => {
            "write the text of the macro at each place of use, or loop over a list of the parts that differ"
        }
        "break" | "continue" => "put an `if` around the rest of the loop",
        _ => "there are `if`, `for`, `set`, `with`, `filter`, `raw`, `autoescape` and `do`",
    };
    (message, Some(help.to_owned()))
}
