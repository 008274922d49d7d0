//! The analysis of a template: [`Walk`] visits each node of the syntax tree.
//!
//! The analysis finds the names that the template uses, and unknown filters, tests, functions and methods. The analysis
//! also makes the tree that is rendered. The rendered tree contains additional filters of [`crate::steps`], which find
//! missing values and limit the size of results.

use std::collections::BTreeSet;
use std::ops::Range;

use minijinja::Value as Jinja;
use minijinja::machinery::Span;
use minijinja::machinery::ast::{self, BinOpKind, CallArg, Expr, Spanned, Stmt};

use crate::built_in::{FILTERS, MORE_FILTERS, MORE_TESTS, TESTS};
use crate::engine::ENGINE;
use crate::fault::Fault;
use crate::filters::{ADDED, ADDED_TESTS, counts};
use crate::methods::METHODS;
use crate::names::unknown;
use crate::scope::{Binding, LOOP, Scope};
use crate::steps;
use crate::syntax::range;
use crate::tree::{constant, step, target, variable, variable_of};

/// The Jinja tests that a template may apply to a missing value.
const ASKING: [&str; 6] = ["defined", "undefined", "none", "null", "truthy", "falsy"];

/// The filters that replace a missing value by a default.
const DEFAULTS: [&str; 2] = ["default", "d"];

/// The filters that test each item of a list. Items may be missing.
const SELECTING: [&str; 2] = ["reject", "select"];

/// Filters of the engine for texts. The engine would read `null` as the word `None`.
const TEXTUAL: [&str; 13] = [
    "capitalize",
    "e",
    "escape",
    "indent",
    "lines",
    "lower",
    "replace",
    "split",
    "string",
    "title",
    "trim",
    "upper",
    "urlencode",
];

/// A use of a variable or key. Checks such as `x is defined` or `x | default(1)` are not collected.
pub(crate) struct Lookup {
    /// The name as in the template.
    pub(crate) name: String,
    /// The range in the template, in bytes.
    pub(crate) range: Range<usize>,
    /// True if the template defines the variable itself: by `set`, a loop or `with`.
    pub(crate) is_own: bool,
}

/// The state and the results of an analysis.
pub(crate) struct Walk<'t> {
    template: &'t str,
    scope: Scope<'t>,
    /// The variables whose existence the template has already checked.
    asked: Vec<&'t str>,
    /// The uses of variables and keys; `None` if the analysis does not collect them.
    lookups: Option<Vec<Lookup>>,
    /// The error for the first unknown name; `None` if all names are known.
    pub(crate) fault: Option<Fault>,
    pub(crate) entangled: Vec<(String, Range<usize>)>,
    pub(crate) alone: Vec<(String, Range<usize>)>,
    pub(crate) undeclared: BTreeSet<String>,
    pub(crate) needed: BTreeSet<String>,
}

impl<'t> Walk<'t> {
    /// Analyses a template. Returns the results, and the tree to render.
    pub(crate) fn through(template: &'t str, tree: &Stmt<'t>) -> (Self, Stmt<'t>) {
        let mut walk = Self::new(template);
        let made = walk.statement(tree);
        let shared = std::mem::take(&mut walk.scope).shared();
        if shared.is_empty() {
            return (walk, made);
        }
        // The shared variables are known only after the first pass over the tree. The second pass also handles the uses of
        // shared variables before the loop.
        let mut walk = Self { scope: Scope::sharing(shared), ..Self::new(template) };
        let made = walk.statement(tree);
        (walk, made)
    }

    /// Returns the uses of variables and keys, except for checks of their existence.
    pub(crate) fn lookups(template: &'t str, tree: &Stmt<'t>) -> Vec<Lookup> {
        let mut walk = Self { lookups: Some(Vec::new()), ..Self::new(template) };
        walk.statement(tree);
        walk.lookups.unwrap_or_default()
    }

    fn new(template: &'t str) -> Self {
        Self {
            template,
            scope: Scope::default(),
            asked: Vec::new(),
            lookups: None,
            fault: None,
            entangled: Vec::new(),
            alone: Vec::new(),
            undeclared: BTreeSet::new(),
            needed: BTreeSet::new(),
        }
    }

    fn statements(&mut self, all: &[Stmt<'t>]) -> Vec<Stmt<'t>> {
        all.iter().map(|it| self.statement(it)).collect()
    }

    fn statement(&mut self, statement: &Stmt<'t>) -> Stmt<'t> {
        let before = self.asked.len();
        let made = match statement {
            Stmt::Template(it) => {
                let children = self.statements(&it.children);
                Stmt::Template(Spanned::new(ast::Template { children }, it.span()))
            }
            Stmt::EmitExpr(it) => {
                let names_alone = self.environment(&it.expr).is_some();
                let expr = self.value(&it.expr, false);
                if names_alone {
                    self.alone.extend(self.entangled.pop());
                }
                let expr = self.step(steps::PRINTED, expr, &it.expr);
                Stmt::EmitExpr(Spanned::new(ast::EmitExpr { expr }, it.span()))
            }
            // Text in a loop is printed repeatedly. As an expression, the text counts for the total size of the results.
            Stmt::EmitRaw(it) if self.scope.is_in_loop() => {
                let expr = constant(Jinja::from(it.raw), it.span());
                Stmt::EmitExpr(Spanned::new(ast::EmitExpr { expr }, it.span()))
            }
            Stmt::EmitRaw(it) => {
                Stmt::EmitRaw(Spanned::new(ast::EmitRaw { raw: it.raw }, it.span()))
            }
            Stmt::ForLoop(it) => self.for_loop(it),
            Stmt::IfCond(it) => {
                let expr = self.asked(&it.expr);
                let true_body = self.statements(&it.true_body);
                let false_body = self.statements(&it.false_body);
                Stmt::IfCond(Spanned::new(ast::IfCond { expr, true_body, false_body }, it.span()))
            }
            Stmt::WithBlock(it) => {
                // An assignment may use the variables of the assignments before it.
                self.scope.open();
                let assignments = it.assignments.iter().map(|(to, value)| {
                    let value = self.value(value, false);
                    self.scope.declare(to, Binding::Given);
                    (target(to), value)
                });
                let assignments = assignments.collect();
                let body = self.statements(&it.body);
                self.scope.close();
                Stmt::WithBlock(Spanned::new(ast::WithBlock { assignments, body }, it.span()))
            }
            Stmt::Set(it) => {
                let expr = self.value(&it.expr, false);
                let undefined = || constant(Jinja::UNDEFINED, it.expr.span());
                let expr = self.set(&it.target, Some(expr)).unwrap_or_else(undefined);
                let set = ast::Set { target: target(&it.target), expr };
                Stmt::Set(Spanned::new(set, it.span()))
            }
            Stmt::SetBlock(it) => {
                let filter = it.filter.as_ref().map(|it| self.value(it, false));
                let body = self.statements(&it.body);
                let filter = self.set(&it.target, filter);
                let set = ast::SetBlock { target: target(&it.target), filter, body };
                Stmt::SetBlock(Spanned::new(set, it.span()))
            }
            Stmt::AutoEscape(it) => {
                let enabled = self.used(&it.enabled);
                let body = self.statements(&it.body);
                Stmt::AutoEscape(Spanned::new(ast::AutoEscape { enabled, body }, it.span()))
            }
            Stmt::FilterBlock(it) => {
                let filter = self.value(&it.filter, false);
                let body = self.statements(&it.body);
                Stmt::FilterBlock(Spanned::new(ast::FilterBlock { filter, body }, it.span()))
            }
            Stmt::Do(it) => {
                let call = self.call(&it.call, it.call.span());
                Stmt::Do(Spanned::new(ast::Do { call }, it.span()))
            }
        };
        self.asked.truncate(before);
        made
    }

    fn for_loop(&mut self, it: &Spanned<ast::ForLoop<'t>>) -> Stmt<'t> {
        let iter = self.value(&it.iter, false);
        let is_pair = match &it.target {
            Expr::List(it) => it.items.len() == 2,
            Expr::Tuple(it) => it.items.len() == 2,
            _ => false,
        };
        let gone_through = if is_pair { steps::GONE_THROUGH_IN_PAIRS } else { steps::GONE_THROUGH };
        let iter = self.step(gone_through, iter, &it.iter);
        self.scope.open_loop(&it.target);
        let filter_expr = it.filter_expr.as_ref().map(|it| self.asked(it));
        let body = self.statements(&it.body);
        self.scope.close_loop();
        let else_body = self.statements(&it.else_body);
        let target = target(&it.target);
        let made =
            ast::ForLoop { target, iter, filter_expr, recursive: it.recursive, body, else_body };
        Stmt::ForLoop(Spanned::new(made, it.span()))
    }

    /// Records a `set`, and returns the value to set. For a shared variable, adds the filter that stores the value.
    ///
    /// A block such as `{% set x %}…{% endset %}` has no value here. The result is then `None`, or only the filter.
    fn set(&mut self, target: &Expr<'t>, value: Option<Expr<'t>>) -> Option<Expr<'t>> {
        self.scope.set(target);
        let name = match target {
            Expr::Var(it) if self.scope.is_shared(it.id) => it.id,
            _ => return value,
        };
        let args = vec![CallArg::Pos(constant(Jinja::from(name), target.span()))];
        let filter = ast::Filter { name: steps::SET, expr: value, args };
        Some(Expr::Filter(Spanned::new(filter, target.span())))
    }

    /// Records a use of a variable or key, unless the use checks the existence of the variable or key (`is_asked`).
    fn look_up(&mut self, expression: &Expr<'t>, is_asked: bool) {
        if is_asked || self.lookups.is_none() {
            return;
        }
        let mut root = expression;
        while let Expr::GetAttr(_) | Expr::GetItem(_) = root {
            root = match root {
                Expr::GetAttr(it) => &it.expr,
                Expr::GetItem(it) => &it.expr,
                _ => break,
            };
        }
        let is_own = matches!(root, Expr::Var(it) if self.scope.is_own(it.id));
        // The engine's spans of long chains start in the middle of the chain.
        let range = range(root.span()).start..range(expression.span()).end;
        let name = self.written(expression);
        if let Some(lookups) = &mut self.lookups {
            lookups.push(Lookup { name, range, is_own });
        }
    }

    /// Translates an expression, and adds the filter that reports a missing value.
    fn used(&mut self, expression: &Expr<'t>) -> Expr<'t> {
        let made = self.value(expression, false);
        self.step(steps::USED, made, expression)
    }

    /// Translates an expression whose existence the template checks.
    fn asked(&mut self, expression: &Expr<'t>) -> Expr<'t> {
        let made = self.value(expression, true);
        self.step(steps::ASKED, made, expression)
    }

    /// Applies a filter to a value, with the source text of the expression as its argument. A constant needs no filter.
    fn step(&self, name: &'static str, value: Expr<'t>, written: &Expr<'t>) -> Expr<'t> {
        let span = written.span();
        if matches!(value, Expr::Const(_)) {
            return value;
        }
        step(name, value, vec![constant(Jinja::from(self.written(written)), span)], span)
    }

    fn all_used(&mut self, all: &[Expr<'t>]) -> Vec<Expr<'t>> {
        all.iter().map(|it| self.used(it)).collect()
    }

    /// Returns the environment variable's name if an expression is `env.NAME`.
    ///
    /// Returns `None` for any other expression. Also returns `None` if the template defines a variable `env`.
    fn environment<'e>(&self, expression: &'e Expr<'_>) -> Option<&'e str> {
        variable_of(expression).filter(|_| !self.scope.is_own("env"))
    }

    fn variable(&mut self, it: &Spanned<ast::Var<'t>>, is_asked: bool) -> Expr<'t> {
        let name = it.id;
        if self.scope.is_shared(name) {
            let word = constant(Jinja::from(name), it.span());
            return step(steps::WAS_SET, variable(it), vec![word], it.span());
        }
        if self.scope.is_own(name) || ENGINE.globals().any(|(it, _)| it == name) {
            return variable(it);
        }
        self.undeclared.insert(name.to_owned());
        if is_asked {
            self.asked.push(name);
        } else if name != "env" && !self.asked.contains(&name) {
            self.needed.insert(name.to_owned());
        }
        variable(it)
    }

    /// Translates an expression for the tree that is rendered. If the value is missing, a filter reports this where the
    /// template uses the value.
    fn value(&mut self, expression: &Expr<'t>, is_asked: bool) -> Expr<'t> {
        if let Some(name) = self.environment(expression) {
            self.entangled.push((name.to_owned(), range(expression.span())));
        }
        let span = expression.span();
        match expression {
            Expr::Var(it) => {
                self.look_up(expression, is_asked);
                let value = self.variable(it, is_asked);
                self.step(steps::VARIABLE, value, expression)
            }
            Expr::Const(it) => constant(it.value.clone(), span),
            Expr::Slice(it) => {
                let expr = self.used(&it.expr);
                let mut bound = |it: &Option<Expr<'t>>| it.as_ref().map(|it| self.used(it));
                let [start, end, step] = [&it.start, &it.stop, &it.step].map(&mut bound);
                let slice = ast::Slice { expr, start, stop: end, step };
                Expr::Slice(Spanned::new(slice, span))
            }
            Expr::UnaryOp(it) => {
                let (op, expr) = match it.op {
                    ast::UnaryOpKind::Not => (ast::UnaryOpKind::Not, self.asked(&it.expr)),
                    ast::UnaryOpKind::Neg => (ast::UnaryOpKind::Neg, self.used(&it.expr)),
                };
                Expr::UnaryOp(Spanned::new(ast::UnaryOp { op, expr }, span))
            }
            Expr::BinOp(it) => self.binary(it, is_asked),
            Expr::Compare(it) => {
                let expr = self.used(&it.expr);
                let ops = it.ops.iter();
                let ops = ops.map(|it| ast::CompareOp { op: it.op, expr: self.used(&it.expr) });
                let ops = ops.collect();
                Expr::Compare(Spanned::new(ast::Compare { expr, ops }, span))
            }
            Expr::IfExpr(it) => {
                let test_expr = self.asked(&it.test_expr);
                let true_expr = self.value(&it.true_expr, is_asked);
                let false_expr = it.false_expr.as_ref().map(|it| self.value(it, is_asked));
                Expr::IfExpr(Spanned::new(ast::IfExpr { test_expr, true_expr, false_expr }, span))
            }
            Expr::Filter(it) => {
                let filter = self.filter(it, is_asked);
                if counts(it.name) {
                    return filter;
                }
                self.step(steps::MADE, filter, expression)
            }
            Expr::Test(it) => {
                let expr = if ASKING.contains(&it.name) {
                    self.asked(&it.expr)
                } else {
                    self.used(&it.expr)
                };
                let known = || TESTS.into_iter().chain(MORE_TESTS).chain(ADDED_TESTS);
                self.known("test", it.name, known, span);
                let args = self.arguments(&it.args);
                Expr::Test(Spanned::new(ast::Test { name: it.name, expr, args }, span))
            }
            Expr::GetAttr(it) => {
                self.look_up(expression, is_asked);
                let base = self.value(&it.expr, is_asked);
                let key = constant(Jinja::from(it.name), span);
                self.part(base, &it.expr, key, expression)
            }
            Expr::GetItem(it) => {
                self.look_up(expression, is_asked);
                let base = self.value(&it.expr, is_asked);
                let key = self.used(&it.subscript_expr);
                self.part(base, &it.expr, key, expression)
            }
            Expr::Call(it) => {
                let call = Expr::Call(self.call(it, span));
                step(steps::CALLED, call, Vec::new(), span)
            }
            Expr::List(_) | Expr::Tuple(_) | Expr::Map(_) => {
                let collection = self.collection(expression);
                self.step(steps::MADE, collection, expression)
            }
        }
    }

    fn filter(&mut self, it: &Spanned<ast::Filter<'t>>, is_asked: bool) -> Expr<'t> {
        let is_asked = is_asked || DEFAULTS.contains(&it.name);
        let step = match it.name {
            name if SELECTING.contains(&name) => steps::GONE_THROUGH,
            name if TEXTUAL.contains(&name) => steps::READ,
            "join" => steps::PUT_TOGETHER,
            _ => steps::USED,
        };
        let expr = it.expr.as_ref().map(|it| {
            if is_asked {
                return self.asked(it);
            }
            let made = self.value(it, false);
            self.step(step, made, it)
        });
        let known = || FILTERS.into_iter().chain(MORE_FILTERS).chain(ADDED);
        self.known("filter", it.name, known, it.span());
        let args = self.arguments(&it.args);
        Expr::Filter(Spanned::new(ast::Filter { name: it.name, expr, args }, it.span()))
    }

    /// Translates a list or object in the template.
    fn collection(&mut self, expression: &Expr<'t>) -> Expr<'t> {
        let span = expression.span();
        match expression {
            Expr::List(it) => {
                let items = self.all_used(&it.items);
                Expr::List(Spanned::new(ast::List { items }, span))
            }
            Expr::Tuple(it) => {
                let items = self.all_used(&it.items);
                Expr::Tuple(Spanned::new(ast::Tuple { items }, span))
            }
            Expr::Map(it) => {
                let (keys, values) = (self.all_used(&it.keys), self.all_used(&it.values));
                Expr::Map(Spanned::new(ast::Map { keys, values }, span))
            }
            other => self.value(other, false),
        }
    }

    /// Returns the source text of an expression, with keys in the form `a.b`, and with filters without their arguments.
    fn written(&self, it: &Expr<'t>) -> String {
        match it {
            Expr::Var(it) => it.id.to_owned(),
            Expr::GetAttr(it) => format!("{}.{}", self.written(&it.expr), it.name),
            Expr::GetItem(it) => {
                let base = self.written(&it.expr);
                match &it.subscript_expr {
                    Expr::Const(key) => match key.value.as_str() {
                        Some(key) => format!("{base}.{key}"),
                        None => format!("{base}[{}]", key.value),
                    },
                    key => format!("{base}[{}]", self.written(key)),
                }
            }
            Expr::Filter(it) => {
                let base = it.expr.as_ref().map(|it| self.written(it)).unwrap_or_default();
                format!("{base} | {}", it.name)
            }
            other => self.template.get(range(other.span())).unwrap_or_default().to_owned(),
        }
    }

    /// Adds the filter that gets the value of a key.
    fn part(
        &self,
        base: Expr<'t>,
        whole: &Expr<'t>,
        key: Expr<'t>,
        written: &Expr<'t>,
    ) -> Expr<'t> {
        let span = written.span();
        let words = |it: &Expr<'t>| constant(Jinja::from(self.written(it)), span);
        step(steps::PART, base, vec![key, words(written), words(whole)], span)
    }

    fn binary(&mut self, it: &Spanned<ast::BinOp<'t>>, is_asked: bool) -> Expr<'t> {
        let span = it.span();
        let name = match it.op {
            BinOpKind::ScAnd | BinOpKind::ScOr => {
                let asks = is_asked || matches!(it.op, BinOpKind::ScOr);
                let left = self.value(&it.left, asks);
                let right = self.value(&it.right, is_asked);
                return Expr::BinOp(Spanned::new(ast::BinOp { op: it.op, left, right }, span));
            }
            BinOpKind::Add => steps::ADDED,
            BinOpKind::Mul => steps::REPEATED,
            BinOpKind::Concat => steps::JOINED,
            _ => {
                let (left, right) = (self.used(&it.left), self.used(&it.right));
                return Expr::BinOp(Spanned::new(ast::BinOp { op: it.op, left, right }, span));
            }
        };
        // The engine does not limit the size of these results, so use filters that do.
        let (left, right) = (self.used(&it.left), self.used(&it.right));
        step(name, left, vec![right], span)
    }

    fn call(&mut self, call: &ast::Call<'t>, span: Span) -> Spanned<ast::Call<'t>> {
        let expr = match &call.expr {
            Expr::Var(it) => {
                let known = || ENGINE.globals().map(|(name, _)| name);
                self.known("function", it.id, known, span);
                variable(it)
            }
            Expr::GetAttr(it) => {
                // The loop variable has its own functions.
                let expr = match &it.expr {
                    Expr::Var(it) if it.id == LOOP => variable(it),
                    other => {
                        self.known("method", it.name, || METHODS.into_iter(), span);
                        self.used(other)
                    }
                };
                Expr::GetAttr(Spanned::new(ast::GetAttr { expr, name: it.name }, it.span()))
            }
            other => self.used(other),
        };
        let args = self.arguments(&call.args);
        Spanned::new(ast::Call { expr, args }, span)
    }

    fn arguments(&mut self, args: &[CallArg<'t>]) -> Vec<CallArg<'t>> {
        let made = args.iter().map(|given| match given {
            CallArg::Pos(it) => CallArg::Pos(self.used(it)),
            CallArg::Kwarg(name, it) => CallArg::Kwarg(name, self.used(it)),
            CallArg::PosSplat(it) => CallArg::PosSplat(self.used(it)),
            CallArg::KwargSplat(it) => CallArg::KwargSplat(self.used(it)),
        });
        made.collect()
    }

    /// Records the error if `name` is not one of the `known` names. Only the first unknown name of a template counts.
    fn known<'n, Known: Iterator<Item = &'n str>>(
        &mut self,
        kind: &str,
        name: &str,
        known: impl Fn() -> Known,
        span: Span,
    ) {
        if self.fault.is_none() && !known().any(|it| it == name) {
            self.fault = Some(unknown(self.template, kind, name, known(), span));
        }
    }
}
