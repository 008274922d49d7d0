//! Tests from the config, from files, from programs and from scenarios.

use kindlm_source::{Kind, Node, Span};
use serde_json::{Value, json};

use super::Translator;
use super::dynamic::is_list;
use super::files::{extension, is_script, path};
use super::test_settings::TestSettings;

/// The function that promptfoo calls in a Python program that generates tests.
const GENERATE: &str = "generate_tests";

impl Translator<'_> {
    /// Reads all tests with their places, before they are expanded.
    pub(super) fn written(&mut self, root: &Node) -> Vec<(Span, TestSettings)> {
        let defaults = self.default_test(root);
        let mut written: Vec<(Span, TestSettings)> = Vec::new();
        match root.get("tests") {
            Some(block) => self.list_of(block, &defaults, &mut written),
            // Without tests, promptfoo sends each prompt once.
            None if root.get("scenarios").is_none() => {
                written.push((root.span, defaults.clone()));
            }
            None => {}
        }
        if let Some(block) = root.get("scenarios") {
            self.scenarios(block, &defaults, &mut written);
        }
        written
    }

    fn default_test(&mut self, root: &Node) -> TestSettings {
        let Some(node) = root.get("defaultTest") else { return TestSettings::default() };
        match node.text().map(|it| path(it).unwrap_or(it).to_owned()) {
            Some(file) => match self.document_of(node.span, &file) {
                Some(read) => self.test_settings(&read, &TestSettings::default()),
                None => TestSettings::default(),
            },
            None => self.test_settings(node, &TestSettings::default()),
        }
    }

    /// Reads the tests of a block: a list of tests and files, or one file.
    fn list_of(
        &mut self,
        block: &Node,
        defaults: &TestSettings,
        tests: &mut Vec<(Span, TestSettings)>,
    ) {
        match &block.kind {
            Kind::Text(file) => self.tests_of_file(block.span, file, None, defaults, tests),
            Kind::List(items) => {
                for item in items.iter() {
                    match (item.text(), item.get("path").and_then(Node::text)) {
                        (Some(file), _) => {
                            self.tests_of_file(item.span, file, None, defaults, tests);
                        }
                        (None, Some(file)) => {
                            let config = item.get("config");
                            self.tests_of_file(item.span, file, config, defaults, tests);
                        }
                        (None, None) => {
                            let said = self.test_settings(item, defaults);
                            tests.push((item.span, said));
                        }
                    }
                }
            }
            Kind::Mapping(_) if block.get("path").is_some() => {
                let file = block.get("path").and_then(Node::text).unwrap_or_default().to_owned();
                self.tests_of_file(block.span, &file, block.get("config"), defaults, tests);
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
        config: Option<&Node>,
        defaults: &TestSettings,
        tests: &mut Vec<(Span, TestSettings)>,
    ) {
        let written = path(written).unwrap_or(written);
        if written.contains("://") {
            let help = "save them beside the config, as CSV, JSONL or YAML";
            self.unsupported(span, "tests from the network", Some(help));
            return;
        }
        for file in self.paths(span, written) {
            let extension = extension(&file);
            if is_script(&extension) {
                self.generated(span, &file, config, defaults, tests);
                continue;
            }
            match extension.as_str() {
                "csv" => self.table(span, &file, defaults, tests),
                "jsonl" | "ndjson" => {
                    let Some(content) = self.content(span, &file) else { continue };
                    for line in content.lines().filter(|it| !it.trim().is_empty()) {
                        let Some(value) = self.parse(span, &file, line) else { return };
                        let said = self.test_settings(&Node::at(span, &value), defaults);
                        tests.push((span, said));
                    }
                }
                "json" | "yaml" | "yml" => {
                    let Some(document) = self.document_of(span, &file) else { continue };
                    if matches!(document.kind, Kind::Mapping(_)) {
                        let said = self.test_settings(&document, defaults);
                        tests.push((span, said));
                    } else {
                        self.list_of(&document, defaults, tests);
                    }
                }
                _ => self.file_error(
                    span,
                    format!("`{file}` has no tests that can be read"),
                    "tests are read from .csv, .jsonl, .json and .yaml files, and made by .js, .ts and .py programs",
                ),
            }
        }
    }

    /// Reads the tests that a program generates.
    ///
    /// A function is called with the `config`. Another export is the list of tests itself.
    fn generated(
        &mut self,
        span: Span,
        file: &str,
        config: Option<&Node>,
        defaults: &TestSettings,
        tests: &mut Vec<(Span, TestSettings)>,
    ) {
        let Some(program) = self.program(span, file, Some(GENERATE)) else { return };
        let args: Vec<Value> = config.map(Node::to_json).into_iter().collect();
        let Some(made) = self.call(span, &program, "the program that makes tests", &args) else {
            return;
        };
        let made = Node::at(span, &made);
        if is_list(&made) {
            self.list_of(&made, defaults, tests);
        } else {
            let help = "return a list of tests: objects with `vars` and `assert`";
            let kind = json!(made.to_json()).to_string();
            let kind: String = kind.chars().take(40).collect();
            self.error(
                span,
                format!("`{file}` returned `{kind}`, not a list of tests"),
                Some(help),
            );
        }
    }

    /// Combines each config of a scenario with each of its tests.
    fn scenarios(
        &mut self,
        block: &Node,
        defaults: &TestSettings,
        tests: &mut Vec<(Span, TestSettings)>,
    ) {
        for scenario in self.listed(block) {
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
                let said = self.test_settings(&config, defaults);
                match scenario.get("tests") {
                    Some(block) => self.list_of(block, &said, tests),
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
