//! Reads people's labels of outputs from a table or from JSON lines.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kindlm_config::{Source, Span};
use kindlm_store::{CanarySource, Digest, MAX_FILE_BYTES};
use kindlm_types::duplicate_key_pointer;
use serde_json::{Map, Value, json};

use crate::failure::duplicate_key_message;
use crate::{Failure, World};

/// The maximum number of problems that are shown for a file.
const SHOWN: usize = 20;

/// A loaded file of labels.
pub struct LabelFile {
    pub(super) name: String,
    /// The digest of the file's content.
    pub(super) digest: String,
    pub(super) labels: Labels,
    /// The path of the file, joined with the working folder.
    pub(super) path: PathBuf,
    /// The lowest label, from 0 to 1, that counts as a pass.
    pub(super) threshold: f64,
}

impl LabelFile {
    /// Reads a file of labels: `.csv`, `.tsv`, `.jsonl` or `.ndjson`, relative to the working folder.
    ///
    /// Sends warnings about unused columns and repeated questions. A label of at least `label_threshold` is a pass.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, is larger than 64 MiB, is not UTF-8 or has another extension. Also fails if
    /// rows are malformed or contradict each other, or if no row has a label.
    pub fn load(world: &World, path: &Path, label_threshold: f64) -> Result<Self, Failure> {
        let (name, bytes) = (path.display().to_string(), load(world, path)?);
        let labels = parse_labels(&name, &bytes, label_threshold)?;
        for column in &labels.unused {
            world.notify(&format!("warning: the column `{column}` of {name} is not used"));
        }
        if labels.joined > 0 {
            let rows = if labels.joined == 1 { "row asks" } else { "rows ask" };
            world.notify(&format!(
                "warning: {} {rows} the same as an earlier row of {name}: the judge gets each question once, and its label is the mean of all rows",
                labels.joined
            ));
        }
        let path = world.working_dir.join(path);
        Ok(Self {
            name,
            digest: Digest::from_content(&bytes).to_string(),
            labels,
            path,
            threshold: label_threshold,
        })
    }
}

/// Reads the labels of a calibration again, without warnings.
pub(super) fn load_source(
    world: &World,
    folder: &Path,
    source: &CanarySource,
) -> Result<Labels, Failure> {
    parse_labels(&source.file, &load(world, &folder.join(&source.file))?, source.label_threshold)
}

/// Reads a set of rules from a JSON file.
///
/// The file holds a list, or an object with the list under `assertions`, like a record of `kindlm evaluate`.
///
/// # Errors
///
/// Fails if the file cannot be read, is larger than 64 MiB, is not JSON, or holds no list.
pub fn load_rules(world: &World, path: &Path) -> Result<Value, Failure> {
    let name = path.display();
    let value: Value = serde_json::from_slice(&load(world, path)?).map_err(|err| {
        Failure::input(format!("{name}:{}:{}: not JSON: {err}", err.line(), err.column()))
    })?;
    let list = value.get("assertions").unwrap_or(&value);
    if !list.is_array() {
        return Err(Failure::input(format!("`{name}` contains no list of rules"))
            .with_help("write `[{\"id\": …, \"instruction\": …, \"criteria\": […]}]`"));
    }
    Ok(list.clone())
}

/// Parses the value of the option `--check`: an entry of the list `expect.assert`.
///
/// # Errors
///
/// Fails if the text is not a JSON object.
pub fn parse_check(text: &str) -> Result<Value, Failure> {
    let check: Value = serde_json::from_str(text).map_err(|err| {
        let (line, column) = (err.line(), err.column());
        Failure::input(format!("--check:{line}:{column}: not JSON: {err}"))
    })?;
    if check.is_object() {
        return Ok(check);
    }
    Err(Failure::input("`--check` is not a JSON object").with_help(
        "write an entry of the list form, such as `{\"type\": \"llm-rubric\", \"value\": \"…\"}`",
    ))
}

fn load(world: &World, path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |why: String| Failure::input(format!("cannot read `{}`: {why}", path.display()));
    let mut bytes = Vec::new();
    File::open(world.working_dir.join(path))
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|err| failed(kindlm_store::describe_io_error(&err)))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(failed(format!("it is larger than {} MiB", MAX_FILE_BYTES >> 20)));
    }
    Ok(bytes)
}

/// One row of a file of labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    /// The line where the row begins, from 1.
    pub(super) line: u64,
    /// The input of the agent; `None` if the row has no input.
    pub(super) input: Option<Value>,
    /// The output of the agent.
    pub(super) output: Value,
    /// The variables of the test, for checks that use them.
    pub(super) vars: Map<String, Value>,
    /// The question for the judge; `None` if the row has no question.
    pub(super) question: Option<JudgeRequest>,
    /// The labels that people gave.
    pub(super) labels: Vec<Label>,
}

/// A question for the judge about an output.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum JudgeRequest {
    /// A criterion in words that the output has to meet.
    Criteria(String),
    /// A set of rules; the judge decides for each rule if the output follows the rule.
    Assertions(Value),
    /// A check in the form of an entry of the list `expect.assert`.
    Check(Value),
}

/// The label that people gave an output.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Label {
    /// The id of the rule that the label is about; `None` if the label names no rule.
    pub(super) of: Option<String>,
    /// The label from 0 (fail) to 1 (pass); `None` if people did not judge the output.
    pub(super) human: Option<f64>,
}

/// The content of a file of labels.
#[derive(Debug, Default)]
pub(super) struct Labels {
    /// The rows, in the order of the file.
    pub(super) rows: Vec<Row>,
    /// The unused columns, in order of first appearance.
    pub(super) unused: Vec<String>,
    /// The number of rows that were joined with an earlier row.
    pub(super) joined: usize,
}

impl Labels {
    /// Joins rows with the same question about the same output, so that the judge is asked once. The joined label is
    /// the mean.
    ///
    /// A pass (at least `label_threshold`) and a fail for the same question are a contradiction, which is added to
    /// `problems`.
    fn join_rows(&mut self, label_threshold: f64, problems: &mut Problems) {
        let all = self.rows.len();
        let mut rows: Vec<(Row, Vec<Ratings>)> = Vec::new();
        let mut index_of: HashMap<String, usize> = HashMap::new();
        for row in self.rows.drain(..) {
            let question = format!("{:?}", Row { line: 0, labels: Vec::new(), ..row.clone() });
            let index = *index_of.entry(question).or_insert_with(|| {
                rows.push((Row { labels: Vec::new(), ..row.clone() }, Vec::new()));
                rows.len() - 1
            });
            let Some((_, ratings)) = rows.get_mut(index) else { continue };
            for Label { of, human } in row.labels {
                let position = ratings.iter().position(|it| it.of == of).unwrap_or_else(|| {
                    ratings.push(Ratings { of, given: Vec::new() });
                    ratings.len() - 1
                });
                let (Some(ratings), Some(human)) = (ratings.get_mut(position), human) else {
                    continue;
                };
                if let Some(problem) = ratings.contradiction(human, label_threshold) {
                    problems.add(row.line, problem);
                }
                ratings.given.push((row.line, human));
            }
        }
        let join = |(row, ratings): (Row, Vec<Ratings>)| Row {
            labels: ratings.into_iter().map(Ratings::into_label).collect(),
            ..row
        };
        self.rows = rows.into_iter().map(join).collect();
        self.joined = all - self.rows.len();
    }
}

/// The labels of all rows with the same question about the same output.
struct Ratings {
    /// The id of the rule; `None` if the labels name no rule.
    of: Option<String>,
    /// The labels, each with its line.
    given: Vec<(u64, f64)>,
}

impl Ratings {
    /// Returns an error message if the label `human` contradicts the first label: one is a pass, and the other is a
    /// fail. Returns `None` without a contradiction.
    fn contradiction(&self, human: f64, label_threshold: f64) -> Option<String> {
        let (line, first) = self.given.first()?;
        if (*first >= label_threshold) == (human >= label_threshold) {
            return None;
        }
        let name = self.of.as_ref().map_or_else(|| "label".to_owned(), |id| format!("labels.{id}"));
        Some(format!(
            "`{name}` is {human}, and line {line} has {first} for the same question: keep the right one, and remove \
             the other"
        ))
    }

    #[expect(clippy::cast_precision_loss, reason = "a file has far fewer rows than 2^53")]
    fn into_label(self) -> Label {
        let sum: f64 = self.given.iter().map(|(_, human)| human).sum();
        let human = (!self.given.is_empty()).then(|| sum / self.given.len() as f64);
        Label { of: self.of, human }
    }
}

/// The problems of a file, each with its line.
#[derive(Debug, Default)]
struct Problems(Vec<(u64, String)>);

impl Problems {
    fn add(&mut self, line: u64, message: impl Into<String>) {
        self.0.push((line, message.into()));
    }

    fn into_failure(self, name: &str) -> Failure {
        let more = self.0.len().saturating_sub(SHOWN);
        let first = self.0.into_iter().take(SHOWN);
        let mut lines: Vec<String> =
            first.map(|(line, message)| format!("{name}:{line}: {message}")).collect();
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        Failure::inputs(lines).with_help(
            "a row has `output`, `label` (pass or fail, 1 or 0, or a score from 0 to 1), and usually `input`; \
             `kindlm calibrate --help` explains the rest",
        )
    }
}

/// Parses a file of labels. The extension of `name` selects the format, and error messages show `name`.
///
/// A label of at least `label_threshold` is a pass.
pub(super) fn parse_labels(
    name: &str,
    bytes: &[u8],
    label_threshold: f64,
) -> Result<Labels, Failure> {
    let text = std::str::from_utf8(bytes).map_err(|err| {
        let line = bytes.iter().take(err.valid_up_to()).filter(|it| **it == b'\n').count() + 1;
        Failure::input(format!("{name}:{line}: not UTF-8 text"))
            .with_help("save the file as UTF-8; spreadsheets call it `CSV UTF-8`")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut problems = Problems::default();
    let ending = name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let mut labels = match ending.as_str() {
        "csv" => table(name, text, b',', &mut problems),
        "tsv" => table(name, text, b'\t', &mut problems),
        "jsonl" | "ndjson" => lines(text, &mut problems),
        _ => {
            return Err(Failure::input(format!(
                "`{name}` is not a label file: unsupported file extension"
            ))
            .with_help("labels are `.csv`, `.tsv` or `.jsonl` files"));
        }
    };
    if !problems.0.is_empty() {
        return Err(problems.into_failure(name));
    }
    labels.join_rows(label_threshold, &mut problems);
    if !problems.0.is_empty() {
        return Err(problems.into_failure(name));
    }
    if labels.rows.iter().all(|row| row.labels.iter().all(|it| it.human.is_none())) {
        return Err(Failure::input(format!("`{name}` has no label to compare the judge with"))
            .with_help("a row has a `label`: pass or fail, 1 or 0, or a score from 0 to 1"));
    }
    Ok(labels)
}

fn table(name: &str, text: &str, separator: u8, problems: &mut Problems) -> Labels {
    let mut labels = Labels::default();
    let source = Arc::new(Source::new(name, text));
    let mut header: Option<Vec<String>> = None;
    for row in kindlm_config::rows(&source, separator) {
        let span = row.as_ref().map_or_else(|wrong| wrong.span, |it| it.span);
        let line = source.position(span.start).line as u64;
        let row = match row {
            Ok(row) if header.is_some() && row.cells().all(|it| it.trim().is_empty()) => continue,
            Ok(row) => row,
            // Spreadsheets often leave blank rows at the end of a file.
            Err(_) if is_blank(source.text(), span) => continue,
            Err(wrong) => {
                problems.add(line, wrong.message);
                continue;
            }
        };
        let Some(columns) = &header else {
            let columns: Vec<String> = row.cells().map(|it| it.trim().to_owned()).collect();
            check_header(&columns, line, problems);
            header = Some(columns);
            continue;
        };
        let mut fields = Fields::new(line, problems);
        for (name, cell) in columns.iter().zip(row.cells()) {
            fields.text(name, cell, &mut labels.unused);
        }
        labels.rows.extend(fields.row());
    }
    labels
}

fn is_blank(text: &str, span: Span) -> bool {
    let row = text.get(span.start as usize..span.end as usize);
    row.is_some_and(|it| it.trim().is_empty())
}

fn check_header(columns: &[String], line: u64, problems: &mut Problems) {
    for (at, name) in columns.iter().enumerate() {
        if columns.iter().take(at).any(|it| it == name) {
            problems.add(line, format!("duplicate column `{name}`"));
        }
    }
    let has = |wanted: fn(&str) -> bool| columns.iter().any(|it| wanted(it));
    if !has(|it| matches!(it, "output" | "agent_output")) {
        problems.add(line, "there is no column `output`");
    }
    if !has(|it| it == "label" || it.starts_with("labels.")) {
        problems.add(line, "there is no column `label`");
    }
}

fn lines(text: &str, problems: &mut Problems) -> Labels {
    let mut labels = Labels::default();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let object: Map<String, Value> = match serde_json::from_str(line) {
            Ok(object) => object,
            Err(err) => {
                let said = err.to_string();
                let words = said.split(" at line ").next().unwrap_or(&said);
                problems
                    .add(number, format!("not a JSON object: {words} (column {})", err.column()));
                continue;
            }
        };
        if let Some(place) = duplicate_key_pointer(line) {
            problems.add(number, duplicate_key_message(&place));
            continue;
        }
        let mut fields = Fields::new(number, problems);
        for (name, value) in object {
            match (name.as_str(), value) {
                ("labels", Value::Object(by_id)) => {
                    for (id, value) in by_id {
                        fields.label(Some(id), &value);
                    }
                }
                ("vars", Value::Object(vars)) => fields.row.vars.extend(vars),
                (_, value) => fields.value(&name, value, &mut labels.unused),
            }
        }
        labels.rows.extend(fields.row());
    }
    labels
}

/// The keys of a row that hold a question for the judge. Only `criteria` and `instruction` can be used together.
const QUESTION_KEYS: [&str; 4] = ["assertions", "check", "criteria", "instruction"];

/// The builder of a row, which takes the fields one by one.
struct Fields<'p> {
    row: Row,
    has_output: bool,
    /// The first of [`QUESTION_KEYS`] in the row; `None` before it was read.
    question_key: Option<&'static str>,
    assertion: Option<String>,
    instruction: Option<String>,
    criteria: Option<Value>,
    /// A key that resembles `label`, for the suggestion in the error message; `None` without such a key.
    near_label: Option<String>,
    problems: &'p mut Problems,
    is_good: bool,
}

impl<'p> Fields<'p> {
    fn new(line: u64, problems: &'p mut Problems) -> Self {
        Self {
            row: Row { line, ..Row::default() },
            has_output: false,
            question_key: None,
            assertion: None,
            instruction: None,
            criteria: None,
            near_label: None,
            problems,
            is_good: true,
        }
    }

    fn problem(&mut self, message: impl Into<String>) {
        self.problems.add(self.row.line, message);
        self.is_good = false;
    }

    /// Adds a cell of a table. The cells of `check` and `assertions` hold JSON.
    fn text(&mut self, name: &str, cell: &str, unused: &mut Vec<String>) {
        let value = match name {
            "check" | "assertions" if cell.trim().is_empty() => return,
            "check" | "assertions" => match serde_json::from_str(cell) {
                Ok(value) => {
                    if let Some(place) = duplicate_key_pointer(cell) {
                        return self.problem(duplicate_key_message(&format!("/{name}{place}")));
                    }
                    value
                }
                Err(err) => {
                    return self.problem(format!("the cell of `{name}` is not JSON: {err}"));
                }
            },
            "output" | "agent_output" | "label" => Value::from(cell),
            _ if cell.is_empty() && !name.starts_with("labels.") => return,
            _ => Value::from(cell),
        };
        if let Some(id) = name.strip_prefix("labels.") {
            self.label(Some(id.to_owned()), &value);
        } else if let Some(variable) = name.strip_prefix("vars.") {
            self.row.vars.insert(variable.to_owned(), value);
        } else {
            self.value(name, value, unused);
        }
    }

    /// Adds a problem if the key asks another question than an earlier key of the row.
    fn check_question_key(&mut self, name: &str) {
        let Some(key) = QUESTION_KEYS.into_iter().find(|it| *it == name) else { return };
        let first = *self.question_key.get_or_insert(key);
        let can_join = |it: &str| matches!(it, "criteria" | "instruction");
        if first != key && !(can_join(first) && can_join(key)) {
            self.problem(format!(
                "the row has both `{first}` and `{key}`, but a row asks the judge one question: remove one of them, \
                 or move it to a row of its own"
            ));
        }
    }

    fn value(&mut self, name: &str, value: Value, unused: &mut Vec<String>) {
        if value.is_null() && QUESTION_KEYS.contains(&name) {
            return;
        }
        self.check_question_key(name);
        match (name, value) {
            ("input" | "agent_input", value) => self.row.input = Some(value),
            ("output" | "agent_output", Value::Null) | ("id", _) => {}
            ("output" | "agent_output", value) => {
                self.row.output = value;
                self.has_output = true;
            }
            ("label", value) => self.label(None, &value),
            ("criteria", value) => self.criteria = Some(value),
            ("assertion", Value::String(id)) => self.assertion = Some(id),
            ("instruction", Value::String(text)) => self.instruction = Some(text),
            ("assertion" | "instruction", _) => self.problem(format!("`{name}` is not a text")),
            ("assertions", value) => self.row.question = Some(JudgeRequest::Assertions(value)),
            ("check", value @ Value::Object(_)) => {
                self.row.question = Some(JudgeRequest::Check(value));
            }
            ("check", _) => {
                self.problem("`check` is not an object, such as {\"type\": \"llm-rubric\", …}");
            }
            (name, _) => {
                if kindlm_types::nearest(name, ["label", "labels"]).is_some() {
                    self.near_label = Some(name.to_owned());
                }
                if !unused.iter().any(|it| it == name) {
                    unused.push(name.to_owned());
                }
            }
        }
    }

    fn label(&mut self, of: Option<String>, value: &Value) {
        match human(value) {
            Ok(human) => self.row.labels.push(Label { of, human }),
            Err(message) => {
                let name = of.map_or_else(|| "label".to_owned(), |id| format!("labels.{id}"));
                self.problem(format!("`{name}` {message}"));
            }
        }
    }

    fn row(mut self) -> Option<Row> {
        if !self.has_output {
            self.problem("there is no `output`");
        }
        if self.row.labels.is_empty() {
            if let Some(near) = self.near_label.take() {
                self.problem(format!("`{near}` is no label: did you mean `label`, or `labels` with one for each rule?"));
            }
            // A row without a label is an output that people did not judge.
            self.row.labels.push(Label { of: None, human: None });
        }
        self.ask();
        if let Some(id) = self.assertion.take() {
            for label in &mut self.row.labels {
                label.of.get_or_insert_with(|| id.clone());
            }
        }
        self.is_good.then_some(self.row)
    }

    /// Builds the question from the columns.
    ///
    /// A criterion or an instruction with the id of a rule becomes a set of one rule.
    fn ask(&mut self) {
        let (criteria, instruction) = (self.criteria.take(), self.instruction.take());
        match (&self.assertion, instruction, criteria) {
            (_, None, None) => {}
            (Some(id), instruction, criteria) => {
                let criteria = match criteria {
                    Some(Value::Array(list)) => list,
                    Some(one) => vec![one],
                    None => Vec::new(),
                };
                let first = criteria.first().and_then(Value::as_str).map(str::to_owned);
                let instruction = instruction.or(first).unwrap_or_else(|| id.clone());
                let rule = json!({"id": id, "instruction": instruction, "criteria": criteria});
                self.row.question = Some(JudgeRequest::Assertions(json!([rule])));
            }
            (None, None, Some(Value::String(text))) => {
                self.row.question = Some(JudgeRequest::Criteria(text));
            }
            (None, None, Some(_)) => {
                self.problem("`criteria` is not a text; several criteria need an `assertion`");
            }
            (None, Some(_), _) => {
                self.problem("`instruction` needs `assertion`, the id of the rule");
            }
        }
    }
}

/// Parses a label from 0 to 1; returns `None` for an empty label. Fails with a message for any other value.
fn human(value: &Value) -> Result<Option<f64>, String> {
    const WANTED: &str = "write pass or fail, 1 or 0, or a score from 0 to 1";
    let number = match value {
        Value::Null => return Ok(None),
        Value::Bool(pass) => return Ok(Some(f64::from(u8::from(*pass)))),
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "" => return Ok(None),
            "pass" | "passed" | "true" | "yes" | "good" => Some(1.0),
            "fail" | "failed" | "false" | "no" | "bad" => Some(0.0),
            other => other.parse().ok(),
        },
        Value::Array(_) | Value::Object(_) => None,
    };
    match number {
        Some(number) if (0.0..=1.0).contains(&number) => Ok(Some(number)),
        Some(number) if number.is_finite() => Err(format!(
            "is {number}, but a score is from 0 to 1: divide all scores by the highest possible one"
        )),
        _ => {
            let shown: String = value.to_string().chars().take(40).collect();
            Err(format!("is {shown}: {WANTED}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(name: &str, text: &str) -> Vec<Row> {
        parse_labels(name, text.as_bytes(), 0.5).map_or_else(|err| panic!("{err:?}"), |it| it.rows)
    }

    fn bad(name: &str, text: &str) -> String {
        parse_labels(name, text.as_bytes(), 0.5).unwrap_err().message.unwrap()
    }

    #[test]
    fn different_labels_for_the_same_question_are_an_error() {
        let csv = "input,output,label,criteria\nHi,Hello,pass,Is polite\nHi,Hello,fail,Is short\nHi,Hello,,Is polite\nHi,Hello,fail,Is polite\n";
        assert_eq!(
            bad("a.csv", csv),
            "a.csv:5: `label` is 0, and line 2 has 1 for the same question: keep the right one, and remove the other"
        );
    }

    #[test]
    fn agreeing_raters_give_their_mean() {
        let csv = "input,output,label\nHi,Hello,0.75\nHi,Bye,0\nHi,Hello,1\nHi,Hello,\n";
        let rows = good("a.csv", csv);
        let labels: Vec<_> = rows.iter().map(|it| (it.line, it.labels[0].human)).collect();
        assert_eq!(labels, [(2, Some(0.875)), (3, Some(0.0))]);
        assert!(parse_labels("a.csv", csv.as_bytes(), 0.8).is_err(), "0.75 is a fail there");
    }

    #[test]
    fn csv_and_jsonl_labels_are_equal() {
        let csv = "input,output,label,criteria\n\"Hi, you\",Hello,pass,Is polite\nHi,\"Go\naway\",0,Is polite\n\nHi,Bye,,Is polite\n";
        let jsonl = concat!(
            "{\"input\": \"Hi, you\", \"output\": \"Hello\", \"label\": true, \"criteria\": \"Is polite\"}\n",
            "{\"input\": \"Hi\", \"output\": \"Go\\naway\", \"label\": 0, \"criteria\": \"Is polite\"}\n\n",
            "{\"agent_input\": \"Hi\", \"agent_output\": \"Bye\", \"label\": null, \"criteria\": \"Is polite\"}\n",
        );
        let (table, lines) = (good("a.csv", csv), good("a.jsonl", jsonl));
        assert_eq!(table.iter().map(|it| it.line).collect::<Vec<_>>(), [2, 3, 6]);
        assert_eq!(lines.iter().map(|it| it.line).collect::<Vec<_>>(), [1, 2, 4]);
        for (mut a, b) in table.into_iter().zip(lines) {
            a.line = b.line;
            assert_eq!(a, b);
        }
    }

    #[test]
    fn labels_are_read_however_people_write_them() {
        for (text, expected) in [
            ("pass", Some(1.0)),
            (" PASS ", Some(1.0)),
            ("Failed", Some(0.0)),
            ("1", Some(1.0)),
            ("0", Some(0.0)),
            ("0.25", Some(0.25)),
            ("yes", Some(1.0)),
            ("", None),
        ] {
            assert_eq!(human(&Value::from(text)), Ok(expected), "{text}");
        }
        for text in ["maybe", "4", "-1", "NaN", "inf", "1e400"] {
            human(&Value::from(text)).unwrap_err();
        }
    }

    #[test]
    fn rules_have_labels_of_their_own() {
        let rows = good("a.csv", "output,labels.cites,labels.kind\nHello,1,\n");
        let label = |of: &str, human| Label { of: Some(of.to_owned()), human };
        assert_eq!(rows[0].labels, [label("cites", Some(1.0)), label("kind", None)]);
        let rows = good(
            "a.csv",
            "output,assertion,instruction,criteria,label\nHello,cites,Cite sources,Is there a source?,fail\nHello,cites,,,pass\n",
        );
        assert_eq!(rows[0].labels, [label("cites", Some(0.0))]);
        let rule = json!([{"id": "cites", "instruction": "Cite sources", "criteria": ["Is there a source?"]}]);
        assert_eq!(rows[0].question, Some(JudgeRequest::Assertions(rule)));
        assert_eq!(rows[1].question, None, "the set is named elsewhere");
    }

    #[test]
    fn a_row_with_two_questions_is_an_error() {
        let advice = "but a row asks the judge one question: remove one of them, or move it to a row of its own";
        let check = r#"{"type": "llm-rubric", "value": "Is kind"}"#;
        for (row, keys) in [
            (format!(r#""check": {check}, "criteria": "Is short""#), "`check` and `criteria`"),
            (format!(r#""assertions": [], "check": {check}"#), "`assertions` and `check`"),
            (
                r#""assertions": [], "criteria": "Is short""#.to_owned(),
                "`assertions` and `criteria`",
            ),
            (
                format!(r#""assertion": "a", "check": {check}, "instruction": "Be short""#),
                "`check` and `instruction`",
            ),
        ] {
            let text = format!(
                "{{\"output\": \"a\", \"label\": 1}}\n{{\"output\": \"b\", \"label\": 1, {row}}}\n"
            );
            assert_eq!(
                bad("a.jsonl", &text),
                format!("a.jsonl:2: the row has both {keys}, {advice}")
            );
        }
        let csv = "output,label,assertions,criteria\nHi,1,[],\nHo,1,,Is short\nHa,1,[],Is short\n";
        let expected = format!("a.csv:4: the row has both `assertions` and `criteria`, {advice}");
        assert_eq!(bad("a.csv", csv), expected, "rows with one question each are good");
    }

    #[test]
    fn a_null_asks_no_question() {
        let row = r#"{"output": "a", "label": 1, "criteria": "Is kind", "assertions": null, "check": null, "instruction": null}"#;
        let rows = good("a.jsonl", row);
        assert_eq!(rows[0].question, Some(JudgeRequest::Criteria("Is kind".to_owned())));
        let row = r#"{"output": "a", "label": 1, "criteria": null}"#;
        assert_eq!(good("a.jsonl", row)[0].question, None);
    }

    #[test]
    fn every_problem_has_its_line() {
        for (name, text, expected) in [
            (
                "a.csv",
                "output,label\nHi,maybe\n",
                "a.csv:2: `label` is \"maybe\": write pass or fail",
            ),
            ("a.csv", "output,label\nHi,4\n", "a.csv:2: `label` is 4, but a score is from 0 to 1"),
            ("a.csv", "output,label\nHi\n", "a.csv:2: the row has 1 cell, the header has 2"),
            (
                "a.csv",
                "output,label\n\"Hi,1\nHo,0\n",
                "a.csv:2: a quote that begins in this row is not closed",
            ),
            ("a.csv", "output;label\nHi;1\n", "a.csv:1: the header has one column only"),
            ("a.tsv", "output,label\nHi,1\n", "a.tsv:1: the header has one column only"),
            ("a.csv", "input,label\nHi,1\n", "a.csv:1: there is no column `output`"),
            ("a.csv", "output\nHi\n", "a.csv:1: there is no column `label`"),
            ("a.csv", "output,output,label\nHi,Hi,1\n", "a.csv:1: duplicate column `output`"),
            ("a.csv", "output,label,check\nHi,1,{\n", "a.csv:2: the cell of `check` is not JSON"),
            ("a.csv", "output,label\nHi,\n", "`a.csv` has no label"),
            ("a.jsonl", "{\"output\": \"a\", \"label\": 1}\n[1]\n", "a.jsonl:2: not a JSON object"),
            ("a.jsonl", "{\"label\": 1}\n", "a.jsonl:1: there is no `output`"),
            (
                "a.jsonl",
                "{\"output\": 1, \"label\": 1}\n{\"output\": 1, \"lable\": 1}\n",
                "a.jsonl:2: `lable` is no label: did you mean `label`",
            ),
            (
                "a.jsonl",
                "{\"output\": 1, \"labels\": 1}\n",
                "a.jsonl:1: `labels` is no label: did you mean `label`",
            ),
            (
                "a.jsonl",
                "{\"output\": 1, \"label\": 1, \"instruction\": \"x\"}\n",
                "a.jsonl:1: `instruction` needs",
            ),
            ("a.txt", "", "`a.txt` is not a label file"),
        ] {
            let message = bad(name, text);
            assert!(message.starts_with(expected), "{message}");
        }
        let many = format!("output,label\n{}", "Hi,maybe\n".repeat(30));
        assert!(bad("a.csv", &many).ends_with("and 10 more"));
        assert!(
            parse_labels("a.csv", b"output,label\nH\xe9,1\n", 0.5)
                .unwrap_err()
                .message
                .unwrap()
                .starts_with("a.csv:2: not UTF-8")
        );
    }
}
