//! The variables of templates, and the rendering of templates with them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::machinery::{CodeGenerator, eval, make_string_output};
use minijinja::value::{Object, Serde};
use minijinja::{AutoEscape, Environment, Value as Jinja};
use serde_json::{Map, Value};

use crate::Filters;
use crate::engine::{ENGINE, JSON_ENGINE};
use crate::fault::Fault;
use crate::read::{parsed, read_names};
use crate::rendering::{Missing, RenderState};
use crate::syntax::as_jinja;
use crate::walk::Walk;

/// The variables and environment variables that templates may use.
#[derive(Debug)]
pub struct Variables {
    values: Jinja,
    env: Arc<Env>,
    prints_json: bool,
}

impl Variables {
    /// Creates the variables of a test. The variable `env` is added, unless the test defines a variable of this name.
    ///
    /// Templates may only read the environment variables in `env`. A null value means that the environment variable is
    /// not set.
    pub fn new(vars: &Map<String, Value>, env: &Map<String, Value>) -> Self {
        let env = Arc::new(Env { permitted: env.clone(), refused: Mutex::default() });
        let own = vars.iter().map(|(name, value)| (name.clone(), Jinja::from(Serde(value))));
        let mut values: Vec<(String, Jinja)> = own.collect();
        if !vars.contains_key("env") {
            values.push(("env".to_owned(), Jinja::from_dyn_object(Arc::clone(&env))));
        }
        let values = Jinja::from_pairs(values);
        Self { values, env, prints_json: false }
    }

    /// Prints each value that is not a text as JSON, such as `[1,2]`. JavaScript would print `1,2`.
    #[must_use]
    pub fn printing_json(self) -> Self {
        Self { prints_json: true, ..self }
    }

    fn engine(&self) -> &'static Environment<'static> {
        if self.prints_json { &JSON_ENGINE } else { &ENGINE }
    }

    /// Renders a template, or returns an error message.
    pub fn render(&self, template: &str) -> Result<String, String> {
        Ok(self.render_by(self.engine(), template)?.0)
    }

    /// Renders a template that may also use the given filters, or returns an error message.
    pub fn render_with(&self, template: &str, filters: &Filters) -> Result<String, String> {
        Ok(self.render_by(&filters.0, template)?.0)
    }

    /// Renders a template, and returns the variables and keys without a value.
    ///
    /// The result has no duplicates. An example is `user.nmae` if `user` has no such key. A missing variable is not
    /// reported if the template has a `default` for the variable, or checks the variable, as in `{% if x %}`.
    ///
    /// # Errors
    ///
    /// Returns the reason if the template cannot be rendered.
    pub fn missing(&self, template: &str) -> Result<Vec<Missing>, String> {
        Ok(self.render_by(self.engine(), template)?.1)
    }

    /// Returns the missing variables that a template needs. A missing variable may be the reason why rendering fails.
    ///
    /// Returns no names if the template is invalid.
    pub fn absent(&self, template: &str) -> Vec<String> {
        let needed = read_names(template).map(|it| it.needed).unwrap_or_default();
        let is_absent = |it: &String| self.values.get_attr(it).is_ok_and(|it| it.is_undefined());
        needed.into_iter().filter(is_absent).collect()
    }

    fn render_by(
        &self,
        engine: &Environment<'_>,
        template: &str,
    ) -> Result<(String, Vec<Missing>), String> {
        let rendered = self.evaluated(engine, template);
        // Clear the list even after an error, so that the next template does not report these names.
        let refused = std::mem::take(&mut *self.env.refused());
        match refused.first() {
            None => rendered.map_err(|fault| format!("the template cannot be rendered: {fault}")),
            Some(name) => Err(format!("the environment variable `{name}` may not be read here")),
        }
    }

    fn evaluated(
        &self,
        engine: &Environment<'_>,
        template: &str,
    ) -> Result<(String, Vec<Missing>), Fault> {
        let template = &*as_jinja(template);
        let tree = parsed(template)?;
        let (found, tree) = Walk::through(template, &tree);
        let mut code = CodeGenerator::new("", template);
        code.compile_stmt(&tree);
        let (instructions, blocks) = code.finish();
        let mut text = String::new();
        let mut out = make_string_output(&mut text);
        let (root, escape) = (self.values.clone(), AutoEscape::None);
        let done = eval(engine, &instructions, root, &blocks, &mut out, escape);
        let missing = done.map(|(_, state)| RenderState::missing_in(&state));
        drop(out);
        let missing = missing.map_err(|err| Fault::of_evaluation(template, &err, found.fault))?;
        Ok((text, missing))
    }
}

/// The value of the variable `env`.
struct Env {
    /// The variables that templates may read, by name; null for a variable that is not set.
    permitted: Map<String, Value>,
    /// The names of other variables that a template has tried to read.
    refused: Mutex<BTreeSet<String>>,
}

impl Env {
    fn refused(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Omits the values, because they may be secrets.
impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").finish_non_exhaustive()
    }
}

impl Object for Env {
    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let name = key.as_str()?;
        match self.permitted.get(name) {
            // The template may read the variable, but the variable is not set.
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
            // As in nunjucks, `set` in a loop changes the variable that was set before the loop.
            (
                "{% set q = 0 %}{% for x in [1, 2] %}{% set q = q + x %}{{ q }} {% endfor %}{{ q }}",
                "1 3 3",
            ),
            (
                "{% set q = 'a' %}{% for x in [1, 2] %}{% for y in [3, 4] %}{% if y > 3 %}{% set q %}{{ q }}{{ x }}{% endset %}{% endif %}{% endfor %}{% endfor %}{{ q }}",
                "a12",
            ),
            (
                "{% set q = 0 %}{% for q in [1, 2] %}{% set q = q + 1 %}{{ q }}{% endfor %}{{ q }}",
                "230",
            ),
            ("{% for x in [1, 2] %}{% set q = x %}{{ q }}{% endfor %}[{{ q }}]", "12[]"),
            (
                "{% set q = 1 %}{% for x in [1] %}{% set q = 2 %}{% endfor %}{% set q = q + 1 %}{{ q }}",
                "3",
            ),
            ("{% for k, v in o %}{{ k }}={{ v }};{% endfor %}", "b=1;a=1;"),
            ("{% for a, b in [[1, 2], [3, 4]] %}{{ a }}-{{ b }} {% endfor %}", "1-2 3-4 "),
            (
                "{% if i == 1 %}1{% elseif i == 3 %}elseif{%- elseif i %}{% else %}{% endif %}",
                "elseif",
            ),
            ("{{ env.REGION }}", "eu"),
            ("[{{ env.UNSET }}] {{ env.UNSET | default('us') }}", "[] us"),
        ] {
            assert_eq!(render(template, vars.clone()).as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn a_refused_name_does_not_affect_the_next_template() {
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
    fn has_the_methods_of_javascript() {
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
            ("[{{ 'abc'.at(-1) }}{{ 'abc'.at(-5) }}{{ 'abc'.charAt(-1) }}{{ l.at(-5) }}]", "[c]"),
            (
                "{{ 'aba'.indexOf('a', 1) }} {{ 'aba'.indexOf('b', 2) }} {{ l.indexOf('a', 1) }}",
                "2 -1 -1",
            ),
            ("{{ 'a,b,c'.split(',', 2) }} {{ 'abc'.split('', 2) }}", "a,b a,b"),
            ("{{ 'abc'.includes('a', 1) }} {{ 'abc'.startsWith('b', 1) }}", "false true"),
            (
                "{{ 'abc'.endsWith('b', 2) }} {{ [1].includes(true) }} {{ l.includes(3) }}",
                "true false true",
            ),
            // The last line break belongs to the text.
            ("{{ n }}\n", "2.5\n"),
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
        let vars =
            json!({"s": "one two three", "h": "<p>a <b>b</b></p>", "z": 0, "l": [1], "no": null});
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
            (
                "{{ 6 is divisibleby(3) }} {{ 6 is divisibleby(z) }} {{ 6 is divisibleby(4) }} {{ 4.5 is divisibleby(1.5) }}",
                "true false false true",
            ),
            (
                "{{ (-(2 ** 126) * 2) is divisibleby(-1) }} {{ l | select('divisibleby', z) | list }}",
                "true ",
            ),
            ("[{{ no | upper }}{{ no | replace('o', 'x') }}{{ [no, 1] | join('-') }}]", "[-1]"),
        ] {
            assert_eq!(render(template, vars.clone()).as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn invalid_templates_name_the_reason() {
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
                "takes more than",
            ),
        ] {
            let err = render(template, json!({})).unwrap_err();
            assert!(err.contains(part), "{template}: {err}");
        }
    }

    #[test]
    fn similar_names_are_suggested() {
        let vars = json!({"user": {"name": "Ada"}, "no": null});
        let variables = Variables::new(vars.as_object().unwrap(), &Map::new());
        let near = |template| variables.missing(template).unwrap().pop().and_then(|it| it.near);
        assert_eq!(near("{{ user.nmae }}").as_deref(), Some("user.name"));
        assert_eq!(near("{% set u = user %}{{ u.nmae }}").as_deref(), Some("u.name"));
        assert!(variables.missing("{{ no }}").unwrap().iter().all(|it| it.is_null));
    }

    #[test]
    fn output_of_templates_is_bounded() {
        let vars = json!({"l": [1], "s": "x", "n": 100_000_000, "o": {"a": 1}});
        for (template, part) in [
            ("{{ 'a' * 100000000 }}", "longer than 1,000,000 characters"),
            ("{{ s * n }}", "longer than 1,000,000 characters"),
            ("{{ n * s }}", "longer than 1,000,000 characters"),
            ("{{ (l * n) | length }}", "longer than 1,000,000 characters"),
            ("{{ ('a' * 1000) | replace('a', 'b' * 100000) }}", "more than 1,000,000 characters"),
            ("{{ ('a' * 1000).replaceAll('a', 'b' * 100000) }}", "longer than 1,000,000"),
            ("{{ ('a' * 1000).split('').join('b' * 100000) }}", "longer than 1,000,000"),
            ("{{ ('a' * 1000) | list | join('b' * 100000) }}", "more than 1,000,000 characters"),
            (
                "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}",
                "more than 3000000 steps",
            ),
        ] {
            let words = render(template, vars.clone()).unwrap_err();
            assert!(words.contains(part), "{template}: {words}");
        }
        let again = |first: &str, step: &str, last: &str, times: usize| {
            format!("{first}{}{last}", step.repeat(times))
        };
        for (template, part) in [
            (
                again("{% set b = 'aaaaaaaaaa' %}", "{% set b = b ~ b %}", "{{ b }}", 60),
                "characters",
            ),
            (
                again("{% set b = 'aaaaaaaaaa' %}", "{% set b = b + b %}", "{{ b }}", 60),
                "characters",
            ),
            (again("{% set b = [1] %}", "{% set b = [b, b] %}", "{{ b }}", 60), "characters"),
            (again("{% set b = [1] %}", "{% set b = b + b %}", "{{ b }}", 60), "characters"),
            (again("{% set b = {} %}", "{% set b = {1: b, 2: b} %}", "{{ b }}", 60), "characters"),
            (again("{% set b = [] %}", "{% set b = [b] %}", "{{ b }}", 5000), "levels deep"),
            (again("{% set b = 'ab' %}", "{% set b = b.concat(b) %}", "{{ b }}", 60), "characters"),
            (
                again("{% set b = 'ab' %}", "{% set b %}{{ b }}{{ b }}{% endset %}", "", 60),
                "characters",
            ),
            (
                format!("{{% for i in range(90000) %}}{}{{% endfor %}}", "a".repeat(5000)),
                "characters",
            ),
        ] {
            let words = render(&template, vars.clone()).unwrap_err();
            assert!(words.contains(part), "{}: {words}", &template[..60]);
        }
        for (template, expected) in [
            (
                "{{ 'ab' * 3 }} {{ 2 * 3 }} {{ 2 + 3 }} {{ 'a' + 'b' }} {{ s ~ 1 ~ l }}",
                "ababab 6 5 ab x11",
            ),
            ("{{ l + [2] }} {{ (l * 3).length }} {{ (l + [2]) | last }}", "1,2 3 2"),
        ] {
            assert_eq!(render(template, vars.clone()).as_deref(), Ok(expected), "{template}");
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

    #[test]
    fn unset_names_are_missing_unless_checked() {
        let vars = json!({"user": {"name": "Ada", "tags": ["a"]}, "list": [1], "y": 1, "no": null});
        let variables = Variables::new(vars.as_object().unwrap(), &Map::new());
        for (template, missing) in [
            ("{{ y }} {{ user.name }} {{ user.tags[0] }} {{ user['name'] }}", vec![]),
            ("{{ list.length }} {{ user.name.length }} {{ user.name[0] }}", vec![]),
            ("{{ no }}{% if no %}{{ no }}{% endif %}{{ no == none }}", vec!["no"]),
            ("{{ user.name.toUpperCase() }} {{ range(3) }}", vec![]),
            ("{{ x }}", vec!["x"]),
            ("{{ x.a.b }}", vec!["x"]),
            ("{{ user.nmae }} {{ user.nmae }}", vec!["user.nmae"]),
            (
                "{{ user.nmae }} {{ user.nmaed }} {{ nm }} {{ nmx }}",
                vec!["user.nmae", "user.nmaed", "nm", "nmx"],
            ),
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
            ("{% if x.a or true %}{{ x.a | upper }}{% endif %}", vec!["x"]),
            ("{% if x %}{{ x.a }}{% endif %}", vec![]),
            ("{% if user %}{{ user.nmae }}{% endif %}", vec!["user.nmae"]),
            ("{% if x and x.a %}{{ x.a }}{% endif %}", vec![]),
            ("{% if x is defined and x > 3 %}{{ x }}{% endif %}", vec![]),
            ("{% if not x %}a{% else %}{{ x }}{% endif %}", vec![]),
            ("{% if x %}{% endif %}{{ x }}", vec!["x"]),
            ("{% if x == 1 %}{% endif %}", vec!["x"]),
            ("{{ x if x else y }}", vec![]),
            ("{% set x = 1 %}{{ x }}", vec![]),
            ("{% for i in list %}{{ i.a }}{{ loop.index }}{% endfor %}{{ i }}", vec!["i.a", "i"]),
            ("{% for i in x %}{% endfor %}", vec!["x"]),
            ("{% for i in x or [] %}{% endfor %}", vec![]),
            ("{% with a = x %}{{ a }}{% endwith %}", vec!["x"]),
            ("{% with a = y, b = a %}{{ b }}{% endwith %}{{ a }}", vec!["a"]),
            ("{{ no | upper }}", vec!["no"]),
            ("{{ list[y] }} {{ list[x] }}", vec!["list[y]", "x"]),
            // The report contains the name at the place of use, not the original name.
            ("{% set u = user %}{{ u.name }} {{ u.nmae }}", vec!["u.nmae"]),
            ("{% set u = x %}{% if u %}{{ u }}{% endif %}", vec![]),
            ("{% set u = x %}{{ u }}", vec!["x"]),
            ("{% for u in [user] %}{{ u.nmae }}{% endfor %}", vec!["u.nmae"]),
            ("{% set k = 'nmae' %}{{ user[k] }}", vec!["user[k]"]),
            ("{{ user | attr('nmae') }}", vec!["user | attr"]),
            ("{{ [user] | map(attribute='nmae') | join }}", vec!["[user] | map"]),
            ("{{ [user] | map(attribute='name') | join }}", vec![]),
            ("{{ [] | first }}", vec!["[] | first"]),
            ("{{ x | upper | trim }}", vec!["x"]),
            ("{{ no | default('a') }} {{ no | default('a', true) }}", vec!["no | default"]),
        ] {
            let found = variables.missing(template).unwrap();
            let found: Vec<&str> = found.iter().map(|it| it.name.as_str()).collect();
            assert_eq!(found, missing, "{template}");
        }
    }
}
