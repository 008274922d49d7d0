//! What nunjucks writes otherwise, put into Jinja's words; and how deep a template may be.

use std::borrow::Cow;
use std::ops::Range;

use minijinja::machinery::{Span, Token, ast, tokenize};
use minijinja::syntax::SyntaxConfig;

use crate::filters::LENGTH;
use crate::names::Fault;

/// The most operators, filters and the like that may depend on each other, and the most `elif` of one `if`. Each is a
/// call within a call to whoever reads, compiles or drops the template, and the engine bounds brackets and blocks only.
const DEEPEST: usize = 250;

/// Refuses a template that is so deep that reading it would overflow the stack.
pub(crate) fn check_depth(template: &str) -> Result<(), Fault> {
    // A level is a character at least.
    if template.len() <= DEEPEST {
        return Ok(());
    }
    let mut depth = Depth::default();
    // What cannot be read is told by the engine, which reads it again.
    for (token, span) in tokenize(template, false, SyntaxConfig::default()).map_while(Result::ok) {
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

/// What is given to a filter, a test or a call, in whichever way.
pub(crate) fn argument<'a, 't>(given: &'a ast::CallArg<'t>) -> &'a ast::Expr<'t> {
    match given {
        ast::CallArg::Pos(it)
        | ast::CallArg::Kwarg(_, it)
        | ast::CallArg::PosSplat(it)
        | ast::CallArg::KwargSplat(it) => it,
    }
}
