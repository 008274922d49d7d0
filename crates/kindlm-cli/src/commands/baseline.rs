//! `kindlm baseline`: stores the results of a run, and compares other runs with them.

use std::fmt::Write as _;

use kindlm_reporters::one_line;
use kindlm_store::{Baseline, Baselines, Change, Comparison, StoreError};
use kindlm_types::{AnyReport, ExitStatus, SuiteInfo, ecma};

use crate::args::{BaselineAction, BaselineArgs, PlaceArgs};
use crate::{Failure, Io, print};
use kindlm_run::Outcome;
use kindlm_run::SuiteFolder;
use kindlm_run::saved;
use kindlm_run::saved::Saved;
use kindlm_run::suites::SuiteKey;

/// The maximum number of names in an error message. Further names are only counted.
const NAMED: usize = 5;

pub(crate) fn run(args: BaselineArgs, io: &mut Io) -> Outcome {
    match args.action {
        BaselineAction::Set { label, run, force, partial, place } => {
            set(io, &place, &label, run.as_deref(), Insist { force, partial })
        }
        BaselineAction::Compare { label, run, place } => {
            compare(io, &place, &label, run.as_deref())
        }
        BaselineAction::List { place } => list(io, &place),
        BaselineAction::Remove { label, place } => remove(io, &place, &label),
    }
}

/// The flags with which a user accepts an unsuitable run as the baseline.
#[derive(Clone, Copy)]
struct Insist {
    /// True if cases may have failed, or may not have been judged.
    force: bool,
    /// True if the run may be incomplete.
    partial: bool,
}

/// Finds the given run, or else the newest run.
///
/// With `-c`, only runs of this suite are used.
fn find(io: &mut Io, args: &PlaceArgs, run: Option<&str>) -> Result<(SuiteFolder, Saved), Failure> {
    let place = SuiteFolder::new(io, args.config());
    let suite = SuiteKey::named(io, args.config.as_deref())?;
    let saved = saved::find(io, &place, run, suite.as_ref())?;
    Ok((place, saved))
}

fn set(io: &mut Io, args: &PlaceArgs, label: &str, run: Option<&str>, insist: Insist) -> Outcome {
    let baselines = Baselines::new(SuiteFolder::new(io, args.config()).state());
    // Check the label before the run is loaded.
    baselines.path(label).map_err(|err| Failure::store(&err))?;
    let (_, saved) = find(io, args, run)?;
    if let Some(reason) = incomplete(&saved.report).filter(|_| !insist.partial) {
        return Err(Failure::input(format!("{} is not a complete run: {reason}", saved.name))
            .with_help("run all tests, or accept it with `--partial`"));
    }
    if let Some(reason) = unfit(&saved.report).filter(|_| !insist.force) {
        return Err(Failure::input(format!("{} cannot be a baseline: {reason}", saved.name))
            .with_help("fix the tests and run again, or accept it with `--force`"));
    }
    let baseline = Baseline::of(&saved.report).map_err(|err| Failure::input(err.to_string()))?;
    let replaced = replaced(&baselines, label, &saved.report.suite)?;
    let dropped = replaced.iter().flat_map(|it| dropped(it, &baseline)).collect::<Vec<_>>();
    if !dropped.is_empty() && !insist.partial {
        let (what, count) = (saved.name, dropped.len());
        let of = replaced.as_ref().map_or(0, |it| it.entries().len());
        return Err(Failure::input(format!(
            "{what} did not run {count} of the {of} cases of the baseline `{label}`: {}",
            named(dropped)
        ))
        .with_help("run all tests, or drop these cases with `--partial`"));
    }
    baselines.set(label, &baseline).map_err(|err| Failure::store(&err))?;
    let verb = if replaced.is_some() { "replaced by" } else { "set from" };
    let cases = plural(baseline.entries().len(), "result");
    let mut done = format!("baseline `{label}` {verb} {} ({cases})", saved.name);
    if !dropped.is_empty() {
        let _ = write!(done, "; dropped {}", named(dropped));
    }
    print(io, &(one_line(&done) + "\n"))?;
    Ok(ExitStatus::Success)
}

/// Returns the existing baseline with this label.
///
/// Returns `None` without a baseline, or if it is damaged.
///
/// Fails if the baseline belongs to another suite.
fn replaced(
    baselines: &Baselines,
    label: &str,
    suite: &SuiteInfo,
) -> Result<Option<Baseline>, Failure> {
    let found = match baselines.find(label) {
        Ok(found) => found,
        Err(StoreError::Baseline { .. }) => return Ok(None),
        Err(err) => return Err(Failure::store(&err)),
    };
    match found {
        Some(it) if !it.is_of(&suite.project, &suite.name) => Err(foreign(label, &it, suite)
            .with_help(format!(
                "choose another label (`kindlm baseline set <label>`), or remove it (`kindlm baseline remove {label}`)"
            ))),
        found => Ok(found),
    }
}

/// Returns the error for a baseline of another suite.
fn foreign(label: &str, baseline: &Baseline, suite: &SuiteInfo) -> Failure {
    let (other, name) = (&baseline.suite_name, &suite.name);
    let (other, name) = match &baseline.project {
        Some(project) if other == name => (
            format!("{other}` of the project `{project}"),
            format!("{name}` of `{}", suite.project),
        ),
        _ => (other.clone(), name.clone()),
    };
    Failure::input(format!(
        "the baseline `{label}` belongs to the suite `{other}`, and the run is of `{name}`"
    ))
}

/// Returns the names of the cases that are missing in the new baseline.
fn dropped(before: &Baseline, after: &Baseline) -> Vec<String> {
    let gone = before.compare(after).removed;
    gone.iter().map(|it| format!("`{}`", name(&it.case, &it.model))).collect()
}

/// Joins the first names, and appends the number of further names.
fn named(mut all: Vec<String>) -> String {
    let more = all.len().saturating_sub(NAMED);
    all.truncate(NAMED);
    all.extend((more > 0).then(|| format!("and {more} more")));
    all.join(", ")
}

/// Returns the reason why a run should not be a baseline; `None` if it may be.
fn unfit(report: &AnyReport<'_>) -> Option<String> {
    let totals = report.totals();
    if totals.errored > 0 {
        return Some(format!("{} could not be judged", cases(totals.errored)));
    }
    if totals.failed > 0 {
        return Some(format!("{} failed", cases(totals.failed)));
    }
    // Cases to which no check applied are allowed, because a first baseline may consist of them.
    (totals.cases == 0 && !totals.unchecked()).then(|| "no test case ran".to_owned())
}

/// Returns the reason why a run does not cover its whole suite; `None` if it does.
fn incomplete(report: &AnyReport<'_>) -> Option<String> {
    if let Some(shard) = &report.shard {
        return Some(format!("it is shard {} of {}", shard.index, shard.count));
    }
    report.run.interrupted.then(|| "it was interrupted".to_owned())
}

fn cases(count: u64) -> String {
    if count == 1 { "1 test case".to_owned() } else { format!("{count} test cases") }
}

fn compare(io: &mut Io, args: &PlaceArgs, label: &str, run: Option<&str>) -> Outcome {
    let baseline = kindlm_run::baseline::load(&SuiteFolder::new(io, args.config()), label)?;
    let (_, saved) = find(io, args, run)?;
    let suite = &saved.report.suite;
    if !baseline.is_of(&suite.project, &suite.name) {
        return Err(foreign(label, &baseline, suite).with_help(
            "use the label of a baseline of that suite, or select another suite with `-c`",
        ));
    }
    let now = Baseline::of(&saved.report).map_err(|err| Failure::input(err.to_string()))?;
    let comparison = baseline.compare(&now);
    let title = format!(
        "{} against baseline `{label}` of {} ({})",
        saved.name, baseline.created_at, baseline.suite_name
    );
    print(io, &(one_line(&title) + "\n\n" + &describe(&comparison)))?;
    Ok(if comparison.held() { ExitStatus::Success } else { ExitStatus::GatesFailed })
}

/// Formats all changes, followed by their counts.
fn describe(comparison: &Comparison) -> String {
    let mut text = String::new();
    for (title, changes) in [
        ("worse", &comparison.regressions),
        ("unknown", &comparison.unknown),
        ("better", &comparison.improvements),
        ("same pass rate", &comparison.unchanged),
    ] {
        for change in changes {
            show(&mut text, title, change);
        }
    }
    for (title, entries) in [("new", &comparison.added), ("missing", &comparison.removed)] {
        for entry in entries {
            let name = name(&entry.case, &entry.model);
            let _ = writeln!(text, "{title:14}  {name}");
        }
    }
    for it in &comparison.differences {
        let shown = |it: &Option<String>| it.clone().unwrap_or_else(|| "none".to_owned());
        let (before, after) = (shown(&it.before), shown(&it.after));
        let line = one_line(&format!("{}: {before} → {after}", it.what));
        let _ = writeln!(text, "{:14}  {line}", "another");
    }
    let mut counts = vec![
        format!("{} worse", comparison.regressions.len()),
        format!("{} better", comparison.improvements.len()),
        format!("{} the same", comparison.unchanged.len()),
        format!("{} new", comparison.added.len()),
        format!("{} missing", comparison.removed.len()),
    ];
    let (unknown, checks) = (comparison.unknown.len(), comparison.removed_checks());
    counts.extend((unknown > 0).then(|| format!("{unknown} unknown")));
    counts.extend((checks > 0).then(|| format!("{} taken out", plural(checks, "check"))));
    let soft = comparison.softened_checks();
    counts.extend((soft > 0).then(|| format!("{} made soft", plural(soft, "check"))));
    let _ = writeln!(text, "\n{}", counts.join(", "));
    text
}

fn show(text: &mut String, title: &str, change: &Change) {
    let name = name(&change.case, &change.model);
    let rate = |it: Option<f64>| it.map_or_else(|| "not judged".to_owned(), percent);
    let (before, after) = (rate(change.before), rate(change.after));
    let moved = if before == after { after } else { format!("{before} → {after}") };
    let _ = write!(text, "{title:14}  {name}: {moved}");
    let (then, now) = change.errored;
    let of = |errored: u32, all: u32| format!("{errored} of {all} repeats could not be judged");
    if now > 0 {
        let _ = write!(text, ", {}", of(now, change.repeats.1));
    }
    if then > 0 {
        let _ = write!(text, ", {} for the baseline", of(then, change.repeats.0));
    }
    if change.repeats.0 != change.repeats.1 {
        let _ = write!(text, ", {} → {} repeats", change.repeats.0, change.repeats.1);
    }
    if !change.new_failure_codes.is_empty() {
        let codes: Vec<&str> =
            change.new_failure_codes.iter().map(kindlm_types::FailureCode::as_str).collect();
        let _ = write!(text, ", now {}", one_line(&codes.join(", ")));
    }
    if change.test_changed {
        text.push_str(", test changed");
    }
    if change.output_changed {
        text.push_str(", output changed");
    }
    text.push('\n');
    for (title, checks) in [
        ("check taken out", &change.removed_checks),
        ("check made soft", &change.softened_checks),
        ("new check", &change.added_checks),
    ] {
        for check in checks {
            let what = one_line(&format!("{} `{}`", check.assertion, check.label));
            let _ = writeln!(text, "{:14}  {title}: {what}", "");
        }
    }
    for score in &change.scores {
        let (before, after) = (ecma::to_fixed(score.before, 2), ecma::to_fixed(score.after, 2));
        let what = one_line(&format!("{} `{}`", score.assertion, score.label));
        let _ = writeln!(text, "{:14}  {what}: {before} → {after}", "");
    }
}

fn list(io: &mut Io, place: &PlaceArgs) -> Outcome {
    let place = SuiteFolder::new(io, place.config());
    let baselines = Baselines::new(place.state());
    let labels = baselines.list().map_err(|err| Failure::store(&err))?;
    if labels.is_empty() {
        io.notify("there is no baseline yet; `kindlm baseline set` creates one from the last run");
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
            // A damaged file must not hide the other baselines.
            Err(err) => writeln!(text, "{label:width$}  {}", one_line(&err.to_string())),
        };
    }
    print(io, &text)?;
    Ok(ExitStatus::Success)
}

fn remove(io: &mut Io, place: &PlaceArgs, label: &str) -> Outcome {
    let place = SuiteFolder::new(io, place.config());
    let baselines = Baselines::new(place.state());
    baselines.remove(label).map_err(|err| kindlm_run::baseline::missing(&baselines, err))?;
    print(io, &format!("baseline `{label}` removed\n"))?;
    Ok(ExitStatus::Success)
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
