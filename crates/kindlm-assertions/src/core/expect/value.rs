//! Resolution of the `value` of a list entry from a file or a template.

use kindlm_types::{Problem, ProblemKind, pointer};
use serde_json::Value;

use crate::Setup;
use crate::shared::template::{Variables, faulty, is_template};

/// The prefix of a value that names a file.
pub(super) const FILE: &str = "file://";

/// Returns the resolved value, or `None` if it stays as written.
///
/// Pointers of problems start at the value.
pub(super) fn resolve<'v>(
    value: &Value,
    takes_scripts: bool,
    setup: &Setup<'_>,
    variables: impl FnOnce() -> &'v Variables,
) -> Result<Option<Value>, Problem> {
    match value {
        Value::String(text) => match text.strip_prefix(FILE) {
            Some(path) => file(path, takes_scripts, setup),
            None if is_template(text) => Ok(Some(Value::String(rendered(text, variables())?))),
            None => Ok(None),
        },
        Value::Array(items) if items.iter().any(is_changed) => {
            let variables = variables();
            let items = items.iter().enumerate().map(|(index, item)| {
                let resolved = match item {
                    Value::String(text) => match text.strip_prefix(FILE) {
                        Some(path) => file(path, false, setup).map(Option::unwrap_or_default),
                        None if is_template(text) => rendered(text, variables).map(Value::String),
                        None => Ok(item.clone()),
                    },
                    item => Ok(item.clone()),
                };
                resolved.map_err(|it| it.under(&format!("/{index}")))
            });
            items.collect::<Result<_, _>>().map(|it| Some(Value::Array(it)))
        }
        _ => Ok(None),
    }
}

/// Returns true if an item of a list is a template or names a file.
fn is_changed(item: &Value) -> bool {
    item.as_str().is_some_and(|it| is_template(it) || it.starts_with(FILE))
}

/// Renders every template in a value. `at` is the place of the value.
///
/// Fails at the first template that cannot be rendered.
pub(super) fn fill_in(value: &mut Value, at: &str, variables: &Variables) -> Result<(), Problem> {
    match value {
        Value::String(text) if is_template(text) => {
            *text = rendered(text, variables).map_err(|it| it.under(at))?;
            Ok(())
        }
        Value::Array(items) => {
            let mut items = items.iter_mut().enumerate();
            items.try_for_each(|(index, it)| fill_in(it, &format!("{at}/{index}"), variables))
        }
        Value::Object(entries) => entries.iter_mut().try_for_each(|(key, it)| {
            fill_in(it, &format!("{at}/{}", pointer::segment(key)), variables)
        }),
        _ => Ok(()),
    }
}

/// Renders a template. A template that cannot be rendered is a problem.
pub(super) fn rendered(text: &str, variables: &Variables) -> Result<String, Problem> {
    variables.render(text).map_err(faulty)
}

/// Reads a file: a trimmed text, or the value in a JSON or YAML file.
///
/// Any other file is a problem. With `takes_scripts`, the file may be a script, and the result is `None`.
fn file(path: &str, takes_scripts: bool, setup: &Setup<'_>) -> Result<Option<Value>, Problem> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map_or("", |(_, it)| it).to_ascii_lowercase();
    match ending.as_str() {
        "txt" | "md" => {
            Ok(Some(Value::String(setup.texts.load_text(path, setup.files)?.trim().to_owned())))
        }
        "json" => {
            let text = setup.texts.load_text(path, setup.files)?;
            let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
            let parsed: Result<Value, _> = serde_json::from_str(text);
            parsed.map(Some).map_err(|err| unreadable(path, &err))
        }
        "yaml" | "yml" => {
            let text = setup.texts.load_text(path, setup.files)?;
            let parse = setup.yaml.ok_or_else(|| unreadable(path, &"YAML is not read here"))?;
            parse(&text).map(Some).map_err(|err| unreadable(path, &err))
        }
        _ if takes_scripts => Ok(None),
        _ => {
            let message = format!("cannot load a value from `{path}`: unsupported file extension");
            let help = "files with values are `.txt`, `.md`, `.json` or `.yaml`; scripts go with `javascript`, `python` and `ruby`";
            Err(Problem::new("", message).with_help(help))
        }
    }
}

fn unreadable(path: &str, err: &dyn std::fmt::Display) -> Problem {
    let kind = ProblemKind::File { outside: false };
    Problem::new("", format!("`{path}` cannot be read: {err}")).with_kind(kind)
}
