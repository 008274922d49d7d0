//! Translation of a promptfoo config into a `kindlm.yaml` with the same behaviour.

use std::collections::BTreeSet;
use std::sync::Arc;

use kindlm_engine::{Model, Suite, TestCase};
use kindlm_source::{Code, Diagnostic, Kind, Node, Source, read_yaml};
use kindlm_template::{is_template, with_default};
use kindlm_types::Files;
use serde_json::Value;

use super::sink::Sink;
use super::{Loaded, Sources, Translation, compact, load_tree, read_all};

/// The result of a translation from promptfoo.
#[derive(Debug)]
#[non_exhaustive]
pub struct Imported {
    /// The text of an equivalent `kindlm.yaml`; `None` if there is any error.
    pub yaml: Option<String>,
    /// Every error, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
    /// The warnings: valid entries that are probably mistakes.
    pub warnings: Vec<Diagnostic>,
}

/// Translates a promptfoo config into an equivalent `kindlm.yaml`.
///
/// The parameters have the same meaning as in [`load`](super::load).
pub fn import(
    name: &str,
    bytes: &[u8],
    files: &dyn Files,
    env: &dyn Fn(&str) -> Option<String>,
) -> Imported {
    import_with(name, bytes, &Sources::new(files, env))
}

/// Translates a promptfoo config, with all files and programs that it may use.
///
/// The output contains the values that programs have generated, not references to the programs.
pub fn import_with(name: &str, bytes: &[u8], sources: &Sources<'_>) -> Imported {
    let (loaded, translation) = match read_all(name, bytes, sources) {
        Ok(read) => read,
        Err(err) => {
            return Imported { yaml: None, diagnostics: vec![*err], warnings: Vec::new() };
        }
    };
    let mut imported =
        Imported { yaml: None, diagnostics: loaded.diagnostics, warnings: loaded.warnings };
    match translation {
        // If the file is not YAML, `foreign` returns `None`, and the error of the parser stays.
        None => {
            if let Some(diagnostic) = foreign(name, bytes) {
                imported.diagnostics = vec![diagnostic];
            }
        }
        Some(translation) if imported.diagnostics.is_empty() => {
            imported.write(translation, sources);
        }
        Some(_) => {}
    }
    imported
}

/// Makes the error for a file that is not a promptfoo config.
///
/// Returns `None` if the file is not YAML.
fn foreign(name: &str, bytes: &[u8]) -> Option<Diagnostic> {
    let source = kindlm_source::decode(name, bytes).ok()?;
    let root = read_yaml(&source, 0..source.text().len()).root?;
    let message = "this is not a promptfoo config: it has none of its keys";
    let diagnostic = Diagnostic::error(Code::INVALID_VALUE, message, &source, root.span);
    Some(
        diagnostic.with_help(
            "a promptfoo config has `prompts`, `providers` and `tests`, and no `kindlm`",
        ),
    )
}

/// Returns true if a text is a suite with the same tests, models, providers, gates and defaults as `expected`.
fn is_same(yaml: &str, expected: &Loaded, sources: &Sources<'_>) -> bool {
    let source = Arc::new(Source::new("kindlm.yaml", yaml));
    let tree = read_yaml(&source, 0..yaml.len());
    let (loaded, _) =
        load_tree(&source, tree.root.as_ref(), Sink::new(tree.diagnostics), sources, false);
    let (Some(own), Some(expected)) = (&loaded.suite, &expected.suite) else { return false };
    let tests = |suite: &Suite| {
        let of = |it: &TestCase| (it.name.clone(), it.digest, Arc::clone(&it.models));
        suite.cases.iter().map(of).collect::<Vec<_>>()
    };
    // Leave out `offers`, the functions that a provider sends. The configurations of the providers contain these
    // functions and are compared below.
    let models = |suite: &Suite| {
        let of = |it: &Model| Model { offers: Arc::default(), ..it.clone() };
        suite.models.iter().map(of).collect::<Vec<_>>()
    };
    // Gates cannot be compared directly, so compare their debug output.
    let gates = |suite: &Suite| format!("{:?}", suite.gates);
    tests(own) == tests(expected)
        && models(own) == models(expected)
        && compact::equal(&used_providers(own), &used_providers(expected))
        && gates(own) == gates(expected)
        && (&own.defaults, &own.judging) == (&expected.defaults, &expected.judging)
}

/// Returns the configurations of the providers that have models. A short form may leave out other providers.
fn used_providers(suite: &Suite) -> Value {
    let names: BTreeSet<&str> = suite.models.iter().map(|it| it.provider.as_str()).collect();
    let of = |name: &str| Some((name.to_owned(), suite.providers.get(name)?.clone()));
    Value::Object(names.into_iter().filter_map(of).collect())
}

/// Reports prompts that are sent as `file://` and a path. A suite would send the content of the file instead.
fn file_texts(source: &Arc<Source>, root: &Node) -> Vec<Diagnostic> {
    let prompts = root.get("prompts").map_or(&[][..], Node::entries);
    let texts = prompts.iter().filter_map(|(_, it)| it.get("user"));
    let is_file = |it: &&Node| it.text().is_some_and(|it| it.trim().starts_with(super::FILE));
    let error = |it: &Node| {
        let text = it.text().unwrap_or_default().trim();
        let message = format!("`{text}` is sent unchanged, but a suite would read the file");
        let place = source.first_line(it.span);
        Diagnostic::error(Code::INVALID_VALUE, message, source, place)
            .with_help("write the text that the model should get")
    };
    texts.filter(is_file).map(error).collect()
}

impl Imported {
    /// Writes the translation as YAML, or reports the errors of the translated suite.
    fn write(&mut self, mut translation: Translation, sources: &Sources<'_>) {
        // promptfoo renders a missing variable as an empty text. In KindLM, the template needs a default for that.
        for (pointer, name, is_null) in std::mem::take(&mut translation.missing) {
            if let Some(Node { kind: Kind::Text(text), .. }) = translation.root.at_mut(&pointer)
                && is_template(text)
            {
                let default = if is_null { "'', true" } else { "''" };
                *text = with_default(text, &name, default).into();
            }
        }
        let Translation { source, root, .. } = &translation;
        let (loaded, _) = load_tree(source, Some(root), Sink::default(), sources, false);
        self.diagnostics = file_texts(source, root);
        let is_new = |it: &&Diagnostic| !self.diagnostics.iter().any(|own| own.span == it.span);
        let others: Vec<Diagnostic> = loaded.diagnostics.iter().filter(is_new).cloned().collect();
        self.diagnostics.extend(others);
        if !self.diagnostics.is_empty() {
            let is_error = |it: &Diagnostic| self.diagnostics.iter().any(|err| err.span == it.span);
            self.warnings.retain(|it| !is_error(it));
            return;
        }
        match shortest(&translation, loaded, sources) {
            Ok(yaml) => self.yaml = Some(yaml),
            Err(err) => {
                let message = format!("the translation cannot be written: {err}");
                let error = Diagnostic::error(Code::INVALID_VALUE, message, source, root.span);
                self.diagnostics.push(error);
            }
        }
    }
}

/// Returns the translation in its shortest form. A step that shortens the translation is skipped if it would change the
/// suite.
///
/// Fails if the translation cannot be written as YAML, or if even the unshortened YAML is a different suite.
fn shortest(
    translation: &Translation,
    loaded: Loaded,
    sources: &Sources<'_>,
) -> Result<String, String> {
    let Translation { source, root, .. } = translation;
    let original = compact::Original { source, root, files: sources.files };
    let known = &sources.providers;
    let mut suite = root.to_json();
    let mut expected = loaded;
    // The default judge changes the digests of the checks, so compare all further forms with this form.
    let judged = compact::with_default_judge(suite.clone(), known);
    if judged != suite {
        let tree = Node::at(root.span, &judged);
        let (again, _) = load_tree(source, Some(&tree), Sink::default(), sources, false);
        if again.suite.is_some() {
            (suite, expected) = (judged, again);
        }
    }
    let comments = compact::Comments::from_original(&original);
    let written =
        |it: &Value| compact::to_yaml(it, &comments).filter(|it| is_same(it, &expected, sources));
    let mut yaml = None;
    let mut shorten = |suite: &mut Value, shorter: Option<Value>| {
        let Some(shorter) = shorter.filter(|it| it != suite) else { return false };
        let Some(text) = written(&shorter) else { return false };
        (*suite, yaml) = (shorter, Some(text));
        true
    };
    let inputs =
        kindlm_promptfoo::Inputs::new(sources.files, sources.env, Arc::clone(&sources.scripts));
    let next = compact::without_usual_gates(suite.clone());
    shorten(&mut suite, Some(next));
    let next = compact::with_datasets(&suite, &original, &inputs);
    if !shorten(&mut suite, next) {
        let next = compact::compacted(suite.clone());
        shorten(&mut suite, Some(next));
        let next = compact::with_matrix(suite.clone());
        shorten(&mut suite, Some(next));
        let next = compact::with_default_test(suite.clone());
        shorten(&mut suite, Some(next));
    }
    let next = compact::with_short_prompts(suite.clone(), &original);
    shorten(&mut suite, Some(next));
    let next = compact::with_short_models(suite.clone(), known);
    shorten(&mut suite, Some(next));
    if let Some(yaml) = yaml {
        return Ok(yaml);
    }
    let yaml = serde_yaml::to_string(&suite).map_err(|err| err.to_string())?;
    if is_same(&yaml, &expected, sources) {
        Ok(yaml)
    } else {
        Err("as YAML, it would be another suite; this is a bug in KindLM: please report it"
            .to_owned())
    }
}

#[cfg(test)]
mod tests {
    use kindlm_types::FileError;

    use super::*;

    struct NoFiles;

    impl Files for NoFiles {
        fn read_file(&self, path: &str) -> Result<Arc<str>, FileError> {
            Err(FileError::NotFound { path: path.to_owned(), folder: "here".to_owned() })
        }

        fn glob(&self, _: &str) -> Result<Vec<String>, FileError> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_suite_that_lost_an_entry_is_another_suite() {
        let whole = "kindlm: 1
project: p
suite: { name: s }
providers: { openai: { apiKeyEnv: OPENAI_API_KEY, baseUrl: 'https://proxy.example/v1' } }
models:
  - { model: openai:gpt-4o, params: { seed: 3 }, price: { input: 1, output: 2 }, limits: { concurrency: 2 } }
  - { model: openai:gpt-4o-mini }
defaults: { judgeModel: openai:gpt-4o-mini }
gates: { passRateMin: 0.9 }
prompts: { p: hi }
tests: [{ name: t, prompt: p, models: [openai:gpt-4o], expect: { output: { contains: [a] } } }]
";
        let env = |_: &str| None;
        let sources = Sources::new(&NoFiles, &env);
        let expected = crate::load_with("kindlm.yaml", whole.as_bytes(), &sources);
        assert!(expected.suite.is_some(), "{:?}", expected.diagnostics);
        assert!(is_same(whole, &expected, &sources));
        for (part, rest) in [
            (", baseUrl: 'https://proxy.example/v1'", ""),
            (", params: { seed: 3 }", ""),
            (", price: { input: 1, output: 2 }", ""),
            (", limits: { concurrency: 2 }", ""),
            ("gates: { passRateMin: 0.9 }\n", ""),
            ("defaults: { judgeModel: openai:gpt-4o-mini }\n", ""),
            ("contains: [a]", "contains: [b]"),
        ] {
            let lossy = whole.replacen(part, rest, 1);
            let loaded = crate::load_with("kindlm.yaml", lossy.as_bytes(), &sources);
            assert!(loaded.suite.is_some(), "{part}: {:?}", loaded.diagnostics);
            assert!(!is_same(&lossy, &expected, &sources), "{part}");
        }
    }
}
