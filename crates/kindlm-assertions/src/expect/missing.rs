//! Variables that templates in a check name and no test gives: an empty text in their place would be in every output.

use kindlm_template::{environment, is_template, is_tested, read};
use kindlm_types::{Problem, ProblemKind, nearest, pointer};
use serde_json::{Map, Value};

use crate::Setup;

/// What of the texts in a value has no value, each with a pointer from it. What a template asks for with `is defined`, or
/// gives a `default`, may be missing.
pub(super) fn missing(value: &Value, vars: &Map<String, Value>, setup: &Setup<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    within(value, "", &mut |at, text| {
        // What cannot be read is told where it is rendered.
        let Ok(read) = read(text) else { return };
        let names = read
            .undeclared
            .iter()
            .filter(|it| *it != "env" && !vars.contains_key(*it) && !is_tested(text, it));
        problems.extend(names.map(|name| of_variable(at, name, vars)));
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
    let help = match nearest(name, vars.keys().map(String::as_str)) {
        Some(near) => format!("`vars` has `{near}`: did you mean that?"),
        None => format!(
            "give it a value, `vars: {{ {name}: … }}`, or say what holds without it: `{{{{ {name} | default('…') }}}}`"
        ),
    };
    let message = format!("the variable `{name}` has no value: an empty text would stand for it");
    told(at, name.to_owned(), message, help)
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

/// Looks at each template in a value, with its pointer.
fn within(value: &Value, at: &str, look: &mut impl FnMut(&str, &str)) {
    match value {
        Value::String(text) if is_template(text) => look(at, text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                within(item, &format!("{at}/{index}"), look);
            }
        }
        Value::Object(entries) => {
            for (key, item) in entries {
                within(item, &format!("{at}/{}", pointer::segment(key)), look);
            }
        }
        _ => {}
    }
}
