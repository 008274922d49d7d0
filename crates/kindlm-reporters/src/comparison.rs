//! The comparison of a run in words, the same for all reports.
//!
//! The texts contain names from config files, such as names of cases. Each report escapes them for its format.

use kindlm_types::{
    AssertionChange, CaseChange, CaseChangeKind, Comparison, ComparisonVerdict, Condition,
    ConditionChange, PassRate, RateChange,
};

use crate::amount::{count, percent, plural};
use crate::plain::one_line;

/// The maximum number of lines of each kind of change in the text for a terminal.
const LISTED: usize = 20;

/// A line about a case, an assertion, or a condition of the runs such as a model or a prompt.
pub(crate) struct Line {
    /// The kind of change in one or two words, such as `regression`.
    pub(crate) word: &'static str,
    /// The name of the case, assertion or condition; empty in a line such as `and 3 more cases`.
    pub(crate) name: String,
    /// The change or the reason.
    pub(crate) detail: String,
}

/// Returns the comparison as text for a terminal: the result, the changes, and the numbers of cases.
pub fn comparison_text(comparison: &Comparison) -> String {
    let (after, before) = (&comparison.after, &comparison.before);
    let started = before.started_at.as_deref().map(|it| format!(" of {it}")).unwrap_or_default();
    let mut text = format!("{} against {}{started}\n\n", after.name, before.name);
    text.push_str(&headline(comparison));
    let lines = lines(comparison, LISTED);
    let word = lines.iter().map(|it| it.word.len()).max().unwrap_or(0);
    let mut text = one_line_each(&text);
    if !lines.is_empty() {
        text.push('\n');
    }
    for it in &lines {
        let line = one_line(&format!("{:word$}  {}", it.word, line_text(it)));
        text.extend([line.trim_end(), "\n"]);
    }
    text + "\n" + &counts(comparison) + "\n"
}

fn one_line_each(text: &str) -> String {
    text.split('\n').map(|it| one_line(it) + "\n").collect()
}

/// Returns the name and the detail of a line as text.
pub(crate) fn line_text(line: &Line) -> String {
    match (line.name.as_str(), line.detail.as_str()) {
        ("", detail) => detail.to_owned(),
        (name, "") => name.to_owned(),
        (name, detail) => format!("{name}: {detail}"),
    }
}

/// Returns the result in one line: the rates, the difference with interval and p value, and the verdict.
pub(crate) fn headline(comparison: &Comparison) -> String {
    let verdict = verdict(&comparison.verdict);
    match &comparison.pass_rate {
        Some(it) => format!("pass rate {}: {verdict}", measured(it)),
        None => verdict,
    }
}

fn measured(it: &RateChange) -> String {
    let clusters = if it.clusters < it.cases {
        format!(" in {}", plural(it.clusters, "cluster"))
    } else {
        String::new()
    };
    let repeats = match it.after.judged / it.cases.max(1) {
        each if each > 1 && each * it.cases == it.after.judged => format!(" × {}", count(each)),
        _ => String::new(),
    };
    format!(
        "{} → {} ({}{repeats}{clusters}), {} pp, 95% interval {} to {}, p {}",
        rate(it.before),
        rate(it.after),
        plural(it.cases, "case"),
        signed(it.difference),
        points(it.low),
        points(it.high),
        p_value(it.p_value)
    )
}

fn verdict(verdict: &ComparisonVerdict) -> String {
    match verdict {
        ComparisonVerdict::Regression => "regression".to_owned(),
        ComparisonVerdict::Improved => "improved".to_owned(),
        ComparisonVerdict::NoRegressionBeyond { margin } => {
            format!("no regression beyond {} pp", short(*margin))
        }
        ComparisonVerdict::NotEnoughData { detectable: Some(least) } => {
            format!(
                "not enough data; runs of this size detect a fall of {} pp or more",
                short(*least)
            )
        }
        ComparisonVerdict::NotEnoughData { detectable: None } => {
            "not enough data; `kindlm plan` shows how many cases and repeats detect a fall"
                .to_owned()
        }
        ComparisonVerdict::NotComparable { reason } => format!("not comparable: {reason}"),
    }
}

/// Returns the changed cases, the cases without a comparison, the assertions that changed significantly, and the
/// conditions that differ.
///
/// At most `most` lines of each kind are listed. One more line counts the others.
pub(crate) fn lines(comparison: &Comparison, most: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for word in KINDS {
        let of_kind = comparison.cases.iter().filter(|it| word_of(it) == Some(word));
        add(&mut lines, of_kind.map(|it| case(word, it)), most, "more case");
    }
    let assertions = comparison.assertions.iter();
    let certain = assertions.filter(|it| it.adjusted_p_value <= comparison.alpha);
    let certain = certain.map(|it| assertion(it, comparison));
    add(&mut lines, certain, most, "more assertion");
    add(&mut lines, comparison.differences.iter().map(condition), most, "more condition");
    lines
}

/// Adds at most `most` lines of a kind, and a line with the number of the others.
fn add(lines: &mut Vec<Line>, mut of_kind: impl Iterator<Item = Line>, most: usize, noun: &str) {
    lines.extend(of_kind.by_ref().take(most));
    if let Some(Line { word, .. }) = of_kind.next() {
        let detail = format!("and {}", plural(1 + of_kind.count() as u64, noun));
        lines.push(Line { word, name: String::new(), detail });
    }
}

fn assertion(it: &AssertionChange, comparison: &Comparison) -> Line {
    Line {
        word: "assertion",
        name: name_of(it, comparison),
        detail: format!(
            "{} → {}, {} pp, adjusted p {}",
            rate(it.change.before),
            rate(it.change.after),
            signed(it.change.difference),
            p_value(it.adjusted_p_value)
        ),
    }
}

/// Returns the name of a row: the assertion, followed by the label if there is one.
///
/// A row without a label is named `… (other checks)` if other rows of the assertion have labels.
fn name_of(row: &AssertionChange, comparison: &Comparison) -> String {
    let id = &row.assertion;
    let has_label = |it: &AssertionChange| it.assertion == *id && it.label.is_some();
    match &row.label {
        Some(label) => format!("{id}: {label}"),
        None if comparison.assertions.iter().any(has_label) => format!("{id} (other checks)"),
        None => id.clone(),
    }
}

/// The kinds of cases that are listed, in their order.
///
/// A `regression` or a `fix` is statistically significant. A case that `fell` or `rose` may have changed by chance.
const KINDS: [&str; 8] =
    ["regression", "fell", "fix", "rose", "unknown", "not comparable", "gone", "new"];

/// Returns the word for the change of a case; `None` if it did not change.
fn word_of(case: &CaseChange) -> Option<&'static str> {
    let is_fall = case.difference().is_some_and(|it| it < 0.0);
    match case.kind {
        CaseChangeKind::Unchanged => None,
        CaseChangeKind::Regression => Some("regression"),
        CaseChangeKind::Fix => Some("fix"),
        CaseChangeKind::Changed => Some(if is_fall { "fell" } else { "rose" }),
        CaseChangeKind::New => Some("new"),
        CaseChangeKind::Gone => Some("gone"),
        CaseChangeKind::Unknown { .. } => Some("unknown"),
        CaseChangeKind::NotComparable { .. } => Some("not comparable"),
    }
}

fn case(word: &'static str, it: &CaseChange) -> Line {
    let name =
        if it.model.is_empty() { it.case.clone() } else { format!("{} [{}]", it.case, it.model) };
    let detail = match (it.kind.reason(), it.before, it.after) {
        (Some(reason), ..) => reason.to_owned(),
        (None, Some(before), Some(after)) => {
            let is_certain = matches!(it.kind, CaseChangeKind::Regression | CaseChangeKind::Fix);
            let p = it.p_value.filter(|_| is_certain);
            let p = p.map(|it| format!(", adjusted p {}", p_value(it))).unwrap_or_default();
            format!("{} → {}{p}", counted(before), counted(after))
        }
        (None, before, after) => before.or(after).map(counted).unwrap_or_default(),
    };
    Line { word, name, detail }
}

fn counted(it: PassRate) -> String {
    format!("{} of {}", count(it.passed), count(it.judged))
}

/// Returns the line about a condition that differs between the runs, such as a model.
pub(crate) fn condition(it: &ConditionChange) -> Line {
    let kind = match it.condition {
        Condition::Version => "KindLM",
        Condition::Prompt => "prompt",
        Condition::Rules => "rules",
        Condition::Model => "model",
        Condition::Judges => "judges",
    };
    let name = it.name.as_ref().map(|it| format!("{kind} `{it}`"));
    let value = |it: &Option<String>| it.clone().unwrap_or_else(|| "none".to_owned());
    Line {
        word: "differs",
        name: name.unwrap_or_else(|| kind.to_owned()),
        detail: format!("{} → {}", value(&it.before), value(&it.after)),
    }
}

/// Returns the numbers of cases by kind, such as `1 regression, 2 fell, 1 rose, 96 unchanged`.
pub(crate) fn counts(comparison: &Comparison) -> String {
    let number = |word: Option<&str>| {
        comparison.cases.iter().filter(|it| word_of(it) == word).count() as u64
    };
    let unchanged = (number(None), "unchanged");
    let kinds = KINDS.iter().map(|word| (number(Some(word)), *word));
    let mut all: Vec<(u64, &str)> = kinds.collect();
    all.insert(4, unchanged);
    let shown = all.iter().filter(|(number, _)| *number > 0);
    let shown: Vec<String> =
        shown.map(|(number, word)| format!("{} {word}", count(*number))).collect();
    if shown.is_empty() { "no cases".to_owned() } else { shown.join(", ") }
}

fn rate(it: PassRate) -> String {
    format!("{}%", percent(it.rate))
}

/// Formats a share in percentage points with one decimal, and with `−` before a negative number.
fn points(share: f64) -> String {
    let text = percent(share.abs());
    if share < 0.0 && text != "0.0" { format!("−{text}") } else { text }
}

/// Formats a share in percentage points, without a final `.0`.
fn short(share: f64) -> String {
    let text = points(share);
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// Returns the change of the pass rate, such as `−0.9 pp`; `None` if no case was compared.
pub(crate) fn change(comparison: &Comparison) -> Option<String> {
    comparison.pass_rate.map(|it| format!("{} pp", signed(it.difference)))
}

/// Returns the mean change of the pass rate over the compared cases of a model; `None` without compared cases.
pub(crate) fn change_of(comparison: &Comparison, model: &str) -> Option<String> {
    let compared = comparison.cases.iter().filter(|it| it.model == model && it.kind.is_compared());
    let (sum, cases) = compared
        .filter_map(CaseChange::difference)
        .fold((0.0, 0.0), |(sum, cases), it| (sum + it, cases + 1.0));
    (cases > 0.0).then(|| format!("{} pp", signed(sum / cases)))
}

/// Formats a difference in percentage points with its sign.
pub(crate) fn signed(share: f64) -> String {
    let text = points(share);
    if share > 0.0 && text != "0.0" { format!("+{text}") } else { text }
}

/// Formats a p value with two to four decimals, more for smaller values.
pub(crate) fn p_value(p: f64) -> String {
    match p {
        p if p < 0.000_1 => "< 0.0001".to_owned(),
        p if p < 0.01 => format!("{p:.4}"),
        p if p < 0.1 => format!("{p:.3}"),
        p => format!("{p:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_signs_and_digits() {
        let shown = [-0.075, 0.02, -0.000_1, 0.0].map(|it| (points(it), signed(it)));
        let shown: Vec<String> =
            shown.iter().map(|(one, other)| format!("{one} {other}")).collect();
        assert_eq!(shown, ["−7.5 −7.5", "2.0 +2.0", "0.0 0.0", "0.0 0.0"]);
        let shown = [0.000_01, 0.000_4, 0.023_1, 0.2, 1.0].map(p_value);
        assert_eq!(shown, ["< 0.0001", "0.0004", "0.023", "0.20", "1.00"]);
    }
}
