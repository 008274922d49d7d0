//! `kindlm explain`: prints the page of a registry entry, or the explanation of a failure code.

use std::fmt::Write as _;

use kindlm_types::{ExitStatus, FailureCode, suggest};

use crate::args::ExplainArgs;
use crate::{Failure, Io, print};
use kindlm_run::Outcome;

/// A page of a registry entry.
struct Page {
    kind: &'static str,
    id: &'static str,
    summary: &'static str,
    text: &'static str,
}

/// The maximum number of pages that are printed with a code. If more assertions give it, only their names are listed.
const PAGES: usize = 5;

/// The codes that any execution may give, with their explanations.
const COMMON: [(FailureCode, &str); 6] = [
    (
        FailureCode::PROVIDER_TIMEOUT,
        "The provider, or the command, did not answer in time; or the answer took longer than `latency.maxMs` allows.",
    ),
    (
        FailureCode::PROVIDER_AUTH_FAILED,
        "The provider refused the key, or its environment variable is not set.",
    ),
    (
        FailureCode::PROVIDER_ERROR,
        "The provider could not be reached, or answered with an error, also after retries.",
    ),
    (
        FailureCode::BUDGET_EXCEEDED,
        "A judge was not asked, as what is left of the run's budget (`gates.costMaxUsd`, `--budget-usd`) is less than its \
         answer may cost. What the model said is kept: `kindlm test --resume` with a larger budget asks the judge, and does not \
         ask the model again.",
    ),
    (
        FailureCode::JUDGE_NOT_CONFIGURED,
        "A check asks a model, and no model is configured that could answer: add it to `models`; `kindlm evaluate` takes \
         `--judge provider:model`.",
    ),
    (FailureCode::INTERNAL_ERROR, "KindLM could not do what was asked: a check has a bug."),
];

/// The codes that no execution gives, with their explanations: problems in files, and gates.
const OTHERS: [(&str, &str); 15] = [
    (
        "CONFIG_SYNTAX",
        "The file is not YAML, or YAML that cannot be read safely: a quote or bracket that is never closed, a tab that \
         indents, an alias that grows without end.\n\nLook at the place that is underlined, and at the line before it. A \
         text with `: `, `#`, `{` or `[` in it belongs in quotes.",
    ),
    (
        "CONFIG_TOO_LARGE",
        "A file, or what its aliases stand for, is larger than is read.\n\nDivide the tests among datasets: \
         `tests: \"file://cases/*.jsonl\"` reads many files.",
    ),
    (
        "CONFIG_UNKNOWN_KEY",
        "There is no such key in this place. It would be ignored, and what it should check would never be checked, so it \
         is refused.\n\nMost often it is misspelt, or indented too far or not far enough. `kindlm schema config` lists \
         every key, and an editor that knows this schema completes them.",
    ),
    (
        "CONFIG_MISSING_KEY",
        "A key that must be there is not.\n\nThe message names it, and the help says what belongs in it. If the key seems \
         to be there, look how far it is indented: it may be in another block.",
    ),
    (
        "CONFIG_INVALID_VALUE",
        "A value has the wrong type, is out of range, or is none of those that are allowed.\n\nThe message says what was \
         expected and what was found. YAML reads `yes`, `1.0` or `null` without quotes as something else than a text; and \
         a key that has no value is `null`, which is no way to leave it out.",
    ),
    (
        "CONFIG_UNKNOWN_REFERENCE",
        "A name that nothing has: of a prompt, a model, a provider or a tool.\n\nThe help lists what there is, or says what \
         was probably meant. As a warning it is about a tool that the test expects to be called and does not offer.",
    ),
    (
        "CONFIG_DUPLICATE",
        "A key, or the name of a test, a model or a turn, is given twice. Of two equal keys the first would be lost; and \
         reports and baselines find results by names.\n\nRename one of the two, or remove it.",
    ),
    (
        "CONFIG_MISSING_VARIABLE",
        "A `{{variable}}` has no value in a test, or an `{{env.NAME}}` is not set.\n\nGive it one under the test's `vars`, as \
         a column `vars.<name>` of a dataset, or in the environment.",
    ),
    (
        "CONFIG_UNSAFE_TEMPLATE",
        "A `{{variable}}` stands in a place of a command line where no value can be put in safely, so that its text might \
         be run as a program.\n\nGive it as an argument of its own, such as `./agent --input {{name}}`: it is quoted for \
         you.",
    ),
    (
        "CONFIG_FILE",
        "A file that the suite refers to cannot be used: it is not there, is outside the suite's folder, is not UTF-8 text, \
         or is not what it should be.\n\nPaths are relative to the folder of the config file. Files outside it are read \
         only with `--allow-outside`.",
    ),
    (
        "CONFIG_NO_EFFECT",
        "Something that is allowed and does nothing: a test that checks nothing, a text such as `{{ name }}` that is no \
         variable, a misspelt keyword of a JSON Schema, a key that this kind of test does not use. It is a warning; the \
         suite runs.\n\nRemove it, or write it in the way that has an effect.",
    ),
    (
        "CONFIG_SELF_JUDGED",
        "A test asks the suite's judge about answers that the same model has given. Models tend to like their own answers, \
         so its verdicts say less. It is a warning; the suite runs.\n\nName another model as `defaults.judge.model`. If it \
         is meant, name the model on the check itself (`model`), and nothing is said.",
    ),
    (
        "CONFIG_UNSUPPORTED",
        "The suite is a promptfoo config, and has something in it that has no equal here. Nothing is skipped in silence, \
         so nothing was run.\n\nThe message says what to write instead, where there is something.",
    ),
    (
        "CONFIG_PROGRAM",
        "A program that makes a part of the suite (a prompt function, tests, variables, a filter of a promptfoo config) was \
         not run, or failed.\n\nThe message says why. Programs run in a sandbox: what they may do beyond computing stands in \
         the `scripts` block. Where a suite is only looked at, `--allow-programs` lets them out of it.",
    ),
    (
        "GATE_BROKEN",
        "A gate of the suite is broken: what was measured over the whole run is beyond its threshold. The exit code is \
         1.\n\nThe report shows the measured value and the threshold beside each gate. `kindlm explain gates` lists the \
         gates, `kindlm explain <gate>` shows the page of one, and `kindlm gate <report> --gate 90%` tries another \
         threshold without running anything again.",
    ),
];

pub(crate) fn run(args: &ExplainArgs, io: &mut Io) -> Outcome {
    let text = match args.topic.as_deref() {
        None => overview(),
        Some("codes") => codes(),
        Some(topic) => lists(topic)
            .or_else(|| page(topic))
            .or_else(|| code(topic))
            .ok_or_else(|| unknown(topic))?,
    };
    print(io, &text)?;
    Ok(ExitStatus::Success)
}

fn pages() -> impl Iterator<Item = Page> {
    let assertions = kindlm_assertions::assertions().map(|it| Page {
        kind: "assertions",
        id: it.meta.id,
        summary: it.meta.summary,
        text: it.meta.docs,
    });
    let gates = kindlm_engine::gates::REGISTRY.iter().map(|it| Page {
        kind: "gates",
        id: it.meta.id,
        summary: it.meta.summary,
        text: it.meta.docs,
    });
    let providers = kindlm_providers::REGISTRY.iter().map(|it| Page {
        kind: "providers",
        id: it.meta.id,
        summary: it.meta.summary,
        text: it.meta.docs,
    });
    let reporters = kindlm_reporters::REGISTRY.iter().map(|it| Page {
        kind: "reporters",
        id: it.meta.id,
        summary: it.meta.summary,
        text: it.meta.docs,
    });
    assertions.chain(gates).chain(providers).chain(reporters)
}

/// Returns the pages of a topic. There may be several, because an assertion and a gate may share a name.
///
/// An assertion is also found by its location under `expect`, such as `guardrails.pii`.
fn page(topic: &str) -> Option<String> {
    let pointer = format!("/{}", topic.trim_start_matches("expect.").replace('.', "/"));
    let placed = kindlm_assertions::assertions()
        .filter(|it| it.meta.path.is_some_and(|path| path.pointer == pointer))
        .map(|it| it.meta.docs.trim_end());
    let named = pages().filter(|it| it.id.eq_ignore_ascii_case(topic)).map(|it| it.text.trim_end());
    let mut texts: Vec<&str> = named.chain(placed).collect();
    texts.dedup();
    (!texts.is_empty()).then(|| texts.join("\n\n") + "\n")
}

/// Returns the list of all entries of a kind.
fn lists(topic: &str) -> Option<String> {
    let kinds = ["assertions", "gates", "providers", "reporters"];
    let kind = kinds.into_iter().find(|kind| {
        kind.eq_ignore_ascii_case(topic) || kind.trim_end_matches('s').eq_ignore_ascii_case(topic)
    })?;
    Some(list(kind))
}

fn list(kind: &str) -> String {
    let entries: Vec<Page> = pages().filter(|it| it.kind == kind).collect();
    let width = entries.iter().map(|it| it.id.len()).max().unwrap_or(0);
    let mut text = String::new();
    for entry in entries {
        let _ = writeln!(text, "{:width$}  {}", entry.id, entry.summary);
    }
    text
}

fn overview() -> String {
    let mut text = String::new();
    for kind in ["assertions", "gates", "providers", "reporters"] {
        let _ = writeln!(text, "{kind}:");
        for line in list(kind).lines() {
            let _ = writeln!(text, "  {line}");
        }
        text.push('\n');
    }
    text.push_str(
        "`kindlm explain <id>` shows a page, `kindlm explain codes` the failure codes.\n",
    );
    text
}

/// Returns all failure codes, each with its source and explanation.
fn all_codes() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for meta in kindlm_assertions::assertions().map(|it| &it.meta) {
        for code in meta.codes {
            all.push((code.code.to_string(), format!("`{}`: {}", meta.id, code.summary)));
        }
    }
    for (code, summary) in &COMMON {
        all.push((code.to_string(), format!("any execution: {summary}")));
    }
    all
}

fn codes() -> String {
    let all = all_codes();
    let width = all.iter().map(|(code, _)| code.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (code, meaning) in all {
        let _ = writeln!(text, "{code:width$}  {meaning}");
    }
    text
}

/// Returns the explanation of a failure code, with the pages of the assertions that give it.
fn code(topic: &str) -> Option<String> {
    let meanings: Vec<(String, String)> =
        all_codes().into_iter().filter(|(code, _)| code.eq_ignore_ascii_case(topic)).collect();
    let Some((name, _)) = meanings.first() else { return other(topic) };
    let mut text = format!("# {name}\n\n");
    for (_, meaning) in &meanings {
        let _ = writeln!(text, "- {meaning}");
    }
    let given = |it: &&kindlm_assertions::Registration| {
        it.meta.codes.iter().any(|code| code.code.as_str() == name)
    };
    let registrations: Vec<_> = kindlm_assertions::assertions().filter(given).collect();
    if registrations.len() > PAGES {
        text.push_str("\n`kindlm explain <id>` shows the page of each.\n");
        return Some(text);
    }
    for registration in registrations {
        let _ = write!(text, "\n{}\n", registration.meta.docs.trim_end());
    }
    Some(text)
}

/// Returns the explanation of a code that no execution gives.
fn other(topic: &str) -> Option<String> {
    let (name, text) = OTHERS.iter().find(|(name, _)| name.eq_ignore_ascii_case(topic))?;
    Some(format!("# {name}\n\n{text}\n"))
}

fn unknown(topic: &str) -> Failure {
    let ids: Vec<&str> = pages().map(|it| it.id).collect();
    let codes: Vec<String> = all_codes().into_iter().map(|(code, _)| code).collect();
    let others = OTHERS.iter().map(|(name, _)| *name);
    let candidates = ids.iter().copied().chain(codes.iter().map(String::as_str)).chain(others);
    let help = kindlm_types::nearest(topic, candidates).map_or_else(
        || "`kindlm explain` lists everything that there is a page about".to_owned(),
        |near| suggest(topic, "topics", [near]),
    );
    Failure::input(format!("there is no page about `{topic}`")).with_help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_a_page() {
        for it in pages() {
            let text = page(it.id).unwrap();
            assert!(text.contains(it.text.trim_end()), "{}", it.id);
        }
        for (topic, id) in [
            ("TOOL-CALLS", "tool-calls"),
            ("toolCalls", "tool-calls"),
            ("guardrails.pii", "pii"),
            ("expect.baseline.drift", "drift"),
        ] {
            let docs = kindlm_assertions::find(id).unwrap().meta.docs.trim_end();
            assert_eq!(page(topic).unwrap().trim_end(), docs, "{topic}");
        }
        assert_eq!(page("nothing"), None);
    }

    #[test]
    fn every_code_of_a_config_file_has_a_page() {
        for code in kindlm_config::Code::ALL {
            let text = code_page(code.as_str());
            assert!(text.starts_with(&format!("# {code}\n\n")), "{text}");
        }
        assert!(code_page("gate_broken").contains("kindlm explain gates"));
    }

    fn code_page(name: &str) -> String {
        code(name).unwrap_or_else(|| panic!("there is no page about `{name}`"))
    }

    #[test]
    fn every_code_is_explained_by_those_who_give_it() {
        for (name, meaning) in all_codes() {
            let text = code(&name.to_lowercase()).unwrap();
            assert!(text.starts_with(&format!("# {name}\n")), "{text}");
            assert!(text.contains(&meaning), "{text}");
        }
        let text = code("KEYWORD_DENIED").unwrap();
        assert!(text.contains(kindlm_assertions::find("keywords").unwrap().meta.docs.trim_end()));
    }
}
