//! What a template refers to, and whether there is a filter, a test, a function and a method for each that it names:
//! found when it is read, not when it is rendered.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use kindlm_types::nearest_few;
use minijinja::machinery::{Span, ast, parse};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind};
use serde_json::{Map, Value};

use crate::built_in::{FILTERS, MORE_FILTERS, MORE_TESTS, TESTS};
use crate::engine::ENGINE;
use crate::filters::{ADDED, ADDED_TESTS, LENGTH};
use crate::methods::METHODS;
use crate::needs::{Need, needs};
use crate::syntax::{argument, check_depth, of_jinja, range};

/// What is wrong with a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// The part that is wrong, in bytes of the template.
    pub range: Option<Range<usize>>,
    /// Its line, from 1, where the template has several.
    pub line: Option<usize>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(help) = &self.help {
            write!(f, ": {help}")?;
        }
        if let Some(line) = self.line {
            write!(f, " (line {line} of the text)")?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}

impl Fault {
    /// An error of the engine; names that it does not know are told with those that are near.
    pub(crate) fn of_error(template: &str, err: &Error) -> Self {
        let words = err.detail().map_or_else(|| err.kind().to_string(), str::to_owned);
        let unknown = [
            ErrorKind::UnknownFilter,
            ErrorKind::UnknownTest,
            ErrorKind::UnknownFunction,
            ErrorKind::UnknownMethod,
        ];
        if unknown.contains(&err.kind())
            && let Ok(tree) = parse(template, "", SyntaxConfig::default())
            && let Some(fault) = Names::of(template, &tree).fault
        {
            // Somebody may have brought filters of their own.
            let name = fault.range.clone().and_then(|it| template.get(it)).unwrap_or_default();
            if words.contains(name) {
                return fault;
            }
        }
        let line = err.line().filter(|_| template.contains('\n'));
        Self { message: words, help: None, range: None, line }
    }
}

/// What was read of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// What it refers to and does not set itself; `env` is among it.
    pub undeclared: BTreeSet<String>,
    /// Environment variables that are a part of something bigger than an expression of their own (`{{ env.NAME }}`), by
    /// where that is, in bytes.
    pub entangled: Vec<(String, Range<usize>)>,
    needs: Vec<Need>,
}

impl Read {
    /// What the template uses and these variables do not have, each once: `user.nmae` where `user` has no such key. What it
    /// asks for before, as in `{% if x %}`, or has a `default` for, may be missing.
    pub fn missing(&self, vars: &Map<String, Value>) -> Vec<String> {
        let mut missing: Vec<String> = Vec::new();
        for path in self.needs.iter().filter_map(|it| it.missing(vars)) {
            let name = dotted(path);
            if !missing.contains(&name) {
                missing.push(name);
            }
        }
        missing
    }

    /// The variables that it uses without asking first whether they are there.
    pub fn needed(&self) -> BTreeSet<&str> {
        let none = Map::new();
        self.needs.iter().filter(|it| it.missing(&none).is_some()).map(Need::root).collect()
    }
}

fn dotted(path: &[String]) -> String {
    path.iter().fold(String::new(), |all, key| {
        if !all.is_empty() && key.bytes().all(|it| it.is_ascii_digit()) {
            format!("{all}[{key}]")
        } else if all.is_empty() {
            key.clone()
        } else {
            format!("{all}.{key}")
        }
    })
}

/// Reads a template, or says what is wrong with it: what cannot be read, and the first name that means nothing.
pub fn read(template: &str) -> Result<Read, Fault> {
    check_depth(template)?;
    let tree = parse(template, "", SyntaxConfig::default())
        .map_err(|err| Fault::of_error(template, &err))?;
    let names = Names::of(template, &tree);
    if let Some(fault) = names.fault {
        return Err(fault);
    }
    let written = of_jinja(template);
    let compiled =
        ENGINE.template_from_str(&written).map_err(|err| Fault::of_error(template, &err))?;
    // Functions that are built in are no variables.
    let is_built_in = |name: &String| ENGINE.globals().any(|(it, _)| it == name);
    let undeclared = compiled.undeclared_variables(false).into_iter();
    let undeclared = undeclared.filter(|it| !is_built_in(it)).collect();
    Ok(Read { undeclared, entangled: names.entangled, needs: needs(&tree) })
}

/// The names of a template.
struct Names<'t> {
    template: &'t str,
    fault: Option<Fault>,
    entangled: Vec<(String, Range<usize>)>,
}

impl<'t> Names<'t> {
    fn of(template: &'t str, tree: &ast::Stmt<'_>) -> Self {
        let mut names = Self { template, fault: None, entangled: Vec::new() };
        names.statement(tree);
        names
    }

    fn statements(&mut self, all: &[ast::Stmt<'_>]) {
        for statement in all {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &ast::Stmt<'_>) {
        match statement {
            ast::Stmt::Template(it) => self.statements(&it.children),
            ast::Stmt::EmitExpr(it) => {
                if variable_of(&it.expr).is_none() {
                    self.expression(&it.expr);
                }
            }
            ast::Stmt::EmitRaw(_) => {}
            ast::Stmt::ForLoop(it) => {
                self.expression(&it.iter);
                it.filter_expr.iter().for_each(|it| self.expression(it));
                self.statements(&it.body);
                self.statements(&it.else_body);
            }
            ast::Stmt::IfCond(it) => {
                self.expression(&it.expr);
                self.statements(&it.true_body);
                self.statements(&it.false_body);
            }
            ast::Stmt::WithBlock(it) => {
                it.assignments.iter().for_each(|(_, it)| self.expression(it));
                self.statements(&it.body);
            }
            ast::Stmt::Set(it) => self.expression(&it.expr),
            ast::Stmt::SetBlock(it) => {
                it.filter.iter().for_each(|it| self.expression(it));
                self.statements(&it.body);
            }
            ast::Stmt::AutoEscape(it) => {
                self.expression(&it.enabled);
                self.statements(&it.body);
            }
            ast::Stmt::FilterBlock(it) => {
                self.expression(&it.filter);
                self.statements(&it.body);
            }
            ast::Stmt::Do(it) => self.call(&it.call, it.call.span()),
        }
    }

    fn expression(&mut self, expression: &ast::Expr<'_>) {
        if let Some(name) = variable_of(expression) {
            self.entangled.push((name.to_owned(), range(expression.span())));
        }
        match expression {
            ast::Expr::Var(_) | ast::Expr::Const(_) => {}
            ast::Expr::Slice(it) => {
                self.expression(&it.expr);
                let bounds = [&it.start, &it.stop, &it.step];
                bounds.into_iter().flatten().for_each(|it| self.expression(it));
            }
            ast::Expr::UnaryOp(it) => self.expression(&it.expr),
            ast::Expr::BinOp(it) => {
                self.expression(&it.left);
                self.expression(&it.right);
            }
            ast::Expr::Compare(it) => {
                self.expression(&it.expr);
                it.ops.iter().for_each(|it| self.expression(&it.expr));
            }
            ast::Expr::IfExpr(it) => {
                self.expression(&it.test_expr);
                self.expression(&it.true_expr);
                it.false_expr.iter().for_each(|it| self.expression(it));
            }
            ast::Expr::Filter(it) => {
                it.expr.iter().for_each(|it| self.expression(it));
                let known = || FILTERS.into_iter().chain(MORE_FILTERS).chain(ADDED);
                self.known("filter", it.name, known, it.span());
                self.arguments(&it.args);
            }
            ast::Expr::Test(it) => {
                self.expression(&it.expr);
                let known = || TESTS.into_iter().chain(MORE_TESTS).chain(ADDED_TESTS);
                self.known("test", it.name, known, it.span());
                self.arguments(&it.args);
            }
            ast::Expr::GetAttr(it) => self.expression(&it.expr),
            ast::Expr::GetItem(it) => {
                self.expression(&it.expr);
                self.expression(&it.subscript_expr);
            }
            ast::Expr::Call(it) => self.call(it, it.span()),
            ast::Expr::List(it) => it.items.iter().for_each(|it| self.expression(it)),
            ast::Expr::Tuple(it) => it.items.iter().for_each(|it| self.expression(it)),
            ast::Expr::Map(it) => {
                it.keys.iter().chain(&it.values).for_each(|it| self.expression(it));
            }
        }
    }

    fn call(&mut self, call: &ast::Call<'_>, span: Span) {
        match &call.expr {
            ast::Expr::Var(it) => {
                let known = || ENGINE.globals().map(|(name, _)| name);
                self.known("function", it.id, known, span);
            }
            // Loops have functions of their own.
            ast::Expr::GetAttr(it) if matches!(&it.expr, ast::Expr::Var(it) if it.id == "loop") => {
            }
            ast::Expr::GetAttr(it) => {
                self.known("method", it.name, || METHODS.into_iter(), span);
                self.expression(&it.expr);
            }
            other => self.expression(other),
        }
        self.arguments(&call.args);
    }

    fn arguments(&mut self, args: &[ast::CallArg<'_>]) {
        for given in args {
            self.expression(argument(given));
        }
    }

    /// Notes a name that means nothing, if it is the first.
    fn known<'n, Known: Iterator<Item = &'n str>>(
        &mut self,
        kind: &str,
        name: &str,
        known: impl Fn() -> Known,
        span: Span,
    ) {
        if self.fault.is_some() || known().any(|it| it == name) {
            return;
        }
        let all = known().filter(|it| *it != LENGTH && it.len() > 1);
        let near: Vec<String> =
            nearest_few(name, all, 3).iter().map(|it| format!("`{it}`")).collect();
        let help = match near.as_slice() {
            [] if kind == "method" => "write it as a filter: `{{ name | upper }}`".to_owned(),
            [] => format!("docs/promptfoo.md lists every {kind} that there is"),
            near => format!("did you mean {}?", near.join(" or ")),
        };
        let line = self.template.contains('\n').then_some(usize::from(span.start_line));
        let range = self.place(name, range(span));
        let message = format!("there is no {kind} `{name}`");
        self.fault = Some(Fault { message, help: Some(help), range, line });
    }

    /// Where a name is within the expression that it is a part of.
    fn place(&self, name: &str, within: Range<usize>) -> Option<Range<usize>> {
        let text = self.template.get(within.clone())?;
        let is_word = |it: char| it.is_alphanumeric() || it == '_';
        let ends_there = |at: usize| !text[at + name.len()..].starts_with(is_word);
        let found = text.rmatch_indices(name).map(|(at, _)| at).find(|at| ends_there(*at));
        let at = within.start + found?;
        Some(at..at + name.len())
    }
}

/// The variable of `env.NAME`, if an expression is just that.
fn variable_of<'e>(expression: &'e ast::Expr<'_>) -> Option<&'e str> {
    let ast::Expr::GetAttr(it) = expression else { return None };
    matches!(&it.expr, ast::Expr::Var(it) if it.id == "env").then_some(it.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_name_that_is_known_is_there() {
        let is_known = |template: String, what: &str| {
            let rendered = ENGINE.render_str(&template, ());
            let unknown =
                rendered.err().map(|it| it.to_string()).filter(|it| it.contains("unknown"));
            assert_eq!(unknown, None, "{what}");
        };
        for name in FILTERS.into_iter().chain(MORE_FILTERS).chain(ADDED) {
            is_known(format!("{{{{ 'a' | {name} }}}}"), name);
        }
        for name in TESTS.into_iter().chain(MORE_TESTS).chain(ADDED_TESTS) {
            is_known(format!("{{{{ 'a' is {name} }}}}"), name);
        }
    }

    #[test]
    fn tells_names_that_mean_nothing() {
        for (template, message, help, part) in [
            ("{{ a | uper }}", "there is no filter `uper`", "did you mean `upper`?", "uper"),
            (
                "{% if a is evn %}{% endif %}",
                "there is no test `evn`",
                "did you mean `even`?",
                "evn",
            ),
            ("{{ rnge(3) }}", "there is no function `rnge`", "did you mean `range`?", "rnge"),
            (
                "{% set ns = namespace() %}",
                "there is no function `namespace`",
                "docs/promptfoo.md lists every function that there is",
                "namespace",
            ),
            (
                "{{ a.b.toUpperCas() }}",
                "there is no method `toUpperCas`",
                "did you mean `toUpperCase`?",
                "toUpperCas",
            ),
            (
                "{% for x in a | srt %}{% endfor %}",
                "there is no filter `srt`",
                "did you mean `sort`?",
                "srt",
            ),
            (
                "{% set x %}{{ [1, {'k': a | nope_x}] }}{% endset %}",
                "there is no filter `nope_x`",
                "docs/promptfoo.md lists every filter that there is",
                "nope_x",
            ),
        ] {
            let fault = read(template).unwrap_err();
            assert_eq!(fault.message, message, "{template}");
            assert_eq!(fault.help.as_deref(), Some(help), "{template}");
            assert_eq!(&template[fault.range.unwrap()], part, "{template}");
            assert_eq!(fault.line, None);
        }
        assert_eq!(read("a\nb {{ x | uper }}").unwrap_err().line, Some(2));
    }

    #[test]
    fn tells_what_a_template_refers_to() {
        let read =
            read("{{ a.length }}{% set b = 1 %}{{ b }}{{ env.X }}{{ env.Y | upper }}").unwrap();
        assert_eq!(read.undeclared.iter().collect::<Vec<_>>(), ["a", "env"]);
        assert_eq!(read.entangled.iter().map(|it| it.0.as_str()).collect::<Vec<_>>(), ["Y"]);
    }

    #[test]
    fn what_is_set_or_built_in_is_not_referred_to() {
        let read = read("{% for i in range(3) %}{{ i }}{{ x.y }}{% endfor %}").unwrap();
        assert_eq!(read.undeclared.into_iter().collect::<Vec<_>>(), ["x"]);
    }

    #[test]
    fn what_is_too_deep_is_told_before_it_overflows_the_stack() {
        let vars = serde_json::Map::new();
        let variables = crate::Variables::new(&vars, &vars);
        let expression = |before: &str, middle: &str, behind: &str, count: usize| {
            format!("{{{{ {}{middle}{} }}}}", before.repeat(count), behind.repeat(count))
        };
        for (before, middle, behind) in [
            ("", "a", ".a"),
            ("", "a", "[0]"),
            ("", "a", "()"),
            ("", "1", " + 1"),
            ("", "1", " ~ 1"),
            ("", "1", " ** 1"),
            ("", "1", " and 1"),
            ("", "1", " | string"),
            ("", "1", " is true"),
            ("not ", "1", ""),
            ("-", "1", ""),
            ("1 if 1 else ", "1", ""),
            ("[not ", "1", "]"),
            ("{1: ", "1", "}"),
            ("", "1", "{% elif 1 %}"),
        ] {
            let make = |count| match behind.strip_prefix("{%") {
                Some(_) => format!("{{% if 1 %}}{}{{% endif %}}", behind.repeat(count)),
                None => expression(before, middle, behind, count),
            };
            let deep = make(50_000);
            let fault = read(&deep).unwrap_err();
            let at = fault.range.unwrap_or_default();
            assert!(fault.message.contains("levels deep"), "{behind}: {} {at:?}", fault.message);
            let words = variables.render(&deep).unwrap_err();
            assert!(words.contains("levels deep"), "{behind}: {words}");
            // What is allowed does not overflow the stack either.
            let _ = (read(&make(100)), variables.render(&make(100)));
            let _ = (read(&make(240)), variables.render(&make(240)));
        }
        // Side by side is not deep.
        for wide in [
            format!("{{{{ [{}1] | length }}}}", "1 + 1, ".repeat(5_000)),
            format!("{{% set x = {{{}}} %}}", "'a': b.c, ".repeat(5_000)),
            "{{ a.b }} {% if a == 1 %}{{ a | upper }}{% elif a %}x{% endif %}".repeat(2_000),
        ] {
            assert_eq!(read(&wide).map(|_| ()), Ok(()));
        }
    }

    proptest! {
        #[test]
        fn never_panics(template in r"(\{\{|\}\}|\{%|%\}|[a-z.|() ']|é){0,30}") {
            let _ = read(&template);
            let _ = crate::Variables::new(&serde_json::Map::new(), &serde_json::Map::new()).render(&template);
        }
    }
}
