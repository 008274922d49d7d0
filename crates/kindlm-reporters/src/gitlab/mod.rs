//! The reporter `gitlab`: findings in the Code Quality format of GitLab.

use std::collections::HashSet;
use std::fmt;

use data_encoding::HEXLOWER;
use kindlm_types::AnyReport;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::issue::{Level, issues, name_of, place_of};
use crate::plain::head;
use crate::{Meta, Registration, RenderError, Style};

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: "gitlab",
        summary: "Code Quality findings for merge requests of GitLab.",
        since: "0.1.0",
        extension: "json",
        docs: include_str!("docs.md"),
    },
    render,
};

/// The maximum number of bytes of a description.
const DESCRIPTION: usize = 2_000;

/// The path of a finding whose file is not known. GitLab drops findings without a path.
const UNKNOWN_FILE: &str = "kindlm.yaml";

#[derive(Serialize)]
struct Finding {
    description: String,
    check_name: String,
    fingerprint: String,
    severity: &'static str,
    location: Location,
}

#[derive(Serialize)]
struct Location {
    path: String,
    lines: Lines,
}

#[derive(Serialize)]
struct Lines {
    begin: u32,
}

fn render(
    report: &AnyReport<'_>,
    style: &Style,
    out: &mut dyn fmt::Write,
) -> Result<(), RenderError> {
    let mut seen = HashSet::new();
    out.write_char('[')?;
    for case in report.each() {
        let case = case?;
        for issue in issues(&case) {
            let place = place_of(report, &case, &issue);
            let place = place.map(|it| it.in_repository(&style.folder));
            let (path, begin) = match place {
                Some(it) => (it.file, it.line),
                None => (UNKNOWN_FILE.to_owned(), 1),
            };
            let finding = Finding {
                description: description(&name_of(&case), &issue.message, &issue.repeats),
                check_name: issue.code,
                fingerprint: fingerprint(&mut seen, [&case.case, &case.model, &issue.cause]),
                severity: if issue.level == Level::Error { "major" } else { "minor" },
                location: Location { path, lines: Lines { begin } },
            };
            let json = serde_json::to_string(&finding).map_err(|err| RenderError::Format {
                format: "gitlab",
                message: err.to_string(),
            })?;
            let separator = if seen.len() > 1 { "," } else { "" };
            write!(out, "{separator}\n{json}")?;
        }
    }
    out.write_str(if seen.is_empty() { "]\n" } else { "\n]\n" })?;
    Ok(())
}

fn description(name: &str, message: &str, repeats: &str) -> String {
    let repeats = if repeats.is_empty() { String::new() } else { format!(" ({repeats})") };
    format!("{name}: {}{repeats}", head(message, DESCRIPTION))
}

/// Returns the fingerprint of a finding, and adds it to `seen`. The same finding has the same fingerprint in later
/// runs.
///
/// The fingerprint differs from those in `seen`, because GitLab drops the second of two equal fingerprints.
fn fingerprint(seen: &mut HashSet<String>, names: [&str; 3]) -> String {
    let mut number: u64 = 0;
    loop {
        let mut hash = Sha256::new();
        for name in names {
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name);
        }
        hash.update(number.to_le_bytes());
        let digest = HEXLOWER.encode(&hash.finalize()[..16]);
        if seen.insert(digest.clone()) {
            return digest;
        }
        number += 1;
    }
}
