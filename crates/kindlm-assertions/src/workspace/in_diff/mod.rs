//! `in-diff`: the changes of the agent contain a text.

use std::borrow::Cow;
use std::sync::Arc;

use kindlm_types::workspace::{ChangeKind, FileChange};
use kindlm_types::{AssertionResult, Class, ResultEvidence, Severity, schema_of};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::behaviour::{Phrase, PhrasePattern, given_up, names};
use crate::core::codes::{ASSERTION_FAILED, EVIDENCE_MISSING};
use crate::core::config;
use crate::core::result_evidence::{MOST, absent_in, explained, other};
use crate::core::workspace::{Paths, decided, missing, workspace};
use crate::shared::pattern::SearchError;
use crate::{
    Assertion, Build, Built, Code, EntryOptions, Evidence, Meta, Registration, Setup, Traits,
};

const ID: &str = "in-diff";

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: None,
        summary: "The path or the new content of a file that the agent changed contains a text or pattern.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code {
                code: ASSERTION_FAILED,
                summary: "The changes do not contain the text; with `not-` they do.",
            },
            Code {
                code: EVIDENCE_MISSING,
                summary: "The test has no `workspace`, or part of the changes was not read: it is ignored, not text, or too large.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::EntryOptions(build),
};

/// The text that the changes must contain.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The text, case-sensitive, or a pattern.
    value: Phrase,
    /// The only files to search: a path from the top of the workspace, or a glob. By default, all changed files.
    #[serde(default)]
    #[schemars(length(min = 1))]
    path: Option<String>,
    /// The part of the changes to search; `content` by default.
    #[serde(default)]
    within: Within,
}

/// The part of the changes to search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "WithinDiff")]
enum Within {
    /// The paths of all changed files, and the whole text of those that still exist.
    ///
    /// Added and deleted files count as changed.
    #[default]
    Content,
    /// The added lines.
    Added,
    /// The removed lines, including those of deleted files.
    Removed,
}

#[derive(Debug)]
struct InDiff {
    phrase: PhrasePattern,
    paths: Option<Paths>,
    within: Within,
    label: String,
    own: EntryOptions,
}

fn build(value: &Value, own: EntryOptions, _setup: &Setup<'_>) -> Built {
    let Config { value, path, within } = config::parse_config(value)?;
    let phrase = value.pattern("/value")?;
    let paths = path.map(|it| Paths::new(&it, "/path")).transpose()?;
    let label = own.label(&format!("In diff: {phrase}"));
    Ok(Arc::new(InDiff { phrase, paths, within, label, own }))
}

impl Assertion for InDiff {
    fn traits(&self) -> Traits {
        Traits::OF_WORKSPACE
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let workspace = match workspace(evidence, ID, &self.label) {
            Ok(workspace) => workspace,
            Err(results) => return results,
        };
        let recorded = self.paths.as_ref().map(|it| it.check_recorded(workspace, ID, &self.label));
        if let Some(Err(results)) = recorded {
            return results;
        }
        let is_meant =
            |it: &&FileChange| self.paths.as_ref().is_none_or(|paths| paths.is_meant(&it.path));
        let changes: Vec<&FileChange> = workspace.changes.iter().filter(is_meant).collect();
        let mut found = Vec::new();
        for change in &changes {
            match self.is_in(change) {
                Ok(true) => found.push(change.path.as_str()),
                Ok(false) => {}
                Err(err) => return given_up(ID, &self.label, &err),
            }
        }
        if let Some(why) = self.unreadable_change(&changes).filter(|_| found.is_empty()) {
            return missing(ID, &self.label, format!("{} was not found, but {why}", self.phrase));
        }
        let reason = format!("{} is in: {}", self.phrase, names(found.iter().copied()));
        let results = decided(ID, &self.label, self.own, !found.is_empty(), reason);
        explained(results, || self.evidence(&changes, &found))
    }
}

impl InDiff {
    /// Returns the texts of a change to search.
    fn searched<'c>(&self, change: &'c FileChange) -> Vec<Cow<'c, str>> {
        let text = || Cow::Borrowed(change.text.as_deref().unwrap_or_default());
        let lines = |sign: char| {
            // The lines before the first hunk are the names of the file. Inside a hunk, `--- x` is the removed line
            // `-- x`.
            let patch = change.patch.as_deref().unwrap_or_default().lines();
            let hunks = patch.skip_while(|it| !it.starts_with("@@"));
            let lines: Vec<&str> = hunks.filter_map(|it| it.strip_prefix(sign)).collect();
            Cow::Owned(lines.join("\n"))
        };
        match (self.within, &change.patch) {
            (Within::Content, _) => vec![Cow::Borrowed(&change.path), text()],
            (Within::Added, None) => vec![text()],
            (Within::Added, Some(_)) => vec![lines('+')],
            (Within::Removed, _) => vec![lines('-')],
        }
    }

    /// Returns the places of the phrase in the changed files, or the evidence that the phrase is absent.
    fn evidence(&self, changes: &[&FileChange], found: &[&str]) -> Vec<ResultEvidence> {
        let found = changes.iter().filter(|it| found.contains(&it.path.as_str())).take(MOST);
        let places = found.flat_map(|change| {
            let texts = self.searched(change).into_iter();
            let texts = texts.filter(|it| self.phrase.is_in(it).unwrap_or_default());
            texts.map(|it| self.phrase.evidence(other(&change.path), &it))
        });
        let places: Vec<_> = places.collect();
        if places.is_empty() {
            return vec![absent_in(other("the changes"), [self.phrase.shown()])];
        }
        places
    }

    fn is_in(&self, change: &FileChange) -> Result<bool, SearchError> {
        for text in self.searched(change) {
            if self.phrase.is_in(&text)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the reason why an unreadable change may contain the text, with advice.
    ///
    /// Returns `None` if all changes could be read.
    fn unreadable_change(&self, changes: &[&FileChange]) -> Option<String> {
        let files = |is_it: &dyn Fn(&FileChange) -> bool| {
            let files: Vec<&str> =
                changes.iter().filter(|it| is_it(it)).map(|it| it.path.as_str()).collect();
            Some(files).filter(|it| !it.is_empty()).map(names)
        };
        // A deleted file has no text except its removed lines.
        let is_meant = |it: &FileChange| {
            it.change != ChangeKind::Deleted || matches!(self.within, Within::Removed)
        };
        if let Some(files) = files(&|it| it.binary && is_meant(it)) {
            return Some(format!(
                "binary files were not read: {files}; limit the check with `path`, or exclude generated files with \
                 `workspace.ignore`"
            ));
        }
        // In a text that is not UTF-8, only ASCII characters are readable.
        let is_half_read = |it: &FileChange| {
            self.searched(it).iter().any(|it| it.contains(char::REPLACEMENT_CHARACTER))
        };
        if let Some(files) = files(&|it| !self.phrase.is_plain() && is_half_read(it)) {
            return Some(format!(
                "files that are not UTF-8 were read only in part: {files}; limit the check with `path`, or search \
                 for ASCII text"
            ));
        }
        let files = files(&|it| it.cut && is_meant(it))?;
        Some(format!(
            "some changes were not stored: {files}; raise `workspace.maxDiffBytes`, or exclude generated files with \
             `workspace.ignore`"
        ))
    }
}
