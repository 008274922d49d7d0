//! Translation of a promptfoo config into a `kindlm.yaml` with the same behaviour.

use std::sync::Arc;

use kindlm_engine::TestCase;
use kindlm_source::{Code, Diagnostic, Kind, Node, Source, read};
use kindlm_template::{is_template, with_default};
use kindlm_types::Files;
use serde_json::Value;

use super::sink::Sink;
use super::{Loaded, Sources, Translation, compact, load_tree, read_all};

/// The result of a translation from promptfoo.
#[derive(Debug)]
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
/// The parameters are the same as for [`load`](super::load).
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
        // A file that is not YAML already has an error.
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
    let root = read(&source, 0..source.text().len()).root?;
    let message = "this is not a promptfoo config: it has none of its keys";
    let diagnostic = Diagnostic::error(Code::INVALID_VALUE, message, &source, root.span);
    Some(
        diagnostic.with_help(
            "a promptfoo config has `prompts`, `providers` and `tests`, and no `kindlm`",
        ),
    )
}

/// Returns true if a text is a suite with the same tests.
fn is_same(yaml: &str, expected: &Loaded, sources: &Sources<'_>) -> bool {
    let source = Arc::new(Source::new("kindlm.yaml", yaml));
    let tree = read(&source, 0..yaml.len());
    let (loaded, _) =
        load_tree(&source, tree.root.as_ref(), Sink::new(tree.diagnostics), sources, false);
    let tests = |it: &Loaded| {
        let cases = it.suite.as_ref().map(|it| it.cases.iter());
        cases.map(|cases| {
            let of = |it: &TestCase| (it.name.clone(), it.digest, Arc::clone(&it.models));
            cases.map(of).collect::<Vec<_>>()
        })
    };
    let (own, expected) = (tests(&loaded), tests(expected));
    own.is_some() && own == expected
}

/// Reports prompts that are sent as `file://` and a path. In a suite, this text would be the content of the file.
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

/// Returns the translation in its shortest form. Each way to shorten it counts only if the tests stay the same.
fn shortest(
    translation: &Translation,
    loaded: Loaded,
    sources: &Sources<'_>,
) -> Result<String, serde_yaml::Error> {
    let Translation { source, root, .. } = translation;
    let original = compact::Original { source, root, files: sources.files };
    let known = &sources.providers;
    let mut suite = root.to_json();
    let mut expected = loaded;
    // The default judge changes the digests of the checks, so the digests of this form count from here on.
    let judged = compact::with_default_judge(suite.clone(), known);
    if judged != suite {
        let tree = Node::at(root.span, &judged);
        let (again, _) = load_tree(source, Some(&tree), Sink::default(), sources, false);
        if again.suite.is_some() {
            (suite, expected) = (judged, again);
        }
    }
    let comments = compact::Comments::of(&original);
    let written =
        |it: &Value| compact::to_yaml(it, &comments).filter(|it| is_same(it, &expected, sources));
    let mut yaml = None;
    let mut shorten = |suite: &mut Value, shorter: Option<Value>| {
        let Some(shorter) = shorter.filter(|it| it != suite) else { return false };
        let Some(text) = written(&shorter) else { return false };
        (*suite, yaml) = (shorter, Some(text));
        true
    };
    let inputs = kindlm_promptfoo::Inputs {
        files: sources.files,
        env: sources.env,
        scripts: Arc::clone(&sources.scripts),
        network: None,
        reporters: &[],
    };
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
    yaml.map_or_else(|| serde_yaml::to_string(&suite), Ok)
}
