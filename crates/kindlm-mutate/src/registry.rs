//! The list of mutation operators, and the search by id.

use crate::files::FILES;
use crate::harmless::HARMLESS;
use crate::json::JSON;
use crate::operator::Operator;
use crate::text::TEXT;
use crate::tools::TOOLS;

/// All operators, by family and kind of evidence. Reports list the operators in this order.
pub static OPERATORS: [&[Operator]; 5] = [&TEXT, &JSON, &TOOLS, &FILES, &HARMLESS];

/// Returns the operator with this id, if there is one.
pub fn find(id: &str) -> Option<&'static Operator> {
    OPERATORS.into_iter().flatten().find(|it| it.id == id)
}
