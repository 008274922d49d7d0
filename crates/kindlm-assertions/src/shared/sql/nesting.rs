//! A limit for the nesting of SQL.
//!
//! The parser and the visitor of its tree recurse for each level, so deep nesting would exhaust the stack.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

/// The highest number of levels around one place: the statement itself, brackets, `CASE`s and prefixes.
const DEEPEST: usize = 16;

/// The highest number of tokens in the chains around one place. A chain is, for example, `a = 1 OR a = 2 OR …`.
///
/// Each operator of a chain is a level of the tree. A keyword that chains queries, such as `UNION`, counts 10 more.
const LONGEST: usize = 300;

/// The keywords after which a new expression or statement begins, one level deeper.
const PREFIXES: &[Keyword] = &[
    Keyword::ALL,
    Keyword::ANALYZE,
    Keyword::ANY,
    Keyword::ARRAY,
    Keyword::AS,
    Keyword::BEGIN,
    Keyword::BINARY,
    Keyword::CONNECT_BY_ROOT,
    Keyword::DESC,
    Keyword::DESCRIBE,
    Keyword::EXPLAIN,
    Keyword::IF,
    Keyword::INTERVAL,
    Keyword::NOT,
    Keyword::OF,
    Keyword::PREPARE,
    Keyword::PRIOR,
    Keyword::TABLE,
];

/// The keywords after which a new chain begins on the same level.
const BREAKS: &[Keyword] = &[
    Keyword::FROM,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::JOIN,
    Keyword::ON,
    Keyword::ORDER,
    Keyword::WHERE,
];

/// The keywords that chain whole queries.
const UNIONS: &[Keyword] = &[Keyword::UNION, Keyword::INTERSECT, Keyword::EXCEPT, Keyword::MINUS];

/// The state of one level of nesting.
#[derive(Clone, Copy, Default)]
struct Level {
    /// The number of tokens since the chain began, for example at the last comma.
    chain: usize,
    /// The number of keywords that chain queries.
    unions: usize,
}

/// Returns true if the statements are nested too deeply to be parsed safely.
pub(super) fn is_too_deep(tokens: &[Token]) -> bool {
    // The outermost level is never closed.
    let mut levels = vec![Level::default()];
    let mut prefixes = 0;
    for token in tokens {
        let keyword = match token {
            Token::Whitespace(_) => continue,
            Token::Word(word) => word.keyword,
            _ => Keyword::NoKeyword,
        };
        prefixes = if is_prefix(token, keyword) { prefixes + 1 } else { 0 };
        if opens(token, keyword) {
            levels.push(Level::default());
        } else if closes(token, keyword) && levels.len() > 1 {
            levels.pop();
        }
        if let Some(level) = levels.last_mut() {
            if *token == Token::SemiColon {
                *level = Level::default();
            } else if *token == Token::Comma || BREAKS.contains(&keyword) {
                level.chain = 0;
            }
            level.chain += 1;
            level.unions += usize::from(UNIONS.contains(&keyword));
        }
        let chained: usize = levels.iter().map(|it| it.chain + 10 * it.unions).sum();
        if levels.len() + prefixes > DEEPEST || chained > LONGEST {
            return true;
        }
    }
    false
}

fn opens(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::LParen | Token::LBracket | Token::LBrace) || keyword == Keyword::CASE
}

fn closes(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::RParen | Token::RBracket | Token::RBrace) || keyword == Keyword::END
}

fn is_prefix(token: &Token, keyword: Keyword) -> bool {
    let sign = matches!(
        token,
        Token::Minus | Token::Plus | Token::Tilde | Token::ExclamationMark | Token::Lt
    );
    sign || PREFIXES.contains(&keyword)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::dialect::{GenericDialect, MySqlDialect};
    use sqlparser::parser::Parser;
    use sqlparser::tokenizer::Tokenizer;

    fn tokens(text: &str) -> Vec<Token> {
        Tokenizer::new(&MySqlDialect {}, text).tokenize().unwrap()
    }

    #[test]
    fn deep_nesting_and_long_chains_are_found() {
        for (before, open, middle, close) in [
            ("SELECT ", "(", "1", ")"),
            ("SELECT * FROM ", "(", "t", ""),
            ("SELECT ", "CASE WHEN 1 THEN ", "1", " END"),
            ("SELECT ", "NOT ", "1", ""),
            ("SELECT ", "- ", "1", ""),
            ("SELECT ", "f(", "1", ")"),
            ("", "EXPLAIN ", "SELECT 1", ""),
            ("SELECT a FROM t WHERE ", "a = 1 OR ", "a = 1", ""),
            ("SELECT a", "::int", "", ""),
            ("", "SELECT a, b FROM t UNION ", "SELECT 1, 2", ""),
            ("SELECT ", "EXISTS (SELECT ", "1", ")"),
        ] {
            for (count, expected) in [(2_000, true), (4, false)] {
                let text = format!("{before}{}{middle}{}", open.repeat(count), close.repeat(count));
                assert_eq!(is_too_deep(&tokens(&text)), expected, "{count} × {open}");
            }
        }
        let rows = format!("INSERT INTO t VALUES (1, -2){}", ", (3, f(-4))".repeat(1_000));
        assert!(!is_too_deep(&tokens(&rows)));
    }

    /// Checks that SQL within the limits can be parsed without a stack overflow.
    ///
    /// Without optimization, even less nesting needs most of a thread's stack, so the parser then allocates more stack.
    #[test]
    fn accepted_nesting_can_be_parsed() {
        for (before, open, middle, close) in [
            ("SELECT ", "(", "1", ")"),
            ("SELECT * FROM ", "(", "t", ")"),
            ("SELECT * FROM ", "(SELECT * FROM ", "t", ") AS x"),
            ("SELECT ", "CASE WHEN 1 THEN ", "1", " END"),
            ("SELECT ", "NOT ", "1", ""),
            ("SELECT ", "- ", "1", ""),
            ("SELECT ", "f(", "1", ")"),
            ("", "EXPLAIN ", "SELECT 1", ""),
            ("SELECT a FROM t WHERE ", "a OR ", "a", ""),
            ("SELECT a", "::int", "", ""),
            ("", "SELECT a FROM t UNION ", "SELECT 1", ""),
            ("SELECT ", "(SELECT ", "1", ")"),
        ] {
            let text =
                |count| format!("{before}{}{middle}{}", open.repeat(count), close.repeat(count));
            let fits = |count: &usize| !is_too_deep(&tokens(&text(*count)));
            let steps = (1..DEEPEST).chain((DEEPEST..LONGEST).step_by(20));
            let deepest = steps.take_while(fits).last().unwrap();
            for dialect in
                [&MySqlDialect {} as &dyn sqlparser::dialect::Dialect, &GenericDialect {}]
            {
                if let Ok(statements) = Parser::parse_sql(dialect, &text(deepest)) {
                    crate::shared::sql::authority::touched(&statements);
                }
            }
        }
    }
}
