//! Harmful operators on the text of the last answer.

use kindlm_types::Execution;
use kindlm_wire::mutation::MutatedEvidence;

use crate::Original;
use crate::choice::Choice;
use crate::edit::with_output;
use crate::operator::Operator;
use crate::prose::{days, names, numbers, other_number, prose, replaced, sentences};

const FACTS: &str =
    "no check requires this statement: add `contains` with its facts, or a `judge` that names it";

pub(crate) static TEXT: [Operator; 11] = [
    Operator::harmful(
        MutatedEvidence::Text,
        "drop-sentence",
        "drops a sentence that is not the last",
        FACTS,
        drop_sentence,
    ),
    Operator::harmful(
        MutatedEvidence::Text,
        "negate",
        "turns a statement into its opposite",
        "no check notices the opposite: add `contains` with the whole statement, or `notContains` with its opposite",
        negate,
    ),
    Operator::harmful(
        MutatedEvidence::Text,
        "change-number",
        "changes a digit of a number",
        "no check requires this number: add `contains` with it",
        change_number,
    ),
    Operator::harmful(
        MutatedEvidence::Text,
        "change-date",
        "changes the day of a date",
        "no check requires this date: add `contains` with it",
        change_date,
    ),
    Operator::harmful(
        MutatedEvidence::Text,
        "change-name",
        "replaces a name or value by that of another case",
        "no check requires this name or value: add `contains` with it",
        change_name,
    ),
    Operator::harmful(
        MutatedEvidence::Text,
        "truncate",
        "cuts the answer in the middle",
        "no check looks at the end of the answer: add `contains` with its last facts, or `minLength`",
        truncate,
    ),
    Operator::harmful(
        MutatedEvidence::Text,
        "empty",
        "removes the answer",
        "no check requires an answer: add `contains`, or `minLength: 1`",
        empty,
    ),
    Operator::harmful(
        MutatedEvidence::Text,
        "refusal",
        "replaces the answer by a refusal",
        "no check notices a refusal: add `type: not-is-refusal`, or `contains` with the facts of the answer",
        refusal,
    ),
    Operator::harmful(
        MutatedEvidence::Text,
        "other-answer",
        "replaces the answer by that of another case",
        "no check distinguishes this case from others: add `contains` with a fact of this case only",
        other_answer,
    ),
    Operator::harmful(
        MutatedEvidence::Text,
        "add-promise",
        "adds a promise that the agent did not make",
        "no check notices invented statements: add `notContains`, `maxLength`, or a `judge` for faithfulness",
        add_promise,
    ),
    Operator::harmful(
        MutatedEvidence::Text,
        "add-personal-data",
        "adds a payment card and an e-mail address",
        "no check notices personal data: add `guardrails: { pii: { enabled: true } }`",
        add_personal_data,
    ),
];

fn drop_sentence(original: &Original<'_>, choice: &mut Choice) -> Option<Execution> {
    let text = prose(original.execution)?;
    let all = sentences(text);
    // A greeting and a closing question are often harmless to drop, so a sentence between them is preferred.
    let candidates = if all.len() > 2 {
        all.get(1..all.len() - 1)?
    } else {
        all.get(..all.len().checked_sub(1)?)?
    };
    // The longest sentence mostly has the facts.
    let longest = candidates.iter().map(ExactSizeIterator::len).max()?;
    let long: Vec<_> = candidates.iter().filter(|it| it.len() == longest).collect();
    let dropped = choice.pick(&long)?;
    let rest = text.get(dropped.end..)?.trim_start();
    let text = format!("{}{rest}", text.get(..dropped.start)?);
    Some(with_output(original.execution, &text, None))
}

/// The verbs after which `not` turns a sentence into its opposite.
const VERBS: [&str; 12] = [
    " has ", " have ", " is ", " are ", " was ", " were ", " can ", " will ", " must ", " should ",
    " may ", " does ",
];

fn negate(original: &Original<'_>, choice: &mut Choice) -> Option<Execution> {
    let text = prose(original.execution)?;
    let mut negated = Vec::new();
    for sentence in sentences(text) {
        let statement = text.get(sentence.clone())?;
        // The opposite of a question asks for the same thing.
        if statement.ends_with('?') {
            continue;
        }
        let found = VERBS.iter().filter_map(|verb| Some((statement.find(verb)?, verb))).min();
        let Some(first) = found else { continue };
        let after = sentence.start + first.0 + first.1.len();
        negated.push(match text.get(after..)?.strip_prefix("not ") {
            Some(rest) => format!("{}{rest}", text.get(..after)?),
            None => replaced(text, &(after..after), "not "),
        });
    }
    Some(with_output(original.execution, choice.pick(&negated)?, None))
}

fn change_number(original: &Original<'_>, choice: &mut Choice) -> Option<Execution> {
    let text = prose(original.execution)?;
    let number = choice.pick(&numbers(text))?.clone();
    let text = replaced(text, &number, &other_number(text.get(number.clone())?));
    Some(with_output(original.execution, &text, None))
}

fn change_date(original: &Original<'_>, choice: &mut Choice) -> Option<Execution> {
    let text = prose(original.execution)?;
    let place = choice.pick(&days(text))?.clone();
    let written = text.get(place.clone())?;
    let day: u32 = written.parse().ok()?;
    let other = if day < 28 { day + 1 } else { day - 1 };
    let text = replaced(text, &place, &format!("{other:0width$}", width = written.len()));
    Some(with_output(original.execution, &text, None))
}

fn change_name(original: &Original<'_>, choice: &mut Choice) -> Option<Execution> {
    let text = prose(original.execution)?;
    let text =
        other_variable(original, choice, text).or_else(|| other_name(original, choice, text))?;
    Some(with_output(original.execution, &text, None))
}

/// Replaces the value of one test variable in the text by the value of the same variable in another case.
///
/// Returns `None` if the text contains no variable's value, or if no other case has a different value.
fn other_variable(original: &Original<'_>, choice: &mut Choice, text: &str) -> Option<String> {
    let own = &original.execution.vars;
    // The operator `change-number` changes values without letters.
    let is_used =
        |it: &str| it.len() > 1 && it.chars().any(char::is_alphabetic) && text.contains(it);
    let used: Vec<(&String, &str)> = own
        .iter()
        .filter_map(|(name, value)| Some((name, value.as_str().filter(|it| is_used(it))?)))
        .collect();
    let (name, value) = *choice.pick(&used)?;
    let mut others = original.other_cases(choice).filter_map(|it| it.vars.get(name)?.as_str());
    let other = others.find(|it| *it != value && !it.is_empty())?;
    Some(text.replace(value, other))
}

/// Replaces a name by a name that occurs only in the answer of another case; `None` if there is no such name.
fn other_name(original: &Original<'_>, choice: &mut Choice, text: &str) -> Option<String> {
    let place = choice.pick(&names(text))?.clone();
    let name = text.get(place)?;
    let other = original.other_cases(choice).find_map(|it| {
        let other = it.output.as_str();
        // A name in both answers does not distinguish the cases.
        if other.contains(name) {
            return None;
        }
        let mut all = names(other).into_iter().filter_map(|it| other.get(it));
        all.find(|it| !text.contains(it))
    })?;
    Some(text.replace(name, other))
}

fn truncate(original: &Original<'_>, _: &mut Choice) -> Option<Execution> {
    let text = original.execution.output.as_str();
    let (middle, _) = text.char_indices().nth(text.chars().count() / 2)?;
    let start = text.get(..middle)?.trim_end();
    (!start.is_empty()).then(|| with_output(original.execution, start, None))
}

fn empty(original: &Original<'_>, _: &mut Choice) -> Option<Execution> {
    (!original.execution.output.is_empty()).then(|| with_output(original.execution, "", None))
}

fn refusal(original: &Original<'_>, _: &mut Choice) -> Option<Execution> {
    let text = "I'm sorry, but I can't help with that.";
    (!original.execution.output.is_empty()).then(|| with_output(original.execution, text, None))
}

fn other_answer(original: &Original<'_>, choice: &mut Choice) -> Option<Execution> {
    let own = original.execution;
    let is_other = |it: &&Execution| !it.output.is_empty() && it.output != own.output;
    let other = original.other_cases(choice).find(is_other).filter(|_| !own.output.is_empty())?;
    Some(with_output(own, &other.output, other.output_json.clone()))
}

fn add_promise(original: &Original<'_>, _: &mut Choice) -> Option<Execution> {
    add(original, "You will also get a refund of $50.")
}

fn add_personal_data(original: &Original<'_>, _: &mut Choice) -> Option<Execution> {
    add(original, "We have your card 4111 1111 1111 1111 and jane.doe@example.com on file.")
}

fn add(original: &Original<'_>, sentence: &str) -> Option<Execution> {
    let text = prose(original.execution)?.trim_end();
    Some(with_output(original.execution, &format!("{text} {sentence}"), None))
}
