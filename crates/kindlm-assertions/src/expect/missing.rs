//! Variables that templates in a check name and no test gives: an empty text in their place would be in every output.

use kindlm_template::{each_template, environment};
use kindlm_types::{Problem, ProblemKind, nearest};
use serde_json::{Map, Value};

use crate::Setup;

/// What of the texts in a value has no value, each with a pointer from it. What a template asks for with `is defined`, or
/// gives a `default`, may be missing.
pub(super) fn missing(value: &Value, vars: &Map<String, Value>, setup: &Setup<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    each_template(value, "", &mut |at, text| {
        // What cannot be read is told where it is rendered.
        let Some(read) = setup.templates.read(text) else { return };
        problems.extend(read.missing(vars).iter().map(|name| of_variable(at, name, vars)));
        if vars.contains_key("env") {
            return;
        }
        for name in environment(text) {
            let is_asked = read.entangled.iter().any(|(it, _)| it == name);
            if !is_asked && setup.env.get(name) == Some(&Value::Null) {
                problems.push(of_environment(at, name));
            }
        }
    });
    problems
}

fn of_variable(at: &str, name: &str, vars: &Map<String, Value>) -> Problem {
    let (parent, key) = match name.rsplit_once('.') {
        Some((parent, key)) => (Some(parent), key),
        None => (None, name),
    };
    let of_parent = |parent: &str| vars_at(vars, parent).and_then(Value::as_object);
    let known = parent.map_or(Some(vars), of_parent);
    let near = known.and_then(|it| nearest(key, it.keys().map(String::as_str)));
    let help = match (near, parent) {
        (Some(near), None) => format!("`vars` has `{near}`: did you mean that?"),
        (Some(near), Some(parent)) => {
            format!("`{parent}` has `{near}`: did you mean `{parent}.{near}`?")
        }
        (None, Some(_)) => format!(
            "give it a value under `vars`, or say what holds without it: `{{{{ {name} | default('…') }}}}`"
        ),
        (None, None) => format!(
            "give it a value, `vars: {{ {name}: … }}`, or say what holds without it: `{{{{ {name} | default('…') }}}}`"
        ),
    };
    let message = format!("the variable `{name}` has no value: an empty text would stand for it");
    told(at, name.to_owned(), message, help)
}

/// The value of `a.b`.
fn vars_at<'v>(vars: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    let mut keys = name.split('.');
    let first = vars.get(keys.next()?)?;
    keys.try_fold(first, |value, key| value.get(key))
}

fn of_environment(at: &str, name: &str) -> Problem {
    let help = format!(
        "set it before `kindlm` runs, or say what stands for it: `{{{{ env.{name} | default('…') }}}}`"
    );
    told(at, format!("env.{name}"), format!("the environment variable `{name}` is not set"), help)
}

fn told(at: &str, name: String, message: String, help: String) -> Problem {
    Problem::new(at, message).with_kind(ProblemKind::MissingVariable { name }).with_help(help)
}
