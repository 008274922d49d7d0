//! The compiler of `expect` blocks into checks.

mod entry;
mod judges;
mod missing;
mod outer_templates;
mod reference;
mod schema;
mod value;

use std::cell::OnceCell;
use std::sync::Arc;

use kindlm_schema::normalise_numbers;
use kindlm_types::{NOT, Problem, nearest_few, pointer};
use serde_json::{Map, Value};

use crate::core::assertion::RegisteredAssertion;
use crate::core::judging::JudgeBlock;
use crate::shared::template::Variables;
use crate::{Build, Check, EntryOptions, Registration, Registry, Setup, Traits};
use judges::Judges;

pub use schema::expect_schema;

/// The key of a list of checks.
const LIST: &str = "assert";

/// The key for the options about judges in a block.
pub(crate) const JUDGING: &str = "judging";

/// Returns the checks of a whole `expect` block, and all of its problems.
///
/// Checks come in the order of the [`Registry`]. Checks of the `assert` list come last, in the order of the file.
///
/// Problems come in the order of the file, except the problems of `judging`. The pointers of problems start at the
/// block. A check with a problem is left out, unless
/// [all of its problems are warnings](kindlm_types::ProblemKind::is_warning).
pub fn compile(expect: &Value, setup: &Setup<'_>) -> (Vec<Check>, Vec<Problem>) {
    compile_with(expect, setup, &Map::new())
}

/// Compiles a block like [`compile`], with variables for the templates of the checks.
///
/// If [`Setup::has_templates`] is false for the block, the checks do not depend on the variables.
pub fn compile_with(
    expect: &Value,
    setup: &Setup<'_>,
    vars: &Map<String, Value>,
) -> (Vec<Check>, Vec<Problem>) {
    let mut compiler = Compiler {
        setup,
        vars,
        variables: OnceCell::new(),
        judging: setup.judging.clone(),
        in_set: false,
        names_judges: false,
        block: None,
        checks: Vec::new(),
        problems: Vec::new(),
    };
    compiler.judging(expect);
    compiler.block(expect, "");
    compiler.idle_judging();
    compiler.checks.sort_by_key(|(rank, _)| *rank);
    (compiler.checks.into_iter().map(|(_, check)| check).collect(), compiler.problems)
}

/// Returns all valid values of `type`; plain ids come first, so that suggestions prefer them.
fn known_types(registry: &Registry) -> Vec<String> {
    let ids = registry.iter().map(|it| it.meta.id);
    ids.clone().map(str::to_owned).chain(ids.map(|id| format!("{NOT}{id}"))).collect()
}

struct Compiler<'a> {
    setup: &'a Setup<'a>,
    vars: &'a Map<String, Value>,
    /// The variables for templates, which are created when the first template needs them.
    variables: OnceCell<Variables>,
    /// The merged judging options of the suite and the block. The options of a check take precedence.
    judging: JudgeBlock,
    /// True while the entries of an `assert-set` are compiled.
    in_set: bool,
    /// True if the block names judges.
    names_judges: bool,
    /// The `judging` options of the block; `None` if the block has none, or if they are invalid.
    block: Option<JudgeBlock>,
    /// The compiled checks, each with the rank of its assertion in the registry. Checks are sorted by rank.
    checks: Vec<(usize, Check)>,
    problems: Vec<Problem>,
}

impl Compiler<'_> {
    /// Compiles an object of assertions: the block itself (`at` is empty), or a part of it.
    fn block(&mut self, value: &Value, at: &str) {
        let Value::Object(map) = value else {
            let message = format!("expected an object, found {}", name(value));
            let help = format!("keys: {}", known_keys(&self.setup.registry, at).join(", "));
            self.problems.push(Problem::new(at, message).with_help(help));
            return;
        };
        for (key, value) in map {
            let here = format!("{at}/{}", pointer::segment(key));
            let rank = self
                .setup
                .registry
                .iter()
                .position(|it| it.meta.path.is_some_and(|path| path.pointer == here));
            if let Some(rank) = rank {
                self.place(rank, value, &here);
            } else if at.is_empty() && key == LIST {
                self.list(value, &here);
            } else if at.is_empty() && key == JUDGING {
                // `judging` was compiled before all checks, because the checks depend on it.
            } else if is_container(&self.setup.registry, &here) {
                self.block(value, &here);
            } else {
                let known = known_keys(&self.setup.registry, at);
                let known = known.iter().map(String::as_str);
                self.problems.push(Problem::unknown_key(here, key, known));
            }
        }
    }

    /// Compiles the value at an assertion's own place, such as `/toolCalls`.
    fn place(&mut self, rank: usize, value: &Value, at: &str) {
        let Some(entry) = self.setup.registry.get(rank) else { return };
        let is_list = entry.registration.meta.path.is_some_and(|path| path.list);
        match value {
            Value::Array(items) if is_list => {
                for (index, item) in items.iter().enumerate() {
                    self.piece(rank, entry, item, &format!("{at}/{index}"));
                }
            }
            _ if is_list => {
                let message = format!("expected a list, found {}", name(value));
                let help = "every check is one item of a list, even if there is only one";
                self.problems.push(Problem::new(at, message).with_help(help));
            }
            _ => self.piece(rank, entry, value, at),
        }
    }

    /// Compiles one check at an assertion's own place.
    fn piece(&mut self, rank: usize, entry: &RegisteredAssertion, value: &Value, at: &str) {
        let mut value = normalise_numbers(value.clone());
        let problems = entry.shape(false).problems(&value);
        if !problems.is_empty() {
            self.report(problems, at);
            return;
        }
        let registration = entry.registration;
        let before = self.faults();
        let written = self.templates(&value);
        self.render_outer(registration.build, &mut value, at);
        if self.faults() > before {
            return;
        }
        // Only entries of the `assert` list have entry options.
        let Some(judges) = self.panel(registration, &mut value, at) else { return };
        let built = match registration.build {
            Build::Plain(build) | Build::Judged(build) => build(&value, self.setup),
            Build::EntryOptions(build) | Build::Script(build) | Build::Graded(build) => {
                build(&value, EntryOptions::default(), self.setup)
            }
            Build::Set(build) => build(&value, Vec::new(), EntryOptions::default(), self.setup),
        };
        let Judges { panel, is_left_open: leaves_judge_open, judging } = judges;
        match built {
            Ok(assertion) => {
                let check = Check::new(&registration.meta, panel.judging(assertion));
                let (at, config) = (at.to_owned(), config_of(&check, &value));
                let own = EntryOptions::default();
                let written = written.map(|it| self.written(registration, it, &value, own));
                let check = Check { written, config, at, judging, leaves_judge_open, ..check };
                self.checks.push((rank, check));
            }
            Err(problems) => self.report(problems, at),
        }
    }

    /// Returns a copy of the configuration if it has templates and the setup keeps written labels; `None` otherwise.
    fn templates(&self, value: &Value) -> Option<Value> {
        let is_kept = self.setup.keeps_written_labels && self.setup.has_templates(value);
        is_kept.then(|| value.clone())
    }

    /// Returns the traits that a check has if its templates are not rendered. They have no label if the check cannot be
    /// built without rendering.
    ///
    /// `written` is the configuration with its templates; `value` is the configuration that the check was built from.
    fn written(
        &self,
        registration: &Registration,
        mut written: Value,
        value: &Value,
        own: EntryOptions,
    ) -> Arc<Traits> {
        // `value` has no options about judges any more, so remove them from `written` too.
        if let (Some(written), Some(kept)) = (written.as_object_mut(), value.as_object()) {
            written.retain(|key, _| kept.contains_key(key));
        }
        let built = match registration.build {
            Build::Plain(build) | Build::Judged(build) => build(&written, self.setup).ok(),
            Build::EntryOptions(build) | Build::Script(build) | Build::Graded(build) => {
                build(&written, own, self.setup).ok()
            }
            // The label of an `assert-set` is fixed.
            Build::Set(_) => None,
        };
        Arc::new(built.map_or(Traits::OF_RECORD, |it| it.traits()))
    }

    /// Compiles the `assert` list.
    fn list(&mut self, value: &Value, at: &str) {
        let checks = self.entries(value, at);
        self.checks.extend(checks.into_iter().map(|it| (self.setup.registry.len(), it)));
    }

    /// Returns the number of problems that prevent a check; warnings do not count.
    fn faults(&self) -> usize {
        self.problems.iter().filter(|it| !it.kind.is_warning()).count()
    }

    /// Reports the missing variables of the templates in a value, if the setup reports missing variables.
    fn report_missing(&mut self, value: &Value, at: &str) {
        if self.setup.tells_missing {
            let missing = missing::missing(value, self.variables(), self.vars);
            self.report(missing, at);
        }
    }

    fn report(&mut self, problems: Vec<Problem>, at: &str) {
        self.problems.extend(problems.into_iter().map(|it| it.under(at)));
    }
}

/// Returns the configuration of a check, for the specification of the test in reports.
///
/// Returns `None` if the assertion's own label already shows the whole configuration, or if results hide the value.
fn config_of(check: &Check, value: &Value) -> Option<Arc<str>> {
    let label = check.traits.label.as_ref().filter(|_| check.options.label.is_none());
    let is_described = label.is_some_and(|it| has_all(it, value));
    (!is_described && !check.traits.hides_value).then(|| value.to_string().into())
}

/// Returns true if a label has all texts and numbers of a value, and no boolean in the value is true.
fn has_all(label: &str, value: &Value) -> bool {
    let is_word = |number: &str| {
        let mut words = label.split(|it: char| !it.is_ascii_digit() && it != '.');
        words.any(|it| it.trim_end_matches('.') == number)
    };
    match value {
        Value::Null => true,
        Value::Bool(is_on) => !is_on,
        Value::Number(number) => is_word(&number.to_string()),
        Value::String(text) => label.contains(text.as_str()),
        Value::Array(items) => items.iter().all(|it| has_all(label, it)),
        Value::Object(fields) => fields.values().all(|it| has_all(label, it)),
    }
}

/// The advice for an entry whose `type` is missing or not a text.
const EXAMPLES: &str = "such as `contains` or `javascript`; `kindlm assertions` lists all";

/// The number of suggestions for an unknown assertion.
const SUGGESTED: usize = 3;

/// Assertions of promptfoo that KindLM does not have, each with advice.
const ELSEWHERE: [(&str, &str); 2] = [
    (
        "search-rubric",
        "no judge searches the web; put the facts that it needs into the `value` of `llm-rubric`",
    ),
    ("agent-rubric", "no judge is an agent; write the criterion into the `value` of `llm-rubric`"),
];

fn unknown_type(registry: &Registry, id: &str) -> Problem {
    let plain = id.strip_prefix(NOT).unwrap_or(id);
    if let Some((_, help)) = ELSEWHERE.iter().find(|(name, _)| *name == plain) {
        return Problem::new("/type", format!("`{plain}` is not part of KindLM")).with_help(*help);
    }
    let types = known_types(registry);
    let near = nearest_few(id, types.iter().map(String::as_str), SUGGESTED);
    let near: Vec<String> = near.iter().map(|it| format!("`{it}`")).collect();
    let help = match near.split_last() {
        None => "`kindlm assertions` lists all".to_owned(),
        Some((only, [])) => format!("did you mean {only}?"),
        Some((last, others)) => {
            format!("did you mean {} or {last}? `kindlm assertions` lists all", others.join(", "))
        }
    };
    Problem::new("/type", format!("there is no assertion `{id}`")).with_help(help)
}

/// Returns true if an assertion has its place below this pointer.
fn is_container(registry: &Registry, pointer: &str) -> bool {
    registry
        .iter()
        .filter_map(|it| it.meta.path)
        .any(|path| path.pointer.strip_prefix(pointer).is_some_and(|rest| rest.starts_with('/')))
}

/// Returns the keys that the object at this place may have.
fn known_keys(registry: &Registry, at: &str) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for path in registry.iter().filter_map(|it| it.meta.path) {
        let below = path.pointer.strip_prefix(at).and_then(|rest| rest.strip_prefix('/'));
        let key = below.and_then(|rest| rest.split('/').next());
        if let Some(key) = key.filter(|key| !keys.iter().any(|it| it == key)) {
            keys.push(key.to_owned());
        }
    }
    if at.is_empty() {
        keys.extend([LIST, JUDGING].map(str::to_owned));
    }
    keys
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
