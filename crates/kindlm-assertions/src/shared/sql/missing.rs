//! The replacement of the SQL parser in a build without the feature `sql`.

use kindlm_types::Problem;

use super::{Fault, SqlValue};

/// A type without values, because this build cannot check SQL.
#[derive(Debug)]
pub(crate) enum Sql {}

impl SqlValue {
    /// Returns the problem that this build cannot parse SQL.
    #[expect(clippy::unused_self, reason = "the parser needs it")]
    pub(crate) fn compile(self) -> Result<Sql, Vec<Problem>> {
        Err(vec![Problem::new("", "this build of KindLM cannot read SQL").with_help(
            "`cargo install --path crates/kindlm-cli --features full` builds one that can; in a crate, enable the feature `sql` of `kindlm-assertions`",
        )])
    }
}

impl Sql {
    pub(crate) fn fault(&self, _text: &str) -> Option<Fault> {
        match *self {}
    }
}
