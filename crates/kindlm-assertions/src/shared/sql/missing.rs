//! A build without the parser of SQL.

use kindlm_types::Problem;

use super::{Fault, SqlValue};

/// Cannot be made.
#[derive(Debug)]
pub(crate) enum Sql {}

impl SqlValue {
    /// The problem that this build reads no SQL.
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
