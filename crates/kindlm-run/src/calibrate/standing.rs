//! The state of a suite's judge, as found by the stored watches of this judge: [`JudgeWatches`].

use kindlm_config::Programs;
use kindlm_store::{Calibrations, Judge};

use crate::judge_setup::Panel;
use crate::{Failure, Project};

/// The state of a judge since its calibration. A watch asks the judge again, and detects changed verdicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JudgeState {
    /// There is no calibration with the present settings, or no watch of such a calibration.
    NotWatched,
    /// No watch found a change.
    Unchanged,
    /// A watch found that the judge has changed, for this reason.
    Changed(String),
}

/// The stored watches of the default judge of a suite. Nothing is sent.
#[derive(Clone, Debug)]
pub struct JudgeWatches {
    store: Calibrations,
    judge: Judge,
    /// The digest of the settings of the judge's provider; `None` without such settings.
    decided: Option<String>,
}

impl JudgeWatches {
    /// Finds the default judge of a suite; `None` if no model of the suite can judge.
    pub fn of_project(project: &Project) -> Option<Self> {
        let Project { place, suite, files, .. } = project;
        let default = suite.defaults.judge_model.as_deref();
        let panel = Panel::resolve(&suite.models, default, &suite.judging)?;
        let decided = panel.decided(&suite.providers, &Programs::new(files));
        Some(Self { store: Calibrations::new(place.state()), judge: panel.stored(), decided })
    }

    /// Loads the watches of the newest calibration for this kind of check, such as `prompt-assertion`.
    ///
    /// # Errors
    ///
    /// Fails if the calibrations or their watches cannot be read.
    pub fn state(&self, check: &str) -> Result<JudgeState, Failure> {
        let failed = |err: kindlm_store::StoreError| Failure::store(&err);
        // The store also has calibrations with earlier instructions. Their alarms are not valid for the present
        // instructions.
        let known = self.store.for_judge(&self.judge).map_err(failed)?.into_iter();
        let known = known.filter(|it| it.check == check && it.providers == self.decided);
        let Some(newest) = known.max_by(|a, b| a.calibrated_at.cmp(&b.calibrated_at)) else {
            return Ok(JudgeState::NotWatched);
        };
        let watches = self.store.watches(&self.judge, &newest).map_err(failed)?;
        Ok(match watches.iter().find_map(|it| it.alarm.clone()) {
            Some(alarm) => JudgeState::Changed(alarm),
            None if watches.is_empty() => JudgeState::NotWatched,
            None => JudgeState::Unchanged,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use kindlm_stats::Confusion;
    use kindlm_store::Calibration;

    use super::*;
    use crate::{OpenOptions, Purpose, World};

    fn watches(folder: &Path) -> JudgeWatches {
        let world = World::new(folder, Arc::new(|_| None));
        let text = "kindlm: 1\nproject: p\nsuite: { name: s }\n\
            providers: { openai: { apiKeyEnv: KEY } }\n\
            models: [{ id: judge, provider: openai, model: gpt-4o }]\n";
        let options = OpenOptions::new("kindlm.yaml");
        let project = Project::of_text(&world, &options, text.as_bytes(), Purpose::Models).unwrap();
        JudgeWatches::of_project(&project).unwrap()
    }

    fn calibration(of: &JudgeWatches, check: &str) -> Calibration {
        let counts = Confusion { both_pass: 1, only_human: 1, only_judge: 1, both_fail: 1 };
        let text = serde_json::json!({
            "check": check, "calibratedAt": "2026-11-22T00:00:00Z", "kindlmVersion": "0.1.0",
            "prompts": ["0123"], "labels": "labels.csv", "labelsDigest": "01", "errored": 0,
            "counts": kindlm_store::Counts::from(counts), "baseRate": 0.5, "agreement": 0.5, "kappa": 0.0,
        });
        Calibration { providers: of.decided.clone(), ..serde_json::from_value(text).unwrap() }
    }

    #[test]
    fn state_is_that_of_the_watches_of_the_check() {
        let folder = tempfile::tempdir().unwrap();
        let of = watches(folder.path());
        let state = |check: &str| of.state(check).unwrap();
        assert_eq!(state("judge"), JudgeState::NotWatched);
        let known = calibration(&of, "judge");
        of.store.set(&of.judge, known.clone()).unwrap();
        assert_eq!(state("judge"), JudgeState::NotWatched);
        let watch = |alarm: Option<&str>| {
            let mut watch = known.new_watch("");
            watch.asked = 10;
            watch.alarm = alarm.map(str::to_owned);
            watch
        };
        let add = |alarm: Option<&str>| {
            of.store.add_watch(&of.judge, &known, |_| watch(alarm)).unwrap();
        };
        add(None);
        assert_eq!(state("judge"), JudgeState::Unchanged);
        assert_eq!(state("prompt-assertion"), JudgeState::NotWatched);
        add(Some("5 of 10 verdicts differ"));
        add(None);
        assert_eq!(state("judge"), JudgeState::Changed("5 of 10 verdicts differ".to_owned()));
        // A judge with other provider settings has no calibration here.
        let other = JudgeWatches { decided: Some("4567".to_owned()), ..of.clone() };
        assert_eq!(other.state("judge").unwrap(), JudgeState::NotWatched);
    }
}
