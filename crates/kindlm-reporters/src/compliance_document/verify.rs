//! Reads the digests that a document states, and computes the digest of its content.

use kindlm_types::FileDigest;

use super::digest_text::is_sha256;
use super::integrity::{VERIFY, is_plain_name};
use super::{BEGIN, CONTENT_ROW, ContentHash, END, FILES, JSON_ROW, RUN, SUITE_ROW};

/// The statements of a compliance document, and the digest of its content.
///
/// The document has the format of the reporter `compliance` or `compliance-html`. A value that the document does not
/// state is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComplianceDocument {
    /// The id of the reporter that writes this format.
    pub reporter: &'static str,
    /// The id of the run.
    pub run: Option<String>,
    /// The digest that was computed from the content of the document.
    pub content: String,
    /// The digest that the document states for its content.
    pub stated_content: Option<String>,
    /// The stated digest of the JSON report.
    pub stated_json: Option<String>,
    /// The stated digest of the suite.
    pub stated_suite: Option<String>,
    /// The name of the file in the command that verifies the document.
    pub file: Option<String>,
    /// The listed files of the suite.
    pub files: Vec<FileDigest>,
}

impl ComplianceDocument {
    /// Reads a document; `None` if the text is not a compliance document.
    pub fn parse(text: &str) -> Option<Self> {
        let is_html = text.starts_with("<!doctype html>");
        let lines: Vec<&str> = text.lines().collect();
        let begin = lines.iter().position(|it| *it == BEGIN)?;
        let end = begin + lines.get(begin..)?.iter().position(|it| *it == END)?;
        let mut hash = ContentHash::default();
        hash.add(text);
        let (head, content, tail) =
            (lines.get(..begin)?, lines.get(begin..end)?, lines.get(end..)?);
        let digest = |row: &str| {
            let value = tail.iter().find_map(|it| cell_of(it, row, is_html))?;
            is_sha256(&value).then_some(value)
        };
        Some(Self {
            reporter: if is_html { "compliance-html" } else { "compliance" },
            run: head.iter().find_map(|it| cell_of(it, RUN, is_html)),
            content: hash.digest(),
            stated_content: digest(CONTENT_ROW),
            stated_json: digest(JSON_ROW),
            stated_suite: digest(SUITE_ROW),
            file: tail.iter().find_map(|it| it.trim().strip_prefix(VERIFY)).and_then(named_file),
            files: files(content, is_html),
        })
    }

    /// Splits the text of a document at its numbered sections.
    ///
    /// Returns the heading and the text of each section. The first entry is the text before the first heading, with an
    /// empty heading.
    pub fn sections(text: &str) -> Vec<(String, &str)> {
        let mut sections = Vec::new();
        let (mut heading, mut start, mut at) = (String::new(), 0, 0);
        for line in text.split_inclusive('\n') {
            let title = line.strip_prefix("## ");
            let title =
                title.or_else(|| line.strip_prefix("<h2>")?.trim_end().strip_suffix("</h2>"));
            if let Some(title) = title {
                sections.push((heading, text.get(start..at).unwrap_or_default()));
                (heading, start) = (title.trim_end().to_owned(), at);
            }
            at += line.len();
        }
        sections.push((heading, text.get(start..).unwrap_or_default()));
        sections
    }
}

fn named_file(name: &str) -> Option<String> {
    is_plain_name(name).then(|| name.to_owned())
}

/// Returns the second cell of the row with this name; `None` for any other line.
///
/// The first cell of the row must be `name`, or begin with `name` and a space.
fn cell_of(line: &str, name: &str, is_html: bool) -> Option<String> {
    let (first, second) = if is_html {
        let row = line.strip_prefix("<tr><th scope=\"row\">")?;
        let (first, rest) = row.split_once("</th><td>")?;
        (
            first,
            rest.split_once("</td>")?.0.trim_start_matches("<code>").trim_end_matches("</code>"),
        )
    } else {
        let (first, rest) = line.strip_prefix("| ")?.split_once(" | ")?;
        (first, rest.strip_suffix(" |")?.trim_matches('`'))
    };
    let rest = first.strip_prefix(name)?;
    (rest.is_empty() || rest.starts_with(' ')).then(|| second.to_owned())
}

/// Returns the files that the content lists, with their digests.
fn files(content: &[&str], is_html: bool) -> Vec<FileDigest> {
    let heading = if is_html { format!("<h3>{FILES}</h3>") } else { format!("### {FILES}") };
    let after = content.iter().skip_while(|it| **it != heading).skip(1);
    let block = after.take_while(|it| !it.starts_with('#') && !it.starts_with("<h"));
    block.filter_map(|it| file(it, is_html)).collect()
}

fn file(line: &str, is_html: bool) -> Option<FileDigest> {
    let (sha256, path) = line.split_once("  ").filter(|(it, _)| is_sha256(it))?;
    let path = if is_html {
        let text = path.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
        text.replace("&#39;", "'").replace("&amp;", "&")
    } else {
        path.to_owned()
    };
    Some(FileDigest::new(path, sha256))
}
