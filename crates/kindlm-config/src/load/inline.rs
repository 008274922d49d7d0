//! Inline suites: texts of senders who are not trusted.
//!
//! In the document, `defaults` and each test, only the keys in [`DOCUMENT`], [`DEFAULTS`] and [`TEST`] are permitted.
//! So a new key is refused until it is added to a list. Parts such as `expect` have the same keys as in all suites,
//! except for [`CALIBRATED`].

use kindlm_providers::{Kind, Providers};
use kindlm_source::{Code, Diagnostic, Kind as Yaml, Node, Piece};
use kindlm_types::{MemberPart, pointer, suggest};
use serde_json::Value;

use super::FILE;
use super::sink::Sink;

/// The permitted keys of the document.
const DOCUMENT: [&str; 11] = [
    "kindlm",
    "project",
    "suite",
    "models",
    "prompts",
    "tests",
    "defaults",
    "gates",
    "assertionSets",
    "assertionTemplates",
    "derivedMetrics",
];

/// The permitted keys of `defaults`.
const DEFAULTS: [&str; 7] =
    ["repeat", "concurrency", "timeoutMs", "judgeModel", "judge", "passRateMin", "threshold"];

/// The permitted keys of a test.
const TEST: [&str; 26] = [
    "name",
    "prompt",
    "prompts",
    "vars",
    "models",
    "repeat",
    "passRateMin",
    "threshold",
    "compare",
    "history",
    "storeOutputAs",
    "cluster",
    "callsAsOutput",
    "transform",
    "output",
    "metadata",
    "options",
    "tools",
    "answerTools",
    "conversation",
    "maxTurns",
    "timeoutMs",
    "assertionSets",
    "expect",
    "tags",
    "skip",
];

/// The keys that need a calibration of the judges, with the path of their parent. The runs of an inline suite have no
/// calibration.
const CALIBRATED: [(&[&str], &str); 2] =
    [(&["gates"], "judgeKappaMin"), (&["defaults", "judge"], "canaries")];

/// The providers of `Kind::Special` that run no program. They answer from the config of the server.
const ANSWERING: [&str; 2] = ["echo", "scripted"];

/// Reports every key that an inline suite cannot have, and every text that names a file.
pub(super) fn restrict(piece: Piece<'_>, sink: &mut Sink) {
    let root = piece.root;
    permit(piece, "", root, &DOCUMENT, sink);
    if let Some(defaults) = root.get("defaults") {
        permit(piece, "/defaults", defaults, &DEFAULTS, sink);
    }
    for (index, test) in root.get("tests").map_or(&[][..], Node::items).iter().enumerate() {
        permit(piece, &format!("/tests/{index}"), test, &TEST, sink);
    }
    for (parents, key) in CALIBRATED {
        refuse_calibrated(piece, parents, key, sink);
    }
    refuse_files(piece, root, sink);
}

fn refuse_calibrated(piece: Piece<'_>, parents: &[&str], key: &str, sink: &mut Sink) {
    let parent = parents.iter().try_fold(piece.root, |node, name| node.get(name));
    if parent.is_none_or(|it| it.get(key).is_none()) {
        return;
    }
    let parents = parents.join("/");
    let message = format!("an inline suite cannot have `{key}`");
    let help = "it needs a calibration of the judges, which an inline suite cannot have; put the suite into the folder of \
                suites";
    let at = format!("/{parents}/{key}");
    let diagnostic = piece.error(Code::UNKNOWN_KEY, &at, MemberPart::Key, message);
    sink.push(diagnostic.with_help(help));
}

fn permit(piece: Piece<'_>, at: &str, node: &Node, permitted: &[&str], sink: &mut Sink) {
    for (key, _) in node.entries() {
        if permitted.contains(&&*key.name) {
            continue;
        }
        let at = format!("{at}/{}", pointer::segment(&key.name));
        let message = format!("an inline suite cannot have `{}`", key.name);
        let help = suggest(&key.name, "permitted keys", permitted.iter().copied());
        let diagnostic = piece.error(Code::UNKNOWN_KEY, &at, MemberPart::Key, message);
        sink.push(diagnostic.with_help(help));
    }
}

fn refuse_files(piece: Piece<'_>, node: &Node, sink: &mut Sink) {
    if sink.is_full {
        return;
    }
    match &node.kind {
        Yaml::Text(text) if text.trim_start().starts_with(FILE) => {
            let at = piece.source.first_line(node.span);
            let message = "an inline suite cannot read files";
            let diagnostic = Diagnostic::error(Code::FILE, message, piece.source, at);
            sink.push(diagnostic.with_help("write the content of the file into the suite"));
        }
        Yaml::List(items) => items.iter().for_each(|it| refuse_files(piece, it, sink)),
        Yaml::Mapping(entries) => {
            entries.iter().for_each(|(_, it)| refuse_files(piece, it, sink));
        }
        Yaml::Null | Yaml::Bool(_) | Yaml::Number(_) | Yaml::Text(_) => {}
    }
}

/// Returns true if an inline suite may use the models of a provider.
///
/// The provider must run no program, and its address must not depend on texts of the suite.
pub(super) fn may_use(known: &Providers, name: &str, config: &Value) -> bool {
    kindlm_providers::configured(known, name, config).is_some_and(|(it, config)| match it.kind {
        // The URL of `http` is a template.
        Kind::Http(_) => it.meta.id != "http",
        Kind::Socket(_) => config.get("answerCalls").is_none(),
        Kind::Special(_) => ANSWERING.contains(&it.meta.id),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::SHAPES;

    #[test]
    fn permitted_keys_are_keys_of_the_format() {
        for (shape, keys) in [(&SHAPES.root, &DOCUMENT[..]), (&SHAPES.test, &TEST[..])] {
            let known = &shape.schema()["properties"];
            for key in keys {
                assert!(known.get(key).is_some(), "{key}");
            }
        }
    }
}
