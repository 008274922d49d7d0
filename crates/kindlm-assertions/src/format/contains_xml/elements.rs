//! The search for elements with matching tags in a text.

use std::collections::HashMap;

/// An element whose closing tag was not read yet.
struct Open<'t> {
    name: &'t str,
    start: usize,
    /// True if a tag inside the element has no match.
    broken: bool,
    /// The number of elements that were found before this element was opened.
    before: usize,
}

/// Returns the outermost elements with matching tags, as written in the text.
///
/// An element that contains a tag without a match is left out, but elements inside it may be found. This function only
/// finds the start and the end of elements, in a single pass. A parser checks later that the elements are well-formed.
pub(super) fn find(text: &str) -> Vec<&str> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut endless = [false; 3];
    let mut at = 0;
    while let Some(start) = text[at..].find('<').map(|it| at + it) {
        let rest = &text[start..];
        if let Some(length) = skipped(rest, &mut endless) {
            at = start + length;
            continue;
        }
        let Some(tag) = Tag::parse(rest) else {
            at = start + 1;
            continue;
        };
        at = start + tag.length;
        if tag.empty {
            found.push((start, at));
        } else if !tag.closing {
            *counts.entry(tag.name).or_default() += 1;
            open.push(Open { name: tag.name, start, broken: false, before: found.len() });
        } else if counts.get(tag.name).is_some_and(|&it| it > 0) {
            close(tag.name, at, &mut open, &mut counts, &mut found);
        } else if let Some(around) = open.last_mut() {
            around.broken = true;
        }
    }
    found.into_iter().filter_map(|(start, end)| text.get(start..end)).collect()
}

/// Closes the innermost open element with this name; records the element if it is intact.
fn close<'t>(
    name: &str,
    end: usize,
    open: &mut Vec<Open<'t>>,
    counts: &mut HashMap<&'t str, usize>,
    found: &mut Vec<(usize, usize)>,
) {
    let mut broken = false;
    while let Some(element) = open.pop() {
        if let Some(count) = counts.get_mut(element.name) {
            *count = count.saturating_sub(1);
        }
        broken |= element.broken;
        if element.name != name {
            // An element that was never closed makes the elements around it invalid.
            broken = true;
            continue;
        }
        if !broken {
            found.truncate(element.before);
            found.push((element.start, end));
        } else if let Some(around) = open.last_mut() {
            around.broken = true;
        }
        return;
    }
}

/// The starts and ends of markup whose content is skipped.
const SKIPPED: [(&str, &str); 3] = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")];

/// Returns the length of markup to skip at the start of `rest`.
///
/// The markup is a comment, a CDATA section or a processing instruction. Without an end, only its start is skipped.
/// `endless` has a flag for each kind of markup. A true flag means that no end of this kind follows, which saves a
/// second search. Returns `None` for any other text.
fn skipped(rest: &str, endless: &mut [bool; 3]) -> Option<usize> {
    let (known, (begin, end)) =
        endless.iter_mut().zip(SKIPPED).find(|(_, (begin, _))| rest.starts_with(begin))?;
    let found = if *known { None } else { rest.find(end) };
    *known = found.is_none();
    Some(found.map_or(begin.len(), |at| at + end.len()))
}

struct Tag<'t> {
    name: &'t str,
    closing: bool,
    empty: bool,
    length: usize,
}

impl<'t> Tag<'t> {
    /// Reads the tag at the start of `rest`, up to its `>` outside quotes; `None` without a complete tag.
    fn parse(rest: &'t str) -> Option<Self> {
        let inside = rest.strip_prefix('<')?;
        let closing = inside.starts_with('/');
        let inside = inside.strip_prefix('/').unwrap_or(inside);
        if !inside.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == ':') {
            return None;
        }
        let mut quote = None;
        for (at, c) in inside.char_indices() {
            match (quote, c) {
                (None, '"' | '\'') => quote = Some(c),
                (Some(open), c) if c == open => quote = None,
                (None, '<') => return None,
                (None, '>') => {
                    let tag = &inside[..at];
                    let name_end = tag.find(|c: char| c.is_whitespace() || c == '/');
                    return Some(Self {
                        name: &tag[..name_end.unwrap_or(tag.len())],
                        closing,
                        empty: !closing && tag.ends_with('/'),
                        length: rest.len() - inside.len() + at + 1,
                    });
                }
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_outermost_elements_with_matching_tags() {
        for (text, expected) in [
            ("no xml, 1 < 2 > 0", vec![]),
            ("before <a><b/>1</a> after", vec!["<a><b/>1</a>"]),
            ("<t>hm</t><u>4</u>", vec!["<t>hm</t>", "<u>4</u>"]),
            ("<br> <a>1</a>", vec!["<a>1</a>"]),
            ("<p>one<br>two <i>three</i></p>", vec!["<i>three</i>"]),
            ("<a><b>1</b></c></a> <d/>", vec!["<b>1</b>", "<d/>"]),
            ("see <a>1</a", vec![]),
            ("<a x='>'><!-- <b> --></a>", vec!["<a x='>'><!-- <b> --></a>"]),
            ("<a><a>1</a>", vec!["<a>1</a>"]),
            ("<q x=\"<a>1</a>", vec!["<a>1</a>"]),
        ] {
            assert_eq!(find(text), expected, "{text}");
        }
    }
}
