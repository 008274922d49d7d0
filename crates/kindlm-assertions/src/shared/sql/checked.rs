//! The parser of SQL in the dialect of a database.

use kindlm_types::{Problem, suggest};
use sqlparser::ast::Statement;
use sqlparser::dialect::{
    BigQueryDialect, Dialect, GenericDialect, HiveDialect, MsSqlDialect, MySqlDialect,
    PostgreSqlDialect, RedshiftSqlDialect, SQLiteDialect, SnowflakeDialect,
};
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer, Word};

use super::{Fault, SqlValue, authority, nesting, reserved};
use crate::shared::pattern::{Flags, Pattern};

/// A supported database. For a database whose dialect the parser lacks, the generic dialect is used.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Database {
    MySQL,
    MariaDB,
    PostgreSQL,
    Sqlite,
    TransactSQL,
    BigQuery,
    Hive,
    Redshift,
    Snowflake,
    Athena,
    DB2,
    FlinkSQL,
    Noql,
    Trino,
}

const DATABASES: [Database; 14] = [
    Database::MySQL,
    Database::MariaDB,
    Database::PostgreSQL,
    Database::Sqlite,
    Database::TransactSQL,
    Database::BigQuery,
    Database::Hive,
    Database::Redshift,
    Database::Snowflake,
    Database::Athena,
    Database::DB2,
    Database::FlinkSQL,
    Database::Noql,
    Database::Trino,
];

impl Database {
    /// Returns the database with this name, ignoring case. An unknown name is a problem.
    fn named(name: &str) -> Result<Self, Problem> {
        let found = DATABASES.into_iter().find(|it| it.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let names: Vec<String> = DATABASES.into_iter().map(Self::name).collect();
            let help = suggest(name, "known databases", names.iter().map(String::as_str));
            Problem::new("/value/databaseType", format!("there is no dialect of `{name}`"))
                .with_help(help)
        })
    }

    fn name(self) -> String {
        format!("{self:?}")
    }

    fn dialect(self) -> Box<dyn Dialect> {
        match self {
            Self::MySQL | Self::MariaDB => Box::new(MySqlDialect {}),
            Self::PostgreSQL => Box::new(PostgreSqlDialect {}),
            Self::Sqlite => Box::new(SQLiteDialect {}),
            Self::TransactSQL => Box::new(MsSqlDialect {}),
            Self::BigQuery => Box::new(BigQueryDialect),
            Self::Hive => Box::new(HiveDialect {}),
            Self::Redshift => Box::new(RedshiftSqlDialect {}),
            Self::Snowflake => Box::new(SnowflakeDialect),
            Self::Athena | Self::DB2 | Self::FlinkSQL | Self::Noql | Self::Trino => {
                Box::new(GenericDialect {})
            }
        }
    }
}

/// A list of allowed tables or columns, with its configuration key.
#[derive(Debug)]
struct Allowed {
    key: &'static str,
    patterns: Vec<Pattern>,
}

/// The requirements for SQL.
#[derive(Debug)]
pub(crate) struct Sql {
    database: Database,
    tables: Option<Allowed>,
    columns: Option<Allowed>,
}

impl SqlValue {
    /// Finds the database and compiles the lists of allowed tables and columns. An unknown database or an invalid
    /// pattern is a problem.
    pub(crate) fn compile(self) -> Result<Sql, Vec<Problem>> {
        let database = Database::named(&self.database_type).map_err(|problem| vec![problem])?;
        let tables = allowed("allowedTables", self.allowed_tables)?;
        let columns = allowed("allowedColumns", self.allowed_columns)?;
        Ok(Sql { database, tables, columns })
    }
}

fn allowed(key: &'static str, list: Option<Vec<String>>) -> Result<Option<Allowed>, Vec<Problem>> {
    let Some(list) = list else { return Ok(None) };
    let (mut patterns, mut problems) = (Vec::new(), Vec::new());
    for (index, written) in list.iter().enumerate() {
        let at = format!("/value/{key}/{index}");
        if written.matches("::").count() != 2 {
            let message = format!("`{written}` does not have three parts");
            let help =
                "write the operation, the database and the table, such as `select::null::orders`";
            problems.push(Problem::new(at, message).with_help(help));
            continue;
        }
        let whole = format!("^(?:{written})$");
        // Compile the pattern as written first, so that an error shows what the user wrote.
        let pattern = Pattern::compile(written)
            .and_then(|_| Pattern::new(&whole, Flags { ignore_case: true }));
        match pattern {
            Ok(pattern) => patterns.push(pattern),
            Err(err) => problems.push(err.problem(at)),
        }
    }
    if problems.is_empty() { Ok(Some(Allowed { key, patterns })) } else { Err(problems) }
}

impl Allowed {
    /// Returns the reason why a touched name is not allowed; `None` if all are allowed.
    fn fault(&self, touched: &[String]) -> Option<String> {
        // A pattern that exceeds its step limit allows no name.
        let is_allowed = |it: &&String| {
            self.patterns.iter().any(|pattern| pattern.is_match(it).unwrap_or(false))
        };
        let denied: Vec<&str> =
            touched.iter().filter(|it| !is_allowed(it)).map(String::as_str).collect();
        let key = self.key;
        (!denied.is_empty()).then(|| {
            format!("SQL validation failed: `{key}` does not allow {}.", denied.join(", "))
        })
    }
}

impl Sql {
    /// Returns the reason why a text is not accepted; `None` if it is accepted.
    pub(crate) fn fault(&self, text: &str) -> Option<Fault> {
        let dialect = self.database.dialect();
        let tokens = Tokenizer::new(&*dialect, text).tokenize().unwrap_or_default();
        if nesting::is_too_deep(&tokens) {
            return Some(Fault::TooDeep);
        }
        let Some(statements) = self.parse(&*dialect, tokens) else {
            let database = self.database.name();
            return Some(Fault::Wrong(format!(
                "SQL statement does not conform to the provided {database} database syntax."
            )));
        };
        let mut faults = Vec::new();
        if self.tables.is_some() || self.columns.is_some() {
            let touched = authority::touched(&statements);
            faults.extend(self.tables.as_ref().and_then(|it| it.fault(&touched.tables)));
            faults.extend(self.columns.as_ref().and_then(|it| it.fault(&touched.columns)));
        }
        (!faults.is_empty()).then(|| Fault::Wrong(faults.join(" ")))
    }

    /// Parses the statements; returns `None` if there is no statement, or if any part of the text is not SQL.
    ///
    /// Also returns `None` for valid SQL that is probably a mistake:
    ///
    /// - prose, such as `show me the tables`;
    /// - a column list without its comma;
    /// - a call of `generate_series` in `MySQL` or `MariaDB`;
    /// - a reserved word as a name, or a `TOP` that the database does not support.
    fn parse(&self, dialect: &dyn Dialect, tokens: Vec<Token>) -> Option<Vec<Statement>> {
        if lacks_comma(&tokens) || self.calls_unknown(&tokens) || self.has_foreign_top(&tokens) {
            return None;
        }
        let statements = Parser::new(dialect).with_tokens(tokens).parse_statements().ok()?;
        let prose = statements.iter().any(is_prose) || reserved::names_reserved(&statements);
        (!statements.is_empty() && !prose).then_some(statements)
    }

    /// Returns true if SQL for `MySQL` or `MariaDB` calls `generate_series`, a function of other databases.
    ///
    /// Models often make this mistake.
    fn calls_unknown(&self, tokens: &[Token]) -> bool {
        let names = |token: &Token| matches!(token, Token::Word(word) if word.value.eq_ignore_ascii_case("generate_series"));
        matches!(self.database, Database::MySQL | Database::MariaDB)
            && tokens.windows(2).any(|pair| matches!(pair, [name, Token::LParen] if names(name)))
    }

    /// Returns true for SQL such as `SELECT TOP 5`, if the database does not support `TOP`.
    fn has_foreign_top(&self, tokens: &[Token]) -> bool {
        let mut words = tokens.iter().filter(|it| !matches!(it, Token::Whitespace(_))).peekable();
        let mut found = false;
        while let Some(token) = words.next() {
            if is_keyword(token, Keyword::SELECT)
                && words.next_if(|it| is_keyword(it, Keyword::TOP)).is_some()
            {
                found |= matches!(words.peek(), Some(Token::Number(..) | Token::LParen));
            }
        }
        found && WITHOUT_TOP.contains(&self.database)
    }
}

/// The databases without `SELECT TOP 5`.
const WITHOUT_TOP: [Database; 6] = [
    Database::MySQL,
    Database::MariaDB,
    Database::PostgreSQL,
    Database::Sqlite,
    Database::BigQuery,
    Database::Hive,
];

/// Returns true if the statement may be a sentence: `SHOW` and more than two words, such as "Show me the tables".
fn is_prose(statement: &Statement) -> bool {
    matches!(statement, Statement::ShowVariable { variable } if variable.len() > 2)
}

/// Returns true if a list of two columns lacks its comma, as in `SELECT a b FROM t`.
///
/// `SELECT a b` is valid SQL with the alias `b`, but `a, b` was probably meant. An intended alias is written with `AS`.
/// Longer lists are not checked, as in promptfoo.
fn lacks_comma(tokens: &[Token]) -> bool {
    let tokens: Vec<&Token> =
        tokens.iter().filter(|it| !matches!(it, Token::Whitespace(_))).collect();
    let starts = tokens.iter().enumerate().filter(|(_, it)| is_keyword(it, Keyword::SELECT));
    starts.map(|(at, _)| &tokens[at + 1..]).any(|rest| {
        let is_modifier =
            |it: &&&Token| is_keyword(it, Keyword::DISTINCT) || is_keyword(it, Keyword::ALL);
        match &rest[rest.iter().take_while(is_modifier).count()..] {
            [Token::Word(first), Token::Word(second), from, ..] => {
                is_name(first) && is_name(second) && is_keyword(from, Keyword::FROM)
            }
            _ => false,
        }
    })
}

fn is_keyword(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword)
}

fn is_name(word: &Word) -> bool {
    word.keyword == Keyword::NoKeyword
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;
    use serde_json::json;

    use super::*;

    fn sql(value: &serde_json::Value) -> Sql {
        SqlValue::deserialize(value).unwrap().compile().unwrap()
    }

    #[test]
    fn reserved_words_are_no_names() {
        for (sql_text, database, is_sql) in [
            ("SELECT SELECT", "MySQL", false),
            ("SELECT group FROM t", "MySQL", false),
            ("SELECT order FROM t", "PostgreSQL", false),
            ("SELECT a FROM table", "MySQL", false),
            ("SELECT TOP 5 * FROM t", "MySQL", false),
            ("SELECT TOP (5) a FROM t", "Sqlite", false),
            ("SELECT TOP 5 * FROM t", "TransactSQL", true),
            ("SELECT `group` FROM t", "MySQL", true),
            ("SELECT \"order\" FROM t", "PostgreSQL", true),
            ("SELECT t.order FROM t", "MySQL", true),
            (
                "SELECT a AS b FROM t WHERE c IN (SELECT d FROM e) GROUP BY a ORDER BY b",
                "MySQL",
                true,
            ),
            ("SELECT CASE WHEN a THEN 1 ELSE 2 END FROM t JOIN u ON t.id = u.id", "MySQL", true),
            ("INSERT INTO t (a) VALUES (DEFAULT)", "MySQL", true),
        ] {
            let fault = sql(&json!({"databaseType": database})).fault(sql_text);
            assert_eq!(fault.is_none(), is_sql, "{sql_text} in {database}");
        }
    }

    #[test]
    fn dialects_differ() {
        for (database, text, valid) in [
            ("MySQL", "SELECT `a` FROM t; SELECT 1", true),
            ("MySQL", "SELECT a b FROM t", false),
            ("MySQL", "SELECT DISTINCT a b FROM t", false),
            ("MySQL", "SELECT x FROM (SELECT ALL a b FROM t) AS u", false),
            ("MySQL", "SELECT a b, c FROM t", true),
            ("MySQL", "SELECT DISTINCT b FROM t", true),
            ("MySQL", "SELECT a AS b FROM t", true),
            ("MySQL", "SELECT `a FROM t", false),
            ("MySQL", "SELECT * FROM generate_series(1, 3)", false),
            ("PostgreSQL", "SELECT * FROM generate_series(1, 3)", true),
            ("PostgreSQL", "SELECT a FROM t WHERE b ILIKE '%x%'", true),
            ("TransactSQL", "SELECT TOP 5 [a] FROM [t]", true),
            ("Sqlite", "INSERT OR REPLACE INTO t (a) VALUES (1)", true),
            ("BigQuery", "SELECT * EXCEPT (a) FROM `p.d.t`", true),
            ("MySQL", "show me the tables", false),
            ("MySQL", "hello world", false),
            ("MySQL", ";", false),
        ] {
            let fault = sql(&json!({"databaseType": database})).fault(text);
            assert_eq!(fault.is_none(), valid, "{database}: {text}: {fault:?}");
        }
    }
}
