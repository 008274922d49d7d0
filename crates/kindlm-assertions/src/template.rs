//! Templates in the values of list entries: Jinja over the variables of the test.
//!
//! promptfoo renders them with nunjucks, a Jinja for JavaScript. Settings are those under which the two agree: what
//! is not defined is an empty text, nothing is escaped, values are printed as JavaScript prints them. A value without
//! `{{`, `{%` or `{#` is never touched.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use kindlm_types::ecma;
use minijinja::value::{Object, Rest, Serde, ValueKind};
use minijinja::{
    AutoEscape, Environment, ErrorKind, Output, State, UndefinedBehavior, Value as Jinja,
};
use serde_json::{Map, Value};

use crate::Setup;

/// The steps that one template may take; a bound for loops in loops.
const FUEL: u64 = 1_000_000;

/// Whether a text is a template.
pub fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

impl Setup<'_> {
    /// Whether the list form of an `expect` block has a template, so that what it compiles to depends on the
    /// variables. Of what is referred to, all counts, as that is rare.
    pub fn has_templates(&self, expect: &Value) -> bool {
        let is_template_text = |it: &Value| it.as_str().is_some_and(is_template);
        let refers = |it: &Value| it.get("$ref").is_some();
        // The file that it names is a template.
        let is_prompt = |it: &Value| it.get("rubricPrompt").is_some();
        let is_one = |it: &Value| is_template_text(it) || is_prompt(it);
        expect.get("assert").is_some_and(|list| {
            any(list, &is_one)
                || any(list, &refers)
                    && self.assertion_templates.values().any(|it| any(it, &is_one))
        })
    }
}

/// Whether something is true of a value, or of one within it.
fn any(value: &Value, test: &impl Fn(&Value) -> bool) -> bool {
    test(value)
        || match value {
            Value::Array(items) => items.iter().any(|it| any(it, test)),
            Value::Object(entries) => entries.values().any(|it| any(it, test)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
}

static ENGINE: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut engine = Environment::new();
    engine.set_undefined_behavior(UndefinedBehavior::Chainable);
    engine.set_auto_escape_callback(|_| AutoEscape::None);
    engine.set_formatter(|out, _: &mut State, value| print(out, value));
    engine.set_fuel(Some(FUEL));
    engine.add_filter("dump", |value: Jinja| {
        serde_json::to_value(&value).map(|it| ecma::stringify(&it)).unwrap_or_default()
    });
    engine
});

/// Prints a value as `String(value)` of JavaScript does; an object as JSON, as `[object Object]` helps nobody.
fn print(out: &mut Output<'_>, value: &Jinja) -> Result<(), minijinja::Error> {
    out.write_str(&text(value)).map_err(minijinja::Error::from)
}

fn text(value: &Jinja) -> String {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => String::new(),
        ValueKind::Number => match f64::try_from(value.clone()) {
            Ok(number) if !value.is_integer() => ecma::number(number),
            _ => value.to_string(),
        },
        ValueKind::Bool => value.is_true().to_string(),
        ValueKind::Seq => {
            let items = value.try_iter().into_iter().flatten();
            items.map(|it| text(&it)).collect::<Vec<_>>().join(",")
        }
        ValueKind::Map => {
            serde_json::to_value(value).map(|it| ecma::stringify(&it)).unwrap_or_default()
        }
        _ => value.to_string(),
    }
}

/// What templates may refer to.
#[derive(Debug)]
pub struct Variables {
    values: Jinja,
    env: Arc<Env>,
}

impl Variables {
    /// The variables of a test, and `env` unless one of them is called so.
    pub fn new(vars: &Map<String, Value>, env: &Map<String, Value>) -> Self {
        let env = Arc::new(Env { permitted: env.clone(), refused: Mutex::default() });
        let own = vars.iter().map(|(name, value)| (name.clone(), Jinja::from(Serde(value))));
        let mut values: Vec<(String, Jinja)> = own.collect();
        if !vars.contains_key("env") {
            values.push(("env".to_owned(), Jinja::from_dyn_object(Arc::clone(&env))));
        }
        let values = Jinja::from_pairs(values);
        Self { values, env }
    }

    /// The text with everything filled in, or why that cannot be done.
    pub fn render(&self, template: &str) -> Result<String, String> {
        self.render_by(&ENGINE, template)
    }

    /// The same, with filters beside those that are built in.
    pub fn render_with(&self, template: &str, filters: &Filters) -> Result<String, String> {
        self.render_by(&filters.0, template)
    }

    fn render_by(&self, engine: &Environment<'_>, template: &str) -> Result<String, String> {
        let rendered = engine.render_str(template, &self.values).map_err(|err| {
            let line = err.line().filter(|_| template.contains('\n'));
            let place = line.map(|it| format!(" (line {it} of the text)")).unwrap_or_default();
            let words = err.detail().map_or_else(|| err.kind().to_string(), str::to_owned);
            format!("the template cannot be rendered: {words}{place}")
        })?;
        let refused = std::mem::take(&mut *self.env.refused());
        match refused.first() {
            None => Ok(rendered),
            Some(name) => Err(format!("the environment variable `{name}` may not be read here")),
        }
    }
}

/// What a filter does: the value in front of it and its arguments, and what comes of them.
pub type Filter = dyn Fn(&[Value]) -> Result<Value, String> + Send + Sync;

/// Filters beside those that are built in.
#[derive(Clone, Debug)]
pub struct Filters(Environment<'static>);

impl Filters {
    /// Filters by name. One with the name of a built-in filter takes its place.
    pub fn new(filters: impl IntoIterator<Item = (String, Arc<Filter>)>) -> Self {
        let mut engine = ENGINE.clone();
        for (name, filter) in filters {
            let called = name.clone();
            engine.add_filter(name, move |values: Rest<Jinja>| {
                let failed = |message: String| {
                    let message = format!("the filter `{called}`: {message}");
                    minijinja::Error::new(ErrorKind::InvalidOperation, message)
                };
                let values: Result<Vec<Value>, _> =
                    values.iter().map(serde_json::to_value).collect();
                let values = values.map_err(|err| failed(err.to_string()))?;
                Ok(Jinja::from(Serde(filter(&values).map_err(failed)?)))
            });
        }
        Self(engine)
    }
}

/// A text as a template that renders to it, whatever marks of templates are in it.
pub fn literal(text: &str) -> String {
    if !is_template(text) {
        return text.to_owned();
    }
    let mut template = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        template.push(c);
        // An empty expression between the two keeps them from being a mark.
        if c == '{' && matches!(rest.peek(), Some('{' | '%' | '#')) {
            template.pop();
            template.push_str("{{ '{' }}");
        }
    }
    template
}

/// The environment variables that templates may read.
struct Env {
    permitted: Map<String, Value>,
    refused: Mutex<BTreeSet<String>>,
}

impl Env {
    fn refused(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Without the values, which may be secrets.
impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").finish_non_exhaustive()
    }
}

impl Object for Env {
    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let name = key.as_str()?;
        let value = self.permitted.get(name);
        if value.is_none() {
            self.refused().insert(name.to_owned());
        }
        value.map(|it| Jinja::from(Serde(it)))
    }
}

/// What a template refers to and does not set itself, or why it cannot be read.
pub fn undeclared(template: &str) -> Result<BTreeSet<String>, String> {
    let read = ENGINE.template_from_str(template).map_err(|err| {
        let line = err.line().filter(|_| template.contains('\n'));
        let place = line.map(|it| format!(" (line {it} of the text)")).unwrap_or_default();
        let words = err.detail().map_or_else(|| err.kind().to_string(), str::to_owned);
        format!("{words}{place}")
    })?;
    // Functions that are built in are no variables.
    let is_built_in = |name: &String| ENGINE.globals().any(|(it, _)| it == name);
    Ok(read.undeclared_variables(false).into_iter().filter(|it| !is_built_in(it)).collect())
}

/// Whether a template asks if there is a variable before it uses it, or says what holds if there is none.
pub(crate) fn is_tested(template: &str, name: &str) -> bool {
    let words: Vec<&str> = template
        .split(|it: char| !(it.is_alphanumeric() || matches!(it, '_' | '|')))
        .flat_map(|it| it.split_inclusive('|'))
        .filter(|it| !it.is_empty())
        .collect();
    words.windows(2).any(|pair| pair == [name, "is"])
        || words.windows(3).any(|it| it[0] == name && it[1] == "|" && it[2] == "default")
        || words.windows(2).any(|it| it[0].strip_suffix('|') == Some(name) && it[1] == "default")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn render(template: &str, vars: Value) -> Result<String, String> {
        let Value::Object(vars) = vars else { panic!("vars are an object") };
        let env = json!({"REGION": "eu"});
        Variables::new(&vars, env.as_object().unwrap()).render(template)
    }

    #[test]
    fn prints_values_as_javascript_does() {
        let vars = json!({
            "s": "a\"<b>", "i": 3, "f": 2.0, "d": 0.5, "t": true, "n": null, "l": [1, "x", [2.0]],
            "o": {"b": 1.0, "a": [1]},
        });
        for (template, expected) in [
            ("{{s}}", "a\"<b>"),
            ("{{ i }} {{ f }} {{ d }} {{ t }}", "3 2 0.5 true"),
            ("[{{ n }}][{{ nope }}][{{ nope.deep.er }}]", "[][][]"),
            ("{{ l }}", "1,x,2"),
            ("{{ o }}", r#"{"b":1,"a":[1]}"#),
            ("{{ o.a | dump }} {{ s | upper }}", "[1] A\"<B>"),
            ("{% if i > 2 %}big{% else %}small{% endif %}{# note #}", "big"),
            ("{% for x in l %}{{ loop.index }}{% endfor %}", "123"),
            ("{% set y = i + 1 %}{{ y }}", "4"),
            ("{{ env.REGION }}", "eu"),
        ] {
            assert_eq!(render(template, vars.clone()).as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn says_why_a_text_is_no_template() {
        for (template, part) in [
            ("({{a:1}})", "cannot be rendered"),
            ("a\n{% if %}", "line 2 of the text"),
            ("{{ env.HOME }}", "the environment variable `HOME` may not be read here"),
            (
                "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
                "ran out of fuel",
            ),
        ] {
            let err = render(template, json!({})).unwrap_err();
            assert!(err.contains(part), "{template}: {err}");
        }
    }

    #[test]
    fn a_literal_renders_to_itself() {
        for text in ["", "plain", "{{ x }}", "{% raw %} {# no #}", "{{{ {%{{", "a { b }} {"] {
            let template = literal(text);
            assert_eq!(render(&template, json!({"x": 1})).as_deref(), Ok(text), "{template}");
        }
    }

    #[test]
    fn filters_are_given_values_and_arguments() {
        let join = |values: &[Value]| match values {
            [] | [_] => Err("expected an argument".to_owned()),
            values => Ok(json!({"joined": values})),
        };
        let filters = Filters::new([("join_all".to_owned(), Arc::new(join) as Arc<Filter>)]);
        let vars = json!({"x": [1, "a"]});
        let variables = Variables::new(vars.as_object().unwrap(), &Map::new());
        let render = |template| variables.render_with(template, &filters);
        assert_eq!(
            render("{{ (x | join_all(2)).joined | dump }}").as_deref(),
            Ok(r#"[[1,"a"],2]"#)
        );
        assert_eq!(render("{{ 'a' | upper }}").as_deref(), Ok("A"));
        let err = render("{{ x | join_all }}").unwrap_err();
        assert!(err.contains("the filter `join_all`: expected an argument"), "{err}");
        assert!(variables.render("{{ x | join_all }}").is_err());
    }

    #[test]
    fn a_variable_that_is_asked_for_may_be_missing() {
        for (template, expected) in [
            ("{{ x }}", false),
            ("{% if x is defined %}{{ x }}{% endif %}", true),
            ("{{ x|default('') }}", true),
            ("{{ x | default('') }}", true),
            ("{{ y | default(x) }}", false),
            ("{{ yx is defined }} {{ x }}", false),
        ] {
            assert_eq!(is_tested(template, "x"), expected, "{template}");
        }
        let names = undeclared("{% for i in range(3) %}{{ i }}{{ x.y }}{% endfor %}").unwrap();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["x"]);
    }

    #[test]
    fn a_variable_called_env_wins() {
        assert_eq!(render("{{ env.HOME }}", json!({"env": {"HOME": "x"}})).as_deref(), Ok("x"));
    }

    #[test]
    fn only_marks_make_a_template() {
        let mut setup = Setup::new(&kindlm_types::NoFiles, None);
        let named = json!({"x": {"type": "equals", "value": "{{x}}"}});
        setup.assertion_templates = named.as_object().unwrap().clone();
        for (expect, expected) in [
            (json!({"assert": [{"type": "equals", "value": "{ a }"}]}), false),
            (json!({"output": {"contains": ["{{x}}"]}}), false),
            (json!({"assert": [{"type": "equals", "value": ["{{x}}"]}]}), true),
            (json!({"assert": [{"type": "assert-set", "assert": [{"metric": "{#"}]}]}), true),
            (json!({"assert": [{"$ref": "#/assertionTemplates/x"}]}), true),
            (json!({"assert": [{"type": "moderation", "rubricPrompt": "file://a.txt"}]}), true),
        ] {
            assert_eq!(setup.has_templates(&expect), expected, "{expect}");
        }
    }
}
