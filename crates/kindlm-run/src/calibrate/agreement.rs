//! The result of a calibration, as JSON, as text, and as an entry of the store.

use std::path::PathBuf;

use kindlm_store::{Calibration, Calibrations, Judge};
use kindlm_types::ExitStatus;
use serde_json::Value;

use super::findings::OutputCounts;
use super::json::{About, as_json};
use super::table::as_table;
use super::{Correction, Findings, Obstacle};
use crate::{Failure, Outcome, World};

/// The agreement of a judge with people, and the corrected pass rates.
pub struct Agreement {
    /// The name of the judge.
    pub(super) judge: String,
    /// The ids of the calibrated checks, comma-separated.
    pub(super) checks: String,
    /// The answers of this calibration; `None` if only stored calibrations were used.
    pub(super) asked: Option<JudgedFile>,
    pub(super) corrections: Vec<Correction>,
}

/// The judge's answers to a file of labels.
pub(super) struct JudgedFile {
    pub(super) about: About,
    pub(super) findings: Findings,
    /// The folder of the store, the judge, and the new entry to store.
    pub(super) store: (PathBuf, Judge, Calibration),
}

impl Agreement {
    /// Returns all numbers and all outputs as one JSON object.
    pub fn to_json(&self) -> Value {
        let asked = self.asked.as_ref();
        as_json(asked.map(|it| &it.about), asked.map(|it| &it.findings), &self.corrections)
    }

    /// Returns the result as text for people, in lines of about `width` columns.
    pub fn to_table(&self, width: usize) -> String {
        let labels = self.asked.as_ref().map(|it| (it.about.labels.as_str(), &it.findings));
        as_table(&self.judge, &self.checks, labels, &self.corrections, width)
    }

    /// Stores the calibration, and sends notices about outputs that were not judged.
    ///
    /// Nothing is stored if `save` is false, if no labelled output has a verdict, or if a labelled output was not
    /// judged.
    ///
    /// An incomplete calibration is not stored, because its agreement may not hold for the outputs that were not
    /// judged.
    ///
    /// Returns status 0 if all outputs were judged and at least one output has a label. Otherwise returns 3 if a
    /// provider failed, else 1. If only stored calibrations were used, stores nothing and returns status 0.
    ///
    /// # Errors
    ///
    /// Fails if the calibration cannot be written, or if earlier calibrations of the judge cannot be read.
    pub fn store(self, world: &World, save: bool) -> Outcome {
        let Some(JudgedFile { findings, store: (state, judge, calibration), .. }) = self.asked
        else {
            return Ok(ExitStatus::Success);
        };
        let status = report_unjudged(&findings, world);
        if save && is_complete(&findings) {
            let path = Calibrations::new(state)
                .set(&judge, calibration)
                .map_err(|err| Failure::store(&err))?;
            let shown = path.strip_prefix(&world.working_dir).unwrap_or(&path);
            world.notify(&format!("stored in {}", shown.display()));
        }
        Ok(status)
    }
}

/// True if there are verdicts, and no labelled output lacks a verdict.
fn is_complete(findings: &Findings) -> bool {
    findings.errored == 0 && findings.confusion.total() > 0
}

/// Sends notices about outputs that were not judged, and returns the exit status.
fn report_unjudged(findings: &Findings, world: &World) -> ExitStatus {
    let obstacles: Vec<Obstacle> = findings.obstacles().collect();
    let [labelled, unlabelled] = [true, false].map(|it| findings.outputs(it));
    if obstacles.is_empty() && findings.confusion.total() > 0 {
        return ExitStatus::Success;
    }
    let help = if obstacles.contains(&Obstacle::Budget) {
        "the budget is spent: raise `--budget-usd`; `--responses cache` requests only those again"
    } else if obstacles.iter().any(|it| *it != Obstacle::Unreadable) {
        "`--responses cache` requests only those again"
    } else {
        "the judge's replies cannot be read: use another model as judge, or remove these outputs from the file"
    };
    if !is_complete(findings) {
        let OutputCounts { errored, all, verb } = labelled;
        world.notify(&format!("not stored: {errored} of {all} labelled outputs {verb}; {help}"));
    }
    if unlabelled.errored > 0 {
        let OutputCounts { errored, all, verb } = unlabelled;
        world.notify(&format!("{errored} of {all} outputs without a label {verb}; {help}"));
    }
    if obstacles.contains(&Obstacle::Provider) {
        ExitStatus::ProviderError
    } else {
        ExitStatus::GatesFailed
    }
}
