//! `kindlm explain`: prints the page of a registry entry, or what a failure code means.

use std::fmt::Write as _;

use kindlm_types::{ExitStatus, FailureCode, suggest};

use crate::args::ExplainArgs;
use crate::failure::Outcome;
use crate::{Failure, Io, print};

/// One page.
struct Page {
    kind: &'static str,
    id: &'static str,
    summary: &'static str,
    text: &'static str,
}

/// Codes that no assertion of its own gives.
const COMMON: [(FailureCode, &str); 4] = [
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
        FailureCode::INTERNAL_ERROR,
        "KindLM could not do what was asked: nobody to ask a judge question, for example.",
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
    let assertions = kindlm_assertions::REGISTRY.iter().map(|it| Page {
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

/// The page, or the pages: an assertion and a gate may share a name. An assertion is also found by its place
/// under `expect`, such as `guardrails.pii`.
fn page(topic: &str) -> Option<String> {
    let pointer = format!("/{}", topic.trim_start_matches("expect.").replace('.', "/"));
    let placed = kindlm_assertions::REGISTRY
        .iter()
        .filter(|it| it.meta.path.is_some_and(|path| path.pointer == pointer))
        .map(|it| it.meta.docs.trim_end());
    let named = pages().filter(|it| it.id.eq_ignore_ascii_case(topic)).map(|it| it.text.trim_end());
    let mut texts: Vec<&str> = named.chain(placed).collect();
    texts.dedup();
    (!texts.is_empty()).then(|| texts.join("\n\n") + "\n")
}

/// All of a kind.
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

/// Every failure code with who gives it and when.
fn all_codes() -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for meta in kindlm_assertions::REGISTRY.iter().map(|it| &it.meta) {
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

/// What a failure code means, with the pages of the assertions that give it.
fn code(topic: &str) -> Option<String> {
    let meanings: Vec<(String, String)> =
        all_codes().into_iter().filter(|(code, _)| code.eq_ignore_ascii_case(topic)).collect();
    let (name, _) = meanings.first()?;
    let mut text = format!("# {name}\n\n");
    for (_, meaning) in &meanings {
        let _ = writeln!(text, "- {meaning}");
    }
    let given = |it: &&&kindlm_assertions::Registration| {
        it.meta.codes.iter().any(|code| code.code.as_str() == name)
    };
    for registration in kindlm_assertions::REGISTRY.iter().filter(given) {
        let _ = write!(text, "\n{}\n", registration.meta.docs.trim_end());
    }
    Some(text)
}

fn unknown(topic: &str) -> Failure {
    let ids: Vec<&str> = pages().map(|it| it.id).collect();
    let codes: Vec<String> = all_codes().into_iter().map(|(code, _)| code).collect();
    let candidates = ids.iter().copied().chain(codes.iter().map(String::as_str));
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
