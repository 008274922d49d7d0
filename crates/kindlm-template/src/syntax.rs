//! The syntax of templates and its limits.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use crate::fault::Fault;

/// The deepest allowed nesting of operators, filters and `elif` branches.
///
/// Each level is a recursive call when the template is parsed, compiled or dropped. The engine itself only limits
/// brackets and blocks.
const DEEPEST: usize = 250;

/// Returns the delimiters and white space rules of nunjucks. The last line break of a template is a part of its text.
pub(crate) fn settings() -> SyntaxConfig {
    static SETTINGS: LazyLock<SyntaxConfig> = LazyLock::new(|| {
        let built = SyntaxConfig::builder().keep_trailing_newline(true).build();
        // Only ambiguous delimiters make the builder fail. The standard delimiters work, so the default is unused.
        built.unwrap_or_default()
    });
    SETTINGS.clone()
}

/// Returns an error if the template is nested too deeply. Such a template would overflow the stack of the engine.
pub(crate) fn check_depth(template: &str) -> Result<(), Fault> {
    // Each level has at least one character.
    if template.len() <= DEEPEST {
        return Ok(());
    }
    let mut depth = Depth::default();
    // The engine parses the text later and reports invalid tokens.
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

/// The nesting depth of the tokens so far.
#[derive(Default)]
struct Depth {
    /// The number of `elif` branches in each open `if`.
    branches: Vec<usize>,
    /// The levels since the last comma, in the open tag and in each open bracket.
    within: Vec<usize>,
    /// True if the next identifier is the name of a block.
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

/// Returns the range of a span in the template, in bytes.
pub(crate) fn range(span: Span) -> Range<usize> {
    span.start_offset as usize..span.end_offset as usize
}

/// Replaces nunjucks' `elseif` by Jinja's `elif`. Padding keeps all positions unchanged.
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
