//! Missing variables in the templates of checks.
//!
//! An undefined variable renders as an empty text. Every output contains an empty text, so such a check would always
//! pass.

use kindlm_template::{Missing, Variables, each_template};
use kindlm_types::{Problem, ProblemKind, nearest};
use serde_json::{Map, Value};

/// Returns a problem for each missing variable of the templates in a value.
///
/// Each problem has a pointer from the value. A missing variable is no problem if the template tests it with
/// `is defined` or gives it a `default`.
pub(super) fn missing(
    value: &Value,
    variables: &Variables,
    vars: &Map<String, Value>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    each_template(value, "", &mut |at, text| {
        // The later rendering reports a template that cannot be rendered.
        let missing = variables.missing(text).unwrap_or_default();
        problems.extend(missing.into_iter().map(|it| problem(at, it, vars)));
    });
    problems
}

fn problem(at: &str, missing: Missing, vars: &Map<String, Value>) -> Problem {
    let Missing { name, near, is_null, .. } = missing;
    let environment = name.strip_prefix("env.").filter(|_| !vars.contains_key("env"));
    let (message, help) = if is_null {
        (
            format!("`{name}` is `null`, so an empty text would be inserted"),
            format!("give it a default: `{{{{ {name} | default('…', true) }}}}`"),
        )
    } else if let Some(variable) = environment {
        (
            format!("the environment variable `{variable}` is not set"),
            format!(
                "set it before `kindlm` runs, or give it a default: `{{{{ {name} | default('…') }}}}`"
            ),
        )
    } else {
        (
            format!("the variable `{name}` has no value, so an empty text would be inserted"),
            help(&name, near.as_deref(), vars),
        )
    };
    let kind = ProblemKind::MissingVariable { name, is_null };
    Problem::new(at, message).with_kind(kind).with_help(help)
}

fn help(name: &str, near: Option<&str>, vars: &Map<String, Value>) -> String {
    let asks = format!(
        "or give it a default: `{{{{ {name} | default('…') }}}}`; for literal braces, write `{{% raw %}}{{{{ {name} \
         }}}}{{% endraw %}}`"
    );
    match near.and_then(|it| it.rsplit_once('.')) {
        Some((parent, key)) => format!("`{parent}` has `{key}`: did you mean `{parent}.{key}`?"),
        None if name.contains(|it: char| !it.is_alphanumeric() && it != '_') => {
            format!("give it a value under `vars`, {asks}")
        }
        None => match nearest(name, vars.keys().map(String::as_str)) {
            Some(near) => format!("`vars` has `{near}`: did you mean that?"),
            None => format!("give it a value, `vars: {{ {name}: … }}`, {asks}"),
        },
    }
}
