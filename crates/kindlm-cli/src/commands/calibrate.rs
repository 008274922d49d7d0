//! `kindlm calibrate`: holds a judge against people.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use kindlm_assertions::JudgeBlock;
use kindlm_config::Programs;
use kindlm_engine::{Judges, Model, Suite};
use kindlm_providers::transport::Waits;
use kindlm_providers::{Client, ClientOptions};
use kindlm_store::responses::Recorded;
use kindlm_store::{Calibration, Calibrations, Digest, Folder, MAX_FILE_BYTES};
use kindlm_types::{AnyReport, Backend, ExitStatus, suggest};
use serde_json::{Map, Value};

use super::evaluate::{client, judge as named_judge, shorthand};
use crate::args::CalibrateArgs;
use crate::progress::Progress;
use crate::{Failure, Io, opening, print};
use kindlm_run::Outcome;
use kindlm_run::Progress as _;
use kindlm_run::calibrate::{self, Correction, Findings, Known, Labels, Obstacle, Question};
use kindlm_run::interrupt::heed;
use kindlm_run::judge_setup::{self, Bench};
use kindlm_run::programs::Purpose;
use kindlm_run::project::{self, CONFIG, Place};
use kindlm_run::scripts::{Runner, Scripted};
use kindlm_run::secrets::Secrets;
use kindlm_run::{identity, keys, responses, saved};

/// Who is calibrated, and where what is known about it is kept.
struct Subject {
    /// The models that judge may be among.
    models: Vec<Model>,
    /// Who judges where a check does not say, and how.
    judging: JudgeBlock,
    suite: Option<Suite>,
    files: Folder,
    place: Place,
    providers: Map<String, Value>,
}

pub(crate) fn run(args: &CalibrateArgs, io: &mut Io) -> Outcome {
    let subject = subject(args, io)?;
    let question = question(args, io)?;
    let report = match &args.report {
        Some(run) => Some(saved::find(io, &subject.place, Some(run), None)?),
        None => None,
    };
    let report = report.as_ref().map(|it| (&it.report as &AnyReport<'_>, it.name.as_str()));
    match &args.labels {
        Some(path) => {
            let (name, bytes) = (path.display().to_string(), read(io, path)?);
            let labels = calibrate::read(&name, &bytes)?;
            for column in &labels.unused {
                io.tell(&format!("warning: the column `{column}` of {name} is not used"));
            }
            if labels.again > 0 {
                let rows = if labels.again == 1 { "row says" } else { "rows say" };
                io.tell(&format!(
                    "warning: {} {rows} what a row before says in all, and counts nothing: the judge sees it once ({name})",
                    labels.again
                ));
            }
            let labels = (name.as_str(), Digest::of(&bytes).to_string(), labels);
            subject.calibrate(args, io, &question, labels, report)
        }
        None => subject.recall(args, io, report),
    }
}

fn subject(args: &CalibrateArgs, io: &mut Io) -> Result<Subject, Failure> {
    let Some(config) = &args.config else {
        let Some(named) = &args.judge else {
            return Err(Failure::input("nobody says which judge is meant")
                .with_help("name one with `--judge provider:model`, or a suite with `-c`"));
        };
        let judge = named_judge(named)?;
        let place = Place::new(io, Path::new(CONFIG));
        let files = Folder::open(&io.working_dir).map_err(|err| Failure::input(err.to_string()))?;
        let providers = shorthand(std::slice::from_ref(&judge));
        keys::require(io, Some(&judge), &providers, &args.responses.source())?;
        let judging = JudgeBlock::default();
        return Ok(Subject { models: vec![judge], judging, suite: None, files, place, providers });
    };
    let config = kindlm_run::OpenOptions {
        config: config.clone(),
        allow_outside: args.allow_outside,
        allow_programs: false,
    };
    let project::Project { place, suite, files, .. } = opening::open(io, &config, Purpose::Models)?;
    let mut judging = suite.judging.clone();
    if let Some(id) = &args.judge {
        let named = |it: &&Model| it.id == *id || judge_setup::full(it) == *id;
        let Some(judge) = suite.models.iter().filter(|it| it.agent.is_none()).find(named) else {
            let ids = suite.models.iter().map(|it| it.id.as_str());
            return Err(Failure::input(format!("`{}` has no model `{id}`", place.name))
                .with_help(suggest(id, "models", ids)));
        };
        // How often it is asked, the suite says; a jury it is not.
        let named = JudgeBlock { model: Some(judge.id.clone()), ..JudgeBlock::default() };
        judging = named.over(&judging);
    }
    let (models, providers) = (suite.models.clone(), suite.providers.clone());
    let subject = Subject { models, judging, suite: Some(suite), files, place, providers };
    subject.bench(&subject.judging)?;
    Ok(subject)
}

fn read(io: &Io, path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |why: String| Failure::input(format!("cannot read `{}`: {why}", path.display()));
    let mut bytes = Vec::new();
    File::open(io.working_dir.join(path))
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|err| failed(kindlm_store::words(&err)))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(failed(format!("it is larger than {} MiB", MAX_FILE_BYTES >> 20)));
    }
    Ok(bytes)
}

/// What the command line says that the judge is asked.
fn question(args: &CalibrateArgs, io: &Io) -> Result<Question, Failure> {
    let json = |what: &str, text: &[u8]| -> Result<Value, Failure> {
        serde_json::from_slice(text).map_err(|err| {
            Failure::input(format!("{what}:{}:{}: not JSON: {err}", err.line(), err.column()))
        })
    };
    let assertions = match &args.assertions {
        None => None,
        Some(path) => {
            let name = path.display().to_string();
            let value = json(&name, &read(io, path)?)?;
            // A record of `kindlm evaluate` holds them too.
            let list = value.get("assertions").unwrap_or(&value);
            if !list.is_array() {
                return Err(Failure::input(format!("`{name}` holds no list of rules"))
                    .with_help("write `[{\"id\": …, \"instruction\": …, \"criteria\": […]}]`"));
            }
            Some(list.clone())
        }
    };
    let check = args.check.as_ref().map(|it| json("--check", it.as_bytes())).transpose()?;
    if check.as_ref().is_some_and(|it| !it.is_object()) {
        return Err(Failure::input("`--check` is no object")
            .with_help("write an entry of the list form, such as `{\"type\": \"llm-rubric\", \"value\": \"…\"}`"));
    }
    Ok(Question { criteria: args.criteria.clone(), assertions, check, min_score: args.min_score })
}

/// Says what the judge gave no usable answer for, and what comes of that.
fn unjudged(findings: &Findings, tell: &mut dyn FnMut(&str)) -> ExitStatus {
    let obstacles: Vec<Obstacle> = findings.obstacles().collect();
    let unlabelled = obstacles.len() as u64 - findings.errored;
    if obstacles.is_empty() && findings.confusion.total() > 0 {
        return ExitStatus::Success;
    }
    let what_now = if obstacles.iter().any(|it| *it != Obstacle::Unreadable) {
        "`--responses cache` asks only for those once more"
    } else {
        "its replies there cannot be read: have another model judge, or take out of the file what nobody could judge"
    };
    if findings.errored > 0 || findings.confusion.total() == 0 {
        let (errored, all) = (findings.errored, findings.labelled());
        tell(&format!("not kept: {errored} of {all} labelled outputs were not judged; {what_now}"));
    }
    if unlabelled > 0 {
        let all = findings.unlabelled().1 + unlabelled;
        tell(&format!("{unlabelled} of {all} outputs without a label were not judged; {what_now}"));
    }
    if obstacles.contains(&Obstacle::Provider) {
        ExitStatus::ProviderError
    } else {
        ExitStatus::GatesFailed
    }
}

impl Subject {
    fn calibrate(
        &self,
        args: &CalibrateArgs,
        io: &mut Io,
        question: &Question,
        (name, digest, labels): (&str, String, Labels),
        report: Option<(&AnyReport<'_>, &str)>,
    ) -> Outcome {
        let ids: Vec<String> = self.models.iter().map(|it| it.id.clone()).collect();
        let mut setup = project::setup(io, &self.files, Some(&ids), self.suite.as_ref());
        setup.judging = self.judging.clone();
        let plan = calibrate::plan(name, labels, question, &setup)?;
        let bench = self.named(args, &plan)?;
        let started = identity::begin((io.now)(), &self.place.folder).started_at;
        let asked = self.ask(args, io, &plan, &bench)?;
        let (cost_usd, usage) = (asked.cost_usd, asked.usage.total());
        let findings = Findings::of(asked.samples, args.label_threshold);
        let prompts = plan.prompts.clone();
        let known = Known {
            check: plan.check.clone(),
            prompts: prompts.clone(),
            confusion: findings.confusion,
        };
        let mut corrections = Vec::new();
        let (passed, total) = findings.unlabelled();
        if let Ok(observed) = kindlm_stats::Tally::new(passed, total) {
            let of = format!("the rows of {name} without a label");
            corrections.push(Correction::of(of, &known, observed));
        }
        corrections.extend(self.in_report(report, &bench, std::slice::from_ref(&known))?);
        let about = calibrate::About {
            judge: &bench,
            check: &plan.check,
            prompts: prompts.clone(),
            labels: (name, &digest),
            calibrated_at: &started,
            cost_usd,
            usage,
        };
        let json = calibrate::as_json(Some(&about), Some(&findings), &corrections);
        let table = calibrate::as_table(
            &bench.name(),
            &plan.check,
            Some((name, &findings)),
            &corrections,
            io.width().clamp(60, 120),
        );
        show(args, io, &json, &table)?;
        let unjudged = unjudged(&findings, &mut |text| io.tell(text));
        // Agreement on the outputs that the judge could be read on says nothing about the others.
        if findings.errored > 0 || findings.confusion.total() == 0 {
            return Ok(unjudged);
        }
        if !args.no_save {
            let template = Calibration {
                check: plan.check.clone(),
                calibrated_at: started.clone(),
                kindlm_version: env!("CARGO_PKG_VERSION").to_owned(),
                prompts,
                providers: bench.decided(&self.providers, &Programs::new(&self.files)),
                labels: name.to_owned(),
                labels_digest: digest.clone(),
                counts: kindlm_store::Counts::default(),
                criteria: Vec::new(),
                answered: Vec::new(),
                errored: 0,
                base_rate: 0.0,
                agreement: 0.0,
                kappa: None,
                kappa_interval: None,
            };
            self.keep(io, &bench, findings.calibration(template))?;
        }
        Ok(unjudged)
    }

    /// Who judges the rows of a plan: whom the command line names, if it names somebody.
    fn named(&self, args: &CalibrateArgs, plan: &calibrate::Plan) -> Result<Bench<'_>, Failure> {
        let bench = self.bench(&plan.judging)?;
        let Some(named) = args.judge.as_ref().filter(|_| self.suite.is_some()) else {
            return Ok(bench);
        };
        if bench.judging.models.is_none() && self.judging.model == bench.judging.model {
            return Ok(bench);
        }
        let who = bench.name();
        let message = format!("the check is judged by {who}, and `--judge {named}` names another");
        Err(Failure::input(message)
            .with_help("leave `--judge` out, or take `model` and `models` out of the check"))
    }

    /// Who judges as a block says.
    fn bench(&self, judging: &JudgeBlock) -> Result<Bench<'_>, Failure> {
        let default = self.suite.as_ref().and_then(|it| it.defaults.judge_model.as_deref());
        Bench::of(&self.models, default, judging).ok_or_else(|| {
            Failure::input(format!("`{}` has no model that could judge", self.place.name))
                .with_help("add one under `models`, or name it with `--judge provider:model`")
        })
    }

    fn ask(
        &self,
        args: &CalibrateArgs,
        io: &mut Io,
        plan: &calibrate::Plan,
        bench: &Bench<'_>,
    ) -> Result<calibrate::Asked, Failure> {
        let concurrency = args.concurrency as usize;
        let unpriced = bench.models.iter().find(|it| it.price.is_none());
        if let (Some(_), Some(model), false) = (args.budget_usd, unpriced, args.allow_unpriced) {
            return Err(Failure::input(format!(
                "the budget cannot be kept: nobody knows the price of {}",
                judge_setup::full(model)
            ))
            .with_help(
                "add `price: { input: …, output: … }` to the model, or give `--allow-unpriced`",
            ));
        }
        let root = self.files.root();
        let waits = Waits::default();
        let options = ClientOptions::new(Arc::clone(&io.env), root)
            .with_concurrency(concurrency)
            .with_waits(waits.clone());
        let client: Client = match &self.suite {
            Some(suite) => {
                let runner = Runner::new(io, root)?;
                let options = project::with_limits(options, suite)
                    .with_scripts(project::scripts(&suite.scripts, &runner));
                client(&suite.providers, &self.files, options)?
            }
            None => client(&Map::new(), &self.files, options)?,
        };
        let secrets = Secrets::of(io, &self.providers);
        let scripts = self.suite.as_ref().map(|it| it.scripts.clone()).unwrap_or_default();
        let kept = args.responses.source().open(
            io,
            &self.place.state(),
            (&self.providers, &scripts, &self.files),
            &secrets,
        )?;
        let client = Scripted::new(&client, Runner::new(io, root)?);
        let backend = Recorded::new(&client, kept);
        let door: &dyn Backend = &backend;
        let default = bench.judging.model.as_deref();
        let judges = Judges::new(door, &self.models, default)
            .with_concurrency(concurrency)
            .with_budget(args.budget_usd);
        let s = if plan.output_count() == 1 { "" } else { "s" };
        io.tell(&format!("asking {} about {} output{s}", bench.name(), plan.output_count()));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|err| Failure::internal(format!("cannot start: {err}")))?;
        let progress = Progress::of(io, "outputs", plan.output_count());
        let tell = |is_judged| progress.count(is_judged);
        let asking = calibrate::ask(plan, &judges, concurrency, &tell);
        let mut asked = runtime.block_on(heed(asking, &waits, |text| progress.say(text)));
        drop(progress);
        runtime.shutdown_background();
        responses::tell(io, backend.responses(), false);
        for sample in &mut asked.samples {
            secrets.redact_text(&mut sample.output);
            match &mut sample.judge {
                calibrate::Judged::Said { reasoning: Some(text), .. }
                | calibrate::Judged::Errored { message: text, .. } => secrets.redact_text(text),
                calibrate::Judged::Said { reasoning: None, .. } => {}
            }
        }
        Ok(asked)
    }

    fn keep(
        &self,
        io: &mut Io,
        bench: &Bench<'_>,
        calibration: Calibration,
    ) -> Result<(), Failure> {
        let path = Calibrations::new(self.place.state())
            .set(&bench.kept(), calibration)
            .map_err(|err| Failure::store(&err))?;
        let shown = path.strip_prefix(&io.working_dir).unwrap_or(&path).display().to_string();
        io.tell(&format!("kept in {shown}"));
        Ok(())
    }

    fn in_report(
        &self,
        report: Option<(&AnyReport<'_>, &str)>,
        bench: &Bench<'_>,
        known: &[Known],
    ) -> Result<Vec<Correction>, Failure> {
        let Some((report, name)) = report else { return Ok(Vec::new()) };
        // A report lists the models under test; a judge that is none of them is called as the suite calls it.
        let of_report =
            report.models.iter().map(|it| (&it.id, format!("{}:{}", it.provider, it.name)));
        let of_suite = self.models.iter().map(|it| (&it.id, judge_setup::full(it)));
        let names: HashMap<&String, String> = of_suite.chain(of_report).collect();
        let judge = bench.full();
        let is_judge = |it: &JudgeBlock| {
            let full =
                |id: &str| names.get(&id.to_owned()).cloned().unwrap_or_else(|| id.to_owned());
            it.renamed(full).settled() == judge
        };
        calibrate::in_report(report, name, &is_judge, known)
            .map_err(|err| Failure::input(err.to_string()))
    }

    /// Corrects the pass rate of a run by what was kept.
    fn recall(
        &self,
        args: &CalibrateArgs,
        io: &mut Io,
        report: Option<(&AnyReport<'_>, &str)>,
    ) -> Outcome {
        let bench = self.bench(&self.judging)?;
        let known = Calibrations::new(self.place.state())
            .of(&bench.kept())
            .map_err(|err| Failure::store(&err))?;
        if known.is_empty() {
            return Err(Failure::input(format!("{} was never calibrated", bench.name())).with_help(
                "name a file of outputs that people have labelled: `kindlm calibrate labels.csv`",
            ));
        }
        let known: Vec<Known> = known
            .into_iter()
            .map(|it| Known { check: it.check, prompts: it.prompts, confusion: it.counts.into() })
            .collect();
        let corrections = self.in_report(report, &bench, &known)?;
        let checks: Vec<&str> = known.iter().map(|it| it.check.as_str()).collect();
        let checks = checks.join("`, `");
        if corrections.is_empty() {
            let run = report.map_or("the run", |(_, name)| name);
            return Err(Failure::input(format!(
                "{} has judged nothing in {run} with `{checks}`",
                bench.name()
            ))
            .with_help("`-c` names the suite, and `--judge` the model that judged"));
        }
        let json = calibrate::as_json(None, None, &corrections);
        let table = calibrate::as_table(
            &bench.name(),
            &checks,
            None,
            &corrections,
            io.width().clamp(60, 120),
        );
        show(args, io, &json, &table)?;
        Ok(ExitStatus::Success)
    }
}

/// Writes what was asked for.
fn show(args: &CalibrateArgs, io: &mut Io, json: &Value, table: &str) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(json)
        .map_err(|err| Failure::internal(format!("cannot write JSON: {err}")))?;
    text.push('\n');
    if let Some(path) = &args.output {
        kindlm_store::write(&io.working_dir.join(path), text.as_bytes())
            .map_err(|err| Failure::store(&err))?;
    }
    print(io, if args.json { &text } else { table })
}
