//! Which variables a template needs: those that it uses without asking first whether they are there.

use std::collections::BTreeSet;

use minijinja::machinery::ast;
use serde_json::{Map, Value};

use crate::engine::ENGINE;
use crate::syntax::argument;

/// A variable, or a part of one, by the keys that lead to it.
type Path = Vec<String>;

/// Tests that ask whether something is there.
const ASKING: [&str; 6] = ["defined", "undefined", "none", "null", "truthy", "falsy"];

/// Filters that say what holds if something is not there.
const DEFAULTS: [&str; 2] = ["default", "d"];

/// A variable that a template uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    path: Path,
    /// What the template has asked for before it comes here.
    asked: Vec<Path>,
}

impl Need {
    pub(crate) fn root(&self) -> &str {
        self.path.first().map_or("", String::as_str)
    }

    /// The first part of the path that has no value, with what leads to it, unless the template has asked for it.
    pub(crate) fn missing(&self, vars: &Map<String, Value>) -> Option<&[String]> {
        let (root, keys) = self.path.split_first()?;
        let mut value = vars.get(root);
        let mut length = 1;
        for key in keys {
            let Some(known) = value else { break };
            value = part(known, key);
            length += 1;
        }
        let missing = &self.path[..length];
        let is_asked = self.asked.iter().any(|it| it.starts_with(missing));
        (value.is_none() && !is_asked).then_some(missing)
    }
}

/// What a value has under a key. Texts and lists have a length.
fn part<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    static SOMETHING: Value = Value::Null;
    let index = || key.parse::<usize>().ok();
    match value {
        Value::Object(map) => map.get(key),
        Value::Array(_) | Value::String(_) if key == "length" => Some(&SOMETHING),
        Value::Array(items) => items.get(index()?),
        Value::String(text) => text.chars().nth(index()?).map(|_| &SOMETHING),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// What a template needs, each once.
pub(crate) fn needs(tree: &ast::Stmt<'_>) -> Vec<Need> {
    let mut walk = Walk { declared: vec![BTreeSet::new()], asked: Vec::new(), needs: Vec::new() };
    walk.statement(tree);
    walk.needs
}

struct Walk {
    /// What the template sets itself, by the blocks that are open.
    declared: Vec<BTreeSet<String>>,
    asked: Vec<Path>,
    needs: Vec<Need>,
}

impl Walk {
    fn statements(&mut self, all: &[ast::Stmt<'_>]) {
        for statement in all {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &ast::Stmt<'_>) {
        match statement {
            ast::Stmt::Template(it) => self.statements(&it.children),
            ast::Stmt::EmitExpr(it) => self.uses(&it.expr),
            ast::Stmt::EmitRaw(_) => {}
            ast::Stmt::ForLoop(it) => {
                self.uses(&it.iter);
                self.declared.push(BTreeSet::from(["loop".to_owned()]));
                self.declare(&it.target);
                let asked = it.filter_expr.as_ref().map(|it| self.asks(it)).unwrap_or_default();
                self.after(asked, |walk| walk.statements(&it.body));
                self.declared.pop();
                self.statements(&it.else_body);
            }
            ast::Stmt::IfCond(it) => {
                let asked = self.asks(&it.expr);
                self.after(asked, |walk| {
                    walk.statements(&it.true_body);
                    walk.statements(&it.false_body);
                });
            }
            ast::Stmt::WithBlock(it) => {
                it.assignments.iter().for_each(|(_, it)| self.uses(it));
                self.declared.push(BTreeSet::new());
                it.assignments.iter().for_each(|(target, _)| self.declare(target));
                self.statements(&it.body);
                self.declared.pop();
            }
            ast::Stmt::Set(it) => {
                self.uses(&it.expr);
                self.declare(&it.target);
            }
            ast::Stmt::SetBlock(it) => {
                it.filter.iter().for_each(|it| self.uses(it));
                self.statements(&it.body);
                self.declare(&it.target);
            }
            ast::Stmt::AutoEscape(it) => {
                self.uses(&it.enabled);
                self.statements(&it.body);
            }
            ast::Stmt::FilterBlock(it) => {
                self.uses(&it.filter);
                self.statements(&it.body);
            }
            ast::Stmt::Do(it) => self.calls(&it.call),
        }
    }

    /// Notes what is set.
    fn declare(&mut self, target: &ast::Expr<'_>) {
        match target {
            ast::Expr::Var(it) => {
                self.declared.last_mut().map(|names| names.insert(it.id.to_owned()));
            }
            ast::Expr::List(it) => it.items.iter().for_each(|it| self.declare(it)),
            ast::Expr::Tuple(it) => it.items.iter().for_each(|it| self.declare(it)),
            other => self.uses(other),
        }
    }

    /// What comes after these have been asked for.
    fn after(&mut self, asked: Vec<Path>, then: impl FnOnce(&mut Self)) {
        let before = self.asked.len();
        self.asked.extend(asked);
        then(self);
        self.asked.truncate(before);
    }

    fn needs(&mut self, path: Path) {
        let is_own = |name: &String| {
            name == "env"
                || self.declared.iter().any(|it| it.contains(name))
                || ENGINE.globals().any(|(it, _)| it == name)
        };
        if path.first().is_some_and(is_own) {
            return;
        }
        let need = Need { path, asked: self.asked.clone() };
        if !self.needs.contains(&need) {
            self.needs.push(need);
        }
    }

    /// Notes what an expression uses.
    fn uses(&mut self, expression: &ast::Expr<'_>) {
        if let Some(path) = path_of(expression) {
            self.needs(path);
            return;
        }
        match expression {
            ast::Expr::Var(_) | ast::Expr::Const(_) => {}
            ast::Expr::Slice(it) => {
                self.uses(&it.expr);
                [&it.start, &it.stop, &it.step].into_iter().flatten().for_each(|it| self.uses(it));
            }
            ast::Expr::UnaryOp(it) => self.uses(&it.expr),
            ast::Expr::BinOp(it) => {
                match it.op {
                    ast::BinOpKind::ScOr => drop(self.asks(&it.left)),
                    _ => self.uses(&it.left),
                }
                self.uses(&it.right);
            }
            ast::Expr::Compare(it) => {
                self.uses(&it.expr);
                it.ops.iter().for_each(|it| self.uses(&it.expr));
            }
            ast::Expr::IfExpr(it) => {
                let asked = self.asks(&it.test_expr);
                self.after(asked, |walk| {
                    walk.uses(&it.true_expr);
                    it.false_expr.iter().for_each(|it| walk.uses(it));
                });
            }
            ast::Expr::Filter(it) => {
                let says = DEFAULTS.contains(&it.name);
                it.expr
                    .iter()
                    .for_each(|it| if says { drop(self.asks(it)) } else { self.uses(it) });
                self.arguments(&it.args);
            }
            ast::Expr::Test(it) => {
                if ASKING.contains(&it.name) {
                    self.asks(&it.expr);
                } else {
                    self.uses(&it.expr);
                }
                self.arguments(&it.args);
            }
            ast::Expr::GetAttr(it) => self.uses(&it.expr),
            ast::Expr::GetItem(it) => {
                self.uses(&it.expr);
                self.uses(&it.subscript_expr);
            }
            ast::Expr::Call(it) => self.calls(it),
            ast::Expr::List(it) => it.items.iter().for_each(|it| self.uses(it)),
            ast::Expr::Tuple(it) => it.items.iter().for_each(|it| self.uses(it)),
            ast::Expr::Map(it) => it.keys.iter().chain(&it.values).for_each(|it| self.uses(it)),
        }
    }

    /// Notes what an expression uses of which something depends on whether it is there: a condition, what has a default.
    /// What it asks for.
    fn asks(&mut self, expression: &ast::Expr<'_>) -> Vec<Path> {
        if let Some(path) = path_of(expression) {
            return vec![path];
        }
        match expression {
            ast::Expr::UnaryOp(it) => self.asks(&it.expr),
            ast::Expr::BinOp(it)
                if matches!(it.op, ast::BinOpKind::ScAnd | ast::BinOpKind::ScOr) =>
            {
                let mut asked = self.asks(&it.left);
                let mut more = Vec::new();
                self.after(asked.clone(), |walk| more = walk.asks(&it.right));
                asked.extend(more);
                asked
            }
            ast::Expr::Filter(it) => {
                self.arguments(&it.args);
                it.expr.as_ref().map(|it| self.asks(it)).unwrap_or_default()
            }
            ast::Expr::Test(it) if ASKING.contains(&it.name) => self.asks(&it.expr),
            other => {
                self.uses(other);
                Vec::new()
            }
        }
    }

    fn calls(&mut self, call: &ast::Call<'_>) {
        match &call.expr {
            ast::Expr::Var(_) => {}
            ast::Expr::GetAttr(it) => self.uses(&it.expr),
            other => self.uses(other),
        }
        self.arguments(&call.args);
    }

    fn arguments(&mut self, args: &[ast::CallArg<'_>]) {
        for given in args {
            self.uses(argument(given));
        }
    }
}

/// The path of `a.b["c"][0]`, if an expression is just that.
fn path_of(expression: &ast::Expr<'_>) -> Option<Path> {
    match expression {
        ast::Expr::Var(it) => Some(vec![it.id.to_owned()]),
        ast::Expr::GetAttr(it) => {
            let mut path = path_of(&it.expr)?;
            path.push(it.name.to_owned());
            Some(path)
        }
        ast::Expr::GetItem(it) => {
            let ast::Expr::Const(key) = &it.subscript_expr else { return None };
            let key = match key.value.as_str() {
                Some(key) => key.to_owned(),
                None => usize::try_from(key.value.clone()).ok()?.to_string(),
            };
            let mut path = path_of(&it.expr)?;
            path.push(key);
            Some(path)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::read;

    #[test]
    fn what_has_no_value_is_missing_unless_the_template_asks_for_it() {
        let vars = json!({"user": {"name": "Ada", "tags": ["a"]}, "list": [1], "y": 1, "no": null});
        for (template, missing) in [
            ("{{ y }} {{ user.name }} {{ user.tags[0] }} {{ user['name'] }}", vec![]),
            ("{{ list.length }} {{ user.name.length }} {{ user.name[0] }} {{ no }}", vec![]),
            ("{{ user.name.toUpperCase() }} {{ range(3) }} {{ env.HOME }}", vec![]),
            ("{{ x }}", vec!["x"]),
            ("{{ x.a.b }}", vec!["x"]),
            ("{{ user.nmae }} {{ user.nmae }}", vec!["user.nmae"]),
            (
                "{{ user.tags[1] }} {{ no.a }} {{ list.first }}",
                vec!["user.tags[1]", "no.a", "list.first"],
            ),
            ("{{ x.trim() }}", vec!["x"]),
            ("{{ y | default(x) }}", vec!["x"]),
            ("{{ x | default('') }} {{ x | d(1) }} {{ user.nmae | default('') }}", vec![]),
            ("{{ x | upper | default('') }}", vec![]),
            ("{{ x or y }} {{ x or user.nmae }}", vec!["user.nmae"]),
            ("{{ x and y }}", vec!["x"]),
            ("{{ x is defined }}", vec![]),
            ("{{ x is defined }} {{ x }}", vec!["x"]),
            ("{% if x %}{{ x }}{% endif %}", vec![]),
            ("{% if x.a or true %}{{ x.a | upper }}{% endif %}", vec![]),
            ("{% if x %}{{ x.a }}{% endif %}", vec![]),
            ("{% if user %}{{ user.nmae }}{% endif %}", vec!["user.nmae"]),
            ("{% if x and x.a %}{{ x.a }}{% endif %}", vec![]),
            ("{% if x is defined and x > 3 %}{{ x }}{% endif %}", vec![]),
            ("{% if not x %}a{% else %}{{ x }}{% endif %}", vec![]),
            ("{% if x %}{% endif %}{{ x }}", vec!["x"]),
            ("{% if x == 1 %}{% endif %}", vec!["x"]),
            ("{{ x if x else y }}", vec![]),
            ("{% set x = 1 %}{{ x }}", vec![]),
            ("{% for i in list %}{{ i.a }}{{ loop.index }}{% endfor %}{{ i }}", vec!["i"]),
            ("{% for i in x %}{% endfor %}", vec!["x"]),
            ("{% for i in x or [] %}{% endfor %}", vec![]),
            ("{% with a = x %}{{ a }}{% endwith %}", vec!["x"]),
            ("{{ list[y] }} {{ list[x] }}", vec!["x"]),
        ] {
            let read = read(template).unwrap();
            assert_eq!(read.missing(vars.as_object().unwrap()), missing, "{template}");
        }
        let read = read("{{ a.b }}{{ c or d }}{{ env.X }}").unwrap();
        assert_eq!(read.needed().into_iter().collect::<Vec<_>>(), ["a", "d"]);
    }
}
