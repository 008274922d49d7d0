//! How deep a template may be.

use std::ops::Range;
use std::sync::LazyLock;

use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use crate::read::Fault;

/// The most operators, filters and the like that may depend on each other, and the most `elif` of one `if`. Each is a
/// call within a call to whoever reads, compiles or drops the template, and the engine bounds brackets and blocks only.
const DEEPEST: usize = 250;

/// Marks and white space as nunjucks has them: the last line break is text, too.
pub(crate) fn settings() -> SyntaxConfig {
    static SETTINGS: LazyLock<SyntaxConfig> = LazyLock::new(|| {
        let built = SyntaxConfig::builder().keep_trailing_newline(true).build();
        // It fails where marks are too much alike, and these are the usual ones.
        built.unwrap_or_default()
    });
    SETTINGS.clone()
}

/// Refuses a template that is so deep that reading it would overflow the stack.
pub(crate) fn check_depth(template: &str) -> Result<(), Fault> {
    // A level is a character at least.
    if template.len() <= DEEPEST {
        return Ok(());
    }
    let mut depth = Depth::default();
    // What cannot be read is told by the engine, which reads it again.
    for (token, span) in tokenize(template, false, settings()).map_while(Result::ok) {
        depth.take(&token);
        if depth.levels() > DEEPEST {
            let help = "write it in parts: `{% set part = … %}` gives one of them a name";
            return Err(Fault {
                message: format!("it is nested more than {DEEPEST} levels deep"),
                help: Some(help.to_owned()),
                range: Some(range(span)),
                line: template.contains('\n').then_some(usize::from(span.start_line)),
            });
        }
    }
    Ok(())
}

/// How deep what is read stands, at most.
#[derive(Default)]
struct Depth {
    /// The `elif` of each `if` that is open.
    branches: Vec<usize>,
    /// What stands in the tag, and in each bracket that is open there, behind the last comma.
    within: Vec<usize>,
    /// Whether the next name is that of a block.
    begins_block: bool,
}

impl Depth {
    fn levels(&self) -> usize {
        self.branches.iter().chain(&self.within).sum()
    }

    fn take(&mut self, token: &Token<'_>) {
        let begins_block =
            std::mem::replace(&mut self.begins_block, matches!(token, Token::BlockStart));
        match token {
            Token::Ident(name) if begins_block => self.block(name),
            Token::BlockEnd | Token::VariableEnd => self.within.clear(),
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => self.within.push(1),
            Token::BracketClose | Token::ParenClose | Token::BraceClose => {
                self.within.pop();
                self.add();
            }
            Token::Comma => {
                if let Some(last) = self.within.last_mut() {
                    *last = 0;
                }
            }
            Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Float(_) | Token::Colon => {}
            _ => self.add(),
        }
    }

    fn block(&mut self, name: &str) {
        match name {
            "if" => self.branches.push(0),
            "elif" => {
                if let Some(open) = self.branches.last_mut() {
                    *open += 1;
                }
            }
            "endif" => drop(self.branches.pop()),
            _ => {}
        }
    }

    fn add(&mut self) {
        match self.within.last_mut() {
            Some(last) => *last += 1,
            None => self.within.push(1),
        }
    }
}

/// Where a part of a template is, in bytes.
pub(crate) fn range(span: Span) -> Range<usize> {
    span.start_offset as usize..span.end_offset as usize
}

/// The template with a `default` wherever it looks up a variable, or a part of one; unchanged where it does not.
pub fn with_default(template: &str, name: &str, default: &str) -> String {
    let path: Vec<&str> = name.split('.').collect();
    let read = tokenize(template, false, settings()).map_while(Result::ok);
    // Only what stands in tags is a token of a name; what is between them is text.
    let tokens: Vec<(Token<'_>, Range<usize>)> = read.map(|(it, span)| (it, range(span))).collect();
    let ident = |at: usize| match tokens.get(at) {
        Some((Token::Ident(name), _)) => Some(*name),
        _ => None,
    };
    let is_dot = |at: usize| matches!(tokens.get(at), Some((Token::Dot, _)));
    let mut written = String::with_capacity(template.len() + 32);
    let (mut done, mut at) = (0, 0);
    while at < tokens.len() {
        let starts = at == 0 || !is_dot(at - 1);
        let matches = |(step, part): (usize, &&str)| {
            ident(at + 2 * step) == Some(part) && (step == 0 || is_dot(at + 2 * step - 1))
        };
        if !(starts && path.iter().enumerate().all(matches)) {
            at += 1;
            continue;
        }
        // What is looked up in what is missing is missing too; but methods are called.
        let mut last = at + 2 * (path.len() - 1);
        let is_called = |at: usize| matches!(tokens.get(at), Some((Token::ParenOpen, _)));
        while is_dot(last + 1) && ident(last + 2).is_some() && !is_called(last + 3) {
            last += 2;
        }
        let ends = [at, last].map(|it| tokens.get(it).map(|(_, range)| range.clone()));
        if let [Some(first), Some(end)] = ends {
            let whole = template.get(first.start..end.end).unwrap_or_default();
            written.push_str(template.get(done..first.start).unwrap_or_default());
            // Nothing binds more where it is printed, or given to a filter.
            let before = at.checked_sub(1).and_then(|it| tokens.get(it)).map(|(it, _)| it);
            let behind = tokens.get(last + 1).map(|(it, _)| it);
            let is_alone = matches!(before, Some(Token::VariableStart))
                && matches!(behind, Some(Token::VariableEnd | Token::Pipe));
            let [open, close] = if is_alone { ["", ")"] } else { ["(", "))"] };
            written.extend([open, whole, " | default(", default, close]);
            done = end.end;
        }
        at = last + 1;
    }
    written.push_str(template.get(done..).unwrap_or_default());
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_stands_where_a_name_is_looked_up() {
        for (template, name, expected) in [
            ("a x {{ x }} {{ y }}", "x", "a x {{ x | default('') }} {{ y }}"),
            ("{{ x | upper }}{{ 'x' }}", "x", "{{ x | default('') | upper }}{{ 'x' }}"),
            ("{{ x.a.trim() }} {{ y.x }}", "x", "{{ (x.a | default('')).trim() }} {{ y.x }}"),
            (
                "{% for i in u.l %}é{% endfor %}",
                "u.l",
                "{% for i in (u.l | default('')) %}é{% endfor %}",
            ),
            ("{{ u }} {{ u.b }}", "u.l", "{{ u }} {{ u.b }}"),
        ] {
            assert_eq!(with_default(template, name, "''"), expected);
        }
    }
}
