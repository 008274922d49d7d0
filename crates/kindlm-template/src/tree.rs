//! Helper functions for the syntax tree of a template.

use std::collections::BTreeSet;

use minijinja::Value as Jinja;
use minijinja::machinery::Span;
use minijinja::machinery::ast::{self, CallArg, Expr, Spanned};

/// Returns the environment variable's name if an expression is `env.NAME`.
///
/// Returns `None` for any other expression.
pub(crate) fn variable_of<'e>(expression: &'e Expr<'_>) -> Option<&'e str> {
    let Expr::GetAttr(it) = expression else { return None };
    matches!(&it.expr, Expr::Var(it) if it.id == "env").then_some(it.name)
}

pub(crate) fn variable<'t>(it: &Spanned<ast::Var<'t>>) -> Expr<'t> {
    Expr::Var(Spanned::new(ast::Var { id: it.id }, it.span()))
}

pub(crate) fn constant<'t>(value: Jinja, span: Span) -> Expr<'t> {
    Expr::Const(Spanned::new(ast::Const { value }, span))
}

/// Applies a filter of [`crate::steps`] to a value. Templates themselves cannot use these filters.
pub(crate) fn step<'t>(
    name: &'static str,
    value: Expr<'t>,
    args: Vec<Expr<'t>>,
    span: Span,
) -> Expr<'t> {
    let args = args.into_iter().map(CallArg::Pos).collect();
    Expr::Filter(Spanned::new(ast::Filter { name, expr: Some(value), args }, span))
}

/// Copies the target of an assignment.
pub(crate) fn target<'t>(it: &Expr<'t>) -> Expr<'t> {
    let all = |items: &[Expr<'t>]| items.iter().map(target).collect();
    match it {
        Expr::List(it) => Expr::List(Spanned::new(ast::List { items: all(&it.items) }, it.span())),
        Expr::Tuple(it) => {
            Expr::Tuple(Spanned::new(ast::Tuple { items: all(&it.items) }, it.span()))
        }
        Expr::GetAttr(it) => {
            let made = ast::GetAttr { expr: target(&it.expr), name: it.name };
            Expr::GetAttr(Spanned::new(made, it.span()))
        }
        Expr::Var(it) => variable(it),
        // The template engine refuses any other expression as the target of an assignment.
        other => constant(Jinja::UNDEFINED, other.span()),
    }
}

/// Adds the names in the target of an assignment to `names`.
pub(crate) fn targets<'t>(target: &Expr<'t>, names: &mut BTreeSet<&'t str>) {
    match target {
        Expr::Var(it) => drop(names.insert(it.id)),
        Expr::List(it) => it.items.iter().for_each(|it| targets(it, names)),
        Expr::Tuple(it) => it.items.iter().for_each(|it| targets(it, names)),
        _ => {}
    }
}
