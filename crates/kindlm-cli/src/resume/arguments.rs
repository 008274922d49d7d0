//! The arguments that say what a run is: kept with it, so that going on with it needs none of them.

use clap::Parser as _;

use crate::Failure;
use crate::args::{Cli, Command, SelectArgs, TestArgs};
use crate::values::Tag;

/// The arguments that decide which executions a run has and what comes of them, always written in the same way.
///
/// Left out is what may be another for the rest of a run: reports, progress, concurrency, timeouts, and the limits that
/// stop it.
pub(super) fn of(args: &TestArgs) -> Vec<String> {
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
    let now = of(&given);
    if now == begun {
        return Ok(given);
    }
    if !now.is_empty() {
        let then = if begun.is_empty() { "no such arguments".to_owned() } else { shown(begun) };
        let message =
            format!("the run `{run}` was begun with {then} and cannot go on with {}", shown(&now));
        return Err(Failure::input(message).with_help(
            "leave those arguments out: a run goes on with what it was begun with; or start a new run",
        ));
    }
    let words = ["kindlm", "test"].into_iter().chain(begun.iter().map(String::as_str));
    match Cli::try_parse_from(words).map(|it| it.command) {
        Ok(Command::Test(before)) => Ok(TestArgs {
            select: before.select,
            runs: before.runs,
            gate: before.gate,
            baseline: before.baseline,
            strict: before.strict,
            ..given
        }),
        _ => Err(Failure::input(format!(
            "the run `{run}` was begun with {}, which this KindLM does not know",
            shown(begun)
        ))
        .with_help("use the KindLM that began it, or start a new run")),
    }
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
        ] {
            let begun = of(&parsed(given));
            assert_eq!(begun.join(" "), kept);
            for args in [parsed("--resume"), parsed(&format!("--resume r {given}"))] {
                assert_eq!(of(&again(args, "r", &begun).unwrap()), begun);
            }
            assert!(again(parsed("--resume --runs 7"), "r", &begun).is_err());
        }
    }
}
