//! Watches a calibrated judge: asks it again, and compares its verdicts with the verdicts of the calibration.

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
use crate::judge_setup::Panel;
use crate::secrets::Secrets;
use crate::{Failure, Progress, World, identity};

/// The number of canaries that is enough for one watch to detect that half of the verdicts have changed. The number
/// includes a safety margin.
const ENOUGH: u64 = 20;

/// The maximum number of differences that are shown.
const SHOWN: usize = 10;

/// The result of asking a calibrated judge again: the verdicts that differ, and the evidence of a change.
pub struct WatchReport {
    judge: Value,
    judge_name: String,
    labels: String,
    noise: OwnNoise,
    watched: Watched,
}

/// The result of asking a judge again.
pub(super) struct Watched {
    pub(super) watch: Watch,
    /// The number of stored watches of the calibration, including this watch if it is stored.
    pub(super) count: usize,
    is_stored: bool,
    /// The warning that a single new run of the canaries cannot prove a change of the judge; `None` without a warning.
    pub(super) caveat: Option<String>,
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
    /// Returns the maximum number of outputs that a watch with this many canaries asks about.
    pub fn watched_count(&self, canaries: usize) -> usize {
        self.plan.cases.len().min(canaries)
    }

    /// Asks the judge again about up to `canaries` outputs of its calibration, and stores the result beside the
    /// calibration.
    ///
    /// A canary is an output that the calibration asked about twice, with a verdict each time. The outputs are a random
    /// sample of the canaries in the file. The seed of the sample is the time of the calibration and the number of
    /// earlier watches. If no output was judged, nothing is stored.
    ///
    /// # Errors
    ///
    /// Fails for the reasons of [`run`](Self::run), and if:
    ///
    /// - stored responses are requested: the mode is not [`Mode::Live`];
    /// - this judge was never calibrated for the check and its instructions;
    /// - this judge was calibrated with other settings of its provider, or with another program;
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
        let earlier = store.watches(&self.panel.stored(), &calibration);
        let earlier = earlier.map_err(|err| Failure::store(&err))?.len();
        noise_of(&calibration)?;
        let cases = self.sample(world, &calibration, earlier, canaries)?;
        let s = if cases.len() == 1 { "" } else { "s" };
        let ask = |asking: &super::asking::Asking<'_>| {
            world.notify(&format!("asking {} about {} output{s}", self.panel.name(), cases.len()));
            asking.ask(cases)
        };
        let (answers, secrets) = self.with_judge(world, config, progress, ask)?;
        let now = identity::rfc3339((world.now)());
        let of = (&self.panel, &calibration);
        let watched = store_watch(&store, of, &answers, (now, None), &secrets)?;
        if !watched.is_stored {
            world.notify("not stored: no output was judged");
        }
        Ok(WatchReport {
            judge: json::judge(&self.panel),
            judge_name: self.panel.name(),
            labels: self.labels.clone(),
            noise: calibration.own_noise.unwrap_or_default(),
            watched,
        })
    }

    /// Returns the stored calibration of this judge, check and instructions.
    ///
    /// Fails if there is no calibration, or if the calibration cannot be watched.
    fn watched_calibration(&self, store: &Calibrations) -> Result<Calibration, Failure> {
        let (panel, check) = (&self.panel, &self.plan.check);
        let refused = |why: &str| {
            let message = format!("{} cannot be watched: {why}; nothing was sent", panel.name());
            Failure::input(message).with_help("run this command without `--watch`")
        };
        let known = panel.calibration(store, check, &self.plan.prompts)?;
        let known =
            known.ok_or_else(|| refused(&format!("it was never calibrated for `{check}`")))?;
        let (providers, files) = (self.subject.providers(), self.subject.files());
        check_calibration(&known, panel.decided(providers, &Programs::new(files)).as_deref())
            .map_err(refused)?;
        let alarm = store.alarm(&panel.stored(), &known).map_err(|err| Failure::store(&err))?;
        alarm.map_or(Ok(known), |it| Err(refused(&it)))
    }

    /// Returns a random sample of the cases that are canaries of the calibration. Fails if no case is a canary.
    fn sample(
        &self,
        world: &World,
        calibration: &Calibration,
        earlier: usize,
        canaries: usize,
    ) -> Result<Vec<&Case>, Failure> {
        let cases = self.plan.cases.iter().collect();
        let of = (calibration, earlier);
        draw(world, cases, |it| &it.digest, of, (canaries, &self.labels)).map_err(|why| {
            Failure::input(format!("{why}; nothing was sent")).with_help(
                "name the file and the question of the calibration, or calibrate again without `--watch`",
            )
        })
    }
}

/// Checks that a calibration is of the present settings, and has canaries. Fails with the reason.
///
/// `decided` is the digest of the settings of the judge's provider.
pub(super) fn check_calibration(
    calibration: &Calibration,
    decided: Option<&str>,
) -> Result<(), &'static str> {
    if calibration.providers.as_deref() != decided {
        return Err(
            "it was calibrated with other settings of its provider, or with another program",
        );
    }
    if calibration.canaries.is_empty() {
        return Err("its calibration asked about each output only once (`--once`)");
    }
    Ok(())
}

/// Returns a random sample of up to `canaries` cases that are canaries. `earlier` is the number of earlier watches.
///
/// Sends a warning if the file lacks some canaries. Fails with the reason if no case of the file is a canary.
pub(super) fn draw<C>(
    world: &World,
    mut cases: Vec<C>,
    digest: impl Fn(&C) -> &str,
    (calibration, earlier): (&Calibration, usize),
    (canaries, file): (usize, &str),
) -> Result<Vec<C>, String> {
    cases.retain(|it| calibration.canaries.contains_key(digest(it)));
    if cases.is_empty() {
        return Err(format!("no output of {file} is in the calibration"));
    }
    let all = calibration.canaries.len();
    let missing = all.saturating_sub(cases.len());
    if missing > 0 {
        world.notify(&format!(
            "warning: {missing} of {all} outputs of the calibration are not in {file}"
        ));
    }
    cases.sort_by_cached_key(|it| {
        Digest::from_content(format!("{} {earlier} {}", calibration.calibrated_at, digest(it)))
            .to_string()
    });
    cases.truncate(canaries);
    Ok(cases)
}

/// Compares new answers with the answers of a calibration, and stores the result as a watch. `run` is the id of the run
/// that the watch belongs to; `None` for a watch without a run.
///
/// If no output was judged, nothing is stored, and the result has the evidence of the earlier watches.
pub(super) fn store_watch(
    store: &Calibrations,
    (panel, calibration): (&Panel<'_>, &Calibration),
    answers: &Answers<'_>,
    (now, run): (String, Option<&str>),
    secrets: &Secrets,
) -> Result<Watched, Failure> {
    let (noise, drift) = noise_of(calibration)?;
    let mut verdicts = NewVerdicts::from_answers(answers, calibration);
    if let Some(alarm) = &mut verdicts.other_model {
        secrets.redact_text(alarm);
    }
    let is_stored = verdicts.asked > 0;
    let mut count = usize::from(is_stored);
    let usage = answers.usage.total();
    let make = |earlier: &[Watch]| {
        count += earlier.len();
        let mut watch = verdicts.watch(now, calibration, earlier, drift, noise);
        watch.run = run.map(str::to_owned);
        watch.cost_usd = answers.cost_usd;
        watch.known_cost_usd = answers.known_cost_usd;
        watch.tokens = usage.input_tokens.saturating_add(usage.output_tokens);
        watch
    };
    let judge = panel.stored();
    let watch = if is_stored {
        store.add_watch(&judge, calibration, make)
    } else {
        store.watches(&judge, calibration).map(|earlier| make(&earlier))
    };
    let watch = watch.map_err(|err| Failure::store(&err))?;
    let NewVerdicts { changes, failed_by_provider, .. } = verdicts;
    let caveat = caveat(calibration);
    Ok(Watched { watch, count, is_stored, caveat, changes, failed_by_provider })
}

/// Returns a warning if a single new run of the canaries cannot prove that the judge has changed.
///
/// The reason is too few canaries or the noise of the judge. `None` if one run can prove a change, or if the noise is
/// unknown.
pub(super) fn caveat(calibration: &Calibration) -> Option<String> {
    let canaries = calibration.canaries.len() as u64;
    let noise = calibration.own_noise?.upper().ok()?;
    least_alarm(noise, canaries).is_none().then(|| describe_limit(canaries))
}

/// Returns the caveat for a watch that cannot raise an alarm with this number of canaries.
fn describe_limit(canaries: u64) -> String {
    let why =
        if canaries < ENOUGH { "there are too few labels" } else { "its own noise is too high" };
    let advice = if canaries < ENOUGH {
        format!("; calibrate with {ENOUGH} or more")
    } else {
        String::new()
    };
    format!(
        "{why} to find a change in one watch: even {canaries} different verdicts of {canaries} are no alarm{advice}"
    )
}

/// Returns the lowest number of different verdicts that raises an alarm in one watch of `total` outputs. Returns `None`
/// if even `total` different verdicts raise no alarm.
fn least_alarm(noise: f64, total: u64) -> Option<u64> {
    (0..=total).find(|different| {
        let Ok(counts) = Tally::new(*different, total) else { return false };
        Drift::new(noise).is_ok_and(|mut drift| {
            drift.add(counts);
            drift.is_alarm()
        })
    })
}

/// Returns the upper confidence limit of the judge's own noise, and a drift test without any evidence yet.
///
/// Fails if the limit is 1, because no change can then be detected. Also fails if the noise was not measured.
pub(super) fn noise_of(calibration: &Calibration) -> Result<(f64, Drift), Failure> {
    let noise = calibration.own_noise.and_then(|it| it.upper().ok());
    let drift = noise.and_then(|it| Some((it, Drift::new(it).ok()?)));
    drift.ok_or_else(|| {
        Failure::input("the judge's own verdicts differ too often to detect a change")
            .with_help("use another judge, or ask it several times with `samples`")
    })
}

/// The verdicts of a watch, compared with the verdicts of the calibration.
struct NewVerdicts {
    asked: u64,
    errored: u64,
    changes: Vec<Change>,
    /// The names of the models that answered, if they differ from the request.
    answered: BTreeSet<String>,
    fingerprints: BTreeSet<String>,
    /// The description of a change of the model that answers; `None` if there is no change.
    other_model: Option<String>,
    failed_by_provider: bool,
}

impl NewVerdicts {
    fn from_answers(answers: &Answers<'_>, calibration: &Calibration) -> Self {
        let mut new = Self {
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
                new.errored += 1;
                new.failed_by_provider |= results.iter().any(is_of_provider);
                continue;
            };
            new.asked += 1;
            new.answered.extend(results.iter().flat_map(answered_by).map(str::to_owned));
            new.fingerprints.extend(results.iter().flat_map(fingerprints_of).map(str::to_owned));
            if *then != now {
                new.changes.push(Change { line: case.line(), then: then.clone(), now });
            }
        }
        new.changes.sort_by_key(|it| it.line);
        new.other_model = new.other_model(calibration).filter(|_| new.asked > 0);
        new
    }

    /// Returns the description of a change of the model that answers; `None` if there is no change.
    ///
    /// A model may have several fingerprints at the same time. So the fingerprint counts as changed only if no answer
    /// has a fingerprint of the calibration.
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

    /// Returns this watch for the store. The evidence comes from the `earlier` watches and from this watch.
    fn watch(
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
        let mut watch = calibration.new_watch(watched_at);
        (watch.different, watch.asked) = own;
        watch.errored = self.errored;
        watch.evidence = drift.evidence();
        watch.answered = self.answered.iter().cloned().collect();
        watch.fingerprints = self.fingerprints.iter().cloned().collect();
        watch.alarm = self.other_model.clone().or(drifted);
        watch
    }
}

fn is_of_provider(result: &AssertionResult) -> bool {
    matches!(
        JudgeOutcome::from_result(result),
        Some(JudgeOutcome::Errored { why: Obstacle::Provider, .. })
    )
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
        } = &self.watched.watch;
        let changes = self
            .watched
            .changes
            .iter()
            .map(|it| json!({ "line": it.line, "then": it.then, "now": it.now }));
        json!({
            "judge": self.judge, "check": check, "watchedAt": watched_at, "calibratedAt": calibrated_at,
            "watches": self.watched.count, "asked": asked, "different": different, "errored": errored,
            "ownNoise": own_noise(Some(self.noise)), "evidence": evidence, "alarm": alarm,
            "caveat": self.watched.caveat,
            "changes": changes.collect::<Vec<_>>(),
        })
    }

    /// Returns the watch as text for people.
    pub fn to_table(&self) -> String {
        let mut text = String::new();
        let Watched { watch, count, changes, .. } = &self.watched;
        let Watch { check, different, asked, errored, evidence, alarm, .. } = watch;
        line(&mut text, "Judge", &format!("{} for `{check}`", one_line(&self.judge_name)));
        let mut counts = format!("{different} of {asked} differ from the calibration");
        if *errored > 0 {
            let _ = write!(counts, "; {errored} could not be judged, and are not counted");
        }
        line(&mut text, "Canaries", &counts);
        let noise = self.noise.upper().map_or_else(|why| format!("none: {why}"), percent);
        line(&mut text, "Own noise", &format!("at most {noise}"));
        let watches = if *count == 1 { "1 watch" } else { &format!("{count} watches") };
        let shown =
            if *evidence < 1e6 { ecma::to_fixed(*evidence, 2) } else { "over 1000000".to_owned() };
        let limit = Drift::ALARM;
        line(&mut text, "Evidence", &format!("{shown} after {watches}; an alarm from {limit}"));
        if let Some(caveat) = &self.watched.caveat {
            line(&mut text, "Limit", caveat);
        }
        if !changes.is_empty() {
            let _ = writeln!(text, "\nDifferences ({})", changes.len());
        }
        for it in changes.iter().take(SHOWN) {
            let (then, now) = (one_line(&it.then), one_line(&it.now));
            let _ =
                writeln!(text, "  {}:{}  then {then}; now {now}", one_line(&self.labels), it.line);
        }
        if changes.len() > SHOWN {
            let more = changes.len() - SHOWN;
            let _ = writeln!(text, "  and {more} more: `--json` has all of them");
        }
        if let Some(alarm) = alarm {
            let _ = writeln!(text, "\n{}", one_line(alarm));
        }
        text
    }

    /// Returns status 0 if all outputs were judged without an alarm, 3 if a provider failed, else 1.
    pub fn status(&self) -> ExitStatus {
        let Watched { watch, failed_by_provider, .. } = &self.watched;
        if *failed_by_provider {
            ExitStatus::ProviderError
        } else if watch.alarm.is_some() || watch.errored > 0 {
            ExitStatus::GatesFailed
        } else {
            ExitStatus::Success
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_watch_finds_a_change_only_with_enough_labels() {
        for (labels, least) in [(2, None), (5, None), (6, Some(6)), (14, Some(8)), (20, Some(8))] {
            let noise = OwnNoise { different: 0, asked: labels }.upper().unwrap();
            assert_eq!(least_alarm(noise, labels), least, "{labels} labels");
        }
        let few = "there are too few labels to find a change in one watch: even 2 different verdicts of 2 are no alarm; \
                   calibrate with 20 or more";
        assert_eq!(describe_limit(2), few);
        let noisy = "its own noise is too high to find a change in one watch: even 20 different verdicts of 20 are no alarm";
        assert_eq!((least_alarm(0.95, 20), describe_limit(20)), (None, noisy.to_owned()));
    }

    #[test]
    fn with_enough_labels_a_judge_that_changed_by_half_is_found() {
        let noise = OwnNoise { different: 0, asked: ENOUGH }.upper().unwrap();
        assert!(least_alarm(noise, ENOUGH) <= Some(ENOUGH / 2));
    }
}
