//! Finds the cause of a syntax error. The parser may stop several lines after the actual mistake.

use std::ops::Range;

use granit_parser::ErrorKind;

/// The cause of a syntax error, with its message and help.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Blame {
    /// The place of the mistake, in bytes of the text.
    pub(super) range: Range<usize>,
    pub(super) message: String,
    pub(super) help: String,
}

/// Finds the cause of a syntax error at `at`. Returns `None` if the parser's own place is better.
pub(super) fn find(text: &str, at: usize, kind: &ErrorKind) -> Option<Blame> {
    let at = at.min(text.len());
    if let Some(tab) = tab(text, at) {
        let (message, help) =
            ("a tab cannot indent in YAML".to_owned(), "indent with spaces".to_owned());
        return Some(Blame { range: tab..tab + 1, message, help });
    }
    let scan = Scan::new(&text[..end_of_line(text, at)], at);
    if let Some(open) = scan.quote(text, at) {
        let quote = &text[open..=open];
        let message = "the quoted text that starts here is not closed on its line".to_owned();
        let help = format!("add the closing `{quote}`");
        return Some(Blame { range: open..end_of_line(text, open), message, help });
    }
    match kind {
        ErrorKind::MappingValueNotAllowed
        | ErrorKind::InvalidColonPlacement
        | ErrorKind::InvalidIndentation
        | ErrorKind::SimpleKeyExpected
        | ErrorKind::InvalidSimpleKey => too_deep(text, at),
        ErrorKind::UnclosedFlowCollection { .. }
        | ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping
        | ErrorKind::ExpectedFlowMappingSeparator
        | ErrorKind::ExpectedFlowSequenceSeparator => {
            let open = *scan.brackets.last()?;
            let (bracket, close) = match &text[open..=open] {
                "[" => ("[", "]"),
                _ => ("{", "}"),
            };
            let line = text[open..at].matches('\n').count();
            let until = if line == 0 { "in this line" } else { "before the next key" };
            let message = format!("the `{bracket}` that is opened here is not closed");
            let help = format!("add the missing `{close}` or `,` {until}");
            Some(Blame { range: open..open + 1, message, help })
        }
        _ => None,
    }
}

/// Returns the offset of a tab in the indentation of the line at `at` or of the next line; `None` without such a tab.
fn tab(text: &str, at: usize) -> Option<usize> {
    let start = start_of_line(text, at);
    let next = end_of_line(text, at) + 1;
    [start, next].into_iter().find_map(|line| {
        let indent = text.get(line..)?.bytes().take_while(|it| matches!(it, b' ' | b'\t'));
        indent.enumerate().find(|(_, it)| *it == b'\t').map(|(column, _)| line + column)
    })
}

/// Finds a key that is indented deeper than the key above it, although that key already has a value.
///
/// Returns `None` if the line at `at` has no such key.
fn too_deep(text: &str, at: usize) -> Option<Blame> {
    let start = start_of_line(text, at);
    let line = &text[start..end_of_line(text, at)];
    let (column, key) = key_of(line)?;
    let is_blank = |it: &&str| it.trim().is_empty() || it.trim_start().starts_with('#');
    let above = text[..start].lines().rfind(|it| !is_blank(it))?;
    let (column_above, key_above) = key_of(above)?;
    let value = above[column_above + key_above.len()..].trim_start_matches(':').trim();
    if column <= column_above || value.is_empty() || value.starts_with(['|', '>']) {
        return None;
    }
    let message = format!(
        "`{key}` is indented deeper than `{key_above}` above it, which has a value already"
    );
    let help = format!("start `{key}` in column {}, below `{key_above}`", column_above + 1);
    Some(Blame { range: start + column..start + column + key.len(), message, help })
}

/// Returns the column (in bytes) and the key of a line, without leading `- `. Returns `None` if the line has no plain
/// key.
fn key_of(line: &str) -> Option<(usize, &str)> {
    let indent = line.len() - line.trim_start_matches([' ', '-']).len();
    let rest = &line[indent..];
    let key = &rest[..rest.find(':')?];
    let is_key = !key.is_empty() && !key.contains([' ', '"', '\'', '{', '[', '#']);
    is_key.then_some((indent, key))
}

fn start_of_line(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |it| it + 1)
}

fn end_of_line(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |it| at + it)
}

/// The quotes and brackets that are open at a position.
#[derive(Debug, Default)]
struct Scan {
    /// The offsets of the opening brackets before the position that are not closed.
    brackets: Vec<usize>,
    /// The offset of the quote that is still open at the end of the scan; `None` if no quote is open.
    open: Option<usize>,
    /// The ranges of the quoted texts that span several lines, from the opening to the closing quote.
    long: Vec<Range<usize>>,
}

impl Scan {
    /// Scans a text by simplified rules of YAML. Finds the brackets before `until`, and the quotes in the whole text.
    fn new(text: &str, until: usize) -> Self {
        let mut scan = Self::default();
        let mut block: Option<usize> = None;
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let indent = line.len() - line.trim_start_matches(' ').len();
            if let Some(depth) =
                block.filter(|it| scan.open.is_none() && (indent > *it || line.trim().is_empty()))
            {
                block = Some(depth);
                start += line.len();
                continue;
            }
            block = None;
            scan.line(text, start, line, until);
            let content = line.split(" #").next().unwrap_or_default().trim_end();
            let is_block = content.rsplit([' ', ':']).next().is_some_and(is_block_header);
            if is_block && scan.open.is_none() && scan.brackets.is_empty() {
                block = Some(indent);
            }
            start += line.len();
        }
        scan
    }

    fn line(&mut self, text: &str, start: usize, line: &str, until: usize) {
        let mut chars = line.char_indices().peekable();
        // The last character that was not white space. That character decides if a quote or bracket starts a value.
        let mut before = '\n';
        let mut is_after_space = true;
        while let Some((column, c)) = chars.next() {
            let at = start + column;
            if let Some(open) = self.open {
                let quote = text.as_bytes()[open];
                match c {
                    '\\' if quote == b'"' => {
                        chars.next();
                    }
                    '\'' if quote == b'\'' && chars.peek().is_some_and(|(_, it)| *it == '\'') => {
                        chars.next();
                    }
                    _ if c == char::from(quote) => {
                        if text[open..at].contains('\n') {
                            self.long.push(open..at);
                        }
                        self.open = None;
                        before = c;
                    }
                    _ => {}
                }
                continue;
            }
            let is_value = is_after_space && matches!(before, '\n' | ':' | '-' | ',' | '?')
                || matches!(before, '[' | '{' | '(');
            match c {
                '#' if is_after_space => break,
                '"' | '\'' if is_value => self.open = Some(at),
                '[' | '{' if (is_value || !self.brackets.is_empty()) && at < until => {
                    self.brackets.push(at);
                }
                ']' | '}' if at < until => {
                    self.brackets.pop();
                }
                _ => {}
            }
            is_after_space = c == ' ';
            if !c.is_whitespace() {
                before = c;
            }
        }
    }

    /// Returns the offset of an opening quote whose closing quote is probably missing on the same line.
    ///
    /// The quote is still open, or its closing quote is on a later line: the line of the error.
    fn quote(&self, text: &str, at: usize) -> Option<usize> {
        let line = start_of_line(text, at)..end_of_line(text, at);
        let closed = self.long.iter().rfind(|it| line.contains(&it.end)).map(|it| it.start);
        let is_open_above = |it: &usize| !line.contains(it) || *it <= at;
        closed.or(self.open.filter(is_open_above))
    }
}

/// Returns true if a word starts a block scalar, such as `|`, `>-` or `|2+`.
fn is_block_header(word: &str) -> bool {
    let rest = word.strip_prefix(['|', '>']);
    rest.is_some_and(|it| it.chars().all(|c| matches!(c, '+' | '-' | '0'..='9')))
}
