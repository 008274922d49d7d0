//! References to named entries: `$ref: '#/assertionTemplates/x'`.

use kindlm_types::{Problem, ProblemKind, suggest};
use serde_json::{Map, Value};

use crate::Setup;

/// The key of a reference.
pub(super) const REF: &str = "$ref";

/// The prefix of a reference to a named entry.
const TEMPLATES: &str = "#/assertionTemplates/";

/// An entry, merged with the template that it refers to.
pub(super) struct Whole<'v> {
    /// The merged entry.
    pub(super) map: Map<String, Value>,
    /// The entry as written and the name of its template; `None` without a reference.
    written: Option<(&'v Map<String, Value>, String)>,
}

impl<'v> Whole<'v> {
    /// Merges an entry with its template. Keys of the entry take precedence.
    ///
    /// Fails if the reference names no template, or a template that is not an object or has a `$ref` itself. The
    /// pointer of the problem starts at the entry.
    pub(super) fn merge_template(
        written: &'v Map<String, Value>,
        setup: &Setup<'_>,
    ) -> Result<Self, Problem> {
        let Some(reference) = written.get(REF) else {
            return Ok(Self { map: written.clone(), written: None });
        };
        let at = format!("/{REF}");
        let Some(name) = reference.as_str().and_then(|it| it.strip_prefix(TEMPLATES)) else {
            let help = format!("write `{REF}: '{TEMPLATES}name'`");
            return Err(Problem::new(at, "refers to no assertion template").with_help(help));
        };
        let templates = &setup.assertion_templates;
        let Some(template) = templates.get(name) else {
            let known = templates.keys().map(String::as_str).collect::<Vec<_>>();
            let help = if known.is_empty() {
                "define it in the config file, under `assertionTemplates`".to_owned()
            } else {
                suggest(name, "assertion templates", known)
            };
            let problem = Problem::new(at, format!("there is no assertion template `{name}`"));
            return Err(problem.with_kind(ProblemKind::UnknownReference).with_help(help));
        };
        let Value::Object(template) = template else {
            let message = format!("the assertion template `{name}` is not an object");
            return Err(Problem::new(at, message));
        };
        if template.contains_key(REF) {
            let message = format!("the assertion template `{name}` refers to another one");
            return Err(Problem::new(at, message).with_help("write the assertion out"));
        }
        let mut map = template.clone();
        for (key, value) in written.iter().filter(|(key, _)| *key != REF) {
            map.insert(key.clone(), value.clone());
        }
        Ok(Self { map, written: Some((written, name.to_owned())) })
    }

    /// Moves a problem of the merged entry to the place in the file that caused it.
    pub(super) fn place(&self, mut problem: Problem) -> Problem {
        let Some((written, template)) = &self.written else { return problem };
        let key = problem.pointer.trim_start_matches('/').split('/').next().unwrap_or_default();
        if key.is_empty() || !written.contains_key(key) {
            let within = std::mem::replace(&mut problem.pointer, format!("/{REF}"));
            let within = if within.is_empty() { String::new() } else { format!(", `{within}`") };
            problem.message =
                format!("in the assertion template `{template}`{within}: {}", problem.message);
        }
        problem
    }
}
