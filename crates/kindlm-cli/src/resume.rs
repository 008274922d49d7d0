//! The arguments that define a run. They are stored with the run, so that the user need not repeat them to resume it.

use std::path::Path;

use clap::{Parser as _, ValueEnum as _};

use kindlm_engine::Suite;
use kindlm_run::resume::{Past, find};
use kindlm_run::{SuiteFolder, Tag, saved};

use crate::args::{Cli, Command, ResponsesArgs, SelectArgs, TestArgs};
use crate::{Failure, Io};

/// Returns the arguments to use, and the past run; `None` if no run is resumed. Fails if the run cannot be resumed.
///
/// The arguments of a resumed run are merged with its stored arguments.
pub(crate) fn settled(
    io: &Io,
    place: &SuiteFolder,
    suite: &Suite,
    given: TestArgs,
) -> Result<(TestArgs, Option<Past>), Failure> {
    let Some(run) = &given.resume else { return Ok((given, None)) };
    let past = find(io, place, suite, run.as_deref())?;
    Ok((again(given, past.id(), &past.arguments(), base(io, place))?, Some(past)))
}

/// Returns the arguments that define a run, for storing.
pub(crate) fn arguments_of(io: &Io, place: &SuiteFolder, args: &TestArgs) -> Vec<String> {
    to_stored(args, base(io, place))
}

fn base<'a>(io: &'a Io, place: &'a SuiteFolder) -> Base<'a> {
    Base { working_dir: &io.working_dir, folder: &place.folder }
}

/// The base folders of paths.
///
/// Given paths are relative to the working directory, stored paths to the folder of the suite. A run can be resumed
/// from another folder, or after its suite was moved.
#[derive(Clone, Copy)]
struct Base<'a> {
    working_dir: &'a Path,
    folder: &'a Path,
}

impl Base<'_> {
    fn kept(self, given: &Path) -> String {
        let path = self.working_dir.join(given);
        let path = path.strip_prefix(self.folder).unwrap_or(&path);
        // The path is the folder itself. An empty text would mean that the argument has no value.
        if path.as_os_str().is_empty() { ".".to_owned() } else { path.display().to_string() }
    }

    /// Returns the stored form of a run: its id, or the path of a file.
    ///
    /// A path always contains a slash, so that it does not look like an id.
    fn kept_run(self, named: &str) -> String {
        match saved::as_file(self.working_dir, named) {
            Some(path) => Path::new(".").join(self.kept(&path)).display().to_string(),
            None => named.to_owned(),
        }
    }

    /// Converts the paths in stored arguments to absolute paths.
    fn given(self, mut args: TestArgs) -> TestArgs {
        if let Some(folder) = &mut args.responses.responses_dir {
            *folder = self.folder.join(&*folder);
        }
        if let Some(named) = &mut args.select.shard_durations
            && named.contains(['/', '\\'])
        {
            let path = Path::new(named).strip_prefix(".").unwrap_or(Path::new(named));
            *named = self.folder.join(path).display().to_string();
        }
        args
    }
}

/// Returns the arguments to store: those that define the executions of a run and their judgement, and those for the
/// source of answers.
///
/// The order and the format are fixed. Other arguments may differ after resuming and are omitted, such as reports,
/// progress, concurrency, timeouts, and the limits that stop the run.
fn to_stored(args: &TestArgs, base: Base<'_>) -> Vec<String> {
    let mut all = fixed(args, base);
    all.extend(sources(args, base));
    all
}

/// Returns the arguments for the source of answers.
///
/// These arguments may change when a run is resumed.
fn sources(args: &TestArgs, base: Base<'_>) -> Vec<String> {
    let ResponsesArgs { responses, responses_dir } = &args.responses;
    let source = responses.and_then(|it| it.to_possible_value());
    let source = source.map(|it| format!("--responses={}", it.get_name()));
    let folder = responses_dir.as_ref().map(|it| format!("--responses-dir={}", base.kept(it)));
    source.into_iter().chain(folder).collect()
}

/// Returns the arguments that cannot change when a run is resumed.
fn fixed(args: &TestArgs, base: Base<'_>) -> Vec<String> {
    let select = &args.select;
    let SelectArgs { tags, models, failed, changed, shard, shard_durations, .. } = select;
    let mut all = Vec::new();
    let mut add = |name: &str, value: &str| all.push(format!("--{name}={value}"));
    for tag in tags {
        match tag {
            Tag::With(tag) => add("tags", tag),
            Tag::Without(tag) => add("tags", &format!("!{tag}")),
        }
    }
    for it in select.names() {
        add("test", it);
    }
    for it in models {
        add("models", it);
    }
    if let Some(shard) = shard {
        add("shard", &format!("{}/{}", shard.index, shard.count));
    }
    if let Some(report) = shard_durations {
        add("shard-durations", &base.kept_run(report));
    }
    if let Some(runs) = args.runs {
        add("runs", &runs.to_string());
    }
    if let Some(rate) = args.gate {
        // The rate is written as a share, except for 1: `1` is ambiguous (1% or 100%) and rejected.
        add("gate", &if rate < 1.0 { rate.to_string() } else { "100%".to_owned() });
    }
    if let Some(label) = &args.baseline {
        add("baseline", label);
    }
    let flags = [("--failed", *failed), ("--changed", *changed), ("--strict", args.strict)];
    all.extend(flags.into_iter().filter(|(_, given)| *given).map(|(name, _)| name.to_owned()));
    all
}

/// Merges `given` with `begun`, the stored arguments of `run`, to resume the run.
///
/// A given source of answers replaces the stored source. Fails if given arguments that define the run differ from the
/// stored arguments, or if this version does not support the stored arguments.
fn again(
    given: TestArgs,
    run: &str,
    begun: &[String],
    base: Base<'_>,
) -> Result<TestArgs, Failure> {
    let words = ["kindlm", "test"].into_iter().chain(begun.iter().map(String::as_str));
    let Ok(Command::Test(before)) = Cli::try_parse_from(words).map(|it| it.command) else {
        return Err(Failure::input(format!(
            "the run `{run}` was started with {}, which this version of KindLM does not support",
            shown(begun)
        ))
        .with_help("use the version of KindLM that started it, or start a new run"));
    };
    let before = base.given(before);
    let (now, then) = (fixed(&given, base), fixed(&before, base));
    if !now.is_empty() && now != then {
        let then = if then.is_empty() { "no such arguments".to_owned() } else { shown(&then) };
        let message = format!(
            "the run `{run}` was started with {then} and cannot be resumed with {}",
            shown(&now)
        );
        return Err(Failure::input(message).with_help(
            "remove these arguments, because a run is resumed with its own; or start a new run",
        ));
    }
    let responses = match given.responses.responses {
        None => before.responses,
        Some(_) => ResponsesArgs {
            responses_dir: given.responses.responses_dir.or(before.responses.responses_dir),
            ..given.responses
        },
    };
    Ok(TestArgs {
        select: before.select,
        runs: before.runs,
        gate: before.gate,
        baseline: before.baseline,
        strict: before.strict,
        responses,
        ..given
    })
}

fn shown(arguments: &[String]) -> String {
    format!("`{}`", arguments.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> TestArgs {
        let words = ["kindlm", "test"].into_iter().chain(words.split_whitespace());
        match Cli::try_parse_from(words).unwrap().command {
            Command::Test(args) => args,
            _ => unreachable!(),
        }
    }

    fn here() -> Base<'static> {
        Base { working_dir: Path::new("/p"), folder: Path::new("/p") }
    }

    #[test]
    fn paths_lead_to_the_same_place_from_another_folder() {
        let above = Base { working_dir: Path::new("/"), folder: Path::new("/p") };
        let below = Base { working_dir: Path::new("/p/sub"), folder: Path::new("/p") };
        let moved = Base { working_dir: Path::new("/q"), folder: Path::new("/q") };
        let given =
            "--responses cache --responses-dir p/kept --shard 1/2 --shard-durations p/r.json";
        let begun = to_stored(&parsed(given), above);
        let kept = "--shard=1/2 --shard-durations=./r.json --responses=cache --responses-dir=kept";
        assert_eq!(begun.join(" "), kept);
        for (base, folder) in [(above, "/p"), (below, "/p"), (moved, "/q")] {
            let args = again(parsed("--resume"), "r", &begun, base).unwrap();
            assert_eq!(args.responses.responses_dir, Some(Path::new(folder).join("kept")));
            assert_eq!(args.select.shard_durations, Some(format!("{folder}/r.json")));
            assert_eq!(to_stored(&args, base), begun);
        }
        let itself = to_stored(&parsed("--responses cache --responses-dir ."), here());
        assert_eq!(itself.last().unwrap(), "--responses-dir=.");
        let args = again(parsed("--resume"), "r", &itself, moved).unwrap();
        assert_eq!(to_stored(&args, moved), itself);
        let outside = to_stored(&parsed("--responses cache --responses-dir /else/kept"), below);
        assert_eq!(outside.last().unwrap(), "--responses-dir=/else/kept");
    }

    #[test]
    fn resume_repeats_the_original_arguments() {
        for (given, kept) in [
            ("", ""),
            ("-q --concurrency 3 --max-failures 2 --timeout 3s", ""),
            ("--tags a,!b --test /x/ --test y*", "--tags=a --tags=!b --test=/x/ --test=y*"),
            ("x --test y z*", "--test=y --test=x --test=z*"),
            ("--models m --runs 3 --strict", "--models=m --runs=3 --strict"),
            ("--shard 2/3 --shard-durations r.json", "--shard=2/3 --shard-durations=./r.json"),
            ("--gate 90% --baseline old", "--gate=0.9 --baseline=old"),
            ("--gate 1%", "--gate=0.01"),
            ("--gate 100", "--gate=100%"),
            ("--failed", "--failed"),
            ("--responses replay", "--responses=replay"),
            (
                "--strict --responses cache --responses-dir kept",
                "--strict --responses=cache --responses-dir=kept",
            ),
        ] {
            let begun = to_stored(&parsed(given), here());
            assert_eq!(begun.join(" "), kept);
            for args in [parsed("--resume"), parsed(&format!("{given} --resume r"))] {
                assert_eq!(to_stored(&again(args, "r", &begun, here()).unwrap(), here()), begun);
            }
            assert!(again(parsed("--resume --runs 7"), "r", &begun, here()).is_err());
        }
    }

    #[test]
    fn resume_keeps_the_source_of_answers() {
        let begun = to_stored(&parsed("--runs 2 --responses replay --responses-dir kept"), here());
        for (given, expected) in [
            ("", "--runs=2 --responses=replay --responses-dir=kept"),
            ("--responses live", "--runs=2 --responses=live --responses-dir=kept"),
            ("--responses cache --responses-dir d", "--runs=2 --responses=cache --responses-dir=d"),
        ] {
            let args = again(parsed(&format!("--resume {given}")), "r", &begun, here()).unwrap();
            assert_eq!(to_stored(&args, here()).join(" "), expected);
        }
        let message =
            again(parsed("--resume --runs 3"), "r", &begun, here()).unwrap_err().message.unwrap();
        assert!(message.contains("started with `--runs=2` and cannot"), "{message}");
    }
}
