//! The shared parts of the checks of SQL: the parser, and the allowed tables and columns.

#[cfg(feature = "sql")]
mod authority;
#[cfg(feature = "sql")]
mod checked;
#[cfg(not(feature = "sql"))]
mod missing;
#[cfg(feature = "sql")]
mod nesting;
#[cfg(feature = "sql")]
mod reserved;

use schemars::JsonSchema;
use serde::Deserialize;

#[cfg(feature = "sql")]
pub(crate) use checked::Sql;
#[cfg(not(feature = "sql"))]
pub(crate) use missing::Sql;

/// The SQL dialect, and the tables and columns that statements may touch.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "SqlConfig")]
#[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "only the parser reads them"))]
pub(crate) struct SqlValue {
    /// The database whose dialect the SQL must have, such as `PostgreSQL`; `MySQL` by default.
    #[serde(default = "mysql")]
    database_type: String,
    /// The only tables that may be touched, as `select::database::table`; each part may be a pattern. Case is ignored.
    allowed_tables: Option<Vec<String>>,
    /// The only columns that may be touched, as `select::table::column`; each part may be a pattern. Case is ignored.
    allowed_columns: Option<Vec<String>>,
}

fn mysql() -> String {
    "MySQL".to_owned()
}

impl Default for SqlValue {
    fn default() -> Self {
        Self { database_type: mysql(), allowed_tables: None, allowed_columns: None }
    }
}

/// The error message for SQL that is nested too deeply.
pub(crate) const TOO_DEEP: &str = "the SQL is nested too deeply to be read (more than 16 levels, or a chain of more than 300 words)";

/// The reason why a text is not accepted as SQL.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "only the parser finds faults"))]
pub(crate) enum Fault {
    /// The text is not acceptable SQL, for this reason.
    Wrong(String),
    /// The text is nested too deeply to be parsed.
    TooDeep,
}
