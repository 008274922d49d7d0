//! Writes the compliance documents of a run, and verifies such a document.

use std::collections::HashSet;
use std::fmt::{self, Write as _};
use std::fs;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use kindlm_engine::Suite;
use kindlm_reporters::{ComplianceDocument, Style, is_sha256, one_line};
use kindlm_store::Runs;
use kindlm_types::{AnyReport, ExitStatus};
use sha2::{Digest as _, Sha256};

use crate::project::{self, SuiteFolder};
use crate::reports::{check_target, write_file};
use crate::saved::{self, Saved};
use crate::suite_digest::{digest_of, suite_digest};
use crate::{Failure, World};

/// The ids of the reporters for the `compliance` block.
const REPORTERS: [&str; 2] = ["compliance", "compliance-html"];

/// The maximum number of differences that are shown for a part. Further differences are only counted.
const NAMED: usize = 20;

/// Writes the documents that the `compliance` block requests, except for a shard.
pub(crate) fn write_documents(
    world: &World,
    place: &SuiteFolder,
    suite: &Suite,
    report: &AnyReport<'_>,
    quiet: bool,
) -> Result<(), Failure> {
    let Some(compliance) = suite.compliance.as_ref().filter(|it| it.enabled) else {
        return Ok(());
    };
    if report.shard.is_some() {
        // `kindlm merge --reporter compliance=<path>` writes the document for all shards.
        return Ok(());
    }
    for reporter in REPORTERS.into_iter().filter_map(kindlm_reporters::find) {
        let name = format!("kindlm-compliance-{}.{}", report.run.id, reporter.meta.extension);
        let folder = Path::new(&compliance.output_dir);
        let path = folder.strip_prefix(".").unwrap_or(folder).join(name);
        write_file(&place.folder.join(&path), reporter, report, &Style::default())?;
        if !quiet {
            world.notify(&format!("compliance document written to {}", path.display()));
        }
    }
    Ok(())
}

/// Checks that the documents can be written.
///
/// Fails if a document cannot be written, or if the output folder is outside the suite's folder without
/// `allow_outside`.
pub(crate) fn check_folder(
    place: &SuiteFolder,
    suite: &Suite,
    allow_outside: bool,
) -> Result<(), Failure> {
    let Some(compliance) = suite.compliance.as_ref().filter(|it| it.enabled) else { return Ok(()) };
    if project::is_inside(Path::new(&compliance.output_dir)) || allow_outside {
        let file = Path::new(&compliance.output_dir).join("kindlm-compliance.md");
        return check_target(&place.folder.join(&file), &file);
    }
    Err(Failure::input(format!(
        "`compliance.outputDir` is `{}`, outside the folder of the config file",
        compliance.output_dir
    ))
    .with_help("choose a folder inside it, or give `--allow-outside`"))
}

/// The document to verify, and the report to compare it with.
#[derive(Clone, Debug, Default)]
pub struct VerifyConfig {
    /// The document, relative to the working folder.
    pub document: PathBuf,
    /// The id of the run; by default the run that the document names, if that run is stored.
    pub run: Option<String>,
    /// The file of a JSON report, in place of a stored run; `None` for a stored run.
    pub report: Option<String>,
}

/// The results of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// One result each for the content, the suite and the report.
    pub parts: Vec<VerifiedPart>,
}

/// The result for a part of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifiedPart {
    /// The part: `content`, `suite` or `report`.
    pub part: &'static str,
    /// True if nothing differs; `None` if there is nothing to compare with.
    pub is_same: Option<bool>,
    /// The compared files and values, or the reason why the command compared nothing.
    pub note: String,
    /// The descriptions of the files and values that differ; empty if nothing differs.
    pub differences: Vec<String>,
}

impl Verified {
    /// Returns the exit status: [`ExitStatus::GatesFailed`] if a part differs.
    pub fn status(&self) -> ExitStatus {
        if self.parts.iter().any(|it| it.is_same == Some(false)) {
            ExitStatus::GatesFailed
        } else {
            ExitStatus::Success
        }
    }

    fn add(&mut self, part: &'static str, note: impl Into<String>, differences: Vec<String>) {
        let is_same = Some(differences.is_empty());
        self.parts.push(VerifiedPart { part, is_same, note: note.into(), differences });
    }

    fn skip(&mut self, part: &'static str, note: impl Into<String>) {
        let (note, differences) = (note.into(), Vec::new());
        self.parts.push(VerifiedPart { part, is_same: None, note, differences });
    }
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for VerifiedPart { part, is_same, note, differences } in &self.parts {
            let word = match is_same {
                Some(true) => "ok",
                Some(false) => "DIFFERENT",
                None => "not checked",
            };
            writeln!(f, "{part:9}  {word:11}  {}", one_line(note))?;
            for it in differences.iter().take(NAMED) {
                writeln!(f, "{:9}  {:11}  - {}", "", "", one_line(it))?;
            }
            if let Some(more) = differences.len().checked_sub(NAMED).filter(|it| *it > 0) {
                writeln!(f, "{:9}  {:11}  - {more} more", "", "")?;
            }
        }
        Ok(())
    }
}

/// Compares a document with its digests, with the files of the suite, and with the report of its run.
///
/// # Errors
///
/// Fails if the document cannot be read, is a PDF, or is no compliance document. Also fails if the report
/// of the run cannot be read, or if `config` names a run or a report that does not exist.
pub fn verify(
    world: &World,
    place: &SuiteFolder,
    config: &VerifyConfig,
) -> Result<Verified, Failure> {
    let named = config.document.display();
    let bytes = fs::read(world.working_dir.join(&config.document)).map_err(|err| {
        Failure::input(format!("cannot read `{named}`: {}", kindlm_store::describe_io_error(&err)))
    })?;
    if bytes.starts_with(b"%PDF-") {
        return Err(Failure::input(format!("`{named}` is a PDF, which cannot be verified by itself")).with_help(
            "write the Markdown document of the same run with `kindlm report RUN --reporter compliance=FILE`, verify \
             that, and compare the digests of the content",
        ));
    }
    let text = String::from_utf8_lossy(&bytes);
    let Some(document) = ComplianceDocument::parse(&text) else {
        return Err(Failure::input(format!("`{named}` is not a compliance document"))
            .with_help("`kindlm test --reporter compliance=FILE` writes one"));
    };
    let mut verified = Verified::default();
    verify_content(&mut verified, &document);
    verify_suite(&mut verified, &document, &place.folder);
    match find_report(world, place, config, &document)? {
        Ok(saved) => verify_report(&mut verified, &document, &text, &saved)?,
        Err(reason) => verified.skip("report", reason),
    }
    Ok(verified)
}

fn verify_content(verified: &mut Verified, document: &ComplianceDocument) {
    let differences = match &document.stated_content {
        Some(stated) if *stated == document.content => Vec::new(),
        Some(stated) => {
            vec![format!("the document states {stated}, and its content has {}", document.content)]
        }
        None => vec!["the document states no digest of its content".to_owned()],
    };
    verified.add("content", "the digest of the content", differences);
}

/// Compares the files that the document lists with two things: the document's digest of the suite, and the files on
/// disk.
fn verify_suite(verified: &mut Verified, document: &ComplianceDocument, folder: &Path) {
    let files = &document.files;
    if files.is_empty() {
        return verified.skip("suite", "the document lists no files");
    }
    let mut differences = Vec::new();
    if document.stated_suite.as_ref() != Some(&suite_digest(files)) {
        differences.push("the digest of the suite is not that of the listed files".to_owned());
    }
    let is_there = |path: &str| folder.join(path).exists();
    if !files.iter().any(|it| is_there(&it.path)) {
        let note = "the listed files; none of them is in the folder of the suite, so they are not compared with it";
        return verified.add("suite", note, differences);
    }
    for file in files {
        let path = &file.path;
        match digest_of(folder, path) {
            Ok(found) if found == file.sha256 => {}
            Ok(_) => differences.push(format!("{path}: changed")),
            Err(_) if !is_there(path) => differences.push(format!("{path}: missing")),
            Err(err) => {
                differences.push(format!("{path}: {}", kindlm_store::describe_io_error(&err)));
            }
        }
    }
    let count = files.len();
    let files = if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
    verified.add("suite", format!("{files} of the suite"), differences);
}

/// Finds the report to compare with. The inner error is the reason why there is no report.
fn find_report(
    world: &World,
    place: &SuiteFolder,
    config: &VerifyConfig,
    document: &ComplianceDocument,
) -> Result<Result<Saved, String>, Failure> {
    if let Some(run) = config.report.as_ref().or(config.run.as_ref()) {
        return saved::find(world, place, Some(run), None).map(Ok);
    }
    let Some(run) = document.run.as_ref().filter(|it| is_run_id(it)) else {
        return Ok(Err("the document names no run".to_owned()));
    };
    if !Runs::new(place.state()).path(run).is_ok_and(|it| it.exists()) {
        return Ok(Err(format!("the run {run} is not stored here; give `--run` or `--report`")));
    }
    // A stored report that is damaged is an error, because a damaged report is not a missing report.
    saved::find(world, place, Some(run), None).map(Ok)
}

/// Returns true if a text of a document can be the id of a run. Another text could be the path of a file.
fn is_run_id(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
}

/// Compares the document with a report: the digest of the JSON report, and every section but the signature.
///
/// The sections are compared only if this version of KindLM made the run.
fn verify_report(
    verified: &mut Verified,
    document: &ComplianceDocument,
    text: &str,
    saved: &Saved,
) -> Result<(), Failure> {
    let report: &AnyReport<'_> = &saved.report;
    let json = rendered("json", report, None)?;
    let json = HEXLOWER.encode(&Sha256::digest(json));
    let mut differences = Vec::new();
    if document.stated_json.as_ref().filter(|it| is_sha256(it)) != Some(&json) {
        differences.push(format!("the JSON report of the run has the digest {json}"));
    }
    let (own, version) = (env!("CARGO_PKG_VERSION"), &report.run.version);
    let mut note = saved.name.clone();
    if own == version {
        let expected = rendered(document.reporter, report, document.file.clone())?;
        differences.extend(changed_sections(text, &expected));
    } else {
        let _ = write!(
            note,
            "; the text is not compared, because KindLM {version} wrote it and this is {own}"
        );
    }
    verified.add("report", note, differences);
    Ok(())
}

fn rendered(id: &str, report: &AnyReport<'_>, file: Option<String>) -> Result<String, Failure> {
    let reporter = crate::reporter(id)?;
    let mut text = String::new();
    let style = Style { file, ..Style::default() };
    (reporter.render)(report, &style, &mut text)
        .map_err(|err| Failure::internal(err.to_string()))?;
    Ok(text)
}

/// Returns the sections that differ. The last section is not compared, because people sign there.
///
/// A section that the document repeats differs, even if one of its texts is the expected text.
fn changed_sections(text: &str, expected: &str) -> Vec<String> {
    let (found, expected) =
        (ComplianceDocument::sections(text), ComplianceDocument::sections(expected));
    let mut differences = Vec::new();
    let signature = expected.len().saturating_sub(1);
    let mut compared = HashSet::new();
    for (heading, _) in expected.iter().take(signature).filter(|it| compared.insert(&it.0)) {
        let name = if heading.is_empty() { "the introduction" } else { heading };
        let (found, expected) = (texts_of(&found, heading), texts_of(&expected, heading));
        if found.is_empty() {
            differences.push(format!("{name}: missing"));
        } else if found != expected {
            differences.push(format!("{name}: is not what the run gives"));
        }
    }
    let is_known = |it: &String| expected.iter().any(|(heading, _)| heading == it);
    for (heading, _) in found.iter().filter(|(it, _)| !is_known(it)) {
        differences.push(format!("{heading}: is not a section of the document"));
    }
    differences
}

/// Returns the texts of all sections with this heading.
fn texts_of<'t>(sections: &[(String, &'t str)], heading: &str) -> Vec<&'t str> {
    sections.iter().filter(|(it, _)| it == heading).map(|(_, text)| *text).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn repeated_section_differs() {
        let expected = "# Run\n\n## 1. Results\n\nOne failed.\n\n## 2. Signature\n\n";
        let differences = |text: &str| changed_sections(text, expected);
        assert_eq!(differences(&format!("{expected}Signed.\n")), [""; 0]);
        let added = "## 1. Results\n\nAll passed.\n\n## 2. Signature";
        let forged = expected.replace("## 2. Signature", added);
        assert_eq!(differences(&forged), ["1. Results: is not what the run gives"]);
        let removed = expected.replace("## 1. Results", "Results");
        assert_eq!(
            differences(&removed),
            ["the introduction: is not what the run gives", "1. Results: missing"]
        );
    }

    #[test]
    fn damaged_report_is_not_a_missing_report() {
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(folder.path(), Arc::new(|_| None));
        let place = SuiteFolder::new(&world, Path::new("kindlm.yaml"));
        let report = kindlm_testing::sample_report();
        let id = &report.run.id;
        let document = rendered("compliance", &report, None).unwrap();
        fs::write(folder.path().join("a.md"), document).unwrap();
        let config = VerifyConfig { document: "a.md".into(), ..VerifyConfig::default() };
        let verified = verify(&world, &place, &config).unwrap();
        let part = verified.parts.last().unwrap();
        assert!(part.is_same.is_none() && part.note.contains("is not stored here"), "{verified}");
        Runs::new(place.state()).save(id, "{").unwrap();
        let failure = verify(&world, &place, &config).unwrap_err();
        assert!(failure.message.unwrap().starts_with(&format!("cannot use run `{id}`")));
    }
}
