//! Errors for unknown filters, tests, functions and methods, with suggestions.

use std::ops::Range;

use kindlm_types::nearest_few;
use minijinja::machinery::Span;

use crate::fault::Fault;
use crate::syntax::range;

/// Makes the error for an unknown name.
pub(crate) fn unknown<'n>(
    template: &str,
    kind: &str,
    name: &str,
    known: impl Iterator<Item = &'n str>,
    span: Span,
) -> Fault {
    let all = known.filter(|it| it.len() > 1);
    let near: Vec<String> = nearest_few(name, all, 3).iter().map(|it| format!("`{it}`")).collect();
    let help = match (near.as_slice(), name) {
        (_, "get") if kind == "method" => {
            "write `{{ name['key'] }}`, with `| default('…')` for a key that may be missing"
                .to_owned()
        }
        (_, "items" | "keys" | "values") if kind == "method" => {
            "`{% for key, value in name | items %}` goes through an object".to_owned()
        }
        (_, "read_file_base64") if kind == "function" => {
            "promptfoo has no such function either: give a variable the value `file://image.jpg`, and its data is inserted"
                .to_owned()
        }
        ([], _) if kind == "method" => "write it as a filter: `{{ name | upper }}`".to_owned(),
        ([], _) => format!("docs/promptfoo.md lists every {kind} that there is"),
        (near, _) => format!("did you mean {}?", near.join(" or ")),
    };
    let line = template.contains('\n').then_some(usize::from(span.start_line));
    let range = place(template, name, range(span));
    let message = format!("there is no {kind} `{name}`");
    Fault { message, help: Some(help), range, line }
}

/// Returns the range of a name in an expression: the last occurrence of the name that ends a word.
///
/// Returns `None` without such an occurrence.
fn place(template: &str, name: &str, within: Range<usize>) -> Option<Range<usize>> {
    let text = template.get(within.clone())?;
    let is_word = |it: char| it.is_alphanumeric() || it == '_';
    let ends_there = |at: usize| !text[at + name.len()..].starts_with(is_word);
    let found = text.rmatch_indices(name).map(|(at, _)| at).find(|at| ends_there(*at));
    let at = within.start + found?;
    Some(at..at + name.len())
}
