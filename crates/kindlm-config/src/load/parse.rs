//! The first pass: parses the config file into a tree, and translates promptfoo configs.

use std::sync::Arc;

use kindlm_promptfoo::{ConfigProgram, Inputs, evaluate_config};
use kindlm_source::{Code, Diagnostic, Node, Source, Span, read_yaml};

use super::Sources;
use super::sink::Sink;
use crate::imports::Programs;

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
/// A promptfoo config in JavaScript or TypeScript is run, and its value is parsed as JSON. Fails if the file is too
/// large or is not UTF-8 text. Also fails if such a config cannot be run, or if its value is not supported.
pub(super) fn parse(
    name: &str,
    bytes: &[u8],
    sources: &Sources<'_>,
) -> Result<(Parsed, Sink), Box<Diagnostic>> {
    let written = kindlm_source::decode(name, bytes)?;
    let source = evaluated(name, &written, sources)?.unwrap_or(written);
    let tree = read_yaml(&source, 0..source.text().len());
    let mut sink = Sink::new(tree.diagnostics);
    let root = match tree.root {
        // Do not translate an inline suite, because the translation could run programs.
        Some(root) if sources.inline.is_none() && kindlm_promptfoo::is_promptfoo(&root) => root,
        root => return Ok((Parsed { source, root, is_translated: false }, sink)),
    };
    let source = kindlm_promptfoo::covered(&source, &root);
    let mut inputs = Inputs::new(sources.files, sources.env, Arc::clone(&sources.scripts));
    inputs.network.clone_from(&sources.network);
    inputs.reporters = &sources.reporters;
    let translated = kindlm_promptfoo::translate(&source, &root, &inputs);
    translated.diagnostics.into_iter().for_each(|it| sink.push(it));
    Ok((Parsed { source, root: Some(translated.root), is_translated: true }, sink))
}

/// Returns the value of a config file that is a program, as JSON; `None` for any other file.
///
/// Messages show places in this JSON, because a program has no places for its values. Fails if
///
/// - the suite is inline,
/// - the program cannot be evaluated,
/// - its value is not an object or contains functions,
/// - the program reads environment variables.
fn evaluated(
    name: &str,
    source: &Arc<Source>,
    sources: &Sources<'_>,
) -> Result<Option<Arc<Source>>, Box<Diagnostic>> {
    let Some(program) = ConfigProgram::of_config(name) else { return Ok(None) };
    let at = source.first_line(Span::new(0, 0));
    let error = |code, message: String, help: &str| {
        Box::new(Diagnostic::error(code, message, source, at).with_help(help))
    };
    if sources.inline.is_some() {
        let message = "a config in JavaScript or TypeScript is not run here".to_owned();
        return Err(error(Code::UNSUPPORTED, message, "send it as YAML or JSON"));
    }
    let evaluated = evaluate_config(&program, &sources.scripts).map_err(|why| {
        let message = format!("the config cannot be evaluated: {why}");
        error(Code::PROGRAM, message, &as_json(name))
    })?;
    // The sandbox reads the imports of the config. Read them through `files` too, which records the files of the suite.
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    Programs::new(sources.files).find_parts(file);
    let text = serde_json::to_string_pretty(&evaluated.value).unwrap_or_default();
    let is_config = evaluated.value.is_object();
    if !is_config {
        let message = "the config does not export an object".to_owned();
        let help = "write `module.exports = { … }` or `export default { … }`";
        return Err(error(Code::INVALID_VALUE, message, help));
    }
    if let Some(pointer) = evaluated.functions.first() {
        let message = format!("the config has a function at `{pointer}`, which is not supported");
        let help = "put the function into a file of its own, and name that: `file://file.js:name`";
        return Err(error(Code::UNSUPPORTED, message, help));
    }
    if let Some(variable) = evaluated.variables.first() {
        let message = format!("the config reads the environment variable `{variable}`");
        let help = format!(
            "write `{{{{env.{variable}}}}}` into a text of the config, and KindLM puts the value there"
        );
        return Err(error(Code::UNSUPPORTED, message, &help));
    }
    Ok(Some(Arc::new(Source::new(format!("{name} (as JSON)"), text))))
}

/// Returns the advice to convert a config that is a program to JSON.
fn as_json(name: &str) -> String {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    format!(
        "it runs in the sandbox, without npm packages and network; or write it as JSON: `npx tsx -e \"import('./{file}')\
         .then(it => console.log(JSON.stringify(it.default)))\" > promptfooconfig.json`"
    )
}
