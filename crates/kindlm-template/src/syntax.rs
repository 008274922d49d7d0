//! How templates are written, and how deep they may be.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use crate::fault::Fault;

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
    /// True if the next name is that of a block.
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

/// nunjucks has two words for `elif`; the template with the one that Jinja has, with everything where it was.
pub(crate) fn as_jinja(template: &str) -> Cow<'_, str> {
    const OTHER: &str = "elseif";
    const JINJA: &str = "elif  ";
    if !template.contains(OTHER) {
        return template.into();
    }
    let mut written = template.to_owned();
    let mut begins_block = false;
    for (token, span) in tokenize(template, false, settings()).map_while(Result::ok) {
        if begins_block && matches!(token, Token::Ident(OTHER)) {
            written.replace_range(range(span), JINJA);
        }
        begins_block = matches!(token, Token::BlockStart);
    }
    written.into()
}
