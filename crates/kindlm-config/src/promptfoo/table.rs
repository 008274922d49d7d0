//! Tests in a CSV file: a column for each variable; columns that begin with `__` say something else.

use serde_json::Value;

use super::Translator;
use super::asserts::expected;
use super::build::{entries, key, number, text};
use super::cases::with;
use super::said::Said;
use super::vars::merged;
use crate::source::Span;
use crate::tree::Node;

/// A row, as far as it is read.
struct Row {
    said: Said,
    vars: Vec<(crate::tree::Key, Node)>,
    /// Assertions by the number of their column, from 1.
    asserts: Vec<(usize, Node)>,
    /// What columns say of one assertion, or (number 0) of all: the key and its value.
    about: Vec<(usize, String, Node)>,
    metric: Option<String>,
    metadata: Vec<(String, Node)>,
}

impl Translator<'_> {
    /// The tests of a CSV file.
    pub(super) fn table(
        &mut self,
        span: Span,
        file: &str,
        defaults: &Said,
        tests: &mut Vec<(Span, Said)>,
    ) {
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
            said.description = Some(format!("Row #{}", index + 1));
            let mut row = Row {
                said,
                vars: Vec::new(),
                asserts: Vec::new(),
                about: Vec::new(),
                metric: None,
                metadata: Vec::new(),
            };
            for (column, cell) in headers.iter().zip(record.iter()) {
                self.cell(span, column.trim(), cell, &mut row);
            }
            tests.push((span, said_by(span, row, defaults)));
        }
    }

    fn cell(&mut self, span: Span, column: &str, cell: &str, row: &mut Row) {
        let is_given = !cell.trim().is_empty();
        let trimmed = cell.trim();
        match column {
            "__prefix" => cell.clone_into(&mut row.said.prefix),
            "__suffix" => cell.clone_into(&mut row.said.suffix),
            _ if !column.starts_with("__") => {
                row.vars.push((key(span, column), text(span, cell)));
            }
            _ if !is_given => {}
            "__description" => row.said.description = Some(cell.to_owned()),
            "__metric" => row.metric = Some(trimmed.to_owned()),
            "__threshold" => {
                if let Ok(threshold) = trimmed.parse::<f64>() {
                    row.said.threshold = Some(number(span, threshold));
                } else {
                    let message = format!("the column `__threshold` has `{trimmed}`");
                    self.error(span, message, Some("write a number, such as 0.5"));
                }
            }
            "__providerOutput" => row.said.output = Some(text(span, cell)),
            _ => self.special_cell(span, column, trimmed, row),
        }
    }

    fn special_cell(&mut self, span: Span, column: &str, cell: &str, row: &mut Row) {
        if let Some(number) = column.strip_prefix("__expected").and_then(column_number) {
            row.asserts.push((number, self.assertion(&expected(span, cell))));
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
                "__expected" => Some(0),
                target => target.strip_prefix("__expected").and_then(column_number),
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
            self.error(span, "the column `__metadata` does not say its name", Some(help));
        } else {
            self.unsupported(span, &format!("the column `{column}`"), None);
        }
    }
}

/// The test that a row says.
fn said_by(span: Span, row: Row, defaults: &Said) -> Said {
    let mut said = row.said;
    let asserts = row.asserts.into_iter().map(|(number, mut check)| {
        for (target, key, value) in &row.about {
            if *target == 0 || *target == number {
                check = with(&check, key, value.clone());
            }
        }
        match &row.metric {
            Some(metric) => with(&check, "metric", text(span, metric)),
            None => check,
        }
    });
    said.asserts.extend(asserts);
    said.vars = merged(&defaults.vars, &row.vars);
    if !row.metadata.is_empty() {
        said.metadata = Some(entries(span, row.metadata));
    }
    said
}

/// The number of a column `__expected`: nothing behind it is the first.
fn column_number(rest: &str) -> Option<usize> {
    if rest.is_empty() { Some(1) } else { rest.parse().ok() }
}

/// The parts of a list in a cell: between commas, of which `\,` is none.
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
