//! `$ref`: references to other parts of the config or to other files.

use std::rc::Rc;

use kindlm_source::{Key, Kind, Node, Span};

use super::Translator;

/// The longest chain of references.
const DEPTH: usize = 16;

/// The prefix of references to assertion templates. They stay unchanged, because a `kindlm.yaml` supports them.
const TEMPLATES: &str = "#/assertionTemplates/";

impl Translator<'_> {
    /// Replaces all references in a document by the parts that they refer to.
    ///
    /// An invalid reference is reported and becomes null.
    pub(super) fn resolved(&mut self, root: &Node) -> Node {
        if !has_reference(root) {
            return root.clone();
        }
        self.resolve(root, root, 0)
    }

    fn resolve(&mut self, node: &Node, root: &Node, depth: usize) -> Node {
        let kind = match &node.kind {
            Kind::Mapping(entries) => {
                let reference = node.get("$ref").and_then(Node::text);
                if let Some(reference) = reference.filter(|it| !it.starts_with(TEMPLATES)) {
                    return self
                        .follow(node.span, reference, root, depth)
                        .unwrap_or_else(|| Node { kind: Kind::Null, ..node.clone() });
                }
                let entries = entries
                    .iter()
                    .map(|(key, it)| (key.clone(), self.resolve(it, root, depth)))
                    .collect::<Vec<(Key, Node)>>();
                Kind::Mapping(Rc::new(entries))
            }
            Kind::List(items) => {
                Kind::List(Rc::new(items.iter().map(|it| self.resolve(it, root, depth)).collect()))
            }
            _ => return node.clone(),
        };
        Node { kind, ..node.clone() }
    }

    fn follow(&mut self, span: Span, reference: &str, root: &Node, depth: usize) -> Option<Node> {
        let (file, pointer) = reference.split_once('#').unwrap_or((reference, ""));
        if depth == DEPTH {
            let message = format!("`{reference}` is circular");
            self.error(span, message, Some("replace one of the references with its content"));
            return None;
        }
        if file.contains("://") && !file.starts_with("file://") {
            self.unsupported(span, "a reference into the network", Some("save the file"));
            return None;
        }
        let document;
        let target = if file.is_empty() {
            root
        } else {
            let file = super::files::path(file).unwrap_or(file).trim_start_matches("./");
            document = self.document_of(span, file)?;
            &document
        };
        let Some(found) = at(target, pointer) else {
            let message = format!("`{reference}` has no target");
            let help = "write `#/` and the path of keys: `#/defaults/vars`";
            self.error(span, message, Some(help));
            return None;
        };
        let found = found.clone();
        let target = target.clone();
        Some(self.resolve(&found, &target, depth + 1))
    }
}

fn has_reference(node: &Node) -> bool {
    match &node.kind {
        Kind::Mapping(entries) => entries.iter().any(|(key, it)| {
            let is_one =
                &*key.name == "$ref" && it.text().is_some_and(|it| !it.starts_with(TEMPLATES));
            is_one || has_reference(it)
        }),
        Kind::List(items) => items.iter().any(has_reference),
        _ => false,
    }
}

/// Returns the part of a document at a JSON Pointer.
///
/// Returns `None` if the part does not exist.
fn at<'n>(root: &'n Node, pointer: &str) -> Option<&'n Node> {
    pointer.split('/').filter(|it| !it.is_empty()).try_fold(root, |node, part| {
        let name = kindlm_types::pointer::key(part);
        node.get(&name).or_else(|| node.items().get(name.parse::<usize>().ok()?))
    })
}
