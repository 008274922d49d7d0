//! The first pass: from bytes to the tree of a `kindlm.yaml`. That of a promptfoo config is translated here.

use std::sync::Arc;

use kindlm_promptfoo::Inputs;
use kindlm_source::{Diagnostic, Node, Source, read};

use super::Sources;
use super::sink::Sink;

/// A text that was read.
#[derive(Debug)]
pub(super) struct Parsed {
    /// The text; of a promptfoo config with its secrets covered.
    pub(super) source: Arc<Source>,
    /// The document; `None` if the text is broken.
    pub(super) root: Option<Node>,
    /// True if the document is the translation of promptfoo's.
    pub(super) is_translated: bool,
}

/// Reads the text of a config file.
pub(super) fn parse(
    name: &str,
    bytes: &[u8],
    sources: &Sources<'_>,
) -> Result<(Parsed, Sink), Box<Diagnostic>> {
    let source = kindlm_source::decode(name, bytes)?;
    let tree = read(&source, 0..source.text().len());
    let mut sink = Sink::new(tree.diagnostics);
    let root = match tree.root {
        Some(root) if kindlm_promptfoo::is_promptfoo(&root) => root,
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
