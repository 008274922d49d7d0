//! Calibrates a judge: plans the questions, asks them, and corrects pass rates.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use kindlm_assertions::{JudgeBlock, answered_by};
use kindlm_config::Programs;
use kindlm_engine::{Model, Suite};
use kindlm_stats::{Confusion, Tally};
use kindlm_store::responses::Recorded;
use kindlm_store::{Calibration, Calibrations, CanarySource, Folder, OwnNoise};
use kindlm_types::{AnyReport, UsageSum, suggest};
use serde_json::{Map, Value};

use super::ask::{self, Case, Plan, verdicts};
use super::asking::Asking;
use super::correct::{Correction, StoredCalibration, in_report};
use super::json::{self, About};
use super::{Agreement, Findings, JudgeOutcome, LabelFile, Question, Sample, agreement};
use crate::judge_setup::{NamedJudge, Panel, full};
use crate::project::{self, CONFIG};
use crate::saved::Saved;
use crate::secrets::Secrets;
use crate::session::ports;
use crate::{
    Failure, Progress, Project, ResponseSource, Session, SuiteFolder, World, budget, identity,
    keys, responses,
};

/// The settings of a calibration. The default judges one output at a time, without a budget.
#[derive(Clone, Debug)]
pub struct CalibrateConfig {
    /// The lowest label, from 0 to 1, that counts as a pass.
    pub label_threshold: f64,
    /// The source of the judge's answers.
    pub responses: ResponseSource,
    /// The budget for the judge in US dollars; `None` is no limit.
    pub budget_usd: Option<f64>,
    /// True to allow a budget although the price of the judge is unknown.
    pub allow_unpriced: bool,
    /// The number of outputs judged at once, at least 1.
    pub concurrency: usize,
    /// True to ask about each output only once. The judge's disagreement with itself is then unknown, so the judge
    /// cannot be watched.
    pub once: bool,
}

impl Default for CalibrateConfig {
    fn default() -> Self {
        Self {
            label_threshold: 0.5,
            responses: ResponseSource::default(),
            budget_usd: None,
            allow_unpriced: false,
            concurrency: 1,
            once: false,
        }
    }
}

/// The judge that is calibrated, and the folder that stores its calibrations.
pub struct Subject {
    /// The models that can be named as judge.
    models: Vec<Model>,
    /// The judge settings for checks that set no judge.
    judging: JudgeBlock,
    suite: Option<Suite>,
    /// The judge given by name; `None` if there is a suite.
    named: Option<NamedJudge>,
    /// The requested model, as its id or as `provider:model`.
    ///
    /// The field is `None` for the default judge of a suite, and without a suite.
    requested: Option<String>,
    files: Folder,
    place: SuiteFolder,
    providers: Map<String, Value>,
}

impl Subject {
    /// Creates a subject without a suite. Its calibrations are stored in `.kindlm` in the working folder.
    ///
    /// # Errors
    ///
    /// Fails if the working folder cannot be opened.
    pub fn from_name(world: &World, judge: NamedJudge) -> Result<Self, Failure> {
        let files =
            Folder::open(&world.working_dir).map_err(|err| Failure::input(err.to_string()))?;
        Ok(Self {
            models: vec![judge.model.clone()],
            judging: JudgeBlock::default(),
            suite: None,
            files,
            place: SuiteFolder::new(world, Path::new(CONFIG)),
            providers: judge.providers.clone(),
            named: Some(judge),
            requested: None,
        })
    }

    /// Creates a subject for the judge of a suite.
    ///
    /// With `judge`, the subject is the model of the suite with this id or this `provider:model`. Agents cannot judge.
    ///
    /// # Errors
    ///
    /// Fails if the suite has no such model, or no model that can judge.
    pub fn from_suite(project: Project, judge: Option<&str>) -> Result<Self, Failure> {
        let Project { place, suite, files, .. } = project;
        let mut judging = suite.judging.clone();
        if let Some(id) = judge {
            let is_named = |it: &&Model| it.id == id || full(it) == id;
            let models = suite.models.iter().filter(|it| it.agent.is_none());
            let Some(judge) = models.clone().find(is_named) else {
                let ids = suite.models.iter().map(|it| it.id.as_str());
                return Err(Failure::input(format!("`{}` has no model `{id}`", place.name))
                    .with_help(suggest(id, "models", ids)));
            };
            // Keep the other judge settings of the suite, such as `samples`. The model replaces a judge panel.
            let named = JudgeBlock { model: Some(judge.id.clone()), ..JudgeBlock::default() };
            judging = named.over(&judging);
        }
        let (models, providers) = (suite.models.clone(), suite.providers.clone());
        let (suite, requested) = (Some(suite), judge.map(str::to_owned));
        let subject =
            Self { models, judging, suite, named: None, requested, files, place, providers };
        subject.panel(&subject.judging)?;
        Ok(subject)
    }

    /// Returns the location of the suite.
    ///
    /// Without a suite, this is the default location in the working folder.
    pub fn place(&self) -> &SuiteFolder {
        &self.place
    }

    /// Returns the configuration of the providers.
    pub(super) fn providers(&self) -> &Map<String, Value> {
        &self.providers
    }

    /// Returns the files of the suite.
    pub(super) fn files(&self) -> &Folder {
        &self.files
    }

    /// Compiles the checks of all rows. No request is sent.
    ///
    /// # Errors
    ///
    /// Fails if a row cannot be judged, or if rows differ in the check, the judge or the instructions. The error
    /// message gives the lines of the first 20 problems. Also fails if `question` has no effect because every row has
    /// its own question. Also fails if no model can judge, or if the check names another judge than the requested one.
    pub fn plan(
        &self,
        world: &World,
        question: &Question,
        file: LabelFile,
    ) -> Result<Planned<'_>, Failure> {
        let source = source_of(&self.place.folder, &file, question);
        let LabelFile { name, digest, labels, .. } = file;
        let ids: Vec<String> = self.models.iter().map(|it| it.id.clone()).collect();
        let mut setup = project::setup(world, &self.files, Some(&ids), self.suite.as_ref());
        setup.judging = self.judging.clone();
        let plan = ask::plan(&name, labels, question, &setup)?;
        let panel = self.panel_of(&plan)?;
        Ok(Planned { subject: self, plan, panel, labels: name, labels_digest: digest, source })
    }

    /// Corrects the pass rates of a run by the stored calibrations of the judge. No request is sent.
    ///
    /// # Errors
    ///
    /// Fails if no model can judge, if the judge was never calibrated, or if its calibrations cannot be read. Also
    /// fails if `run` is `None` or has a case that cannot be read. Also fails if the run has no verdict of this judge
    /// for a calibrated check.
    pub fn correct(&self, run: Option<&Saved>) -> Result<Agreement, Failure> {
        let panel = self.panel(&self.judging)?;
        let known = Calibrations::new(self.place.state())
            .for_judge(&panel.stored())
            .map_err(|err| Failure::store(&err))?;
        if known.is_empty() {
            return Err(Failure::input(format!("{} was never calibrated", panel.name()))
                .with_help("name a file of labelled outputs: `kindlm calibrate labels.csv`"));
        }
        let known: Vec<StoredCalibration> = known
            .into_iter()
            .map(|it| StoredCalibration {
                check: it.check,
                prompts: it.prompts,
                confusion: it.counts.into(),
            })
            .collect();
        let corrections = self.corrections_in(run, &panel, &known)?;
        let checks: Vec<&str> = known.iter().map(|it| it.check.as_str()).collect();
        let checks = checks.join("`, `");
        if corrections.is_empty() {
            let run = run.map_or("the run", |it| it.name.as_str());
            return Err(Failure::input(format!(
                "{} has judged nothing in {run} with `{checks}`",
                panel.name()
            ))
            .with_help("`-c` names the suite, and `--judge` the model that judged"));
        }
        Ok(Agreement { judge: panel.name(), checks, asked: None, corrections })
    }

    /// Returns the judge panel that a judge block configures.
    ///
    /// Fails if no model can judge.
    fn panel(&self, judging: &JudgeBlock) -> Result<Panel<'_>, Failure> {
        let default = self.suite.as_ref().and_then(|it| it.defaults.judge_model.as_deref());
        Panel::resolve(&self.models, default, judging).ok_or_else(|| {
            Failure::input(format!("`{}` has no model that could judge", self.place.name))
                .with_help("add one under `models`, or name it with `--judge provider:model`")
        })
    }

    /// Returns the judge panel of a calibration plan. Fails if no model can judge, or if the user requested another judge.
    fn panel_of(&self, plan: &Plan) -> Result<Panel<'_>, Failure> {
        let panel = self.panel(&plan.judging)?;
        let Some(requested) = &self.requested else { return Ok(panel) };
        if panel.judging.models.is_none() && self.judging.model == panel.judging.model {
            return Ok(panel);
        }
        let who = panel.name();
        let message =
            format!("the check is judged by {who}, and `--judge {requested}` names another");
        Err(Failure::input(message)
            .with_help("remove `--judge`, or remove `model` and `models` from the check"))
    }

    fn session(&self, world: &World, config: &CalibrateConfig) -> Result<Session, Failure> {
        let CalibrateConfig { concurrency, responses, .. } = config;
        if let Some(suite) = &self.suite {
            Session::new(world, &self.place, (suite, &self.files), *concurrency, responses)
        } else {
            let (judge, folder) = (self.named.as_ref(), self.files.root());
            Session::without_suite(world, judge, folder, *concurrency, responses)
        }
    }

    /// Corrects the pass rates that this judge measured in a run.
    ///
    /// Returns no corrections without a run. Fails if a case of the run cannot be read.
    fn corrections_in(
        &self,
        run: Option<&Saved>,
        panel: &Panel<'_>,
        known: &[StoredCalibration],
    ) -> Result<Vec<Correction>, Failure> {
        let Some(Saved { report, name, .. }) = run else { return Ok(Vec::new()) };
        let report: &AnyReport<'_> = report;
        // A report lists only the models under test, so take the names of judges from the suite, too.
        let of_report =
            report.models.iter().map(|it| (&it.id, format!("{}:{}", it.provider, it.name)));
        let of_suite = self.models.iter().map(|it| (&it.id, full(it)));
        let names: HashMap<&String, String> = of_suite.chain(of_report).collect();
        let judge = panel.full();
        let is_judge = |it: &JudgeBlock| {
            let full =
                |id: &str| names.get(&id.to_owned()).cloned().unwrap_or_else(|| id.to_owned());
            it.renamed(full).settled() == judge
        };
        in_report(report, name, &is_judge, known).map_err(|err| Failure::input(err.to_string()))
    }
}

/// The planned questions of a calibration, before the first request.
pub struct Planned<'s> {
    pub(super) subject: &'s Subject,
    pub(super) plan: Plan,
    pub(super) panel: Panel<'s>,
    pub(super) labels: String,
    labels_digest: String,
    source: Option<CanarySource>,
}

/// Returns the source of canaries for later runs: the file of labels and its settings.
///
/// Returns `None` if the file is outside of the suite's folder, or if its path is not UTF-8.
fn source_of(folder: &Path, file: &LabelFile, question: &Question) -> Option<CanarySource> {
    let (folder, path) = (folder.canonicalize().ok()?, file.path.canonicalize().ok()?);
    let parts = path.strip_prefix(folder).ok()?.iter().map(|it| it.to_str());
    let Question { criteria, assertions, check, min_score } = question.clone();
    let path = parts.collect::<Option<Vec<_>>>()?.join("/");
    let mut source = CanarySource::new(path, file.threshold);
    source.criteria = criteria;
    source.assertions = assertions;
    source.check = check;
    source.min_score = min_score;
    Some(source)
}

/// The judge's answers to all questions of a calibration.
struct Asked {
    samples: Vec<Sample>,
    own_noise: Option<OwnNoise>,
    canaries: BTreeMap<String, String>,
    /// The model names in the provider's responses to the second questions, if they differ from the requested names.
    answered: BTreeSet<String>,
    cost_usd: Option<f64>,
    usage: UsageSum,
}

impl Planned<'_> {
    /// Returns the maximum number of questions: one for each output, and a second one for each labelled output unless
    /// `config.once` is set.
    pub fn question_count(&self, config: &CalibrateConfig) -> usize {
        self.plan.cases.len() + self.second_count(config)
    }

    /// Returns the maximum number of second questions. An output without a first verdict gets no second question.
    fn second_count(&self, config: &CalibrateConfig) -> usize {
        if config.once { 0 } else { self.plan.cases.iter().filter(|it| it.is_labelled()).count() }
    }

    /// Asks the judge about each output, and compares its verdicts with the labels.
    ///
    /// With `run`, also corrects the pass rates of that run. [`Agreement::store`] stores the result.
    ///
    /// # Errors
    ///
    /// Fails if a budget is set and the judge's price is unknown, unless `allow_unpriced` is set. Also fails if the
    /// configuration of a provider is invalid, or if the response store cannot be used. Also fails if a judge's key is
    /// missing and every answer must be requested.
    ///
    /// An output that cannot be judged is not a failure, but is counted in the result. If a case of `run` cannot be
    /// read, the pass rate of `run` is not corrected, after a notice.
    pub fn run(
        self,
        world: &World,
        config: &CalibrateConfig,
        run: Option<&Saved>,
        progress: Box<dyn Progress + '_>,
    ) -> Result<Agreement, Failure> {
        let started = identity::rfc3339((world.now)());
        let asked = self.ask(world, config, progress)?;
        let Self { subject, plan, panel, labels, labels_digest, source } = self;
        let mut findings = Findings::from_samples(asked.samples, config.label_threshold);
        findings.own_noise = asked.own_noise;
        let known = StoredCalibration {
            check: plan.check.clone(),
            prompts: plan.prompts.clone(),
            confusion: findings.confusion,
        };
        let mut corrections = Vec::new();
        let (passed, total) = findings.unlabelled();
        if let Ok(observed) = Tally::new(passed, total) {
            let of = format!("the rows of {labels} without a label");
            corrections.push(Correction::new(of, &known, observed));
        }
        // If the report cannot be read, keep the answers, because the user has paid for them.
        match subject.corrections_in(run, &panel, std::slice::from_ref(&known)) {
            Ok(of_run) => corrections.extend(of_run),
            Err(failure) => {
                let why = failure.message.unwrap_or_default();
                world.notify(&format!("warning: the pass rate of the run is not corrected: {why}"));
            }
        }
        let calibration = findings.calibration(Calibration {
            kindlm_version: env!("CARGO_PKG_VERSION").to_owned(),
            prompts: plan.prompts.clone(),
            providers: panel.decided(&subject.providers, &Programs::new(&subject.files)),
            labels: labels.clone(),
            labels_digest: labels_digest.clone(),
            answered: asked.answered.into_iter().collect(),
            canaries: asked.canaries,
            source,
            ..Calibration::new(plan.check.clone(), started.clone(), Confusion::default())
        });
        let about = About {
            judge: json::judge(&panel),
            check: plan.check.clone(),
            prompts: plan.prompts,
            labels,
            labels_digest,
            calibrated_at: started,
            cost_usd: asked.cost_usd,
            usage: asked.usage.total(),
        };
        let store = (subject.place.state(), panel.stored(), calibration);
        let asked = Some(agreement::JudgedFile { about, findings, store });
        Ok(Agreement { judge: panel.name(), checks: plan.check, asked, corrections })
    }

    /// Asks about each output. Unless `config.once` is set, asks a second time about the labelled outputs with a
    /// verdict.
    fn ask(
        &self,
        world: &World,
        config: &CalibrateConfig,
        progress: Box<dyn Progress + '_>,
    ) -> Result<Asked, Failure> {
        let (all, twice) = (self.plan.cases.len(), self.second_count(config));
        let s = if all == 1 { "" } else { "s" };
        let again = match twice {
            0 => String::new(),
            _ => format!(", {twice} of them twice (`--once` asks once)"),
        };
        let ask = |asking: &Asking<'_>| {
            world.notify(&format!("asking {} about {all} output{s}{again}", self.panel.name()));
            let first = asking.ask(self.plan.cases.iter().collect());
            let labelled = first.cases.iter().filter(|(it, _)| it.is_labelled() && !config.once);
            let judged = labelled.filter_map(|(case, results)| Some((*case, verdicts(results)?)));
            let judged: Vec<(&Case, String)> = judged.collect();
            let cases = judged.iter().map(|(case, _)| *case).collect();
            let second = asking.ask_again(cases, first.known_cost_usd);
            (first, judged, second)
        };
        let ((first, judged, second), secrets) = self.with_judge(world, config, progress, ask)?;
        let mut asked = Asked {
            samples: first.samples(),
            own_noise: None,
            canaries: BTreeMap::new(),
            answered: BTreeSet::new(),
            cost_usd: first.cost_usd.zip(second.cost_usd).map(|(a, b)| a + b),
            usage: first.usage,
        };
        asked.usage.extend(second.usage);
        let mut noise = OwnNoise::default();
        for ((case, verdict), (_, results)) in judged.iter().zip(&second.cases) {
            let Some(other) = verdicts(results) else { continue };
            noise.asked += 1;
            noise.different += u64::from(other != *verdict);
            asked.canaries.insert(case.digest.clone(), verdict.clone());
            asked.answered.extend(results.iter().flat_map(answered_by).map(str::to_owned));
        }
        asked.own_noise = Some(noise).filter(|it| it.asked > 0);
        let missing = judged.len() - asked.canaries.len();
        if missing > 0 {
            world.notify(&format!(
                "warning: {missing} of {} second answers are missing, and are no canaries",
                judged.len()
            ));
        }
        for sample in &mut asked.samples {
            secrets.redact_text(&mut sample.output);
            match &mut sample.judge {
                JudgeOutcome::Decided { reasoning: Some(text), .. }
                | JudgeOutcome::Errored { message: text, .. } => secrets.redact_text(text),
                JudgeOutcome::Decided { reasoning: None, .. } => {}
            }
        }
        Ok(asked)
    }

    /// Opens a session, and calls `work` to ask the judge. Also returns the secrets that the caller must mask in the
    /// answers.
    ///
    /// Fails if a budget cannot be enforced, if a key is missing, or if the session cannot be opened.
    pub(super) fn with_judge<T>(
        &self,
        world: &World,
        config: &CalibrateConfig,
        progress: Box<dyn Progress + '_>,
        work: impl FnOnce(&Asking<'_>) -> T,
    ) -> Result<(T, Secrets), Failure> {
        let Self { subject, panel, .. } = self;
        let models = panel.models.iter().copied();
        budget::check_judges(models.clone(), config.budget_usd, config.allow_unpriced)?;
        keys::require(world, models, &subject.providers, &config.responses)?;
        let session = subject.session(world, config)?;
        let Session { client, runner, responses, secrets, waits } = session;
        let recorded = Recorded::new(&client, responses);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|err| Failure::internal(format!("cannot start: {err}")))?;
        let ports = ports(&client, &recorded, &runner);
        let result = work(&Asking {
            models: &subject.models,
            default: panel.judging.model.as_deref(),
            concurrency: config.concurrency,
            budget_usd: config.budget_usd,
            ports,
            waits: &waits,
            runtime: &runtime,
            progress: &*progress,
        });
        drop(progress);
        runtime.shutdown_background();
        responses::report_use(world, recorded.responses(), false);
        Ok((result, secrets))
    }
}
