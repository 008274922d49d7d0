//! `$ref`: references to other parts of the config or to other files.

use std::rc::Rc;

use kindlm_source::{Key, Kind, Node, Span};

use super::Translator;

/// The maximum length of a chain of references. A longer chain is an error.
const DEPTH: usize = 16;

/// The prefix of references to assertion templates. [`Translator::with_template`] replaces them, because tests in
/// other files may use them too.
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

    /// Returns a check merged with the assertion template that the check refers to. Keys of the check override keys
    /// of the template.
    ///
    /// A check without a reference stays unchanged. An invalid reference is reported and becomes null.
    ///
    /// The references stay in `open_templates`, to detect a template that contains itself. The caller removes them
    /// after it has translated the checks of the templates.
    pub(super) fn with_template(&mut self, check: &Node) -> Node {
        let mut check = check.clone();
        while let Some(reference) = check.get("$ref").cloned() {
            match self.template_of(&reference) {
                Some(template) => {
                    let own = check.entries().iter().filter(|(key, _)| &*key.name != "$ref");
                    let own: Vec<(Key, Node)> = own.cloned().collect();
                    // A template can also be a list of checks.
                    if matches!(template.kind, Kind::Mapping(_)) || !own.is_empty() {
                        let entries = super::vars::merged(template.entries(), &own);
                        check.kind = Kind::Mapping(Rc::new(entries));
                    } else {
                        check.kind = template.kind;
                    }
                }
                None => check.kind = Kind::Null,
            }
        }
        check
    }

    /// Returns the assertion template at a reference. Returns `None` after an error, which is reported.
    fn template_of(&mut self, reference: &Node) -> Option<Node> {
        let written = reference.text().unwrap_or_default();
        if self.open_templates.iter().any(|it| it == written) {
            self.circular(reference.span, written);
            return None;
        }
        self.open_templates.push(written.to_owned());
        let pointer = written.strip_prefix(TEMPLATES);
        let templates = self.assertion_templates.as_ref();
        let found = templates.zip(pointer).and_then(|(it, pointer)| at(it, pointer)).cloned();
        if found.is_none() {
            let message = format!("`{written}` is no assertion template");
            let help = "write `$ref: '#/assertionTemplates/name'`, and the check under `assertionTemplates`";
            self.error(reference.span, message, Some(help));
        }
        found
    }

    fn circular(&mut self, span: Span, reference: &str) {
        let message = format!("`{reference}` is circular");
        self.error(span, message, Some("replace one of the references with its content"));
    }

    fn follow(&mut self, span: Span, reference: &str, root: &Node, depth: usize) -> Option<Node> {
        let (file, pointer) = reference.split_once('#').unwrap_or((reference, ""));
        if depth == DEPTH {
            self.circular(span, reference);
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
