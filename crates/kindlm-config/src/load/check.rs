//! The second pass: checks the shape of the document.
//!
//! This pass finds unknown keys, missing keys and values of a wrong type.

use kindlm_providers::{Providers, TYPE};
use kindlm_schema::Shape;
use kindlm_source::{Code, Kind as Yaml, Node, Piece, without_echoes};
use kindlm_types::{MemberPart, Problem, ProblemKind, pointer, suggest};
use serde_json::{Map, Value, json};

use super::Surroundings;
use super::sink::Sink;
use crate::schema::SHAPES;

/// The maximum number of unknown keys of the document that are reported.
const UNKNOWN: usize = 50;

/// The keys whose items are checked later, one by one.
const OPEN: [&str; 4] = ["models", "prompts", "tests", "gates"];

/// A document with a checked shape, except the items of the keys in [`OPEN`].
///
/// The later passes check these items.
#[derive(Debug)]
pub(super) struct Checked {
    /// The document. The values of the keys in [`OPEN`] are replaced by placeholders.
    pub(super) document: Value,
    /// The pointers of all problems.
    faulty: Vec<String>,
}

impl Checked {
    /// Returns true if there is a problem at or below a pointer.
    pub(super) fn is_faulty(&self, at: &str) -> bool {
        self.faulty
            .iter()
            .filter_map(|it| it.strip_prefix(at))
            .any(|it| it.is_empty() || it.starts_with('/'))
    }
}

/// Checks the shape of a document. Returns `None` if the file is empty or not a mapping.
pub(super) fn check(
    piece: Piece<'_>,
    around: &Surroundings<'_>,
    sink: &mut Sink,
) -> Option<Checked> {
    if matches!(piece.root.kind, Yaml::Null) && piece.source.slice(piece.root.span).is_empty() {
        let diagnostic = piece
            .error(Code::INVALID_VALUE, "", MemberPart::Value, "the file is empty")
            .with_help("`kindlm init` writes a file to start from");
        sink.push(diagnostic);
        return None;
    }
    let document = outline(piece.root);
    // Check a copy with placeholders for optional keys, and without providers that the schema does not contain.
    let mut copy = document.clone();
    // Models and prompts are optional in suites with agents, transcripts or commands.
    let needs_no_model =
        |it: &Node| ["transcript", "command"].iter().any(|key| it.get(key).is_some());
    let tests = piece.root.get("tests").map_or(&[][..], Node::items);
    add_optional(&mut copy, tests.iter().any(needs_no_model));
    if around.only_models {
        add_suite(&mut copy);
    }
    let known = around.known_providers;
    let typed = take_typed(known, &mut copy);
    let mut problems = SHAPES.root.problems(&copy);
    problems.extend(typed.iter().flat_map(|(name, it)| typed_problems(known, name, it)));
    let faulty: Vec<String> = problems.iter().map(|it| it.pointer.clone()).collect();
    for mut problem in without_echoes(problems) {
        if problem.pointer == "/kindlm" {
            "the version of the format must be the number 1".clone_into(&mut problem.message);
            let quoted = document.get("kindlm").is_some_and(Value::is_string);
            let how = if quoted { ", without quotes" } else { "" };
            problem.help = Some(format!("write `kindlm: 1`{how}"));
        }
        if problem.pointer.is_empty() && !document.is_object() {
            problem.help = Some(
                "a file begins with `kindlm: 1`, and has `project`, `suite` and `tests`; `kindlm init` writes one"
                    .to_owned(),
            );
        }
        if let Some(help) = key_help(known, &problem) {
            problem.help = Some(help);
        }
        // The keys in [`OPEN`] have placeholders as values. If the type is right, an empty value is the only possible
        // problem.
        let part = problem.pointer.trim_start_matches('/').to_owned();
        let is_empty = |it: &Value| match it {
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        if OPEN.contains(&part.as_str()) && document.get(&part).is_some_and(is_empty) {
            problem.message = format!("`{part}` {}", problem.message);
        }
        sink.push(piece.problem(problem));
    }
    if !document.is_object() {
        return None;
    }
    Some(Checked { document, faulty })
}

/// Returns help for a provider without `apiKeyEnv`, with the usual environment variable; `None` for other problems.
fn key_help(known: &Providers, problem: &Problem) -> Option<String> {
    let ProblemKind::MissingKey { key } = &problem.kind else { return None };
    let name = problem.pointer.strip_prefix("/providers/").filter(|_| key == "apiKeyEnv")?;
    let usual = known.find(name)?.meta.key_variable;
    let variable = usual.or_else(|| kindlm_providers::servers::find(name).map(|it| it.key))?;
    // The description of the key says whether it may be null.
    let may_be_null = problem.help.as_ref().is_some_and(|it| it.contains("`null`"));
    let null = if may_be_null { ", `apiKeyEnv: null` for a server without keys" } else { "" };
    Some(format!(
        "add `apiKeyEnv: {variable}` (the environment variable of the key){null}, or `apiKeyCommand` (the command line \
         that prints the key)"
    ))
}

/// Returns the document with placeholders for the keys in [`OPEN`]. A placeholder is empty if the value is empty.
///
/// The values of unknown keys become `null`. Unknown keys after the first [`UNKNOWN`] keys are left out.
fn outline(root: &Node) -> Value {
    if !matches!(root.kind, Yaml::Mapping(_)) {
        return match root.kind {
            Yaml::List(_) => json!([]),
            _ => root.to_json(),
        };
    }
    let properties = SHAPES.root.schema().get("properties");
    let is_known = |key: &str| properties.is_some_and(|it| it.get(key).is_some());
    let mut unknown = 0;
    let mut map = Map::new();
    for (key, node) in root.entries() {
        let value = if OPEN.contains(&&*key.name) {
            match &node.kind {
                Yaml::List(items) if !items.is_empty() => json!([0]),
                Yaml::Mapping(entries) if !entries.is_empty() => json!({"_": 0}),
                Yaml::List(_) => json!([]),
                Yaml::Mapping(_) => json!({}),
                _ => node.to_json(),
            }
        } else if is_known(&key.name) {
            node.to_json()
        } else {
            unknown += 1;
            if unknown > UNKNOWN {
                continue;
            }
            Value::Null
        };
        map.insert(key.name.to_string(), value);
    }
    Value::Object(map)
}

/// Adds placeholders for models and prompts if the suite may omit them.
fn add_optional(document: &mut Value, needs_no_model: bool) {
    let Value::Object(map) = document else { return };
    if needs_no_model || map.get("agents").is_some_and(|it| !it.is_null()) {
        map.entry("models").or_insert_with(|| json!([0]));
        map.entry("prompts").or_insert_with(|| json!({"_": 0}));
    }
}

/// Adds placeholders for all keys that a file with models only may omit.
fn add_suite(document: &mut Value) {
    let Value::Object(map) = document else { return };
    map.entry("project").or_insert_with(|| json!("models"));
    map.entry("suite").or_insert_with(|| json!({"name": "models"}));
    map.entry("tests").or_insert_with(|| json!([0]));
    map.entry("prompts").or_insert_with(|| json!({"_": 0}));
}

/// Removes and returns the providers that are not in the schema of the document.
///
/// Such providers have a `type`, or were added by the caller.
fn take_typed(known: &Providers, document: &mut Value) -> Vec<(String, Value)> {
    let Some(Value::Object(providers)) = document.get_mut("providers") else { return Vec::new() };
    let is_typed = |name: &str, config: &Value| {
        config.get(TYPE).is_some()
            || kindlm_providers::find(name).is_none() && known.find(name).is_some()
    };
    let names: Vec<String> = providers
        .iter()
        .filter(|(name, it)| is_typed(name, it))
        .map(|(name, _)| name.clone())
        .collect();
    let typed: Vec<(String, Value)> = names
        .into_iter()
        .filter_map(|name| providers.shift_remove(&name).map(|config| (name, config)))
        .collect();
    if providers.is_empty()
        && !typed.is_empty()
        && let Value::Object(map) = document
    {
        map.shift_remove("providers");
    }
    typed
}

/// Returns the shape problems of a provider that [`take_typed`] has removed.
fn typed_problems(known: &Providers, name: &str, config: &Value) -> Vec<Problem> {
    let at = format!("/providers/{}", pointer::segment(name));
    let Some((registration, own)) = kindlm_providers::configured(known, name, config) else {
        let at = format!("{at}/{TYPE}");
        let ids = known.ids();
        let problem = match config.get(TYPE).and_then(Value::as_str) {
            Some(kind) => Problem::new(at, format!("there is no provider `{kind}`"))
                .with_help(suggest(kind, "providers", ids)),
            None => Problem::new(at, "expected the name of a provider".to_owned())
                .with_help(suggest("", "providers", ids)),
        };
        return vec![problem];
    };
    let problems = Shape::generate(registration.schema).problems(&own);
    problems.into_iter().map(|it| it.under(&at)).collect()
}
