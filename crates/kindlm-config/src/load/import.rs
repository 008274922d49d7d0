//! A promptfoo config as the `kindlm.yaml` that does the same.

use kindlm_source::{Code, Diagnostic, Kind, Node, read};
use kindlm_template::{is_template, with_default};
use kindlm_types::Files;

use super::sink::Sink;
use super::{Sources, Translation, load_tree, read_all};

/// What another tool's config is here.
#[derive(Debug)]
pub struct Imported {
    /// The text of an equal `kindlm.yaml`; `None` if there is any error.
    pub yaml: Option<String>,
    /// Every error, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
    /// What is allowed, but probably not meant.
    pub warnings: Vec<Diagnostic>,
}

/// Translates a promptfoo config into a `kindlm.yaml` that does the same. Parameters as for [`load`](super::load).
pub fn import(
    name: &str,
    bytes: &[u8],
    files: &dyn Files,
    env: &dyn Fn(&str) -> Option<String>,
) -> Imported {
    import_with(name, bytes, &Sources::new(files, env))
}

/// The same, with everything that the config may refer to. What programs made is written out.
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
        // What is no YAML at all is told already.
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

/// Says that a file is no promptfoo config.
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

impl Imported {
    /// Writes a translation down, unless it does not hold on its own.
    fn write(&mut self, mut translation: Translation, sources: &Sources<'_>) {
        // What an entry only refers to is not written in it; that is told below.
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
        self.diagnostics = loaded.diagnostics;
        if !self.diagnostics.is_empty() {
            let is_error = |it: &Diagnostic| self.diagnostics.iter().any(|err| err.span == it.span);
            self.warnings.retain(|it| !is_error(it));
            return;
        }
        match serde_yaml::to_string(&root.to_json()) {
            Ok(yaml) => self.yaml = Some(yaml),
            Err(err) => {
                let message = format!("the translation cannot be written: {err}");
                let error = Diagnostic::error(Code::INVALID_VALUE, message, source, root.span);
                self.diagnostics.push(error);
            }
        }
    }
}
