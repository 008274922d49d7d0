//! Tests from CSV: each row is a test, and each column is a variable.
//!
//! Some columns are keys of the test instead:
//!
//! - `name`, `prompt`, `command`, `agent` and `transcript` are texts.
//! - `models` and `tags` are comma-separated lists.
//! - `repeat`, `passRateMin`, `maxTurns`, `timeoutMs`, `skip` and `expect` are YAML.
//! - `expect.output.contains` is the value at this path of `expect`, as YAML.
//! - `vars.name` is the variable `name`. A column with the name of another key of tests is a variable, with a warning.
//!
//! An empty cell of such a column omits the key, except in `vars` columns. A row without `prompt`, `command` and
//! `transcript` uses the prompt of the suite, if there is exactly one.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use kindlm_source::{Code, Diagnostic, Kind, Node, Row, Source, Span, read_yaml, rows};
use serde_json::{Map, Value};

use super::Builder;
use super::dataset::entry;
use crate::load::resolve::Prompts;
use crate::written::TestEntry;

/// The target of a column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Column {
    /// A key of the test whose value is a text.
    Text(&'static str),
    /// A key of the test whose value is a list of texts.
    List(&'static str),
    /// A key of the test whose value is YAML.
    Yaml(&'static str),
    /// A path inside of `expect` whose value is YAML.
    Expect(Vec<String>),
    /// A variable with this name.
    Var(String),
}

impl Column {
    fn from_name(name: &str) -> Self {
        match name {
            "name" => Self::Text("name"),
            "prompt" => Self::Text("prompt"),
            "command" => Self::Text("command"),
            "agent" => Self::Text("agent"),
            "transcript" => Self::Text("transcript"),
            "models" => Self::List("models"),
            "tags" => Self::List("tags"),
            "repeat" => Self::Yaml("repeat"),
            "passRateMin" => Self::Yaml("passRateMin"),
            "maxTurns" => Self::Yaml("maxTurns"),
            "timeoutMs" => Self::Yaml("timeoutMs"),
            "skip" => Self::Yaml("skip"),
            "expect" => Self::Yaml("expect"),
            _ => match name.split_once('.') {
                Some(("expect", path)) => {
                    Self::Expect(path.split('.').map(str::to_owned).collect())
                }
                Some(("vars", name)) => Self::Var(name.to_owned()),
                _ => Self::Var(name.to_owned()),
            },
        }
    }
}

impl Builder<'_> {
    pub(super) fn table(&mut self, source: &Arc<Source>, prompts: &Prompts) {
        let mut columns: Option<Vec<Column>> = None;
        for row in rows(source, b',') {
            if self.base.sink.is_full {
                return;
            }
            match (row, &columns) {
                (Err(problem), _) => self.base.sink.push(*problem),
                (Ok(row), None) => columns = Some(self.header(source, &row)),
                (Ok(row), Some(columns)) => {
                    let node = self.cells(source, columns, &row, prompts);
                    self.row(source, "", &node, prompts);
                }
            }
        }
    }

    fn header(&mut self, source: &Arc<Source>, row: &Row) -> Vec<Column> {
        let columns: Vec<Column> = row.cells().map(|it| Column::from_name(it.trim())).collect();
        let keys = schemars::schema_for!(TestEntry);
        let mut seen = HashSet::with_capacity(columns.len());
        for (index, column) in columns.iter().enumerate() {
            if !seen.insert(column) {
                let name = row.cells().nth(index).unwrap_or_default();
                let message = format!("duplicate column `{name}`");
                self.base.sink.push(Diagnostic::error(Code::DUPLICATE, message, source, row.span));
            }
            // Warn about a column such as `threshold`, because the user may mean the key of a test. `vars.threshold` is
            // clearly a variable.
            if let Column::Var(name) = column
                && row.cells().nth(index).is_some_and(|it| it.trim() == name)
                && keys.pointer("/properties").is_some_and(|it| it.get(name).is_some())
            {
                let message = format!(
                    "the column `{name}` is a variable, because a CSV file cannot set the key `{name}` of tests"
                );
                let help = format!(
                    "name the column `vars.{name}` if it is a variable, or write the tests as JSON lines"
                );
                let warning = Diagnostic::error(Code::UNKNOWN_KEY, message, source, row.span);
                self.base.sink.push(warning.with_help(help).into_warning());
            }
        }
        columns
    }

    fn cells(
        &mut self,
        source: &Arc<Source>,
        columns: &[Column],
        row: &Row,
        prompts: &Prompts,
    ) -> Node {
        let span = row.span;
        let mut test = Map::new();
        let mut vars = Map::new();
        let mut expect = Value::Object(Map::new());
        for (column, cell) in columns.iter().zip(row.cells()) {
            match column {
                Column::Var(name) => _ = vars.insert(name.clone(), cell.into()),
                _ if cell.trim().is_empty() => {}
                Column::Text(key) => _ = test.insert((*key).to_owned(), cell.into()),
                Column::List(key) => {
                    let items = cell.split(',').map(str::trim).filter(|it| !it.is_empty());
                    test.insert((*key).to_owned(), items.map(Value::from).collect());
                }
                Column::Yaml("expect") => {
                    let value = self.yaml_cell(source, span, cell);
                    merge(&mut expect, value);
                }
                Column::Yaml(key) => {
                    let value = self.yaml_cell(source, span, cell);
                    test.insert((*key).to_owned(), value);
                }
                Column::Expect(path) => {
                    let value = self.yaml_cell(source, span, cell);
                    let nested = path.iter().rev().fold(value, |value, key| {
                        Value::Object(Map::from_iter([(key.clone(), value)]))
                    });
                    merge(&mut expect, nested);
                }
            }
        }
        test.insert("expect".to_owned(), expect);
        if !vars.is_empty() {
            test.insert("vars".to_owned(), Value::Object(vars));
        }
        let node = Node::at(span, &Value::Object(test));
        let subject = ["prompt", "command", "transcript"].iter().find_map(|it| node.get(it));
        match (subject, prompts.only()) {
            (None, Some(only)) => {
                let mut entries = node.entries().to_vec();
                entries.push(entry("prompt", span, Kind::Text(only.into())));
                Node { kind: Kind::Mapping(Rc::new(entries)), ..node }
            }
            _ => node,
        }
    }

    /// Parses a cell as YAML. Problems are reported at its row.
    fn yaml_cell(&mut self, source: &Arc<Source>, span: Span, cell: &str) -> Value {
        let inner = Arc::new(Source::new(source.name(), cell));
        let tree = read_yaml(&inner, 0..cell.len());
        for problem in tree.diagnostics {
            let message = format!("in the cell `{}`: {}", short(cell), problem.message);
            let mut diagnostic = Diagnostic::error(problem.code, message, source, span);
            diagnostic.help = problem.help;
            self.base.sink.push(diagnostic);
        }
        tree.root.map_or(Value::Null, |it| it.to_json())
    }
}

/// Merges one value into another. Objects are merged key by key; other values are replaced.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn short(cell: &str) -> String {
    let line = cell.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(40).collect();
    if cut.len() < cell.len() { format!("{cut}…") } else { cut }
}
