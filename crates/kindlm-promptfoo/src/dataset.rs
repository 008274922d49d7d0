//! Tests of a file in promptfoo's format, for a `kindlm.yaml` that names the file.

use std::rc::Rc;
use std::sync::Arc;

use kindlm_source::{Kind, Node, Source, Span};
use serde_json::Value;

use super::build::{list, map, text};
use super::dynamic::program_of;
use super::test_settings::TestSettings;
use super::vars::Vars;
use super::{Inputs, Translated, Translator};

/// Translates the tests of a file. `span` is the location of the file's name in `source`.
///
/// The result is a list of tests without prompts and models. The suite adds both, and the entries of its default
/// test.
pub fn translate_tests(
    source: &Arc<Source>,
    span: Span,
    file: &str,
    inputs: &Inputs<'_>,
) -> Translated {
    let empty = map(span, []);
    let mut translator = Translator::new(source, &empty, inputs);
    let written = translator.tests_of_file(span, file, None);
    let mut tests = Vec::new();
    for (index, test) in written.iter().enumerate() {
        let graders = translator.providers.extras.len();
        let settings = translator.test_settings(test, &TestSettings::default());
        let names_graders = translator.providers.extras.len() > graders;
        translator.refuse_subjects(span, index + 1, &settings, names_graders);
        let combinations = translator.combinations(&settings.vars, settings.expand.unwrap_or(true));
        let name = settings.description.clone().unwrap_or_else(|| format!("Test {}", index + 1));
        for (variant, vars) in combinations.iter().enumerate() {
            let vars = translator.with_each_other(vars);
            translator.refuse_programs(span, index + 1, &vars);
            let name = match combinations.len() {
                1 => name.clone(),
                _ => format!("{name}, variant {}", variant + 1),
            };
            tests.push(translator.row(span, &name, &settings, vars));
        }
    }
    Translated { root: list(span, tests), diagnostics: translator.diagnostics }
}

impl Translator<'_> {
    /// Reports settings of a test that select prompts, providers or graders, or that drop checks of the suite. A file
    /// of tests must not change these parts of the suite. `names_graders` is true if the test names graders of its own.
    fn refuse_subjects(
        &mut self,
        span: Span,
        number: usize,
        said: &TestSettings,
        names_graders: bool,
    ) {
        let graders = &said.graders;
        let has_grader = graders.text.is_some() || graders.embedding.is_some();
        let drops = said.written_options.as_ref().and_then(|it| it.get("disableDefaultAsserts"));
        let set = [
            ("prompts", said.prompts.is_some()),
            ("providers", said.providers.is_some()),
            ("provider", said.provider.is_some()),
            ("options.prefix", !said.prefix.is_empty()),
            ("options.suffix", !said.suffix.is_empty()),
            ("options.transformVars", said.transform_vars.is_some()),
            ("options.storeOutputAs", said.stores.is_some()),
            ("options.provider", has_grader),
            ("assert[].provider", names_graders && !has_grader),
            (
                "options.disableDefaultAsserts",
                drops.is_some_and(|it| it.to_json() == Value::Bool(true)),
            ),
        ];
        for (key, _) in set.iter().filter(|(_, is_set)| *is_set) {
            let message =
                format!("test {number} of the file has `{key}`, which a dataset cannot have");
            self.error(span, message, Some("write this test into the suite"));
        }
    }

    fn refuse_programs(&mut self, span: Span, number: usize, vars: &Vars) {
        for (key, _) in vars.iter().filter(|(_, it)| program_of(it).is_some()) {
            let message = format!(
                "the variable `{}` of test {number} of the file is made by a program",
                key.name
            );
            self.error(span, message, Some("write its value into the file"));
        }
    }

    /// Returns the test of the suite with these variables.
    fn row(&mut self, span: Span, name: &str, said: &TestSettings, vars: Vars) -> Node {
        let vars = Node { span, used_at: None, kind: Kind::Mapping(Rc::new(vars)) };
        let checks = said.checks(&said.asserts, &mut self.keys);
        let mut entries = vec![
            ("name", text(span, name)),
            ("vars", vars),
            ("expect", map(span, [("assert", list(span, checks))])),
        ];
        if let (Some(threshold), None) = (&said.threshold, &said.scoring) {
            entries.push(("threshold", threshold.clone()));
        }
        let options = said.written_options.as_ref().filter(|_| said.has_own_options);
        for (key, value) in [
            ("transform", said.transform.as_ref()),
            ("options", options),
            ("output", said.output.as_ref()),
            ("metadata", said.metadata.as_ref()),
        ] {
            entries.extend(value.map(|it| (key, it.clone())));
        }
        map(span, entries)
    }
}
