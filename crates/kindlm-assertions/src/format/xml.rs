//! The shared parts of the checks of XML: the parser, and the required elements.

use kindlm_types::{CheckedText, Problem, ResultEvidence};
use roxmltree::{Document, Error, Node, ParsingOptions};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::core::grade::Grade;
use crate::core::result_evidence::{absent, found};

/// The highest number of attributes of one element.
///
/// The parser compares each attribute with all attributes before it.
const MOST_ATTRIBUTES: usize = 10_000;

/// The highest number of namespace declarations.
///
/// The parser copies the declarations of all surrounding elements.
const MOST_NAMESPACES: usize = 1_000;

/// Parses a text as XML. The error is the error of the parser.
///
/// Returns `None` if the text has too many attributes or namespaces to be parsed in reasonable time.
pub(crate) fn parse(text: &str) -> Option<Result<Document<'_>, Error>> {
    let readable = text.matches("xmlns").nth(MOST_NAMESPACES).is_none()
        && text.split('<').all(|tag| attributes(tag) <= MOST_ATTRIBUTES);
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    readable.then(|| Document::parse_with_options(text, options))
}

/// Returns the number of quoted values in a tag.
fn attributes(tag: &str) -> usize {
    let (mut quote, mut count) = (None, 0);
    for c in tag.chars() {
        match (quote, c) {
            (None, '>') => break,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => {
                quote = None;
                count += 1;
            }
            _ => {}
        }
    }
    count
}

/// The error message for XML that would take too long to parse.
pub(crate) const TOO_INVOLVED: &str = "the XML has too many attributes or namespaces to be read in \
    reasonable time; write an assertion of type `regex` or `javascript` for such output";

/// The paths of required elements, in one of three notations.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RequiredElements {
    /// A comma-separated list of paths.
    Separated(String),
    /// A list of paths.
    List(Vec<String>),
    /// A list of paths under `requiredElements`.
    Named(Named),
}

/// A list of paths under a key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "RequiredElementsConfig")]
pub(crate) struct Named {
    /// The paths of the required elements.
    required_elements: Vec<String>,
}

impl RequiredElements {
    /// Returns the paths, which are names separated by full stops. An empty name is a problem.
    pub(crate) fn paths(self) -> Result<Vec<String>, Vec<Problem>> {
        let paths: Vec<String> = match self {
            Self::Separated(paths) => paths.split(',').map(|it| it.trim().to_owned()).collect(),
            Self::List(paths) | Self::Named(Named { required_elements: paths }) => paths,
        };
        match paths.iter().find(|path| path.split('.').any(str::is_empty)) {
            Some(path) => {
                let message = format!("`{path}` is not the path of an element");
                let help =
                    "write the names of elements from the outermost on, such as `order.items.item`";
                Err(vec![Problem::new("/value", message).with_help(help)])
            }
            None => Ok(paths),
        }
    }
}

/// Returns the paths that lead to no element. The first name of a path is the name of a root.
///
/// An element that occurs several times in its parent is addressed by name and index: `items.item.1`.
fn missing<'p>(paths: &'p [String], roots: &[Node<'_, '_>]) -> Vec<&'p str> {
    paths.iter().map(String::as_str).filter(|path| !leads_somewhere(path, roots)).collect()
}

fn leads_somewhere(path: &str, roots: &[Node<'_, '_>]) -> bool {
    let mut names = path.split('.');
    let Some(first) = names.next() else { return false };
    let mut found: Vec<Node<'_, '_>> =
        roots.iter().copied().filter(|it| written_name(it) == first).collect();
    for name in names {
        found = match found.as_slice() {
            [only] => only.children().filter(|it| written_name(it) == name).collect(),
            several => name
                .parse()
                .ok()
                .and_then(|at: usize| several.get(at))
                .copied()
                .into_iter()
                .collect(),
        };
    }
    !found.is_empty()
}

/// Returns the name of an element as written, with its prefix; empty for texts and comments.
fn written_name<'t>(node: &Node<'_, 't>) -> &'t str {
    if !node.is_element() {
        return "";
    }
    let text = node.document().input_text();
    let tag = text.get(node.range()).unwrap_or_default().trim_start_matches('<');
    let end = tag.find(|c: char| c.is_whitespace() || c == '/' || c == '>');
    &tag[..end.unwrap_or(tag.len())]
}

/// Returns the evidence of a failure: the absence of XML, the missing elements, or the places of unwanted XML.
pub(crate) fn evidence(paths: &[String], roots: &[Node<'_, '_>], text: &str) -> ResultEvidence {
    let missing = missing(paths, roots);
    if roots.is_empty() {
        return absent(["valid XML"]);
    }
    if !missing.is_empty() {
        return absent(missing);
    }
    let elements = roots.iter().map(|it| {
        let source = it.document().input_text();
        // The elements were parsed from a slice of `text`, so the address of the slice gives its offset.
        let start = source.as_ptr().addr().saturating_sub(text.as_ptr().addr());
        (start + it.range().start..start + it.range().end, "XML".to_owned())
    });
    found(CheckedText::Output, text, elements)
}

/// Returns the grade of well-formed XML by its required elements.
pub(crate) fn grade(paths: &[String], roots: &[Node<'_, '_>], negate: bool) -> Grade {
    let missing = missing(paths, roots);
    Grade::from_pass(missing.is_empty() != negate, || {
        if missing.is_empty() {
            "XML is valid and contains all required elements".to_owned()
        } else {
            format!("XML is missing required elements: {}", missing.join(", "))
        }
    })
}
