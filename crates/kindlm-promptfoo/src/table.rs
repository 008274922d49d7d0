//! Tests in a CSV file. Each column is a variable, except special columns with the prefix `__`.

use std::sync::Arc;

use kindlm_source::{Code, Diagnostic, Kind, Node, Source, Span, rows};
use serde_json::Value;

use super::Translator;
use super::asserts::expected;
use super::build::with;
use super::build::{entries, key, list, map, number, text};
use super::expected::ignores_threshold;

/// The prefix of columns with assertions.
const EXPECTED: &str = "__expected";

/// The special columns that are checked for typos. A column with one underscore instead of two is probably a typo and
/// causes a warning.
const SPECIAL: [&str; 7] = [
    EXPECTED,
    "__prefix",
    "__suffix",
    "__description",
    "__providerOutput",
    "__metric",
    "__threshold",
];

/// The source location of a row.
#[derive(Clone, Copy)]
struct RowPlace<'a> {
    /// The location of the file's name in the config.
    span: Span,
    source: &'a Arc<Source>,
    line: Span,
}

impl RowPlace<'_> {
    /// Makes an error at the row.
    fn error_at(&self, message: impl Into<String>, help: Option<&str>) -> Diagnostic {
        let mut diagnostic =
            Diagnostic::error(Code::INVALID_VALUE, message, self.source, self.line);
        diagnostic.help = help.map(str::to_owned);
        diagnostic
    }
}

/// A row while its cells are read.
#[derive(Default)]
struct Row {
    /// The entries of the test, except those below.
    test: Vec<(&'static str, Node)>,
    /// The entries of the test's options.
    options: Vec<(&'static str, Node)>,
    vars: Vec<(kindlm_source::Key, Node)>,
    /// Assertions by the number of their column, starting at 1.
    asserts: Vec<(usize, Node)>,
    /// Settings for single assertions: the assertion's number, the key and the value.
    ///
    /// The number 0 means all assertions.
    about: Vec<(usize, String, Node)>,
    metric: Option<String>,
    metadata: Vec<(String, Node)>,
}

impl Translator<'_> {
    /// Reads the tests of a CSV file.
    pub(super) fn table(&mut self, span: Span, (file, content): (&str, &str)) -> Vec<Node> {
        let mut tests = Vec::new();
        let source = Arc::new(self.source.beside(file, content));
        let mut headers: Option<Vec<String>> = None;
        let mut index = 0;
        for read in rows(&source, b',') {
            let record = match read {
                Ok(read) => read,
                Err(problem) => {
                    self.diagnostics.push(*problem);
                    continue;
                }
            };
            let place = RowPlace { span, source: &source, line: record.span };
            let Some(headers) = &headers else {
                let columns: Vec<String> = record.cells().map(|it| it.trim().to_owned()).collect();
                self.check_columns(place, &columns);
                headers = Some(columns);
                continue;
            };
            index += 1;
            let description = text(span, &format!("Row #{index}"));
            let mut row = Row { test: vec![("description", description)], ..Row::default() };
            for (column, cell) in headers.iter().zip(record.cells()) {
                self.cell(place, column, cell, &mut row);
            }
            tests.push(row.into_test(span));
        }
        tests
    }

    /// Reports columns that are probably typos.
    ///
    /// Also reports settings for an assertion column that does not exist.
    fn check_columns(&mut self, place: RowPlace<'_>, columns: &[String]) {
        for column in columns {
            let is_near = |it: &&str| it.strip_prefix('_').is_some_and(|it| column.starts_with(it));
            if !column.starts_with("__") && SPECIAL.iter().any(is_near) {
                let message = format!("the column `{column}` is a variable");
                let help = format!("did you mean `_{column}`?");
                self.diagnostics.push(place.error_at(message, Some(&help)).into_warning());
            }
            let about = column.strip_prefix("__config:").and_then(|it| it.split_once(':'));
            let Some((target, _)) = about.filter(|(it, _)| it.starts_with(EXPECTED)) else {
                continue;
            };
            let is_meant = |it: &String| match number_of(it) {
                Some(number) => target == EXPECTED || number_of(target) == Some(number),
                None => false,
            };
            if !columns.iter().any(is_meant) {
                let message = format!("`{column}` refers to the missing column `{target}`");
                let help = "name an existing column, or remove this one";
                self.diagnostics.push(place.error_at(message, Some(help)));
            }
        }
    }

    fn cell(&mut self, place: RowPlace<'_>, column: &str, cell: &str, row: &mut Row) {
        let span = place.span;
        let is_given = !cell.trim().is_empty();
        let trimmed = cell.trim();
        match column {
            "__prefix" => row.options.push(("prefix", text(span, cell))),
            "__suffix" => row.options.push(("suffix", text(span, cell))),
            _ if !column.starts_with("__") => {
                row.vars.push((key(span, column), text(span, cell)));
            }
            _ if !is_given => {}
            "__description" => {
                row.test.retain(|(it, _)| *it != "description");
                row.test.push(("description", text(span, cell)));
            }
            "__metric" => row.metric = Some(trimmed.to_owned()),
            "__threshold" => {
                if let Ok(threshold) = trimmed.parse::<f64>() {
                    row.test.push(("threshold", number(span, threshold)));
                } else {
                    let message = format!("the column `__threshold` has `{trimmed}`");
                    let help = "write a number, such as 0.5";
                    self.diagnostics.push(place.error_at(message, Some(help)));
                }
            }
            "__providerOutput" => row.test.push(("providerOutput", text(span, cell))),
            _ => self.special_cell(place, column, trimmed, row),
        }
    }

    fn special_cell(&mut self, place: RowPlace<'_>, column: &str, cell: &str, row: &mut Row) {
        let span = place.span;
        if let Some(number) = number_of(column) {
            match expected(span, cell) {
                Ok(node) => {
                    if ignores_threshold(cell, node.get("type").and_then(Node::text)) {
                        let message = format!("promptfoo ignores the threshold of `{cell}`");
                        let help = format!("set it in a column `__config:{column}:threshold`");
                        let warning = place.error_at(message, Some(&help)).into_warning();
                        self.diagnostics.push(warning);
                    }
                    row.asserts.push((number, node));
                }
                Err(problem) => {
                    let help = "write a number such as 0.5 between the brackets, or leave them out";
                    self.diagnostics.push(place.error_at(problem, Some(help)));
                }
            }
        } else if let Some(name) = column.strip_prefix("__metadata:") {
            let value = match name.strip_suffix("[]") {
                Some(_) => Value::from(items(cell)),
                None => Value::from(cell),
            };
            let name = name.strip_suffix("[]").unwrap_or(name).to_owned();
            row.metadata.push((name, Node::at(span, &value)));
        } else if let Some((target, name)) =
            column.strip_prefix("__config:").and_then(|it| it.split_once(':'))
        {
            let target = match target {
                EXPECTED => Some(0),
                target => number_of(target),
            };
            if let (Some(target), "threshold", Ok(threshold)) = (target, name, cell.parse::<f64>())
            {
                row.about.push((target, name.to_owned(), number(span, threshold)));
            } else {
                let help = "`__config:__expected:threshold` and `__config:__expected2:threshold` are read, with numbers";
                self.unsupported(span, &format!("the column `{column}`"), Some(help));
            }
        } else if column == "__metadata" {
            let help = "write `__metadata:name`, or `__metadata:name[]` for a list";
            self.error(span, "the column `__metadata` has no name", Some(help));
        } else {
            self.unsupported(span, &format!("the column `{column}`"), None);
        }
    }
}

impl Row {
    /// Makes the test of a row.
    fn into_test(self, span: Span) -> Node {
        let Self { mut test, options, vars, asserts, about, metric, metadata } = self;
        let asserts = asserts.into_iter().map(|(number, mut check)| {
            for (target, key, value) in &about {
                if *target == 0 || *target == number {
                    check = with(&check, key, value.clone());
                }
            }
            match &metric {
                Some(metric) => with(&check, "metric", text(span, metric)),
                None => check,
            }
        });
        let asserts: Vec<Node> = asserts.collect();
        test.push(("vars", Node { kind: Kind::Mapping(vars.into()), ..map(span, []) }));
        if !asserts.is_empty() {
            test.push(("assert", list(span, asserts)));
        }
        if !options.is_empty() {
            test.push(("options", map(span, options)));
        }
        if !metadata.is_empty() {
            test.push(("metadata", entries(span, metadata)));
        }
        map(span, test)
    }
}

/// Returns the number of an `__expected` column, or `None` for other columns. The default number is 1.
fn number_of(column: &str) -> Option<usize> {
    let rest = column.strip_prefix(EXPECTED)?;
    if rest.is_empty() { Some(1) } else { rest.parse().ok() }
}

/// Splits a cell at its commas and drops empty items. `\,` is a comma inside of an item.
fn items(cell: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut rest = cell.chars().peekable();
    while let Some(c) = rest.next() {
        let escaped = c == '\\' && rest.peek() == Some(&',');
        match items.last_mut() {
            Some(last) if escaped => last.extend(rest.next()),
            Some(_) if c == ',' => items.push(String::new()),
            Some(last) => last.push(c),
            None => {}
        }
    }
    items.iter().map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_may_be_a_list() {
        for (cell, expected) in
            [("a, b", &["a", "b"][..]), (r"a\,b,c", &["a,b", "c"]), ("", &[]), (r"a\b", &[r"a\b"])]
        {
            assert_eq!(items(cell), expected, "{cell}");
        }
    }
}
