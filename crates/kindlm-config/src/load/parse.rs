//! The first pass: parses the config file into a tree. It also translates promptfoo configs.

use std::sync::Arc;

use kindlm_promptfoo::Inputs;
use kindlm_source::{Code, Diagnostic, Node, Source, Span, read};

use super::Sources;
use super::sink::Sink;

/// A parsed config file.
#[derive(Debug)]
pub(super) struct Parsed {
    /// The text of the file. In a promptfoo config, secrets are replaced by asterisks.
    pub(super) source: Arc<Source>,
    /// The document; `None` if the text cannot be parsed.
    pub(super) root: Option<Node>,
    /// True if the document is a translated promptfoo config.
    pub(super) is_translated: bool,
}

/// Parses the text of a config file.
///
/// Fails if the file is too large, is not UTF-8 text, or is a program in JavaScript or TypeScript.
pub(super) fn parse(
    name: &str,
    bytes: &[u8],
    sources: &Sources<'_>,
) -> Result<(Parsed, Sink), Box<Diagnostic>> {
    let source = kindlm_source::decode(name, bytes)?;
    if let Some(diagnostic) = program(name, &source) {
        return Err(Box::new(diagnostic));
    }
    let tree = read(&source, 0..source.text().len());
    let mut sink = Sink::new(tree.diagnostics);
    let root = match tree.root {
        // The translation of an inline suite could run programs.
        Some(root) if sources.inline.is_none() && kindlm_promptfoo::is_promptfoo(&root) => root,
        root => return Ok((Parsed { source, root, is_translated: false }, sink)),
    };
    let source = kindlm_promptfoo::covered(&source, &root);
    let inputs = Inputs {
        files: sources.files,
        env: sources.env,
        scripts: Arc::clone(&sources.scripts),
        reporters: &sources.reporters,
    };
    let translated = kindlm_promptfoo::translate(&source, &root, &inputs);
    translated.diagnostics.into_iter().for_each(|it| sink.push(it));
    Ok((Parsed { source, root: Some(translated.root), is_translated: true }, sink))
}

/// Returns the error for a config file that is a program; `None` for any other file.
fn program(name: &str, source: &Arc<Source>) -> Option<Diagnostic> {
    let ending = name.rsplit_once('.').map(|(_, it)| it.to_ascii_lowercase())?;
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let help = match ending.as_str() {
        "js" | "cjs" => format!(
            "write it as JSON: `node -p \"JSON.stringify(require('./{file}'))\" > promptfooconfig.json`"
        ),
        "mjs" | "ts" | "mts" | "cts" => format!(
            "write it as JSON: `npx tsx -e \"import('./{file}').then(it => \
             console.log(JSON.stringify(it.default)))\" > promptfooconfig.json`"
        ),
        _ => return None,
    };
    let help = format!("{help}; functions in it must become files: `file://prompt.js`");
    let message = "a config in JavaScript or TypeScript is not supported";
    let at = source.first_line(Span::new(0, 0));
    Some(Diagnostic::error(Code::UNSUPPORTED, message, source, at).with_help(help))
}
