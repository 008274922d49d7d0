//! The arguments that say what a run is: kept with it, so that going on with it needs none of them.

use clap::{Parser as _, ValueEnum as _};

use crate::Failure;
use crate::args::{Cli, Command, SelectArgs, TestArgs};
use crate::responses::ResponsesArgs;
use crate::values::Tag;

/// The arguments that decide which executions a run has and what comes of them, always written in the same way.
///
/// Left out is what may be another for the rest of a run: reports, progress, concurrency, timeouts, and the limits that
/// stop it.
pub(super) fn of(args: &TestArgs) -> Vec<String> {
    let mut all = fixed(args);
    all.extend(sources(args));
    all
}

/// Where answers come from: so it stays, unless something else is asked for.
fn sources(args: &TestArgs) -> Vec<String> {
    let ResponsesArgs { responses, responses_dir } = &args.responses;
    let source = responses.and_then(|it| it.to_possible_value());
    let source = source.map(|it| format!("--responses={}", it.get_name()));
    let folder = responses_dir.as_ref().map(|it| format!("--responses-dir={}", it.display()));
    source.into_iter().chain(folder).collect()
}

/// What cannot be another for the rest of a run.
fn fixed(args: &TestArgs) -> Vec<String> {
    let SelectArgs { tags, tests, models, failed, changed, shard, shard_durations } = &args.select;
    let mut all = Vec::new();
    let mut add = |name: &str, value: &str| all.push(format!("--{name}={value}"));
    for tag in tags {
        match tag {
            Tag::With(tag) => add("tags", tag),
            Tag::Without(tag) => add("tags", &format!("!{tag}")),
        }
    }
    for it in tests {
        add("test", it);
    }
    for it in models {
        add("models", it);
    }
    if let Some(shard) = shard {
        add("shard", &format!("{}/{}", shard.index, shard.count));
    }
    if let Some(report) = shard_durations {
        add("shard-durations", report);
    }
    if let Some(runs) = args.runs {
        add("runs", &runs.to_string());
    }
    if let Some(rate) = args.gate {
        // As a share; but `1` may mean 1 % or all, and is not taken.
        add("gate", &if rate < 1.0 { rate.to_string() } else { "100%".to_owned() });
    }
    if let Some(label) = &args.baseline {
        add("baseline", label);
    }
    let flags = [("--failed", *failed), ("--changed", *changed), ("--strict", args.strict)];
    all.extend(flags.into_iter().filter(|(_, given)| *given).map(|(name, _)| name.to_owned()));
    all
}

/// The arguments to go on with `run`, which was begun with `begun`: those, unless others are given.
pub(super) fn again(given: TestArgs, run: &str, begun: &[String]) -> Result<TestArgs, Failure> {
    let words = ["kindlm", "test"].into_iter().chain(begun.iter().map(String::as_str));
    let Ok(Command::Test(before)) = Cli::try_parse_from(words).map(|it| it.command) else {
        return Err(Failure::input(format!(
            "the run `{run}` was begun with {}, which this KindLM does not know",
            shown(begun)
        ))
        .with_help("use the KindLM that began it, or start a new run"));
    };
    let (now, then) = (fixed(&given), fixed(&before));
    if !now.is_empty() && now != then {
        let then = if then.is_empty() { "no such arguments".to_owned() } else { shown(&then) };
        let message =
            format!("the run `{run}` was begun with {then} and cannot go on with {}", shown(&now));
        return Err(Failure::input(message).with_help(
            "leave those arguments out: a run goes on with what it was begun with; or start a new run",
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

    #[test]
    fn what_a_run_was_begun_with_holds_again() {
        for (given, kept) in [
            ("", ""),
            ("-q --concurrency 3 --max-failures 2 --timeout 3s", ""),
            ("--tags a,!b --test /x/ --test y*", "--tags=a --tags=!b --test=/x/ --test=y*"),
            ("--models m --runs 3 --strict", "--models=m --runs=3 --strict"),
            ("--shard 2/3 --shard-durations r.json", "--shard=2/3 --shard-durations=r.json"),
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
            let begun = of(&parsed(given));
            assert_eq!(begun.join(" "), kept);
            for args in [parsed("--resume"), parsed(&format!("--resume r {given}"))] {
                assert_eq!(of(&again(args, "r", &begun).unwrap()), begun);
            }
            assert!(again(parsed("--resume --runs 7"), "r", &begun).is_err());
        }
    }

    #[test]
    fn answers_come_from_where_they_came_from_unless_said_otherwise() {
        let begun = of(&parsed("--runs 2 --responses replay --responses-dir kept"));
        for (given, expected) in [
            ("", "--runs=2 --responses=replay --responses-dir=kept"),
            ("--responses live", "--runs=2 --responses=live --responses-dir=kept"),
            ("--responses cache --responses-dir d", "--runs=2 --responses=cache --responses-dir=d"),
        ] {
            let args = again(parsed(&format!("--resume {given}")), "r", &begun).unwrap();
            assert_eq!(of(&args).join(" "), expected);
        }
        let message = again(parsed("--resume --runs 3"), "r", &begun).unwrap_err().message.unwrap();
        assert!(message.contains("begun with `--runs=2` and cannot"), "{message}");
    }
}
