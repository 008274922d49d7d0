//! What nunjucks writes otherwise, put into Jinja's words.

use std::borrow::Cow;
use std::ops::Range;

use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use crate::filters::LENGTH;

/// The template with each `.length` as a filter: texts and lists have it in JavaScript, and nothing by that name here.
/// Lines stay where they are.
pub(crate) fn of_jinja(template: &str) -> Cow<'_, str> {
    if !template.contains("length") {
        return Cow::Borrowed(template);
    }
    let mut made = String::with_capacity(template.len() + 16);
    let mut done = 0;
    let mut dot: Option<Span> = None;
    for read in tokenize(template, false, SyntaxConfig::default()) {
        // What cannot be read is told by the engine, which reads it again.
        let Ok((token, span)) = read else { return Cow::Borrowed(template) };
        if let (Token::Ident("length"), Some(dot)) = (&token, dot) {
            let (from, to) = (dot.start_offset as usize, span.end_offset as usize);
            if let Some(before) = template.get(done..from) {
                made.push_str(before);
                made.push('|');
                made.push_str(LENGTH);
                done = to;
            }
        }
        dot = matches!(token, Token::Dot).then_some(span);
    }
    if done == 0 {
        return Cow::Borrowed(template);
    }
    made.push_str(&template[done..]);
    Cow::Owned(made)
}

/// Where a part of a template is, in bytes.
pub(crate) fn range(span: Span) -> Range<usize> {
    span.start_offset as usize..span.end_offset as usize
}
