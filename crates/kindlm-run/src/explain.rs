//! The pages of registry entries, and the explanations of failure codes.

use std::fmt::Write as _;

use kindlm_types::{FailureCode, suggest};

use crate::Failure;

/// The page of a registry entry.
struct Page {
    kind: &'static str,
    id: &'static str,
    summary: &'static str,
    text: &'static str,
}

/// The maximum number of pages that are printed for a failure code.
///
/// If more assertions have the code, their pages are not printed.
const PAGES: usize = 5;

/// The codes that any execution may give, with their explanations.
const COMMON: [(FailureCode, &str); 7] = [
    (
        FailureCode::PROVIDER_TIMEOUT,
        "The provider or the command did not answer in time, or the answer took longer than `latency.maxMs`.",
    ),
    (
        FailureCode::PROVIDER_AUTH_FAILED,
        "The provider rejected the key, or its environment variable is not set.",
    ),
    (
        FailureCode::PROVIDER_ERROR,
        "The provider could not be reached, or answered with an error, also after retries.",
    ),
    (
        FailureCode::BUDGET_EXCEEDED,
        "A judge was not asked, because the rest of the run's budget (`gates.costMaxUsd`, `--budget-usd`) is less than the \
         highest cost of its answer. The model's output is stored: `kindlm test --resume` with a larger budget asks only \
         the judge.",
    ),
    (
        FailureCode::JUDGE_NOT_CONFIGURED,
        "A check needs a judge model, but none is configured: add one to `models`, or use `--judge provider:model` with \
         `kindlm evaluate`.",
    ),
    (
        FailureCode::UNDECIDED,
        "The repeats reached `repeat.max` before the test of their pass rate had decided, so the case does not pass. Its \
         true rate is probably between `repeat.fail` and `repeat.pass`.\n\nRaise `max`, move `fail` and `pass` apart, or \
         improve the agent. `kindlm validate` names numbers that fit each other.",
    ),
    (FailureCode::INTERNAL_ERROR, "An internal error: a check has a bug."),
];

/// The codes of problems in files and of gates, with their explanations. Executions never have these codes.
const OTHERS: [(&str, &str); 15] = [
    (
        "CONFIG_SYNTAX",
        "The file is not valid YAML, or it cannot be parsed safely. Common causes are an unclosed quote or bracket, a tab as \
         indentation, or an alias that grows without end.\n\nCheck the underlined position and the line before it. Put a \
         text with `: `, `#`, `{` or `[` in quotes.",
    ),
    (
        "CONFIG_TOO_LARGE",
        "A file, or the content of its aliases, is larger than the limit.\n\nSplit the tests into datasets: \
         `tests: \"file://cases/*.jsonl\"` reads many files.",
    ),
    (
        "CONFIG_UNKNOWN_KEY",
        "The key is unknown in this place. It is rejected, because an ignored key would check nothing.\n\nThe usual causes \
         are a typing error or wrong indentation. `kindlm schema config` lists every key, and an editor with this schema \
         completes them.",
    ),
    (
        "CONFIG_MISSING_KEY",
        "A required key is missing.\n\nThe message names the key, and the help describes its value. If the key seems to be \
         present, check its indentation: it may be in another block.",
    ),
    (
        "CONFIG_INVALID_VALUE",
        "A value has the wrong type, is out of range, or is not allowed.\n\nThe message shows the expected and the actual \
         value. Without quotes, YAML does not read `yes`, `1.0` or `null` as a text. A key without a value is `null`; to \
         omit a key, remove it.",
    ),
    (
        "CONFIG_UNKNOWN_REFERENCE",
        "The name of a prompt, a model, a provider or a tool is unknown.\n\nThe help lists the known names, or suggests one. \
         As a warning, it concerns a tool that the test expects but does not offer.",
    ),
    (
        "CONFIG_DUPLICATE",
        "A key, or the name of a test, a model or a turn, is a duplicate. The first of two equal keys would be lost, and \
         reports and baselines find results by name.\n\nRename or remove one of the two.",
    ),
    (
        "CONFIG_MISSING_VARIABLE",
        "A `{{variable}}` has no value in a test, or an `{{env.NAME}}` is not set.\n\nSet it under the test's `vars`, as \
         a column `vars.<name>` of a dataset, or in the environment.",
    ),
    (
        "CONFIG_UNSAFE_TEMPLATE",
        "A `{{variable}}` is in a place of a command line where its text could run as a program.\n\nPass it as a separate \
         argument, such as `./agent --input {{name}}`. KindLM quotes it.",
    ),
    (
        "CONFIG_FILE",
        "A file that the suite refers to cannot be used: it is missing, is outside the suite's folder, is not UTF-8 text, or \
         has the wrong content.\n\nPaths are relative to the folder of the config file. Files outside it are read only with \
         `--allow-outside`.",
    ),
    (
        "CONFIG_NO_EFFECT",
        "A part of the suite has no effect: a test that checks nothing, a text such as `{{ name }}` that is not a variable, \
         an unknown keyword of a JSON Schema, or a key that this kind of test does not use. This is a warning; the suite \
         runs.\n\nRemove or correct the part.",
    ),
    (
        "CONFIG_SELF_JUDGED",
        "The suite's judge rates answers of the same model. Models tend to prefer their own answers, so the verdicts are less \
         reliable. This is a warning; the suite runs.\n\nSet another model as `defaults.judge.model`. If it is intended, \
         set `model` on the check itself to remove the warning.",
    ),
    (
        "CONFIG_UNSUPPORTED",
        "The suite is a promptfoo config with a part that KindLM does not support. KindLM skips nothing silently, so nothing \
         ran.\n\nThe message names a replacement if there is one.",
    ),
    (
        "CONFIG_PROGRAM",
        "A program that generates a part of the suite (a prompt function, tests, variables, a filter of a promptfoo config) \
         did not run, or failed.\n\nThe message gives the reason. Programs run in a sandbox; the `scripts` block grants \
         permissions. With `validate` and `--dry-run`, `--allow-programs` lets them run outside the sandbox, if the suite \
         permits it.",
    ),
    (
        "GATE_BROKEN",
        "A gate of the suite is violated: the measured value of the whole run is beyond its threshold. The exit code is \
         1.\n\nThe report shows the measured value and the threshold beside each gate. `kindlm explain gates` lists the \
         gates, `kindlm explain <gate>` shows the page of one, and `kindlm gate <report> --gate 90%` applies another \
         threshold without a new run.",
    ),
];

/// Returns the text about a topic; `None` stands for the overview.
///
/// A topic is the id of a registry entry, a kind of entries, a failure code, or `codes`.
///
/// # Errors
///
/// Fails if the topic is unknown.
pub fn text(topic: Option<&str>) -> Result<String, Failure> {
    match topic {
        None => Ok(overview()),
        Some("codes") => Ok(codes()),
        Some(topic) => lists(topic)
            .or_else(|| page(topic))
            .or_else(|| code(topic))
            .ok_or_else(|| unknown(topic)),
    }
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

/// Returns the pages of a topic; `None` if no entry has this name.
///
/// An assertion and a gate may have the same name. An assertion is also found by its location under `expect`, such as
/// `guardrails.pii`.
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

/// Returns the list of all entries of a kind; `None` if `topic` is not a kind.
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

/// Returns the failure codes that executions can have, each with its source and explanation.
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

/// Returns the explanation of a failure code; `None` for an unknown code.
///
/// The pages of the assertions with this code are appended, if there are at most [`PAGES`].
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

/// Returns the explanation of a code in `OTHERS`; `None` for another code.
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
        || "`kindlm explain` lists all pages".to_owned(),
        |near| suggest(topic, "topics", [near]),
    );
    Failure::input(format!("there is no page `{topic}`")).with_help(help)
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
    fn every_code_is_explained_by_its_assertions() {
        for (name, meaning) in all_codes() {
            let text = code(&name.to_lowercase()).unwrap();
            assert!(text.starts_with(&format!("# {name}\n")), "{text}");
            assert!(text.contains(&meaning), "{text}");
        }
        let text = code("KEYWORD_DENIED").unwrap();
        assert!(text.contains(kindlm_assertions::find("keywords").unwrap().meta.docs.trim_end()));
    }
}
