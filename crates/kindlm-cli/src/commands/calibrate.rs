//! `kindlm calibrate`: measures how well a judge agrees with people.

use kindlm_run::calibrate::{
    CalibrateConfig, LabelFile, Question, Subject, load_rules, parse_check,
};
use kindlm_run::{NamedJudge, OpenOptions, Outcome, Purpose, saved};

use crate::args::CalibrateArgs;
use crate::progress::Progress;
use crate::{Failure, Io, opening, print};

pub(crate) fn run(args: &CalibrateArgs, io: &mut Io) -> Outcome {
    let subject = subject(args, io)?;
    let question = question(args, io)?;
    let find = |run: &String| saved::find(io, subject.place(), Some(run), None);
    let run = args.report.as_ref().map(find).transpose()?;
    let agreement = match &args.labels {
        Some(path) => {
            let planned =
                subject.plan(io, &question, LabelFile::load(io, path, args.label_threshold)?)?;
            let config = config(args);
            if args.watch {
                let canaries = args.canaries as usize;
                let progress = Progress::for_items(io, "outputs", planned.watched_count(canaries));
                let watch = planned.watch(io, &config, canaries, Box::new(progress))?;
                show(args, io, &watch.to_json(), |_| watch.to_table())?;
                return Ok(watch.status());
            }
            let progress = Progress::for_items(io, "outputs", planned.question_count(&config));
            planned.run(io, &config, run.as_ref(), Box::new(progress))?
        }
        None => subject.correct(run.as_ref())?,
    };
    show(args, io, &agreement.to_json(), |width| agreement.to_table(width))?;
    agreement.store(io, !args.no_save)
}

fn subject(args: &CalibrateArgs, io: &mut Io) -> Result<Subject, Failure> {
    let judge = args.judge.as_deref();
    match (&args.config, judge) {
        (Some(config), _) => {
            let options =
                OpenOptions { allow_outside: args.allow_outside, ..OpenOptions::new(config) };
            Subject::from_suite(opening::open(io, &options, Purpose::Models)?, judge)
        }
        (None, Some(name)) => {
            Subject::from_name(io, NamedJudge::new(name, &io.world.registries.providers)?)
        }
        (None, None) => Err(Failure::input("no judge is selected")
            .with_help("select one with `--judge provider:model`, or with `-c kindlm.yaml`")),
    }
}

fn config(args: &CalibrateArgs) -> CalibrateConfig {
    CalibrateConfig {
        label_threshold: args.label_threshold,
        responses: args.responses.source(),
        budget_usd: args.budget_usd,
        allow_unpriced: args.allow_unpriced,
        concurrency: args.concurrency as usize,
        once: args.once,
    }
}

/// Returns the question from the arguments, for rows without a criterion or check. Fails if the rules or the check
/// cannot be read.
fn question(args: &CalibrateArgs, io: &Io) -> Result<Question, Failure> {
    let assertions = args.assertions.as_ref().map(|path| load_rules(io, path)).transpose()?;
    let check = args.check.as_deref().map(parse_check).transpose()?;
    Ok(Question { criteria: args.criteria.clone(), assertions, check, min_score: args.min_score })
}

fn show(
    args: &CalibrateArgs,
    io: &mut Io,
    json: &serde_json::Value,
    to_table: impl Fn(usize) -> String,
) -> Result<(), Failure> {
    let text = format!("{json:#}\n");
    if let Some(path) = &args.output {
        kindlm_store::write(&io.working_dir.join(path), text.as_bytes())
            .map_err(|err| Failure::store(&err))?;
    }
    let text = if args.json { text } else { to_table(io.width().clamp(60, 120)) };
    print(io, &text)
}
