//! The reporter `html`: one page for the browser, for e-mail or for CI artifacts.
//!
//! The page is one file that loads nothing. A content security policy allows only its own style sheet and its own
//! script, so that text of a model cannot run code.
//!
//! The overview and the first cases are HTML, which needs no script. The script shows all cases from compressed chunks
//! of the JSON report. All compressed chunks are held in memory, because their total size decides where long texts are
//! cut.

mod base85;
mod case;
pub(crate) mod check;
mod data;
mod distribution;
mod end;
mod fit;
mod index;
mod options;
mod overview;
mod prompts;
mod rows;
mod served;
mod spark;
mod view;

pub use options::ServeOptions;
pub use served::{
    HtmlShell, ServedRun, case_difference, html_shell, html_style, html_without_runs, serve_run,
    serve_run_with,
};

use std::fmt::{self, Display};

use askama::Template as _;
use askama::filters::{Escaper as _, Html};
use data_encoding::BASE64;
use kindlm_types::{AnyReport, Outcome, Summary};
use kindlm_wire::mutation::MutationReport;
use sha2::{Digest as _, Sha256};

use crate::{Meta, Registration, RenderError, Style};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "html",
        summary: "One page for people with the verdict, the reasons and every case; it needs only a browser.",
        since: "0.1.0",
        extension: "html",
        docs: include_str!("docs.md"),
    },
    render,
};

/// The embedded style sheet.
pub(crate) const STYLE: &str = include_str!("style.css");
/// The embedded script, made from `app.js` by `npm run build` in `tests/browser`.
const SCRIPT: &str = include_str!("app.min.js");
/// The script for pages with a comparison, and for served pages. The page runs it before [`SCRIPT`].
const MORE: &str = include_str!("more.min.js");
/// The maximum size of a note about cut texts, in bytes.
const NOTE: usize = 1_000;

fn render(
    report: &AnyReport<'_>,
    style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    write_html(report, None, style, out)
}

/// Writes the page of a run like the reporter `html`, with the mutation result of the run if there is one.
///
/// # Errors
///
/// Fails if the writer fails, if a case cannot be read, or if the page cannot be rendered.
pub fn write_html(
    report: &AnyReport<'_>,
    mutation: Option<&MutationReport>,
    style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    let summary = report.summary();
    let has_comparison = report.comparison.is_some();
    let mut page = overview::Page::new(report, &summary, has_comparison)?;
    page.measure(mutation)?;
    let mut cases = String::new();
    rows::write(report, &mut cases)?;
    let compared = data::comparison(report, true)?;
    end::End::new(report, &summary, &compared)
        .render_into(&mut cases)
        .map_err(|err| failed(&err))?;
    let start = page.render().map_err(|err| failed(&err))?;
    let end = end(has_comparison);
    let rest = start.len() + cases.len() + end.len() + NOTE;
    let (data, note) = fitting(report, &summary, rest, style.html_limit)?;
    match note {
        Some(note) => {
            page.warn(note);
            page.render_into(out).map_err(|err| failed(&err))?;
        }
        None => out.write_str(&start)?,
    }
    for part in [&cases, &data, &end] {
        out.write_str(part)?;
    }
    Ok(())
}

/// Returns the data blocks of all cases and, if texts were cut, a note about it.
///
/// The blocks are in memory because their size is known only at the end. `rest` is the size of the other parts of the
/// page, and `limit` is the maximum size of the page, in bytes.
fn fitting(
    report: &AnyReport<'_>,
    summary: &Summary,
    rest: usize,
    limit: usize,
) -> Result<(String, Option<String>), RenderError> {
    let most = limit.saturating_sub(rest);
    let [first @ .., last] = fit::STEPS;
    for cut in first {
        if let Some(text) = blocks(report, summary, cut, most)? {
            return Ok((text, cut.note(limit, false)));
        }
    }
    let text = blocks(report, summary, last, usize::MAX)?.unwrap_or_default();
    let is_larger = text.len() > most;
    Ok((text, last.note(limit, is_larger)))
}

/// Returns the data blocks of all cases with cut texts, or `None` if the blocks have more than `most` bytes.
fn blocks(
    report: &AnyReport<'_>,
    summary: &Summary,
    cut: fit::Cut,
    most: usize,
) -> Result<Option<String>, RenderError> {
    let mut text = String::new();
    let mut data = data::Data::new(summary, cut);
    for position in 0..report.cases.len() {
        data.add(report, position, &mut text)?;
        if text.len() > most {
            return Ok(None);
        }
    }
    data.finish(&mut text)?;
    Ok(Some(text).filter(|it| it.len() <= most))
}

/// Returns the end of the page with its scripts. With `has_more`, [`MORE`] is one of the scripts.
fn end(has_more: bool) -> String {
    let more = if has_more { ["<script>", MORE, "</script>\n"] } else { [""; 3] };
    [&more[..], &["<script type=\"module\">", SCRIPT, "</script>\n</body>\n</html>\n"]]
        .concat()
        .concat()
}

/// Returns the content security policy of the page, which allows only the scripts of the page itself.
fn policy(has_more: bool) -> String {
    let more = if has_more { format!(" '{}'", source_hash(MORE)) } else { String::new() };
    format!(
        "default-src 'none'; style-src '{}'; script-src '{}'{more}; base-uri 'none'; form-action 'none'; \
         require-trusted-types-for 'script'",
        source_hash(STYLE),
        source_hash(SCRIPT),
    )
}

fn failed(err: &dyn Display) -> RenderError {
    RenderError::Format { format: "html", message: err.to_string() }
}

/// Returns a text as HTML, with words in backticks as code. `coded` in `app.js` has the same rules.
pub(crate) fn coded(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        let _ = Html.write_escaped_str(&mut html, before);
        let is_word =
            |it: &&str| !it.contains('\n') && it.starts_with(|c: char| !c.is_whitespace());
        if let Some((word, end)) = after.split_once('`').filter(|(word, _)| is_word(word)) {
            html.push_str("<code>");
            let _ = Html.write_escaped_str(&mut html, word);
            html.push_str("</code>");
            rest = end;
        } else {
            html.push('`');
            rest = after;
        }
    }
    let _ = Html.write_escaped_str(&mut html, rest);
    html
}

/// Returns the hash by which the content security policy allows a style sheet or a script.
pub(crate) fn source_hash(text: &str) -> String {
    format!("sha256-{}", BASE64.encode(&Sha256::digest(text)))
}

/// The look of an outcome: a color class, a sign and a word.
///
/// The sign and the word show the outcome without color.
#[derive(Clone, Copy, Debug)]
struct Look {
    tone: &'static str,
    mark: &'static str,
    word: &'static str,
}

impl Look {
    const fn new(tone: &'static str, mark: &'static str, word: &'static str) -> Self {
        Self { tone, mark, word }
    }

    fn from_outcome(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Passed => Self::new("good", "✓", "passed"),
            Outcome::Scored => Self::new("warn", "~", "scored"),
            Outcome::Failed => Self::new("bad", "✗", "failed"),
            Outcome::Errored => Self::new("trouble", "!", "errored"),
            Outcome::Skipped => Self::new("none", "–", "skipped"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_sheet_and_the_script_load_nothing() {
        for text in [STYLE, SCRIPT, MORE] {
            for forbidden in ["</", "http:", "https:", "@import", "url(", "innerHTML", "eval("] {
                assert!(
                    !text.replace("http://www.w3.org/2000/svg", "").contains(forbidden),
                    "{forbidden}"
                );
            }
        }
    }

    #[test]
    fn words_in_backticks_are_code() {
        for (text, html) in [
            ("no code", "no code"),
            ("use `a < b` here", "use <code>a &#60; b</code> here"),
            ("`a` and `b`", "<code>a</code> and <code>b</code>"),
            ("one ` <b>", "one ` &#60;b&#62;"),
            ("`a` and ` b", "<code>a</code> and ` b"),
            ("``", "``"),
            ("`` ` ```", "`` ` ```"),
            ("`a\nb`", "`a\nb`"),
        ] {
            assert_eq!(coded(text), html);
        }
    }

    #[test]
    fn the_minified_scripts_are_fresh() {
        use data_encoding::HEXLOWER;
        for (name, source, script, most) in [
            ("app.js", include_str!("app.js"), SCRIPT, 20_000),
            ("more.js", include_str!("more.js"), MORE, 12_000),
        ] {
            let expected = HEXLOWER.encode(&Sha256::digest(source));
            let first = script.lines().next().unwrap_or_default();
            assert_eq!(
                first,
                format!("/* {name} {expected} */"),
                "run `npm ci && npm run build` in crates/kindlm-reporters/tests/browser"
            );
            assert!(script.len() <= most, "{name}: {} bytes", script.len());
        }
    }
}
