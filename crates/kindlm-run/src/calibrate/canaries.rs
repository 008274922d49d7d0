//! Watches the judges of a run: asks each calibrated judge again about a few outputs of its calibration.

use kindlm_assertions::{Evidence, first_questions};
use kindlm_config::Programs;
use kindlm_engine::{Judges, Plan, Suite};
use kindlm_store::{Calibration, Calibrations, CanarySource, Folder, Watch};
use kindlm_types::ask::JudgeQuestion;
use kindlm_types::{Answers, CanaryWatch, Ports, Question as AnyQuestion};

use super::Question;
use super::ask::{self, Case};
use super::labels::load_source;
use super::watch::{caveat, check_calibration, draw, noise_of, store_watch};
use crate::judge_setup::Panel;
use crate::secrets::Secrets;
use crate::trust::{self, CheckKind};
use crate::{Failure, SuiteFolder, World, project};

/// The canaries of a run: for each judge and kind of check, a few outputs of its calibration.
pub(crate) struct Canaries<'s> {
    store: Calibrations,
    judges: Vec<RunJudge<'s>>,
}

/// A judge of the run, with one kind of check.
struct RunJudge<'s> {
    panel: Panel<'s>,
    check: &'static str,
    intent: Intent,
}

/// The decision about asking a judge.
enum Intent {
    /// Ask about these outputs.
    Ask(Box<Sample>),
    /// Do not ask, but report the stored result of an earlier watch. Either the watch belongs to this run, which was
    /// resumed (`is_own`), or the watch raised an alarm. `count` is the number of all watches of the calibration.
    Report { watch: Box<Watch>, count: usize, caveat: Option<String>, is_own: bool },
    /// Do not ask, for this reason.
    Refrain(String),
}

/// The outputs to ask about.
struct Sample {
    calibration: Calibration,
    cases: Vec<Case>,
}

/// The settings for asking the judges of a run.
pub(crate) struct CanaryRun<'a> {
    /// The ports that ask the models. They bypass the response store, because each answer must be new.
    pub(crate) ports: Ports<'a>,
    pub(crate) suite: &'a Suite,
    pub(crate) concurrency: usize,
    /// The budget of the run, in US dollars; `None` for no limit.
    pub(crate) budget_usd: Option<f64>,
    /// The id of the run.
    pub(crate) run: &'a str,
    /// The time in RFC 3339.
    pub(crate) now: String,
    pub(crate) secrets: &'a Secrets,
}

impl<'s> Canaries<'s> {
    /// Draws up to `count` canaries for each judge and kind of check in the plan. Nothing is sent.
    ///
    /// `run` is the id of the run. A resumed run does not ask about its canaries again.
    ///
    /// # Errors
    ///
    /// Fails if the stored calibrations or their watches cannot be read.
    pub(crate) fn plan(
        world: &World,
        place: &SuiteFolder,
        (suite, files): (&'s Suite, &Folder),
        plan: &Plan,
        (count, run): (usize, &str),
    ) -> Result<Self, Failure> {
        let store = Calibrations::new(place.state());
        let mut judges: Vec<RunJudge<'s>> = Vec::new();
        let mut known = Vec::new();
        for kind in trust::judged(suite, plan) {
            let key = (kind.check, kind.panel.judging.clone(), kind.prompts.clone());
            // A file of labels cannot contain further evidence, so a check with further evidence has no calibration.
            if kind.further_evidence.is_some() || known.contains(&key) {
                continue;
            }
            known.push(key);
            let planner = Planner { world, place, suite, files, store: &store, count, run };
            let intent = planner.intent(&kind)?;
            judges.push(RunJudge { panel: kind.panel, check: kind.check, intent });
        }
        Ok(Self { store, judges })
    }

    /// Returns the first questions about each canary. Later questions depend on the answers.
    pub(crate) fn questions(&self) -> Vec<JudgeQuestion> {
        let mut questions = Vec::new();
        for judge in &self.judges {
            let Intent::Ask(sample) = &judge.intent else { continue };
            for case in &sample.cases {
                let answers = Answers::default();
                let execution = case.execution();
                let evidence =
                    Evidence { execution, answers: &answers, baseline: None, comparison: None };
                let asked = first_questions(case.checks(), &evidence).into_iter();
                questions.extend(asked.filter_map(|(_, it)| match it {
                    AnyQuestion::Judge(mut question) => {
                        question.model =
                            question.model.or_else(|| judge.panel.judging.model.clone());
                        Some(question)
                    }
                    AnyQuestion::Embedding(_) | AnyQuestion::Script(_) => None,
                }));
            }
        }
        questions
    }

    /// Cancels all questions, for the reason `why`. Earlier watches are still reported.
    pub(crate) fn refrain(&mut self, why: &str) {
        for judge in &mut self.judges {
            if matches!(judge.intent, Intent::Ask(_)) {
                judge.intent = Intent::Refrain(why.to_owned());
            }
        }
    }

    /// Returns a warning for each judge that will not be asked. There is no warning for a judge that this run asked
    /// before it was resumed.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        self.judges.iter().filter_map(|judge| {
            let base = CanaryWatch::new(judge.panel.name(), judge.check);
            match &judge.intent {
                Intent::Ask(_) | Intent::Report { is_own: true, .. } => None,
                Intent::Report { watch, count, is_own: false, .. } => {
                    standing_alarm(base, watch.as_ref().clone(), *count).warning()
                }
                Intent::Refrain(why) => not_asked(base, why.clone()).warning(),
            }
        })
    }

    /// Describes the questions for the user; `None` if no judge is asked.
    pub(crate) fn notice(&self) -> Option<String> {
        let asked = self.judges.iter().filter_map(|it| match &it.intent {
            Intent::Ask(sample) => {
                let canaries = if sample.cases.len() == 1 { "canary" } else { "canaries" };
                Some(format!("{} about {} {canaries}", it.panel.name(), sample.cases.len()))
            }
            _ => None,
        });
        let asked: Vec<String> = asked.collect();
        (!asked.is_empty()).then(|| format!("asking {}", asked.join(", and ")))
    }

    /// Asks the judges about their canaries, and stores the results as watches beside the calibrations.
    ///
    /// # Errors
    ///
    /// Fails if a watch cannot be stored.
    pub(crate) async fn ask(self, run: &CanaryRun<'_>) -> Result<Vec<CanaryWatch>, Failure> {
        let (mut watches, mut spent) = (Vec::new(), 0.0);
        for RunJudge { panel, check, intent } in self.judges {
            let base = CanaryWatch::new(panel.name(), check);
            let watch = match intent {
                Intent::Refrain(why) => not_asked(base, why),
                Intent::Report { watch, count, caveat, is_own: true } => {
                    reported(CanaryWatch { caveat, ..base }, *watch, count)
                }
                Intent::Report { watch, count, is_own: false, .. } => {
                    standing_alarm(base, *watch, count)
                }
                Intent::Ask(sample) => {
                    let left = run.budget_usd.map(|it| (it - spent).max(0.0));
                    ask_one(&self.store, &panel, &sample, base, (run, left)).await?
                }
            };
            spent += watch.known_cost_usd;
            watches.push(watch);
        }
        Ok(watches)
    }
}

/// Asks one judge about its canaries, and stores the result as a watch.
async fn ask_one(
    store: &Calibrations,
    panel: &Panel<'_>,
    Sample { calibration, cases }: &Sample,
    base: CanaryWatch,
    (run, budget_usd): (&CanaryRun<'_>, Option<f64>),
) -> Result<CanaryWatch, Failure> {
    let CanaryRun { ports, suite, concurrency, .. } = *run;
    let judges = Judges::new(ports, &suite.models, panel.judging.model.as_deref())
        .with_timeout(suite.defaults.timeout)
        .with_concurrency(concurrency)
        .with_budget(budget_usd);
    let answers = ask::ask(cases.iter().collect(), &judges, concurrency, &|_| {}).await;
    let now = (run.now.clone(), Some(run.run));
    let watched = store_watch(store, (panel, calibration), &answers, now, run.secrets)?;
    let base = CanaryWatch { caveat: watched.caveat, ..base };
    Ok(reported(base, watched.watch, watched.count))
}

fn not_asked(base: CanaryWatch, why: String) -> CanaryWatch {
    CanaryWatch { not_asked: Some(why), ..base }
}

/// Returns the result for a judge that is not asked, because the earlier `watch` raised an alarm.
fn standing_alarm(base: CanaryWatch, watch: Watch, count: usize) -> CanaryWatch {
    CanaryWatch {
        watches: count as u64,
        evidence: Some(watch.evidence),
        alarm: watch.alarm,
        not_asked: Some("an earlier watch found a change".to_owned()),
        ..base
    }
}

fn reported(base: CanaryWatch, watch: Watch, count: usize) -> CanaryWatch {
    CanaryWatch {
        asked: watch.asked,
        different: watch.different,
        errored: watch.errored,
        watches: count as u64,
        evidence: Some(watch.evidence),
        alarm: watch.alarm,
        cost_usd: watch.cost_usd,
        known_cost_usd: watch.known_cost_usd,
        tokens: watch.tokens,
        ..base
    }
}

/// Decides which judges are asked, and about which outputs.
struct Planner<'a, 's> {
    world: &'a World,
    place: &'a SuiteFolder,
    suite: &'s Suite,
    files: &'a Folder,
    store: &'a Calibrations,
    count: usize,
    run: &'a str,
}

impl Planner<'_, '_> {
    fn intent(&self, kind: &CheckKind<'_>) -> Result<Intent, Failure> {
        let stored = kind.panel.stored();
        let known = kind.panel.calibration(self.store, kind.check, &kind.prompts)?;
        let Some(calibration) = known else {
            let judge = match kind.panel.models.as_slice() {
                [judge] => Some(judge.id.as_str()),
                _ => None,
            };
            return Ok(Intent::Refrain(format!(
                "it was never calibrated for it; {} does that",
                trust::calibrate_command(&self.place.name, judge)
            )));
        };
        let watches = self.store.watches(&stored, &calibration);
        let watches = watches.map_err(|err| Failure::store(&err))?;
        let count = watches.len();
        let own = watches.iter().find(|it| it.run.as_deref() == Some(self.run));
        if let Some(watch) = own.or_else(|| watches.iter().find(|it| it.alarm.is_some())) {
            let is_own = own.is_some();
            let (watch, caveat) = (Box::new(watch.clone()), caveat(&calibration));
            return Ok(Intent::Report { watch, count, caveat, is_own });
        }
        Ok(match self.sample(kind, calibration, count) {
            Ok(sample) => Intent::Ask(Box::new(sample)),
            Err(why) => Intent::Refrain(why),
        })
    }

    /// Draws the outputs to ask about, or returns the reason why there are none.
    fn sample(
        &self,
        kind: &CheckKind<'_>,
        calibration: Calibration,
        earlier: usize,
    ) -> Result<Sample, String> {
        let decided = kind.panel.decided(&self.suite.providers, &Programs::new(self.files));
        check_calibration(&calibration, decided.as_deref())
            .map_err(|why| format!("{why}; calibrate again"))?;
        let source = calibration.source.clone().ok_or(
            "its file of labels is not in the folder of the suite; calibrate again with a file there",
        )?;
        let first_line = |failure: Failure| {
            let message = failure.message.unwrap_or_default();
            message.lines().next().unwrap_or_default().to_owned()
        };
        noise_of(&calibration).map_err(first_line)?;
        let plan = self.cases(kind, &source).map_err(first_line)?;
        let default = self.suite.defaults.judge_model.as_deref();
        let panel = Panel::resolve(&self.suite.models, default, &plan.judging);
        let is_same = plan.check == kind.check
            && plan.prompts == kind.prompts
            && panel.is_some_and(|it| it.judging == kind.panel.judging);
        if !is_same {
            let file = &source.file;
            return Err(format!("{file} now asks another judge or check; calibrate again"));
        }
        let of = (&calibration, earlier);
        let cases = draw(self.world, plan.cases, |it| &it.digest, of, (self.count, &source.file))
            .map_err(|why| format!("{why}; calibrate again"))?;
        Ok(Sample { calibration, cases })
    }

    /// Compiles the questions of the labelled outputs, for the judge of the check.
    fn cases(&self, kind: &CheckKind<'_>, source: &CanarySource) -> Result<ask::Plan, Failure> {
        let labels = load_source(self.world, &self.place.folder, source)?;
        let CanarySource { criteria, assertions, check, min_score, .. } = source.clone();
        let question = Question { criteria, assertions, check, min_score };
        let ids: Vec<String> = self.suite.models.iter().map(|it| it.id.clone()).collect();
        let mut setup = project::setup(self.world, self.files, Some(&ids), Some(self.suite));
        setup.judging = kind.panel.judging.clone();
        ask::plan(&source.file, labels, &question, &setup)
    }
}
