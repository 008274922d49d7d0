//! Tests: in place, in files, from scenarios; one for each combination of variables, prompt and group of providers.

use std::collections::HashSet;
use std::rc::Rc;

use super::Translator;
use super::asserts::expected;
use super::build::{list, map, number, text, unique};
use super::files::{extension, is_script, path};
use super::prompts::{Prompt, Prompts};
use super::providers::{Group, Providers};
use super::vars::{Vars, merged};
use crate::source::Span;
use crate::tree::{Key, Kind, Node};

/// What is said of a test or of all tests. Nodes of the test stand above those of the defaults.
#[derive(Clone, Default)]
struct Said {
    vars: Vars,
    asserts: Vec<Node>,
    threshold: Option<Node>,
    transform: Option<Node>,
    prefix: String,
    suffix: String,
    expand: Option<bool>,
    description: Option<String>,
    prompts: Option<Node>,
    providers: Option<Node>,
}

/// Keys of a test that do nothing here.
const INERT: [&str; 2] = ["metadata", "author"];

impl Translator<'_> {
    pub(super) fn tests(&mut self, root: &Node, prompts: &Prompts, providers: &Providers) -> Node {
        let defaults = self.default_test(root);
        let mut written: Vec<(Span, Said)> = Vec::new();
        match root.get("tests") {
            Some(block) => self.list_of(block, &defaults, &mut written),
            // Without tests promptfoo sends each prompt once.
            None if root.get("scenarios").is_none() => {
                written.push((root.span, defaults.clone()));
            }
            None => {}
        }
        if let Some(block) = root.get("scenarios") {
            self.scenarios(block, &defaults, &mut written);
        }
        let mut names = HashSet::new();
        let mut nodes = Vec::new();
        for (number, (span, said)) in written.iter().enumerate() {
            self.cases(*span, number + 1, said, prompts, providers, &mut names, &mut nodes);
        }
        let span = root.get("tests").map_or(root.span, |it| it.span);
        list(span, nodes)
    }

    fn default_test(&mut self, root: &Node) -> Said {
        let Some(node) = root.get("defaultTest") else { return Said::default() };
        match node.text().map(|it| path(it).unwrap_or(it).to_owned()) {
            Some(file) => match self.document_of(node.span, &file) {
                Some(read) => self.said(&read, &Said::default()),
                None => Said::default(),
            },
            None => self.said(node, &Said::default()),
        }
    }

    /// The tests of a block: a list of tests and files, or one file.
    fn list_of(&mut self, block: &Node, defaults: &Said, tests: &mut Vec<(Span, Said)>) {
        match &block.kind {
            Kind::Text(file) => self.tests_of_file(block.span, file, defaults, tests),
            Kind::List(items) => {
                for item in items.iter() {
                    match (item.text(), item.get("path").and_then(Node::text)) {
                        (Some(file), _) => self.tests_of_file(item.span, file, defaults, tests),
                        (None, Some(_)) => {
                            self.unsupported(item.span, "a test generator", Some(GENERATED));
                        }
                        (None, None) => {
                            let said = self.said(item, defaults);
                            tests.push((item.span, said));
                        }
                    }
                }
            }
            Kind::Null => {}
            _ => {
                self.error(block.span, "expected a list of tests, or the file that has them", None);
            }
        }
    }

    fn tests_of_file(
        &mut self,
        span: Span,
        written: &str,
        defaults: &Said,
        tests: &mut Vec<(Span, Said)>,
    ) {
        let written = path(written).unwrap_or(written);
        if written.starts_with("http://") || written.starts_with("https://") {
            self.unsupported(span, "tests from the network", Some("save them beside the config"));
            return;
        }
        for file in self.paths(span, written) {
            let extension = extension(&file);
            if is_script(&extension) {
                self.unsupported(span, "a test generator", Some(GENERATED));
                continue;
            }
            match extension.as_str() {
                "csv" => self.table(span, &file, defaults, tests),
                "jsonl" | "ndjson" => {
                    let Some(content) = self.content(span, &file) else { continue };
                    for line in content.lines().filter(|it| !it.trim().is_empty()) {
                        let Some(value) = self.parse(span, &file, line) else { return };
                        let said = self.said(&Node::at(span, &value), defaults);
                        tests.push((span, said));
                    }
                }
                "json" | "yaml" | "yml" => {
                    let Some(document) = self.document_of(span, &file) else { continue };
                    if matches!(document.kind, Kind::Mapping(_)) {
                        let said = self.said(&document, defaults);
                        tests.push((span, said));
                    } else {
                        self.list_of(&document, defaults, tests);
                    }
                }
                _ => self.file_error(
                    span,
                    format!("`{file}` has no tests that can be read"),
                    "tests are read from .csv, .jsonl, .json and .yaml files",
                ),
            }
        }
    }

    /// Rows of variables; columns that begin with `__` say something else.
    fn table(&mut self, span: Span, file: &str, defaults: &Said, tests: &mut Vec<(Span, Said)>) {
        let Some(content) = self.content(span, file) else { return };
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(content.as_bytes());
        let Ok(headers) = reader.headers().cloned() else {
            self.file_error(span, format!("`{file}` is not CSV"), "save it as UTF-8 CSV");
            return;
        };
        for (index, record) in reader.records().enumerate() {
            let record = match record {
                Ok(record) => record,
                Err(err) => {
                    self.file_error(span, format!("`{file}`: {err}"), "every row must be CSV");
                    return;
                }
            };
            let mut said = defaults.clone();
            let (mut vars, mut asserts) = (Vec::new(), Vec::new());
            let (mut metric, mut threshold) = (None, None);
            said.description = Some(format!("Row #{}", index + 1));
            for (column, cell) in headers.iter().zip(record.iter()) {
                let column = column.trim();
                let is_given = !cell.trim().is_empty();
                match column {
                    _ if column.starts_with("__expected") => {
                        if is_given {
                            asserts.push(expected(span, cell.trim()));
                        }
                    }
                    "__description" if is_given => said.description = Some(cell.to_owned()),
                    "__metric" if is_given => metric = Some(cell.trim().to_owned()),
                    "__threshold" if is_given => threshold = cell.trim().parse::<f64>().ok(),
                    "__prefix" => cell.clone_into(&mut said.prefix),
                    "__suffix" => cell.clone_into(&mut said.suffix),
                    "__description" | "__metric" | "__threshold" => {}
                    _ if column.starts_with("__metadata") => {}
                    _ if column.starts_with("__") => {
                        let what = format!("the column `{column}`");
                        self.unsupported(span, &what, None);
                    }
                    _ => vars.push((super::build::key(span, column), text(span, cell))),
                }
            }
            if let Some(metric) = &metric {
                asserts = asserts.iter().map(|it| with(it, "metric", text(span, metric))).collect();
            }
            said.threshold = threshold.map(|it| number(span, it)).or(said.threshold);
            said.vars = merged(&defaults.vars, &vars);
            said.asserts.extend(asserts);
            tests.push((span, said));
        }
    }

    /// Each of a scenario's configs with each of its tests.
    fn scenarios(&mut self, block: &Node, defaults: &Said, tests: &mut Vec<(Span, Said)>) {
        for scenario in block.items() {
            if scenario.text().is_some() {
                self.unsupported(scenario.span, "a scenario in a file", Some("write it in place"));
                continue;
            }
            for config in scenario.get("config").map(Node::items).unwrap_or_default() {
                let said = self.said(config, defaults);
                match scenario.get("tests") {
                    Some(block) => self.list_of(block, &said, tests),
                    None => tests.push((config.span, said)),
                }
            }
        }
    }

    /// What a test says, above what is said for all.
    fn said(&mut self, node: &Node, defaults: &Said) -> Said {
        let mut said = defaults.clone();
        if !matches!(node.kind, Kind::Mapping(_)) {
            self.error(node.span, "expected a test: an object with `vars` and `assert`", None);
            return said;
        }
        for (key, value) in node.entries() {
            match &*key.name {
                "vars" => {
                    let own = self.vars(Some(value));
                    said.vars = merged(&defaults.vars, &own);
                }
                "assert" => said.asserts.extend(self.assertions(Some(value))),
                "threshold" => said.threshold = Some(value.clone()),
                "description" => said.description = value.text().map(str::to_owned),
                "options" => self.options(value, &mut said),
                "prompts" => said.prompts = Some(value.clone()),
                "provider" | "providers" => said.providers = Some(value.clone()),
                "providerOutput" => {
                    let help = "judge outputs that exist already with `kindlm evaluate`";
                    self.unsupported(key.span, "`providerOutput`", Some(help));
                }
                name if INERT.contains(&name) => {}
                "assertScoringFunction" => {
                    let help = "give the test a `threshold`, or one `javascript` assertion that weighs everything";
                    self.unsupported(key.span, "`assertScoringFunction`", Some(help));
                }
                name => self.unsupported(key.span, &format!("`{name}` of a test"), None),
            }
        }
        said
    }

    fn options(&mut self, block: &Node, said: &mut Said) {
        for (key, value) in block.entries() {
            let words = || value.text().unwrap_or_default().to_owned();
            match &*key.name {
                "transform" | "postprocess" => said.transform = Some(value.clone()),
                "prefix" => said.prefix = words(),
                "suffix" => said.suffix = words(),
                "disableVarExpansion" => {
                    said.expand = Some(value.to_json() != serde_json::Value::Bool(true));
                }
                // Who grades is said of each assertion here.
                "provider" => {
                    if let Some(model) = self.grader(value) {
                        said.asserts.iter_mut().for_each(|it| {
                            if is_graded(it) && it.get("model").is_none() {
                                *it = with(it, "model", model.clone());
                            }
                        });
                    }
                }
                name => self.unsupported(key.span, &format!("`options.{name}`"), None),
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one test, multiplied")]
    fn cases(
        &mut self,
        span: Span,
        number: usize,
        said: &Said,
        prompts: &Prompts,
        providers: &Providers,
        names: &mut HashSet<String>,
        nodes: &mut Vec<Node>,
    ) {
        let combinations = self.combinations(&said.vars, said.expand.unwrap_or(true));
        let several = combinations.len() > 1;
        let description = said.description.clone().unwrap_or_else(|| format!("Test {number}"));
        for (index, vars) in combinations.iter().enumerate() {
            for group in providers.groups() {
                for prompt in meant(said, prompts, group) {
                    let models = models_of(said, group);
                    if models.is_empty() {
                        continue;
                    }
                    let mut name = description.clone();
                    if several {
                        name = format!("{name}, variant {}", index + 1);
                    }
                    if prompts.len() > 1 {
                        name = format!("{name} · {}", prompt.name);
                    }
                    let name = unique(&name, |it| names.contains(it));
                    names.insert(name.clone());
                    nodes.push(self.case(span, &name, said, vars, prompt, group, models));
                }
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one test, put together")]
    fn case(
        &mut self,
        span: Span,
        name: &str,
        said: &Said,
        vars: &Vars,
        prompt: &Prompt,
        group: &Group,
        models: Vec<Node>,
    ) -> Node {
        let vars = Node { span, used_at: None, kind: Kind::Mapping(Rc::new(vars.clone())) };
        let prompt = self.embraced(span, prompt, &said.prefix, &said.suffix);
        let expect = map(span, [("assert", list(span, said.asserts.clone()))]);
        let mut entries = vec![
            ("name", text(span, name)),
            ("prompt", text(span, &prompt)),
            ("models", list(span, models)),
            ("vars", vars),
            ("expect", expect),
        ];
        if let Some(threshold) = &said.threshold {
            entries.push(("threshold", threshold.clone()));
        }
        if let Some(transform) = said.transform.as_ref().or(group.transform.as_ref()) {
            entries.push(("transform", transform.clone()));
        }
        if let Some(tools) = &group.tools {
            entries.push(("tools", tools.clone()));
            entries.push(("answerTools", Node { span, used_at: None, kind: Kind::Bool(false) }));
        }
        map(span, entries)
    }
}

/// The prompts that a test and a group of providers are for.
fn meant<'p>(said: &Said, prompts: &'p Prompts, group: &Group) -> Vec<&'p Prompt> {
    let filter = said.prompts.as_ref().map(texts);
    let is_meant = |prompt: &&Prompt| {
        let by = |names: &Option<Vec<String>>| {
            names.as_ref().is_none_or(|names| names.iter().any(|it| prompt.is_called(it)))
        };
        by(&filter) && by(&group.prompts)
    };
    prompts.iter().filter(is_meant).collect()
}

fn models_of(said: &Said, group: &Group) -> Vec<Node> {
    let Some(node) = &said.providers else { return group.models.clone() };
    let wanted = texts(node);
    group
        .models
        .iter()
        .filter(|model| {
            let id = model.text().unwrap_or_default();
            wanted.iter().any(|it| id == it || group.ids.iter().any(|(a, b)| a == id && b == it))
        })
        .cloned()
        .collect()
}

/// What to do about tests that a program makes.
const GENERATED: &str = "run it before, and let it write a .jsonl file of tests";

/// Whether a model judges by this assertion.
fn is_graded(node: &Node) -> bool {
    let kind = node.get("type").and_then(Node::text).unwrap_or_default();
    let kind = kind.strip_prefix("not-").unwrap_or(kind);
    kindlm_assertions::find(kind)
        .is_some_and(|it| it.meta.class == kindlm_types::Class::Probabilistic)
}

/// A mapping with one entry more, or another.
fn with(node: &Node, name: &str, value: Node) -> Node {
    let mut entries: Vec<(Key, Node)> =
        node.entries().iter().filter(|(key, _)| &*key.name != name).cloned().collect();
    entries.push((super::build::key(value.span, name), value));
    Node { kind: Kind::Mapping(Rc::new(entries)), ..node.clone() }
}

/// A text, or the texts of a list.
fn texts(node: &Node) -> Vec<String> {
    match &node.kind {
        Kind::Text(text) => vec![text.to_string()],
        _ => node
            .items()
            .iter()
            .filter_map(|it| it.text().or_else(|| it.get("id").and_then(Node::text)))
            .map(str::to_owned)
            .collect(),
    }
}
