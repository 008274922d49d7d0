//! `kindlm baseline`: keeps the results of a run, and compares others with them.

use std::fmt::Write as _;

use kindlm_reporters::one_line;
use kindlm_store::{Baseline, Baselines, Change, StoreError};
use kindlm_types::{AnyReport, ExitStatus, ecma, suggest};

use crate::args::{BaselineAction, BaselineArgs, PlaceArgs};
use crate::failure::Outcome;
use crate::project::Place;
use crate::{Failure, Io, print, saved};

/// The baseline that is meant when none is named.
pub(crate) const DEFAULT: &str = "default";

pub(crate) fn run(args: BaselineArgs, io: &mut Io) -> Outcome {
    match args.action {
        BaselineAction::Set { label, run, force, place } => {
            set(io, &place, &label, run.as_deref(), force)
        }
        BaselineAction::Compare { label, run, place } => {
            compare(io, &place, &label, run.as_deref())
        }
        BaselineAction::List { place } => list(io, &place),
        BaselineAction::Remove { label, place } => remove(io, &place, &label),
    }
}

fn set(io: &mut Io, place: &PlaceArgs, label: &str, run: Option<&str>, force: bool) -> Outcome {
    let place = Place::new(io, &place.config);
    let baselines = Baselines::new(place.state());
    let path = baselines.path(label).map_err(|err| Failure::store(&err))?;
    let saved = saved::find(io, &place, run)?;
    if !force && let Some(reason) = unfit(&saved.report) {
        return Err(Failure::input(format!("{} is no good to compare with: {reason}", saved.name))
            .with_help("fix what is wrong and run again, or insist with `--force`"));
    }
    let replaced = path.exists();
    let baseline = Baseline::of(&saved.report).map_err(|err| Failure::input(err.to_string()))?;
    baselines.set(label, &baseline).map_err(|err| Failure::store(&err))?;
    let verb = if replaced { "replaced by" } else { "set from" };
    let cases = plural(baseline.entries().len(), "result");
    let done = format!("baseline `{label}` {verb} {} ({cases})", saved.name);
    print(io, &(one_line(&done) + "\n"))?;
    Ok(ExitStatus::Success)
}

/// Why a run should not be what others are compared with.
fn unfit(report: &AnyReport<'_>) -> Option<String> {
    let totals = report.totals();
    if let Some(shard) = &report.shard {
        return Some(format!("it is shard {} of {}", shard.index, shard.count));
    }
    if report.run.interrupted {
        return Some("it was interrupted".to_owned());
    }
    if totals.errored > 0 {
        return Some(format!("{} could not be judged", cases(totals.errored)));
    }
    if totals.failed > 0 {
        return Some(format!("{} failed", cases(totals.failed)));
    }
    // What no check applied to yet is what a first baseline is made of.
    (totals.cases == 0 && !totals.unchecked()).then(|| "no test case was run".to_owned())
}

fn cases(count: u64) -> String {
    if count == 1 { "1 test case".to_owned() } else { format!("{count} test cases") }
}

fn compare(io: &mut Io, place: &PlaceArgs, label: &str, run: Option<&str>) -> Outcome {
    let place = Place::new(io, &place.config);
    let baseline = load(&place, label)?;
    let saved = saved::find(io, &place, run)?;
    let now = Baseline::of(&saved.report).map_err(|err| Failure::input(err.to_string()))?;
    let comparison = baseline.compare(&now);

    let title = format!(
        "{} against baseline `{label}` of {} ({})",
        saved.name, baseline.created_at, baseline.suite_name
    );
    let mut text = one_line(&title) + "\n\n";
    for (title, changes) in [
        ("worse", &comparison.regressions),
        ("better", &comparison.improvements),
        ("same pass rate", &comparison.unchanged),
    ] {
        for change in changes {
            show(&mut text, title, change);
        }
    }
    for (title, entries) in [("new", &comparison.added), ("gone", &comparison.removed)] {
        for entry in entries {
            let name = name(&entry.case, &entry.model);
            let _ = writeln!(text, "{title:14}  {name}");
        }
    }
    let _ = writeln!(
        text,
        "\n{} worse, {} better, {} the same, {} new, {} gone",
        comparison.regressions.len(),
        comparison.improvements.len(),
        comparison.unchanged.len(),
        comparison.added.len(),
        comparison.removed.len(),
    );
    print(io, &text)?;
    let worse = !comparison.regressions.is_empty();
    Ok(if worse { ExitStatus::GatesFailed } else { ExitStatus::Success })
}

fn show(text: &mut String, title: &str, change: &Change) {
    let name = name(&change.case, &change.model);
    let moved = if percent(change.before) == percent(change.after) {
        percent(change.after)
    } else {
        format!("{} → {}", percent(change.before), percent(change.after))
    };
    let _ = write!(text, "{title:14}  {name}: {moved}");
    if !change.new_failure_codes.is_empty() {
        let codes: Vec<&str> =
            change.new_failure_codes.iter().map(kindlm_types::FailureCode::as_str).collect();
        let _ = write!(text, ", now {}", one_line(&codes.join(", ")));
    }
    if change.output_changed {
        text.push_str(", another output");
    }
    text.push('\n');
    for score in &change.scores {
        let (before, after) = (ecma::to_fixed(score.before, 2), ecma::to_fixed(score.after, 2));
        let what = one_line(&format!("{} `{}`", score.assertion, score.label));
        let _ = writeln!(text, "{:14}  {what}: {before} → {after}", "");
    }
}

fn list(io: &mut Io, place: &PlaceArgs) -> Outcome {
    let place = Place::new(io, &place.config);
    let baselines = Baselines::new(place.state());
    let labels = baselines.list().map_err(|err| Failure::store(&err))?;
    if labels.is_empty() {
        io.tell("there is no baseline yet; `kindlm baseline set` makes one of the last run");
    }
    let width = labels.iter().map(String::len).max().unwrap_or(0);
    let mut text = String::new();
    for label in labels {
        let _ = match baselines.load(&label) {
            Ok(it) => {
                let results = plural(it.entries().len(), "result");
                let suite = one_line(&it.suite_name);
                writeln!(text, "{label:width$}  {}  {results}  {suite}", it.created_at)
            }
            // One damaged file must not hide the others.
            Err(err) => writeln!(text, "{label:width$}  {}", one_line(&err.to_string())),
        };
    }
    print(io, &text)?;
    Ok(ExitStatus::Success)
}

fn remove(io: &mut Io, place: &PlaceArgs, label: &str) -> Outcome {
    let place = Place::new(io, &place.config);
    let baselines = Baselines::new(place.state());
    baselines.remove(label).map_err(|err| missing(&baselines, err))?;
    print(io, &format!("baseline `{label}` removed\n"))?;
    Ok(ExitStatus::Success)
}

/// The baseline of that label.
pub(crate) fn load(place: &Place, label: &str) -> Result<Baseline, Failure> {
    let baselines = Baselines::new(place.state());
    baselines.load(label).map_err(|err| missing(&baselines, err))
}

fn missing(baselines: &Baselines, err: StoreError) -> Failure {
    let failure = Failure::store(&err);
    let StoreError::NoSuchBaseline { label, .. } = err else { return failure };
    let known = baselines.list().unwrap_or_default();
    if known.is_empty() {
        return failure.with_help("`kindlm baseline set` makes one of the last run");
    }
    failure.with_help(suggest(&label, "baselines", known.iter().map(String::as_str)))
}

fn name(case: &str, model: &str) -> String {
    one_line(&if model.is_empty() { case.to_owned() } else { format!("{case} [{model}]") })
}

fn percent(rate: f64) -> String {
    format!("{}%", ecma::to_fixed(rate * 100.0, 1))
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}
