//! What templates may refer to.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::value::{Object, Serde};
use minijinja::{Environment, Value as Jinja};
use serde_json::{Map, Value};

use crate::engine::ENGINE;
use crate::names::Fault;
use crate::{Filters, syntax};

/// What templates may refer to.
#[derive(Debug)]
pub struct Variables {
    values: Jinja,
    env: Arc<Env>,
}

impl Variables {
    /// The variables of a test, and `env` unless one of them is called so. A variable of the environment that is `null`
    /// there may be read and is not set; one that is not there may not be read.
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
        syntax::check_depth(template).map_err(|it| cannot_be_rendered(&it))?;
        let rendered = engine.render_str(&syntax::of_jinja(template), &self.values);
        // Also where it failed: the next template has nothing to do with it.
        let refused = std::mem::take(&mut *self.env.refused());
        match refused.first() {
            None => rendered.map_err(|err| cannot_be_rendered(&Fault::of_error(template, &err))),
            Some(name) => Err(format!("the environment variable `{name}` may not be read here")),
        }
    }
}

fn cannot_be_rendered(fault: &Fault) -> String {
    format!("the template cannot be rendered: {fault}")
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
        match self.permitted.get(name) {
            // It may be read, and is not set.
            Some(Value::Null) => Some(Jinja::UNDEFINED),
            Some(value) => Some(Jinja::from(Serde(value))),
            None => {
                self.refused().insert(name.to_owned());
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Filter, literal};
    use serde_json::json;

    fn render(template: &str, vars: Value) -> Result<String, String> {
        let Value::Object(vars) = vars else { panic!("vars are an object") };
        let env = json!({"REGION": "eu", "UNSET": null});
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
            ("[{{ env.UNSET }}] {{ env.UNSET | default('us') }}", "[] us"),
        ] {
            assert_eq!(render(template, vars.clone()).as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn what_one_template_may_not_read_is_not_held_against_the_next() {
        let variables = Variables::new(&Map::new(), &Map::new());
        for template in ["{{ env.HOME }}{{ 'a' | center(4000000000) }}", "{{ env.HOME }}"] {
            let words = variables.render(template).unwrap_err();
            assert!(words.contains("`HOME` may not be read here"), "{template}: {words}");
        }
        assert_eq!(variables.render("a").as_deref(), Ok("a"));
        let words = variables.render("{{ 'a' | center(4000000000000000000) }}").unwrap_err();
        assert!(words.contains("longer than 1,000,000"), "{words}");
    }

    #[test]
    fn has_what_javascript_has() {
        let vars = json!({
            "s": " Ada Lovelace ", "l": ["a", "b", 3], "o": {"length": "own", "a": [1, 2]}, "n": 2.5, "e": "😀",
        });
        for (template, expected) in [
            ("{{ l.length }} {{ s.length }} {{ e.length }}", "3 14 2"),
            ("{{ o.length }} {{ o.a.length }} {{ nope.length }}", "own 2 "),
            ("{% if l.length > 2 %}many{% endif %}", "many"),
            ("{% for x in l %}{{ loop.index }}/{{ loop.length }} {% endfor %}", "1/3 2/3 3/3 "),
            ("{{ \"a.length\" }} .length {# x.length #}", "a.length .length "),
            ("{% raw %}{{ l.length }}{% endraw %}", "{{ l.length }}"),
            ("{{ s.trim().toUpperCase() }}", "ADA LOVELACE"),
            ("{{ s.split(' ').length }}", "4"),
            ("{{ l.join('-') }} {{ l.includes('b') }} {{ l.indexOf('z') }}", "a-b-3 true -1"),
            ("{{ s.trim().slice(0, 3) }} {{ l.slice(-2) }}", "Ada b,3"),
            ("{{ s.replace('a', 'o') }}", " Ado Lovelace "),
            ("{{ n.toFixed(2) }} {{ n.toString() }}", "2.50 2.5"),
            ("{{ s.trim().startsWith('Ada') }}", "true"),
            (
                "{{ 'ab'.repeat(2) }} {{ 'ab'.padStart(3, '-') }} {{ 'ab'.padEnd(1) }}",
                "abab -ab ab",
            ),
        ] {
            assert_eq!(render(template, vars.clone()).as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn has_the_filters_and_tests_of_nunjucks() {
        let vars = json!({"s": "one two three", "h": "<p>a <b>b</b></p>", "z": 0, "l": [1]});
        for (template, expected) in [
            (
                "{{ s | wordcount }} {{ s | truncate(7) }} {{ s | truncate(7, true, '…') }}",
                "3 one two... one two…",
            ),
            ("{{ h | striptags }}", "a b"),
            ("[{{ 'ab' | center(6) }}]", "[  ab  ]"),
            ("{{ 'a&b c' | urlencode }}", "a%26b%20c"),
            ("{{ 'a\nb' | nl2br }}", "a<br />\nb"),
            ("{{ '<a>' | forceescape }}", "&lt;a&gt;"),
            ("{{ z is falsy }} {{ s is truthy }} {{ none is null }}", "true true true"),
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
            ("{{ a | uper }}", "there is no filter `uper`: did you mean `upper`?"),
            ("{{ 'ab'.repeat(500001) }}", "longer than 1,000,000 characters"),
            ("{{ 'ab'.repeat(-1) }}", "cannot be repeated -1 times"),
            ("{{ 'ab'.padStart(1000003) }}", "longer than 1,000,000 characters"),
            ("{{ 'ab'.padEnd(1000003, '-') }}", "longer than 1,000,000 characters"),
            ("{{ 2.5.toFixed(101) }}", "`toFixed` gives 0 to 100 digits, not 101"),
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
    fn a_variable_called_env_wins() {
        assert_eq!(render("{{ env.HOME }}", json!({"env": {"HOME": "x"}})).as_deref(), Ok("x"));
    }
}
