//! Analysis of a template before it is rendered.

use std::collections::BTreeSet;
use std::ops::Range;

use minijinja::machinery::ast::Stmt;
use minijinja::machinery::parse;

use crate::fault::Fault;
use crate::syntax::{as_jinja, check_depth, settings};
use crate::walk::Walk;

/// The names that a template uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateNames {
    /// The names that the template uses and does not set itself, including `env`.
    pub undeclared: BTreeSet<String>,
    /// The names that must have a value, without `env`.
    ///
    /// A name needs no value if the template has a `default` for the name, or checks the name first. An example of a
    /// check is `{% if x %}`.
    pub needed: BTreeSet<String>,
    /// Environment variables inside of larger expressions, with their ranges in bytes.
    ///
    /// An example is `{{ env.NAME | upper }}`.
    pub entangled: Vec<(String, Range<usize>)>,
    /// Environment variables that are a whole expression, with their ranges in bytes.
    ///
    /// An example is `{{ env.NAME }}`.
    pub alone: Vec<(String, Range<usize>)>,
}

/// Parses a template with the syntax of nunjucks. Returns an error if the template is invalid or nested too deeply.
pub(crate) fn parsed(template: &str) -> Result<Stmt<'_>, Fault> {
    check_depth(template)?;
    parse(template, "", settings()).map_err(|err| Fault::of_error(template, &err))
}

/// Analyses a template. The error describes invalid syntax, nesting that is too deep, or the first unknown filter,
/// test, function or method.
pub fn read_names(template: &str) -> Result<TemplateNames, Fault> {
    let template = &*as_jinja(template);
    let tree = parsed(template)?;
    let (found, _) = Walk::through(template, &tree);
    let Walk { fault, undeclared, needed, entangled, alone, .. } = found;
    match fault {
        Some(fault) => Err(fault),
        None => Ok(TemplateNames { undeclared, needed, entangled, alone }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built_in::{FILTERS, MORE_FILTERS, MORE_TESTS, TESTS};
    use crate::engine::ENGINE;
    use crate::filters::{ADDED, ADDED_TESTS};
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
    fn unknown_names_are_reported() {
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
            let fault = read_names(template).unwrap_err();
            assert_eq!(fault.message, message, "{template}");
            assert_eq!(fault.help.as_deref(), Some(help), "{template}");
            assert_eq!(&template[fault.range.unwrap()], part, "{template}");
            assert_eq!(fault.line, None);
        }
        assert_eq!(read_names("a\nb {{ x | uper }}").unwrap_err().line, Some(2));
    }

    #[test]
    fn references_of_templates_are_found() {
        let read = read_names("{{ a.length }}{% set b = 1 %}{{ b }}{{ env.X }}{{ env.Y | upper }}")
            .unwrap();
        assert_eq!(read.undeclared.iter().collect::<Vec<_>>(), ["a", "env"]);
        assert_eq!(read.entangled.iter().map(|it| it.0.as_str()).collect::<Vec<_>>(), ["Y"]);
        assert_eq!(read.alone.iter().map(|it| it.0.as_str()).collect::<Vec<_>>(), ["X"]);
        for template in [
            "Edit the .env.local file, or process.env.NODE_ENV. {{ s }}",
            "{# env.FOO #}{% raw %}{{ env.FOO }}{% endraw %}{{ my_env.REGION }}",
            "{% for env in l %}{{ env.FOO }}{% endfor %}",
        ] {
            let read = super::read_names(template).unwrap();
            assert_eq!((read.alone, read.entangled), (vec![], vec![]), "{template}");
        }
    }

    #[test]
    fn unknown_names_get_suggestions() {
        for (template, message, help) in [
            ("{% macro a() %}{% endmacro %}", "there is no statement `{% macro %}`", "loop over"),
            (
                "{% include 'a' %}",
                "there is no statement `{% include %}`",
                "cannot include other templates",
            ),
            ("{% fro i in l %}", "there is no statement `{% fro %}`", "there are `if`"),
            ("{% raw hello", "`{% raw %}` is not complete", "{% endraw %}"),
            ("{{ user.get('name') }}", "there is no method `get`", "{{ name['key'] }}"),
        ] {
            let fault = read_names(template).unwrap_err();
            assert_eq!(fault.message, message);
            assert!(fault.help.clone().unwrap_or_default().contains(help), "{fault}");
        }
        let needed =
            read_names("{{ a.b }}{{ c or d }}{{ env.X }}{% if e %}{{ e }}{% endif %}").unwrap();
        assert_eq!(needed.needed.into_iter().collect::<Vec<_>>(), ["a", "d"]);
    }

    #[test]
    fn set_and_built_in_names_are_no_references() {
        let read = read_names("{% for i in range(3) %}{{ i }}{{ x.y }}{% endfor %}").unwrap();
        assert_eq!(read.undeclared.into_iter().collect::<Vec<_>>(), ["x"]);
    }

    #[test]
    fn too_deep_templates_are_refused_before_an_overflow() {
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
            let fault = read_names(&deep).unwrap_err();
            let at = fault.range.unwrap_or_default();
            assert!(fault.message.contains("levels deep"), "{behind}: {} {at:?}", fault.message);
            let words = variables.render(&deep).unwrap_err();
            assert!(words.contains("levels deep"), "{behind}: {words}");
            // Templates up to the limit do not overflow the stack.
            let _ = (read_names(&make(100)), variables.render(&make(100)));
            let _ = (read_names(&make(240)), variables.render(&make(240)));
        }
        // Many expressions in sequence are not deeply nested.
        for wide in [
            format!("{{{{ [{}1] | length }}}}", "1 + 1, ".repeat(5_000)),
            format!("{{% set x = {{{}}} %}}", "'a': b.c, ".repeat(5_000)),
            "{{ a.b }} {% if a == 1 %}{{ a | upper }}{% elif a %}x{% endif %}".repeat(2_000),
        ] {
            assert_eq!(read_names(&wide).map(|_| ()), Ok(()));
        }
    }

    proptest! {
        #[test]
        fn never_panics(template in r"(\{\{|\}\}|\{%|%\}| is divisibleby\(|\.at\(|[a-z0-9.|() ,']|-|é){0,30}") {
            let _ = read_names(&template);
            let _ = crate::Variables::new(&serde_json::Map::new(), &serde_json::Map::new()).render(&template);
        }
    }
}
