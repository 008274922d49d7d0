//! Detection of reserved words that are used as names. The parser accepts such names, but databases reject them.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, ObjectName, ObjectNamePart, Statement, Visit, Visitor};

/// The words that no supported database accepts as a name without quotes.
const WORDS: [&str; 21] = [
    "AND", "AS", "CASE", "CREATE", "DISTINCT", "ELSE", "FROM", "GROUP", "HAVING", "IN", "INTO",
    "JOIN", "NOT", "ON", "OR", "ORDER", "SELECT", "TABLE", "THEN", "UNION", "WHERE",
];

/// Returns true if a statement uses a reserved word as the name of a column or a table, as in `SELECT group FROM t`.
pub(super) fn names_reserved(statements: &[Statement]) -> bool {
    statements.iter().any(|it| it.visit(&mut Search).is_break())
}

struct Search;

fn is_reserved(name: &Ident) -> bool {
    name.quote_style.is_none() && WORDS.iter().any(|it| name.value.eq_ignore_ascii_case(it))
}

fn found(is_found: bool) -> ControlFlow<()> {
    if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

impl Visitor for Search {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        found(match expr {
            Expr::Identifier(name) => is_reserved(name),
            Expr::CompoundIdentifier(names) => names.first().is_some_and(is_reserved),
            _ => false,
        })
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let name = |it: &ObjectNamePart| it.as_ident().is_some_and(is_reserved);
        found(relation.0.first().is_some_and(name))
    }
}
