//! The tags and texts of HTML, as the tokenizer of the HTML Standard reads them.

use std::collections::HashMap;

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{Token, Tokenizer};

/// The elements of HTML, and the roots of SVG and MathML.
///
/// Obsolete elements that browsers support are included. Source: HTML Standard, "Index of elements", and section 16.2.
const ELEMENTS: &[&str] = &[
    "a",
    "abbr",
    "acronym",
    "address",
    "applet",
    "area",
    "article",
    "aside",
    "audio",
    "b",
    "base",
    "basefont",
    "bdi",
    "bdo",
    "big",
    "blockquote",
    "body",
    "br",
    "button",
    "canvas",
    "caption",
    "center",
    "cite",
    "code",
    "col",
    "colgroup",
    "data",
    "datalist",
    "dd",
    "del",
    "details",
    "dfn",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "em",
    "embed",
    "fieldset",
    "figcaption",
    "figure",
    "font",
    "footer",
    "form",
    "frame",
    "frameset",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hgroup",
    "hr",
    "html",
    "i",
    "iframe",
    "img",
    "input",
    "ins",
    "kbd",
    "label",
    "legend",
    "li",
    "link",
    "main",
    "map",
    "mark",
    "marquee",
    "math",
    "menu",
    "meta",
    "meter",
    "nav",
    "nobr",
    "noembed",
    "noframes",
    "noscript",
    "object",
    "ol",
    "optgroup",
    "option",
    "output",
    "p",
    "param",
    "picture",
    "plaintext",
    "pre",
    "progress",
    "q",
    "rb",
    "rp",
    "rt",
    "rtc",
    "ruby",
    "s",
    "samp",
    "script",
    "search",
    "section",
    "select",
    "slot",
    "small",
    "source",
    "span",
    "strike",
    "strong",
    "style",
    "sub",
    "summary",
    "sup",
    "svg",
    "table",
    "tbody",
    "td",
    "template",
    "textarea",
    "tfoot",
    "th",
    "thead",
    "time",
    "title",
    "tr",
    "track",
    "tt",
    "u",
    "ul",
    "var",
    "video",
    "wbr",
    "xmp",
];

/// The elements without content and without an end tag. HTML Standard, section 13.1.2.
const VOID: &[&str] = &[
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];

/// Returns true if the name is the name of an HTML element or of a custom element.
pub(crate) fn is_known(name: &str) -> bool {
    ELEMENTS.contains(&name) || is_custom(name)
}

/// Returns true if the name has the form of a custom element's name.
///
/// Such a name starts with a lower-case letter and has a hyphen.
fn is_custom(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase()) && name.contains('-')
}

/// The parts of HTML that a text contains.
#[derive(Debug, Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one sign, and they are independent")]
pub(crate) struct HtmlParts {
    /// True if there is an HTML element or a custom element.
    pub(crate) known_element: bool,
    /// True if there is text outside all elements.
    pub(crate) bare_text: bool,
    /// True if there is a start tag that is not self-closing.
    pub(crate) start_tag: bool,
    /// True if there is an end tag.
    pub(crate) end_tag: bool,
    /// True if there is a self-closing tag.
    pub(crate) self_closing: bool,
    /// True if a tag has an attribute with a value.
    pub(crate) attribute: bool,
    /// True if there is a comment.
    pub(crate) comment: bool,
    /// True if there is a document type declaration.
    pub(crate) doctype: bool,
}

/// Parses a text as HTML.
///
/// An end tag closes the innermost open element of its name. An end tag without such an element is ignored. Unlike
/// browsers, the parser does not repair misnested tags.
pub(crate) fn parse_html(text: &str) -> HtmlParts {
    let mut seen = HtmlParts::default();
    let mut open = OpenElements::default();
    let mut emitter = DefaultEmitter::default();
    // In `script`, `style`, `title` and similar elements, tags are text.
    emitter.naively_switch_states(true);
    for token in Tokenizer::new_with_emitter(text, emitter).flatten() {
        match token {
            Token::StartTag(tag) => {
                let name = String::from_utf8_lossy(&tag.name).into_owned();
                seen.known_element |= is_known(&name);
                seen.attribute |= tag.attributes.values().any(|it| !it.is_empty());
                if tag.self_closing {
                    seen.self_closing = true;
                } else {
                    seen.start_tag = true;
                }
                if !VOID.contains(&name.as_str()) {
                    open.push(name);
                }
            }
            Token::EndTag(tag) => {
                seen.end_tag = true;
                open.close(&String::from_utf8_lossy(&tag.name));
            }
            Token::String(text) => {
                let words = text.iter().any(|it| !it.is_ascii_whitespace());
                seen.bare_text |= open.names.is_empty() && words;
            }
            Token::Comment(_) => seen.comment = true,
            Token::Doctype(_) => seen.doctype = true,
            Token::Error(_) => {}
        }
    }
    seen
}

/// The open elements. The count per name makes it cheap to ignore an end tag without a start tag.
#[derive(Default)]
struct OpenElements {
    names: Vec<String>,
    counts: HashMap<String, usize>,
}

impl OpenElements {
    fn push(&mut self, name: String) {
        *self.counts.entry(name.clone()).or_default() += 1;
        self.names.push(name);
    }

    fn close(&mut self, name: &str) {
        if self.counts.get(name).is_none_or(|&count| count == 0) {
            return;
        }
        while let Some(innermost) = self.names.pop() {
            if let Some(count) = self.counts.get_mut(&innermost) {
                *count = count.saturating_sub(1);
            }
            if innermost == name {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_bare_outside_all_elements() {
        for (text, bare, known) in [
            ("plain", true, false),
            ("<p>x</p>", false, true),
            ("<p>x</p> and", true, true),
            ("<div>unclosed <b>x", false, true),
            ("<br>text", true, true),
            ("</p>text", true, false),
            ("<title>a <b> c</title>", false, true),
            ("<!-- c --> ", false, false),
            ("<FOO>x</foo>", false, false),
            ("<my-el>x</my-el>", false, true),
            ("<div><p>x</div>", false, true),
            ("<svg/><b></b>", false, true),
        ] {
            let seen = parse_html(text);
            assert_eq!((seen.bare_text, seen.known_element), (bare, known), "{text}");
        }
    }

    #[test]
    fn elements_are_sorted() {
        assert!(ELEMENTS.is_sorted() && VOID.is_sorted());
        assert!(VOID.iter().all(|it| is_known(it)));
    }
}
