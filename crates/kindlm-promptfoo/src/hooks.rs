//! `extensions`: programs that change the suite before it runs, and programs that get its results.
//!
//! `beforeAll` and `beforeEach` run while the config is read. `afterEach` and `afterAll` get results, so the suite has
//! them as `extensions`.

use kindlm_source::{Kind, Node, Span};
use serde_json::{Map, Value, json};

use super::Translator;
use super::build::{list, map, with};
use super::files::path;
use super::programs::{Program, split};
use super::vars::{Vars, merged};

/// The names of promptfoo's hooks. A function that is named after a hook is called only for this hook. Its first
/// argument is the context. Any other function is called for every hook, with the name of the hook as its first
/// argument.
const HOOKS: [&str; 4] = ["beforeAll", "beforeEach", "afterEach", "afterAll"];

/// The parts of the suite that `beforeAll` may change.
const PARTS: [&str; 5] = ["tests", "scenarios", "defaultTest", "nunjucksFilters", "derivedMetrics"];

/// A function of `extensions`.
#[derive(Clone, Debug)]
pub(super) struct Hook {
    span: Span,
    program: Program,
    /// The hook after which the function is named; `None` if it is called for every hook.
    name: Option<&'static str>,
    /// The text that names the function.
    written: Node,
}

impl Hook {
    /// Returns true if the function is called for the hook with this name.
    pub(super) fn runs_for(&self, hook: &str) -> bool {
        self.name.is_none_or(|it| it == hook)
    }
}

impl Translator<'_> {
    /// Reads `extensions`.
    pub(super) fn hooks(&mut self, root: &Node) -> Vec<Hook> {
        let Some(block) = root.get("extensions") else { return Vec::new() };
        let mut hooks = Vec::new();
        for item in block.items() {
            let named = item.text().and_then(path).map(|it| (it.to_owned(), split(it)));
            let Some((written, Some(function))) =
                named.as_ref().map(|(written, (_, function))| (written, *function))
            else {
                let help = "name a file and a function of it: `file://hooks.js:beforeAll`";
                self.error(item.span, "expected an extension", Some(help));
                continue;
            };
            let name = HOOKS.into_iter().find(|it| *it == function);
            if let Some(program) = self.program(item.span, written, None) {
                let written = item.clone();
                hooks.push(Hook { span: item.span, program, name, written });
            }
        }
        if !matches!(block.kind, Kind::List(_) | Kind::Null) {
            self.error(block.span, "expected a list of extensions", None);
        }
        hooks
    }

    /// Returns the `extensions` of the suite: the functions that get its results.
    pub(super) fn after_hooks(hooks: &[Hook], span: Span) -> Option<Node> {
        let after = hooks.iter().filter(|it| it.runs_for("afterEach") || it.runs_for("afterAll"));
        let written: Vec<Node> = after.map(|it| it.written.clone()).collect();
        (!written.is_empty()).then(|| list(span, written))
    }

    /// Calls all functions for a hook, one after another. Each function gets the context that the function before it
    /// returned.
    ///
    /// The first context has `value` under the key `part`. Returns the last value of `part`, with the source location
    /// of the function that returned it. Returns `None` if no function returned a context, or after an error, which is
    /// reported.
    fn run_hooks(
        &mut self,
        hooks: &[Hook],
        name: &'static str,
        part: &str,
        value: &Value,
    ) -> Option<(Span, Value)> {
        let mut context = json!({part: value});
        let mut changed = None;
        for hook in hooks.iter().filter(|it| it.runs_for(name)) {
            let args = match hook.name {
                Some(_) => [context.clone(), json!({"hookName": name})],
                None => [json!(name), context.clone()],
            };
            let what = format!("`{name}` of the extension");
            let returned = self.call_hook(hook.span, &hook.program, &what, &args)?;
            if returned.is_null() {
                continue;
            }
            if !returned[part].is_object() {
                let message = format!("`{name}` of the extension returned no `{part}`");
                let help = "return the context, or nothing";
                self.error(hook.span, message, Some(help));
                return None;
            }
            context = returned;
            changed = Some(hook.span);
        }
        changed.map(|span| (span, context[part].take()))
    }

    /// Runs `beforeAll`, and returns the config with the parts that it changed.
    pub(super) fn before_all(&mut self, root: &Node, hooks: &[Hook]) -> Node {
        if !hooks.iter().any(|it| it.runs_for("beforeAll")) {
            return root.clone();
        }
        let mut root = root.clone();
        if let Some(block) = root.get("tests").cloned() {
            let tests = self.list_of(&block);
            root = with(&root, "tests", list(block.span, tests));
        }
        // The prompts are read again later, which reports their problems.
        let count = self.diagnostics.len();
        let prompts = self.prompts(&root);
        self.diagnostics.truncate(count);
        let has_functions = prompts.iter().any(|it| it.program.is_some());
        let prompts: Vec<Value> = prompts.iter().map(super::prompts::Prompt::for_hooks).collect();
        let mut suite = Map::new();
        suite.insert("prompts".to_owned(), Value::from(prompts.clone()));
        // In promptfoo a suite always has a default test.
        suite.insert("defaultTest".to_owned(), json!({"options": {}, "assert": []}));
        for key in PARTS.into_iter().chain(["description", "providers", "targets", "extensions"]) {
            suite.extend(root.get(key).map(|it| (key.to_owned(), it.to_json())));
        }
        let suite = Value::from(suite);
        let Some((span, changed)) = self.run_hooks(hooks, "beforeAll", "suite", &suite) else {
            return root;
        };
        for key in PARTS {
            let new = &changed[key];
            if suite[key] != *new {
                let old = root.get(key).cloned();
                root = with(&root, key, changed_node(span, old.as_ref(), new));
            }
        }
        if changed["prompts"] != Value::from(prompts) {
            if has_functions {
                let help = "change the prompts in the prompt functions";
                let what = "a `beforeAll` that changes prompts beside prompt functions";
                self.unsupported(span, what, Some(help));
            }
            root = with(&root, "prompts", Node::at(span, &changed["prompts"]));
        }
        root
    }

    /// Runs `beforeEach` for a test, with each of its combinations of variables.
    ///
    /// Returns the tests that replace this test. They include the settings of the default test. Returns `None` if the
    /// hook changes nothing.
    pub(super) fn before_each(
        &mut self,
        hooks: &[Hook],
        test: &Node,
        default: Option<&Node>,
    ) -> Option<Vec<Node>> {
        if !hooks.iter().any(|it| it.runs_for("beforeEach")) {
            return None;
        }
        let whole = self.with_default(test, default);
        let vars = whole.get("vars").map(|it| it.entries().to_vec()).unwrap_or_default();
        let expands = whole.get("options").and_then(|it| it.get("disableVarExpansion"));
        let expands = expands.is_none_or(|it| it.to_json() != Value::Bool(true));
        let mut tests = Vec::new();
        let mut is_changed = false;
        for vars in self.combinations(&vars, expands) {
            let own =
                with(&whole, "vars", Node { kind: Kind::Mapping(vars.into()), ..whole.clone() });
            let given = own.to_json();
            match self.run_hooks(hooks, "beforeEach", "test", &given) {
                Some((span, changed)) if changed != given => {
                    is_changed = true;
                    tests.push(changed_node(span, Some(&own), &changed));
                }
                _ => tests.push(own),
            }
        }
        is_changed.then_some(tests)
    }

    /// Returns a test with the entries of the default test.
    ///
    /// Variables, options and metadata are merged by key, and assertions are added. Any other entry of the test
    /// replaces the default.
    fn with_default(&mut self, test: &Node, default: Option<&Node>) -> Node {
        let empty = map(test.span, []);
        let default = default.unwrap_or(&empty);
        let mut whole = merged(default.entries(), test.entries());
        let drops = test.get("options").and_then(|it| it.get("disableDefaultAsserts"));
        let drops = drops.is_some_and(|it| it.to_json() == Value::Bool(true));
        for (key, value) in &mut whole {
            let (first, second) = (default.get(&key.name), test.get(&key.name));
            let both = match &*key.name {
                "vars" => {
                    let vars: Vars = merged(&self.vars(first), &self.vars(second));
                    Kind::Mapping(vars.into())
                }
                "options" | "metadata" => {
                    let entries =
                        |it: Option<&Node>| it.map(Node::entries).unwrap_or_default().to_vec();
                    Kind::Mapping(merged(&entries(first), &entries(second)).into())
                }
                "assert" if !drops => {
                    let items = [first, second].into_iter().flatten().flat_map(Node::items);
                    Kind::List(items.cloned().collect::<Vec<_>>().into())
                }
                _ => continue,
            };
            *value = Node { kind: both, ..value.clone() };
        }
        Node { kind: Kind::Mapping(whole.into()), ..test.clone() }
    }
}

/// Returns the node of a changed value. Unchanged parts keep their source locations.
fn changed_node(span: Span, old: Option<&Node>, new: &Value) -> Node {
    let Some(old) = old else { return Node::at(span, new) };
    if old.to_json() == *new {
        return old.clone();
    }
    match new {
        Value::Array(items) => {
            let item = |(at, it): (usize, &Value)| changed_node(span, old.items().get(at), it);
            list(old.span, items.iter().enumerate().map(item))
        }
        Value::Object(entries) => {
            let changed = entries.iter();
            let changed =
                changed.map(|(key, it)| (key.clone(), changed_node(span, old.get(key), it)));
            super::build::entries(old.span, changed)
        }
        other => Node::at(span, other),
    }
}
