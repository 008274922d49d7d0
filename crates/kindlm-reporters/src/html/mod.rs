//! The reporter `html`: one page for the browser, for e-mail or for CI artifacts.
//!
//! The page is one file that loads nothing: no script, font or picture. A content security policy forbids these, so
//! that text of a model cannot run code. The page is written case by case.

mod case;
mod check;
mod page;

use std::fmt;

use askama::Template as _;
use kindlm_types::{AnyReport, Outcome};

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

/// The maximum number of failing cases that are initially unfolded.
///
/// More unfolded cases would slow down the browser.
const OPEN: usize = 20;

fn render(
    report: &AnyReport<'_>,
    _style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    let summary = report.summary();
    page::Begin::of(report, &summary).render_into(out).map_err(failed)?;
    let mut open = 0;
    for case in report.each() {
        let case = case?;
        let tells = matches!(case.outcome, Outcome::Failed | Outcome::Errored);
        open += usize::from(tells);
        case::Case::of(&case, tells && open <= OPEN).render_into(out).map_err(failed)?;
    }
    page::End::of(report).render_into(out).map_err(failed)?;
    Ok(out.write_char('\n')?)
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn failed(err: askama::Error) -> RenderError {
    RenderError::Format { format: "html", message: err.to_string() }
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

    fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Passed => Self::new("good", "✓", "passed"),
            Outcome::Scored => Self::new("warn", "~", "scored"),
            Outcome::Failed => Self::new("bad", "✗", "failed"),
            Outcome::Errored => Self::new("trouble", "!", "errored"),
            Outcome::Skipped => Self::new("none", "–", "skipped"),
        }
    }
}
