//! Watches a calibrated judge: asks it again, and compares its verdicts with those of the calibration.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kindlm_assertions::{answered_by, fingerprints_of};
use kindlm_config::Programs;
use kindlm_reporters::one_line;
use kindlm_stats::{Drift, Tally};
use kindlm_store::responses::Mode;
use kindlm_store::{Calibration, Calibrations, Digest, OwnNoise, Watch};
use kindlm_types::{AssertionResult, ExitStatus, ecma};
use serde_json::{Value, json};

use super::ask::{Answers, Case, verdicts};
use super::json::{self, own_noise};
use super::subject::{CalibrateConfig, Planned};
use super::table::{line, percent};
use super::{JudgeOutcome, Obstacle};
use crate::{Failure, Progress, World, identity};

/// The maximum number of differences that are shown.
const SHOWN: usize = 10;

/// The result of a watch.
pub struct WatchReport {
    judge: Value,
    judge_name: String,
    labels: String,
    noise: OwnNoise,
    /// The number of watches of the calibration, including this one; 1 if no output was judged.
    count: usize,
    watch: Watch,
    changes: Vec<Change>,
    failed_by_provider: bool,
}

/// An output with another verdict than in the calibration.
struct Change {
    line: u64,
    then: String,
    now: String,
}

impl Planned<'_> {
    /// Returns the number of outputs that a watch of `canaries` outputs asks about, at most.
    pub fn watched_count(&self, canaries: usize) -> usize {
        self.plan.cases.len().min(canaries)
    }

    /// Asks the judge again about up to `canaries` outputs of its calibration, and stores the result beside it.
    ///
    /// A canary is an output that the calibration asked about twice, with a verdict each time. The outputs are a random
    /// sample of the canaries in the file. Its seed is the time of the calibration and the number of earlier watches.
    /// If no output was judged, nothing is stored.
    ///
    /// # Errors
    ///
    /// Fails for the reasons of [`run`](Self::run), and if:
    ///
    /// - stored responses are requested: the mode is not [`Mode::Live`];
    /// - this judge was never calibrated for the check and its instructions;
    /// - it was calibrated with other settings of its provider, or with another program;
    /// - the calibration has no canaries, or no canary is in the file;
    /// - an earlier watch found that the judge has changed;
    /// - the judge's own verdicts differ too often to detect a change;
    /// - the calibration cannot be read, or the watch cannot be stored.
    pub fn watch(
        &self,
        world: &World,
        config: &CalibrateConfig,
        canaries: usize,
        progress: Box<dyn Progress + '_>,
    ) -> Result<WatchReport, Failure> {
        if config.responses.mode != Mode::Live {
            return Err(Failure::input("a watch asks the judge again, and uses no stored answers")
                .with_help("remove `--responses`"));
        }
        let store = Calibrations::new(self.subject.place().state());
        let calibration = self.watched_calibration(&store)?;
        let judge = self.panel.stored();
        let failed = |err| Failure::store(&err);
        let earlier = store.watches(&judge, &calibration).map_err(failed)?.len();
        let (noise, drift) = noise_of(&calibration)?;
        let cases = self.sample(world, &calibration, earlier, canaries)?;
        let s = if cases.len() == 1 { "" } else { "s" };
        world.notify(&format!("asking {} about {} output{s}", self.panel.name(), cases.len()));
        let ask = |asking: &super::asking::Asking<'_>| asking.ask(cases);
        let (answers, secrets) = self.with_judge(world, config, progress, ask)?;
        let mut seen = Seen::of(&answers, &calibration);
        if let Some(alarm) = &mut seen.other_model {
            secrets.redact_text(alarm);
        }
        let watched_at = identity::begin((world.now)(), &self.subject.place().folder).started_at;
        let mut count = 1;
        let make = |earlier: &[Watch]| {
            count += earlier.len();
            seen.watch(watched_at, &calibration, earlier, drift, noise)
        };
        let watch = if seen.asked == 0 && seen.other_model.is_none() {
            world.notify("not stored: no output was judged");
            make(&[])
        } else {
            store.add_watch(&judge, &calibration, make).map_err(failed)?
        };
        Ok(WatchReport {
            judge: json::judge(&self.panel),
            judge_name: self.panel.name(),
            labels: self.labels.clone(),
            noise: calibration.own_noise.unwrap_or(OwnNoise { different: 0, asked: 0 }),
            count,
            watch,
            changes: seen.changes,
            failed_by_provider: seen.failed_by_provider,
        })
    }

    /// Returns the stored calibration of this judge, check and instructions.
    ///
    /// Fails if there is none, or if it cannot be watched.
    fn watched_calibration(&self, store: &Calibrations) -> Result<Calibration, Failure> {
        let (judge, check) = (self.panel.stored(), &self.plan.check);
        let mut known = store.of(&judge).map_err(|err| Failure::store(&err))?.into_iter();
        let known = known.find(|it| it.check == *check && it.prompts == self.plan.prompts);
        let decided =
            self.panel.decided(self.subject.providers(), &Programs::new(self.subject.files()));
        let name = self.panel.name();
        let refused = |why: &str| {
            let message = format!("{name} cannot be watched: {why}; nothing was sent");
            Err(Failure::input(message).with_help("run this command without `--watch`"))
        };
        match known {
            None => refused(&format!("it was never calibrated for `{check}`")),
            Some(it) if it.providers != decided => refused(
                "it was calibrated with other settings of its provider, or with another program",
            ),
            Some(it) if it.canaries.is_empty() => {
                refused("its calibration asked about each output only once")
            }
            Some(it) => match store.alarm(&judge, &it).map_err(|err| Failure::store(&err))? {
                Some(alarm) => refused(&alarm),
                None => Ok(it),
            },
        }
    }

    /// Returns a random sample of the cases that are canaries of the calibration. Fails if no case is a canary.
    fn sample(
        &self,
        world: &World,
        calibration: &Calibration,
        earlier: usize,
        canaries: usize,
    ) -> Result<Vec<&Case>, Failure> {
        let (all, file) = (calibration.canaries.len(), &self.labels);
        let is_canary = |it: &&Case| calibration.canaries.contains_key(&it.digest);
        let mut cases: Vec<&Case> = self.plan.cases.iter().filter(is_canary).collect();
        if cases.is_empty() {
            let message = format!("no output of {file} is in the calibration; nothing was sent");
            return Err(Failure::input(message).with_help(
                "name the file and the question of the calibration, or calibrate again without `--watch`",
            ));
        }
        if cases.len() < all {
            let missing = all - cases.len();
            world.notify(&format!(
                "warning: {missing} of {all} outputs of the calibration are not in {file}"
            ));
        }
        draw(&mut cases, |it| &it.digest, (calibration, earlier), canaries);
        Ok(cases)
    }
}

/// Leaves a random sample of up to `canaries` cases, after `earlier` watches of the calibration.
pub(super) fn draw<C>(
    cases: &mut Vec<C>,
    digest: impl Fn(&C) -> &str,
    (calibration, earlier): (&Calibration, usize),
    canaries: usize,
) {
    cases.sort_by_cached_key(|it| {
        Digest::of(format!("{} {earlier} {}", calibration.calibrated_at, digest(it))).to_string()
    });
    cases.truncate(canaries);
}

/// Returns the upper end of the judge's own noise, and a drift test without any evidence yet.
///
/// Fails if that end is 1, because no change can then be detected.
pub(super) fn noise_of(calibration: &Calibration) -> Result<(f64, Drift), Failure> {
    let noise = calibration.own_noise.and_then(|it| it.upper().ok());
    let drift = noise.and_then(|it| Some((it, Drift::new(it).ok()?)));
    drift.ok_or_else(|| {
        Failure::input("the judge's own verdicts differ too often to detect a change")
            .with_help("use another judge, or ask it several times with `samples`")
    })
}

/// The verdicts of a watch, compared with those of the calibration.
pub(super) struct Seen {
    pub(super) asked: u64,
    errored: u64,
    changes: Vec<Change>,
    /// The names of the models that answered, if they differ from the request.
    answered: BTreeSet<String>,
    fingerprints: BTreeSet<String>,
    /// The description of a change of the model that answers; `None` if there is no change.
    pub(super) other_model: Option<String>,
    failed_by_provider: bool,
}

impl Seen {
    pub(super) fn of(answers: &Answers<'_>, calibration: &Calibration) -> Self {
        let mut seen = Self {
            asked: 0,
            errored: 0,
            changes: Vec::new(),
            answered: BTreeSet::new(),
            fingerprints: BTreeSet::new(),
            other_model: None,
            failed_by_provider: false,
        };
        for (case, results) in &answers.cases {
            let (Some(then), Some(now)) =
                (calibration.canaries.get(&case.digest), verdicts(results))
            else {
                seen.errored += 1;
                seen.failed_by_provider |= results.iter().any(is_of_provider);
                continue;
            };
            seen.asked += 1;
            seen.answered.extend(results.iter().flat_map(answered_by).map(str::to_owned));
            seen.fingerprints.extend(results.iter().flat_map(fingerprints_of).map(str::to_owned));
            if *then != now {
                seen.changes.push(Change { line: case.line(), then: then.clone(), now });
            }
        }
        seen.changes.sort_by_key(|it| it.line);
        seen.other_model = seen.other_model(calibration).filter(|_| seen.asked > 0);
        seen
    }

    /// Returns the description of a change of the model that answers.
    ///
    /// A model may have several fingerprints at the same time. So a fingerprint counts as changed only if no answer has
    /// one of the calibration.
    fn other_model(&self, calibration: &Calibration) -> Option<String> {
        let set = |names: &[String]| names.iter().cloned().collect::<BTreeSet<String>>();
        let (now, before) = (&self.answered, set(&calibration.answered));
        if !now.is_subset(&before) || now.is_empty() != before.is_empty() {
            return Some(format!(
                "judge changed: {} answers now, and {} answered in the calibration; calibrate again",
                in_words(now),
                in_words(&before)
            ));
        }
        let (now, before) = (&self.fingerprints, set(&calibration.fingerprints));
        let is_other = !now.is_empty() && !before.is_empty() && now.is_disjoint(&before);
        is_other.then(|| {
            format!(
                "judge changed: the provider reports the fingerprint {} now, and {} in the calibration; calibrate again",
                in_words(now),
                in_words(&before)
            )
        })
    }

    /// Returns this watch for the store. Its evidence is that of the `earlier` watches and this one.
    pub(super) fn watch(
        &self,
        watched_at: String,
        calibration: &Calibration,
        earlier: &[Watch],
        mut drift: Drift,
        noise: f64,
    ) -> Watch {
        let own = (self.changes.len() as u64, self.asked);
        let all = earlier.iter().map(|it| (it.different, it.asked)).chain([own]);
        let (mut different, mut asked) = (0, 0);
        for (changed, total) in all {
            if let Ok(tally) = Tally::new(changed, total) {
                drift.add(tally);
                different += changed;
                asked += total;
            }
        }
        let drifted = drift.is_alarm().then(|| {
            let over = match earlier.len() {
                0 => String::new(),
                more => format!(" in {} watches", more + 1),
            };
            format!(
                "judge changed: {different} of {asked} differ from the calibration{over}, own noise ≤ {}; calibrate \
                 again",
                percent(noise)
            )
        });
        Watch {
            watched_at,
            check: calibration.check.clone(),
            prompts: calibration.prompts.clone(),
            calibrated_at: calibration.calibrated_at.clone(),
            different: own.0,
            asked: own.1,
            errored: self.errored,
            evidence: drift.evidence(),
            answered: self.answered.iter().cloned().collect(),
            fingerprints: self.fingerprints.iter().cloned().collect(),
            run: None,
            cost_usd: None,
            tokens: 0,
            alarm: self.other_model.clone().or(drifted),
        }
    }
}

fn is_of_provider(result: &AssertionResult) -> bool {
    matches!(JudgeOutcome::of(result), Some(JudgeOutcome::Errored { why: Obstacle::Provider, .. }))
}

fn in_words(names: &BTreeSet<String>) -> String {
    if names.is_empty() {
        return "the requested model".to_owned();
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    format!("`{}`", names.join("`, `"))
}

impl WatchReport {
    /// Returns the watch as one JSON object.
    pub fn to_json(&self) -> Value {
        let Watch {
            watched_at,
            check,
            calibrated_at,
            different,
            asked,
            errored,
            evidence,
            alarm,
            ..
        } = &self.watch;
        let changes = self
            .changes
            .iter()
            .map(|it| json!({ "line": it.line, "then": it.then, "now": it.now }));
        json!({
            "judge": self.judge, "check": check, "watchedAt": watched_at, "calibratedAt": calibrated_at,
            "watches": self.count, "asked": asked, "different": different, "errored": errored,
            "ownNoise": own_noise(Some(self.noise)), "evidence": evidence, "alarm": alarm,
            "changes": changes.collect::<Vec<_>>(),
        })
    }

    /// Returns the watch as text for people.
    pub fn to_table(&self) -> String {
        let mut text = String::new();
        let Watch { check, different, asked, errored, evidence, alarm, .. } = &self.watch;
        line(&mut text, "Judge", &format!("{} for `{check}`", one_line(&self.judge_name)));
        let mut said = format!("{different} of {asked} differ from the calibration");
        if *errored > 0 {
            let _ = write!(said, "; {errored} could not be judged, and are not counted");
        }
        line(&mut text, "Canaries", &said);
        let noise = self.noise.upper().map_or_else(|why| format!("none: {why}"), percent);
        line(&mut text, "Own noise", &format!("at most {noise}"));
        let watches = if self.count == 1 { "1 watch" } else { &format!("{} watches", self.count) };
        let shown =
            if *evidence < 1e6 { ecma::to_fixed(*evidence, 2) } else { "over 1000000".to_owned() };
        let limit = Drift::ALARM;
        line(&mut text, "Evidence", &format!("{shown} after {watches}; an alarm from {limit}"));
        if !self.changes.is_empty() {
            let _ = writeln!(text, "\nDifferences ({})", self.changes.len());
        }
        for it in self.changes.iter().take(SHOWN) {
            let (then, now) = (one_line(&it.then), one_line(&it.now));
            let _ =
                writeln!(text, "  {}:{}  then {then}; now {now}", one_line(&self.labels), it.line);
        }
        if self.changes.len() > SHOWN {
            let _ = writeln!(
                text,
                "  and {} more: `--json` has all of them",
                self.changes.len() - SHOWN
            );
        }
        if let Some(alarm) = alarm {
            let _ = writeln!(text, "\n{}", one_line(alarm));
        }
        text
    }

    /// Returns status 0 if all outputs were judged without an alarm, 3 if a provider failed, else 1.
    pub fn status(&self) -> ExitStatus {
        if self.failed_by_provider {
            ExitStatus::ProviderError
        } else if self.watch.alarm.is_some() || self.watch.errored > 0 {
            ExitStatus::GatesFailed
        } else {
            ExitStatus::Success
        }
    }
}
