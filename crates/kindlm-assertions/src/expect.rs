//! Makes checks out of an `expect` block.

use std::sync::{LazyLock, OnceLock};

use kindlm_schema::{Shape, normalise_numbers};
use kindlm_types::{Problem, ProblemKind, Severity, nearest};
use serde_json::{Map, Value, json};

use crate::{Build, Check, Options, Own, REGISTRY, Registration, Setup};

/// The key of the list form.
const LIST: &str = "assert";

/// What `not-` is written as before an id.
const NOT: &str = "not-";

/// Makes checks out of a whole `expect` block, and finds everything that is wrong with it.
///
/// Checks come in the order of [`REGISTRY`], those of the list form last and in the order of the file;
/// problems come in the order of the file, with pointers from the block. A check with a problem is left out.
pub fn compile(expect: &Value, setup: &Setup<'_>) -> (Vec<Check>, Vec<Problem>) {
    let mut compiler = Compiler { setup, checks: Vec::new(), problems: Vec::new() };
    compiler.block(expect, "");
    compiler.checks.sort_by_key(|(rank, _)| *rank);
    (compiler.checks.into_iter().map(|(_, check)| check).collect(), compiler.problems)
}

/// JSON Schema of an `expect` block, with definitions under `$defs`. For editors, and for embedding.
pub fn expect_schema() -> Value {
    let mut generator = kindlm_schema::generator();
    let mut nested = Map::new();
    let mut entries = Vec::new();
    for registration in REGISTRY {
        let schema = (registration.schema)(&mut generator).to_value();
        if let Some(path) = registration.meta.path {
            let mut place = with_summary(schema.clone(), registration);
            if path.list {
                place = json!({"type": "array", "items": place, "description": registration.meta.summary});
            }
            insert(&mut nested, path.pointer, place);
        }
        let ids = [registration.meta.id.to_owned(), format!("{NOT}{}", registration.meta.id)];
        entries.push(json!({
            "if": {"properties": {"type": {"enum": ids}}, "required": ["type"]},
            "then": listed(schema, registration),
        }));
    }
    let ids: Vec<Value> = known_types().into_iter().map(Value::from).collect();
    let item = json!({
        "type": "object",
        "properties": {"type": {"type": "string", "enum": ids, "description": "The assertion's id; `not-` turns it round."}},
        "required": ["type"],
        "allOf": entries,
    });
    let list = json!({"type": "array", "items": item, "description": "Any assertion, by its id."});
    insert(&mut nested, &format!("/{LIST}"), list);
    let block = object(nested);
    match schemars::Schema::try_from(block) {
        Ok(schema) => kindlm_schema::finish(schema, generator),
        // Unreachable: what was put together above is an object.
        Err(_) => json!({"type": "object"}),
    }
}

/// An object schema with these properties and no others.
fn object(properties: Map<String, Value>) -> Value {
    let mut schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    schema["properties"] = Value::Object(properties);
    schema
}

/// Puts a schema at a place such as `/guardrails/pii`, making the objects around it.
fn insert(properties: &mut Map<String, Value>, pointer: &str, schema: Value) {
    let path = pointer.trim_start_matches('/');
    match path.split_once('/') {
        None => _ = properties.insert(path.to_owned(), schema),
        Some((key, rest)) => {
            let container = properties.entry(key).or_insert_with(|| object(Map::new()));
            if let Some(Value::Object(inner)) = container.get_mut("properties") {
                insert(inner, rest, schema);
            }
        }
    }
}

fn with_summary(mut schema: Value, registration: &Registration) -> Value {
    if let Value::Object(map) = &mut schema {
        map.insert("description".to_owned(), registration.meta.summary.into());
    }
    schema
}

/// The schema of a list entry: the assertion's own keys and the options that every entry takes.
fn listed(schema: Value, registration: &Registration) -> Value {
    let mut schema = with_summary(schema, registration);
    let Value::Object(map) = &mut schema else { return schema };
    let properties = map.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        for (key, option) in option_schemas() {
            properties.entry(key).or_insert(option);
        }
    }
    let required = map.entry("required").or_insert_with(|| json!([]));
    if let Value::Array(required) = required {
        required.insert(0, json!("type"));
    }
    schema
}

fn option_schemas() -> [(&'static str, Value); 7] {
    let threshold = "The least score that passes, instead of the assertion's own decision";
    [
        (
            "type",
            json!({"type": "string", "description": "The assertion's id; `not-` turns it round"}),
        ),
        ("threshold", json!({"type": "number", "description": threshold})),
        ("atLeast", json!({"type": "number", "description": "Another name of `threshold`"})),
        (
            "severity",
            json!({"enum": ["gate", "soft"], "default": "gate", "description": "`gate` must hold, `soft` is a score to watch"}),
        ),
        (
            "weight",
            json!({"type": "number", "minimum": 0, "default": 1, "description": "The share in the weighted mean score"}),
        ),
        (
            "metric",
            json!({"type": "string", "minLength": 1, "description": "The named score that the check contributes to"}),
        ),
        (
            "label",
            json!({"type": "string", "minLength": 1, "description": "Shown instead of the assertion's own label"}),
        ),
    ]
}

/// The compiled shapes of one entry of the registry, made when they are first needed.
#[derive(Default)]
struct Shapes {
    nested: OnceLock<Shape>,
    listed: OnceLock<Shape>,
}

static SHAPES: LazyLock<Vec<Shapes>> =
    LazyLock::new(|| REGISTRY.iter().map(|_| Shapes::default()).collect());

/// The shape of the entry at `rank`; `None` cannot happen, as there are as many shapes as entries.
fn shape(rank: usize, list_form: bool) -> Option<&'static Shape> {
    let (shapes, registration) = (SHAPES.get(rank)?, REGISTRY.get(rank)?);
    Some(if list_form {
        shapes.listed.get_or_init(|| {
            let mut generator = kindlm_schema::generator();
            let own = (registration.schema)(&mut generator).to_value();
            let schema = schemars::Schema::try_from(listed(own, registration)).unwrap_or_default();
            Shape::new(kindlm_schema::finish(schema, generator))
        })
    } else {
        shapes.nested.get_or_init(|| Shape::generate(registration.schema))
    })
}

/// Every word that `type` may be; the plain ids first, so that suggestions prefer them.
fn known_types() -> Vec<String> {
    let ids = REGISTRY.iter().map(|it| it.meta.id);
    ids.clone().map(str::to_owned).chain(ids.map(|id| format!("{NOT}{id}"))).collect()
}

struct Compiler<'a> {
    setup: &'a Setup<'a>,
    /// With the rank by which they are sorted.
    checks: Vec<(usize, Check)>,
    problems: Vec<Problem>,
}

impl Compiler<'_> {
    /// Reads the block itself (`at` is empty) or an object within it that holds assertions.
    fn block(&mut self, value: &Value, at: &str) {
        let Value::Object(map) = value else {
            let message = format!("expected an object, found {}", name(value));
            let help = format!("keys: {}", known_keys(at).join(", "));
            self.problems.push(Problem::new(at, message).with_help(help));
            return;
        };
        for (key, value) in map {
            let here = format!("{at}/{}", escape(key));
            let rank = REGISTRY
                .iter()
                .position(|it| it.meta.path.is_some_and(|path| path.pointer == here));
            if let Some(rank) = rank {
                self.place(rank, value, &here);
            } else if at.is_empty() && key == LIST {
                self.list(value, &here);
            } else if is_container(&here) {
                self.block(value, &here);
            } else {
                let known = known_keys(at);
                let known = known.iter().map(String::as_str);
                self.problems.push(Problem::unknown_key(here, key, known));
            }
        }
    }

    /// Reads what stands at an assertion's own place.
    fn place(&mut self, rank: usize, value: &Value, at: &str) {
        let is_list = REGISTRY.get(rank).and_then(|it| it.meta.path).is_some_and(|path| path.list);
        match value {
            Value::Array(items) if is_list => {
                for (index, item) in items.iter().enumerate() {
                    self.piece(rank, item, &format!("{at}/{index}"));
                }
            }
            _ if is_list => {
                let message = format!("expected a list, found {}", name(value));
                let help = "every check is one item of a list, even if there is only one";
                self.problems.push(Problem::new(at, message).with_help(help));
            }
            _ => self.piece(rank, value, at),
        }
    }

    /// Reads one piece of configuration at an assertion's own place.
    fn piece(&mut self, rank: usize, value: &Value, at: &str) {
        let value = normalise_numbers(value.clone());
        let problems = shape(rank, false).map(|it| it.problems(&value)).unwrap_or_default();
        if problems.is_empty() {
            self.build(rank, rank, &value, Options::default(), at);
        } else {
            self.report(problems, at);
        }
    }

    /// Reads the list form.
    fn list(&mut self, value: &Value, at: &str) {
        let Value::Array(items) = value else {
            let message = format!("expected a list, found {}", name(value));
            let help = "every check is one item of a list, even if there is only one";
            self.problems.push(Problem::new(at, message).with_help(help));
            return;
        };
        for (index, item) in items.iter().enumerate() {
            self.entry(item, &format!("{at}/{index}"));
        }
    }

    /// Reads one entry of the list form.
    fn entry(&mut self, item: &Value, at: &str) {
        let Value::Object(_) = item else {
            let message = format!("expected an object, found {}", name(item));
            let help = "an entry is an object with the assertion's id in `type`, such as `{ type: latency, maxMs: 500 }`";
            self.problems.push(Problem::new(at, message).with_help(help));
            return;
        };
        let Some((rank, negate)) = self.which(item, at) else { return };
        let mut value = normalise_numbers(item.clone());
        let problems = shape(rank, true).map(|it| it.problems(&value)).unwrap_or_default();
        if !problems.is_empty() {
            self.report(problems, at);
            return;
        }
        let Value::Object(map) = &mut value else { return };
        if map.contains_key("threshold") && map.contains_key("atLeast") {
            let problem =
                Problem::key(format!("{at}/atLeast"), "`atLeast` is another name of `threshold`")
                    .with_help("keep one of the two");
            self.problems.push(problem);
            return;
        }
        let options = take_options(map, negate);
        self.build(rank, REGISTRY.len(), &value, options, at);
    }

    /// Which assertion an entry's `type` names, and whether it is turned round.
    fn which(&mut self, item: &Value, at: &str) -> Option<(usize, bool)> {
        let find = |id: &str| REGISTRY.iter().position(|it| it.meta.id == id);
        let problem = match item.get("type") {
            Some(Value::String(id)) => {
                // An assertion whose own id begins with `not-` would win.
                let known = find(id)
                    .map(|rank| (rank, false))
                    .or_else(|| id.strip_prefix(NOT).and_then(find).map(|rank| (rank, true)));
                if known.is_some() {
                    return known;
                }
                unknown_type(id).under(at)
            }
            Some(other) => Problem::new(
                format!("{at}/type"),
                format!("expected the id of an assertion, found {}", name(other)),
            )
            .with_help(format!("known assertions: {}", ids())),
            None => Problem::new(at, "`type` is required")
                .with_kind(ProblemKind::MissingKey { key: "type".to_owned() })
                .with_help(format!("`type`: the id of an assertion: {}", ids())),
        };
        self.problems.push(problem);
        None
    }

    fn build(&mut self, rank: usize, order: usize, value: &Value, mut options: Options, at: &str) {
        let Some(registration) = REGISTRY.get(rank) else { return };
        let built = match registration.build {
            Build::Plain(build) => build(value, self.setup),
            Build::Own(build) => {
                let own = Own {
                    negate: std::mem::take(&mut options.negate),
                    threshold: options.threshold.take(),
                };
                build(value, own, self.setup)
            }
        };
        match built {
            Ok(assertion) => {
                let check = Check { options, ..Check::new(&registration.meta, assertion) };
                self.checks.push((order, check));
            }
            Err(problems) => self.report(problems, at),
        }
    }

    fn report(&mut self, problems: Vec<Problem>, at: &str) {
        self.problems.extend(problems.into_iter().map(|it| it.under(at)));
    }
}

/// Removes the options from an entry, so that the assertion's own keys remain.
fn take_options(map: &mut Map<String, Value>, negate: bool) -> Options {
    map.shift_remove("type");
    let mut options = Options { negate, ..Options::default() };
    let mut text = |key: &str| map.shift_remove(key)?.as_str().map(str::to_owned);
    options.metric = text("metric");
    options.label = text("label");
    if text("severity").as_deref() == Some("soft") {
        options.severity = Severity::Soft;
    }
    let mut number = |key: &str| map.shift_remove(key)?.as_f64();
    options.threshold = number("threshold").or_else(|| number("atLeast"));
    options.weight = number("weight").unwrap_or(options.weight);
    options
}

fn unknown_type(id: &str) -> Problem {
    let types = known_types();
    let help = match nearest(id, types.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known assertions: {}", ids()),
    };
    Problem::new("/type", format!("there is no assertion `{id}`")).with_help(help)
}

fn ids() -> String {
    let ids: Vec<String> = REGISTRY.iter().map(|it| format!("`{}`", it.meta.id)).collect();
    ids.join(", ")
}

/// Whether some assertion has its place below this one.
fn is_container(pointer: &str) -> bool {
    REGISTRY
        .iter()
        .filter_map(|it| it.meta.path)
        .any(|path| path.pointer.strip_prefix(pointer).is_some_and(|rest| rest.starts_with('/')))
}

/// The keys that the object at this place may have.
fn known_keys(at: &str) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for path in REGISTRY.iter().filter_map(|it| it.meta.path) {
        let below = path.pointer.strip_prefix(at).and_then(|rest| rest.strip_prefix('/'));
        let key = below.and_then(|rest| rest.split('/').next());
        if let Some(key) = key.filter(|key| !keys.iter().any(|it| it == key)) {
            keys.push(key.to_owned());
        }
    }
    if at.is_empty() {
        keys.push(LIST.to_owned());
    }
    keys
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
