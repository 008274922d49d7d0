//! The sections after the hashed content: digests, measured values, signature.

use std::fmt;

use data_encoding::HEXLOWER;
use kindlm_types::{AnyReport, Summary};
use sha2::{Digest as _, Sha256};

use super::blocks::{Block, Cell, Document};
use super::{BEGIN, CONTENT_ROW, END, JSON_ROW, Law, SUITE_ROW, specification};
use crate::amount::{cost, count, duration, tokens};
use crate::plain::one_line;
use crate::report_json::write_json;
use crate::{RenderError, Style};

/// The beginning of the command that verifies the document.
pub(super) const VERIFY: &str = "kindlm compliance verify ";

/// Writes the digests, and how to verify them.
pub(super) fn digests(
    doc: &mut Document<'_>,
    (report, style): (&AnyReport<'_>, &Style),
    content: &str,
    law: Law,
) -> Result<(), RenderError> {
    let last = doc.last_section();
    let note = "Articles 11, 17(1)(d) and 18: test records that are kept with the technical documentation.";
    doc.section("Integrity", law.only(note))?;
    let mut json = Hash(Sha256::new());
    write_json(report, &mut json)?;
    let json = HEXLOWER.encode(&json.0.finalize());
    let suite = &report.suite;
    let is_elsewhere = doc.format().digest_elsewhere().is_some();
    let of = if is_elsewhere { " of the Markdown document" } else { "" };
    let rows = [
        (SUITE_ROW.to_owned(), specification::digest(suite.suite_digest.as_ref())),
        ("configuration".to_owned(), specification::digest(suite.config_sha256.as_ref())),
        (format!("{CONTENT_ROW} (sections 2 to {last}){of}"), Cell::Code(content.into())),
        (JSON_ROW.to_owned(), Cell::Code(json.into())),
    ];
    let rows = rows.map(|(name, digest)| Ok([name.into(), digest]));
    doc.table(&["SHA-256 of", "Digest"], rows)?;
    how_to_verify(doc, report, style)?;
    doc.put(Block::ListBegin)?;
    doc.put(Block::Item(
        "Suite:",
        "save the lines of the files in section 3 as files.txt. In the folder of the suite, sha256sum --check files.txt \
         compares the files, and sha256sum files.txt prints the digest of the suite.",
    ))?;
    doc.put(Block::Item(
        "JSON report:",
        "this is the file that --reporter json=FILE writes in the same run. It has every input, output and judgement.",
    ))?;
    doc.put(Block::Item(
        "Content:",
        "the run's id, times, tokens and costs are not part of it, so the same results give the same digest. A gate or \
         a check of time or cost brings its measurement into the content.",
    ))?;
    doc.put(Block::ListEnd)?;
    doc.put(Block::Paragraph(
        "A digest in the document itself shows accidental changes. To detect deliberate ones, store it elsewhere too.",
    ))
}

/// Writes the commands that verify the document.
fn how_to_verify(
    doc: &mut Document<'_>,
    report: &AnyReport<'_>,
    style: &Style,
) -> Result<(), RenderError> {
    let file = if doc.format().digest_elsewhere().is_some() {
        doc.put(Block::Paragraph(
            "This file cannot be verified by itself. The next command writes the Markdown document of the stored run. It \
             has the same sections, and its digest of the content must be the one above:",
        ))?;
        let run = one_line(&report.run.id);
        let file = "compliance.md";
        doc.put(Block::Code(&format!("kindlm report {run} --reporter compliance={file}")))?;
        file.to_owned()
    } else {
        let named = style.file.as_ref().filter(|it| is_plain_name(it));
        named.cloned().unwrap_or_else(|| format!("compliance.{}", doc.format().extension()))
    };
    doc.put(Block::Paragraph(
        "This command verifies the content, the files of the suite in the current folder, and the stored run:",
    ))?;
    doc.put(Block::Code(&format!("{VERIFY}{file}")))?;
    doc.put(Block::Paragraph("Without KindLM, this command prints the digest of the content:"))?;
    doc.put(Block::Code(&format!("sed -n '/^{BEGIN}$/,/^{END}$/p' {file} | sha256sum")))
}

/// Returns true for a name that needs no quotes in a shell and no escapes in a document.
pub(super) fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('-')
        && name.chars().all(|it| it.is_ascii_alphanumeric() || "._-".contains(it))
}

/// Writes the measured values and the warnings of the run.
pub(super) fn measured(
    doc: &mut Document<'_>,
    report: &AnyReport<'_>,
    summary: &Summary,
) -> Result<(), RenderError> {
    doc.put(Block::Heading(3, "Measured in this run"))?;
    let rows = summary.models.iter().map(|it| {
        let totals = &it.totals;
        Ok([
            Cell::from(it.model.as_str()),
            count(totals.executions).into(),
            it.latency_avg_ms.map_or_else(|| "not measured".to_owned(), duration).into(),
            tokens(totals).into(),
            cost(totals.cost).into(),
        ])
    });
    doc.table(&["Model", "Executions", "Mean time of a case", "Tokens", "Cost"], rows)?;
    if report.warnings.is_empty() {
        return Ok(());
    }
    doc.put(Block::Heading(3, "Warnings"))?;
    doc.put(Block::ListBegin)?;
    for warning in &report.warnings {
        doc.put(Block::Item("", warning))?;
    }
    doc.put(Block::ListEnd)
}

/// Writes the fields for the responsible persons.
pub(super) fn signature(doc: &mut Document<'_>, law: Law) -> Result<(), RenderError> {
    let note = "Annex IV, point 2 (g): test reports dated and signed by the responsible persons.";
    doc.section("Signature", law.only(note))?;
    let blank = |what: &'static str| -> Result<[Cell<'static>; 5], RenderError> {
        Ok([what.into(), "".into(), "".into(), "".into(), "".into()])
    };
    doc.table(
        &["Responsible for", "Name", "Role", "Date", "Signature"],
        [blank("the tests"), blank("the release")],
    )
}

/// A writer that hashes all text, and forwards nothing.
struct Hash(Sha256);

impl fmt::Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}
