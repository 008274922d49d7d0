//! Tests from the config, from files, from programs and from scenarios.

use kindlm_source::{Kind, Node, Span};
use serde_json::{Value, json};

use super::Translator;
use super::dynamic::is_list;
use super::files::{extension, is_script, path};
use super::test_settings::TestSettings;
use super::workbook;

/// The extensions of files with tests.
const CONTENTS: [&str; 6] = ["csv", "jsonl", "ndjson", "json", "yaml", "yml"];

/// The function that promptfoo calls in a Python program that generates tests.
const GENERATE: &str = "generate_tests";

impl Translator<'_> {
    /// Reads all tests with their source locations, before the tests are expanded.
    pub(super) fn written(&mut self, root: &Node) -> Vec<(Span, TestSettings)> {
        let default = self.default_test(root);
        let defaults = match &default {
            Some(node) => self.test_settings(node, &TestSettings::default()),
            None => TestSettings::default(),
        };
        let mut written: Vec<(Span, TestSettings)> = Vec::new();
        let tests = match root.get("tests") {
            Some(block) => {
                let count = self.diagnostics.len();
                let tests = self.list_of(block);
                let is_read = self.diagnostics.len() == count;
                if tests.is_empty() && is_read && root.get("scenarios").is_none() {
                    let message = "there are no tests: each prompt is sent once".to_owned();
                    self.warn(block.span, message, Some("promptfoo does the same; add tests"));
                    vec![super::build::map(block.span, [])]
                } else {
                    tests
                }
            }
            // Without tests, promptfoo sends each prompt once.
            None if root.get("scenarios").is_none() => vec![super::build::map(root.span, [])],
            None => Vec::new(),
        };
        let hooks = self.hooks.clone();
        for test in tests {
            match self.before_each(&hooks, &test, default.as_ref()) {
                // The changed tests already have the entries of the default test.
                Some(changed) => {
                    for test in changed {
                        written
                            .push((test.span, self.test_settings(&test, &TestSettings::default())));
                    }
                }
                None => written.push((test.span, self.test_settings(&test, &defaults))),
            }
        }
        if let Some(block) = root.get("scenarios") {
            let changes_tests = hooks.iter().any(|it| it.runs_for("beforeEach"));
            if changes_tests && !block.items().is_empty() {
                let help = "write the tests under `tests`";
                self.unsupported(block.span, "`beforeEach` beside `scenarios`", Some(help));
            }
            self.scenarios(block, &defaults, &mut written);
        }
        written
    }

    /// Returns the default test; `None` without one, or after an error, which is reported.
    fn default_test(&mut self, root: &Node) -> Option<Node> {
        let node = root.get("defaultTest")?;
        match node.text().map(|it| path(it).unwrap_or(it).to_owned()) {
            Some(file) => self.document_of(node.span, &file),
            None => Some(node.clone()),
        }
    }

    /// Reads the tests of a block: a list of tests and files, or one file.
    pub(super) fn list_of(&mut self, block: &Node) -> Vec<Node> {
        match &block.kind {
            Kind::Text(file) => self.tests_of_file(block.span, file, None),
            Kind::List(items) => items.iter().flat_map(|it| self.tests_of_item(it)).collect(),
            Kind::Mapping(_) if block.get("path").is_some() => {
                let file = block.get("path").and_then(Node::text).unwrap_or_default();
                self.tests_of_file(block.span, file, block.get("config"))
            }
            Kind::Null => Vec::new(),
            _ => {
                self.error(block.span, "expected a list of tests, or the file that has them", None);
                Vec::new()
            }
        }
    }

    /// Returns the tests of an item: the test itself, or the tests of the file that it names.
    fn tests_of_item(&mut self, item: &Node) -> Vec<Node> {
        match named_file(item) {
            Some((file, config)) => self.tests_of_file(item.span, file, config),
            None => vec![item.clone()],
        }
    }

    pub(super) fn tests_of_file(
        &mut self,
        span: Span,
        written: &str,
        config: Option<&Node>,
    ) -> Vec<Node> {
        let written = path(written).unwrap_or(written);
        if written.contains("://") {
            return self.tests_of_network(span, written);
        }
        if let Some((pattern, sheet)) = workbook::split(written) {
            let files = self.paths(span, pattern);
            return files.iter().flat_map(|it| self.tests_of_workbook(span, (it, sheet))).collect();
        }
        let mut tests = Vec::new();
        for file in self.paths(span, written) {
            if self.test_files.contains(&file) {
                self.error(span, format!("`{file}` names itself"), Some("name tests only once"));
                continue;
            }
            self.test_files.push(file.clone());
            tests.extend(self.tests_in_file(span, &file, config));
            self.test_files.pop();
        }
        tests
    }

    fn tests_in_file(&mut self, span: Span, file: &str, config: Option<&Node>) -> Vec<Node> {
        let extension = extension(file);
        if is_script(&extension) {
            return self.generated(span, file, config);
        }
        if !CONTENTS.contains(&extension.as_str()) {
            let message = format!("`{file}` has no tests that can be read");
            let help = "tests are read from .csv, .xlsx, .jsonl, .json and .yaml files, and made by .js, .ts and .py programs";
            self.file_error(span, message, help);
            return Vec::new();
        }
        let Some(content) = self.content(span, file) else { return Vec::new() };
        let items = self.tests_of_content(span, (file, &extension), &content);
        items.iter().flat_map(|it| self.tests_of_item(it)).collect()
    }

    /// Reads the tests in the content of a file, and the tests of further files that the content names.
    pub(super) fn tests_of_content(
        &mut self,
        span: Span,
        (name, ending): (&str, &str),
        content: &str,
    ) -> Vec<Node> {
        match ending {
            "csv" => self.table(span, (name, content)),
            "jsonl" | "ndjson" => {
                let lines = content.lines().filter(|it| !it.trim().is_empty());
                lines
                    .map_while(|line| Some(Node::at(span, &self.parse(span, name, line)?)))
                    .collect()
            }
            _ => {
                let Some(value) = self.parse(span, name, content) else { return Vec::new() };
                let document = Node::at(span, &value);
                match &document.kind {
                    Kind::List(_) => document.items().to_vec(),
                    Kind::Null => Vec::new(),
                    _ => vec![document],
                }
            }
        }
    }

    /// Reads the tests that a program generates.
    ///
    /// A function is called with the `config`. Another export is the list of tests itself.
    fn generated(&mut self, span: Span, file: &str, config: Option<&Node>) -> Vec<Node> {
        let Some(program) = self.program(span, file, Some(GENERATE)) else { return Vec::new() };
        let args: Vec<Value> = config.map(Node::to_json).into_iter().collect();
        let Some(made) = self.call(span, &program, "the program that makes tests", &args) else {
            return Vec::new();
        };
        let made = Node::at(span, &made);
        if is_list(&made) {
            return self.list_of(&made);
        }
        let help = "return a list of tests: objects with `vars` and `assert`";
        let kind = json!(made.to_json()).to_string();
        let kind: String = kind.chars().take(40).collect();
        let message = format!("`{file}` returned `{kind}`, not a list of tests");
        self.error(span, message, Some(help));
        Vec::new()
    }

    /// Combines each config of a scenario with each test of the scenario.
    fn scenarios(
        &mut self,
        block: &Node,
        defaults: &TestSettings,
        tests: &mut Vec<(Span, TestSettings)>,
    ) {
        for (number, scenario) in self.listed(block).into_iter().enumerate() {
            for (key, _) in scenario.entries() {
                if !matches!(&*key.name, "config" | "tests" | "description") {
                    self.unsupported(key.span, &format!("`{}` of a scenario", key.name), None);
                }
            }
            let Some(configs) = scenario.get("config") else {
                let help = "`config` is a list of the differences: `config: [{ vars: { … } }]`";
                self.error(scenario.span, "a scenario has a `config`", Some(help));
                continue;
            };
            for config in self.listed(configs) {
                let mut said = self.test_settings(&config, defaults);
                said.conversation = Some(format!("__scenario_{number}__"));
                match scenario.get("tests") {
                    Some(block) => {
                        for test in self.list_of(block) {
                            tests.push((test.span, self.test_settings(&test, &said)));
                        }
                    }
                    None => tests.push((config.span, said)),
                }
            }
        }
    }

    /// Returns the items of a list, or a single value as a list.
    ///
    /// A file name is replaced by the content of the file.
    fn listed(&mut self, block: &Node) -> Vec<Node> {
        let one = [block.clone()];
        let items = if is_list(block) { block.items() } else { &one[..] };
        let mut listed = Vec::new();
        for item in items {
            let Some(file) = item.text().map(|it| path(it).unwrap_or(it).to_owned()) else {
                listed.push(item.clone());
                continue;
            };
            for file in self.paths(item.span, &file) {
                match self.document_of(item.span, &file) {
                    Some(document) if is_list(&document) => {
                        listed.extend(document.items().iter().cloned());
                    }
                    document => listed.extend(document),
                }
            }
        }
        listed
    }
}

/// Returns the file that an item of a list of tests names, with its settings; `None` for a test.
pub(super) fn named_file(item: &Node) -> Option<(&str, Option<&Node>)> {
    match item.text() {
        Some(file) => Some((file, None)),
        None => Some((item.get("path").and_then(Node::text)?, item.get("config"))),
    }
}
