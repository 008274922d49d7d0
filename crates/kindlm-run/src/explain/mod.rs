//! The pages of registry entries and of the keys of `kindlm.yaml`, and the explanations of failure codes.

mod codes;
mod keys;
mod reading;

use std::fmt::Write as _;

use kindlm_types::suggest;

use crate::Failure;
use codes::{COMMON, OTHERS};
use keys::Keys;
use reading::without_fixtures;

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

/// The kinds of registry entries.
const KINDS: [&str; 4] = ["assertions", "gates", "providers", "reporters"];

/// Returns the page about a topic, as Markdown; without a topic, the overview.
///
/// A topic is the id of a registry entry, a kind of entries, a failure code, `codes`, or a key of `kindlm.yaml`.
/// Examples of keys are `defaults.repeat`, `tests[].expect` and `repeat`.
///
/// # Errors
///
/// Fails if the topic is unknown.
pub fn text(topic: Option<&str>) -> Result<String, Failure> {
    match topic {
        None => Ok(overview()),
        Some("codes") => Ok(codes()),
        Some(topic) => lists(topic)
            .or_else(|| key_and_entry(topic))
            .or_else(|| page(topic))
            .or_else(|| code(topic))
            .or_else(|| page(topic.strip_prefix("not-")?))
            .map_or_else(|| key(topic), Ok),
    }
}

/// Returns all topics for which [`text`] has a page.
pub fn topics() -> Vec<String> {
    let mut all: Vec<String> = KINDS.iter().map(|it| (*it).to_owned()).collect();
    all.push("codes".to_owned());
    all.extend(pages().map(|it| it.id.to_owned()));
    all.extend(all_codes().into_iter().map(|(code, _)| code));
    all.extend(OTHERS.iter().map(|(code, _)| (*code).to_owned()));
    all.extend(Keys::from_schema(&kindlm_config::json_schema()).all.into_iter().map(|it| it.path));
    let mut seen = std::collections::HashSet::new();
    all.retain(|it| seen.insert(it.clone()));
    all
}

/// Returns the page of a key, followed by the page of the registry entry that the key configures.
fn key(topic: &str) -> Result<String, Failure> {
    let schema = kindlm_config::json_schema();
    let keys = Keys::from_schema(&schema);
    let Some(mut text) = keys.page(topic) else { return Err(unknown(topic, &keys)) };
    let entry = topic.split_once("expect.").and_then(|(_, path)| page(path)).or_else(|| {
        let (kind, id) = topic.split_once('.')?;
        KINDS.contains(&kind).then(|| page(id)).flatten()
    });
    if let Some(entry) = entry {
        text.push('\n');
        text.push_str(&entry);
    }
    Ok(text)
}

/// Returns the page of a key and the page of a registry entry with the same name, such as `tests` or `tags`. The key is
/// at the top of `kindlm.yaml`, or is a gate with a threshold for each name. Returns `None` if a page is missing.
fn key_and_entry(topic: &str) -> Option<String> {
    let per_name = kindlm_engine::gates::find(topic)
        .is_some_and(|it| it.meta.threshold == kindlm_engine::gates::Threshold::Names);
    let schema = kindlm_config::json_schema();
    let keys = Keys::from_schema(&schema);
    if !per_name && keys.all.iter().all(|it| it.path != topic) {
        return None;
    }
    let entry = page(topic)?;
    Some(format!("{}\n{entry}", keys.page(topic)?))
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
    let providers = kindlm_providers::all().map(|it| Page {
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
        .map(|it| it.meta.docs);
    let named = pages().filter(|it| it.id.eq_ignore_ascii_case(topic)).map(|it| it.text);
    let mut texts: Vec<&str> = named.chain(placed).collect();
    texts.dedup();
    let texts: Vec<String> = texts.into_iter().map(without_fixtures).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// Returns the list of all entries of a kind; `None` if `topic` is not a kind.
fn lists(topic: &str) -> Option<String> {
    let kind = KINDS.into_iter().find(|kind| {
        kind.eq_ignore_ascii_case(topic) || kind.trim_end_matches('s').eq_ignore_ascii_case(topic)
    })?;
    Some(list(kind))
}

fn list(kind: &str) -> String {
    let entries =
        pages().filter(|it| it.kind == kind).map(|it| (it.id.to_owned(), it.summary.to_owned()));
    table(entries)
}

/// Returns a table of names and their meanings, with an empty heading row.
fn table(rows: impl Iterator<Item = (String, String)>) -> String {
    let mut text = "| | |\n|---|---|\n".to_owned();
    for (name, meaning) in rows {
        let _ = writeln!(text, "| {name} | {} |", meaning.replace('|', "\\|"));
    }
    text
}

fn overview() -> String {
    let mut text = String::new();
    for kind in KINDS {
        let _ = writeln!(text, "# {kind}\n\n{}", list(kind));
    }
    text.push_str(
        "`kindlm explain <id>` shows a page, `kindlm explain codes` the failure codes, and `kindlm explain defaults.repeat` \
         a key of `kindlm.yaml`.\n",
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
    table(all_codes().into_iter())
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
        let _ = write!(text, "\n{}", without_fixtures(registration.meta.docs));
    }
    Some(text)
}

/// Returns the explanation of a code in `OTHERS`; `None` for another code.
fn other(topic: &str) -> Option<String> {
    let (name, text) = OTHERS.iter().find(|(name, _)| name.eq_ignore_ascii_case(topic))?;
    Some(format!("# {name}\n\n{text}\n"))
}

fn unknown(topic: &str, keys: &Keys<'_>) -> Failure {
    let codes: Vec<String> = all_codes().into_iter().map(|(code, _)| code).collect();
    let others = OTHERS.iter().map(|(name, _)| *name);
    let names = keys.all.iter().flat_map(|it| [it.path.as_str(), it.name()]);
    let ids = pages().map(|it| it.id).chain(KINDS);
    let candidates = ids.chain(codes.iter().map(String::as_str)).chain(others).chain(names);
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
            assert!(text.contains(without_fixtures(it.text).trim_end()), "{}", it.id);
        }
        for (topic, id) in [
            ("TOOL-CALLS", "tool-calls"),
            ("toolCalls", "tool-calls"),
            ("guardrails.pii", "pii"),
            ("expect.baseline.drift", "drift"),
        ] {
            let docs = kindlm_assertions::find(id).unwrap().meta.docs;
            assert_eq!(page(topic).unwrap(), without_fixtures(docs), "{topic}");
        }
        assert_eq!(page("nothing"), None);
    }

    #[test]
    fn negated_checks_have_the_page_of_the_check() {
        assert_eq!(text(Some("not-contains")).unwrap(), page("contains").unwrap());
        assert!(text(Some("not-nothing")).is_err());
    }

    #[test]
    fn a_top_level_key_is_not_hidden_by_an_entry() {
        let both = text(Some("tests")).unwrap();
        assert!(both.starts_with("# tests\n\n"), "{both}");
        assert!(both.contains("## Keys of each item"), "{both}");
        assert!(both.contains(page("tests").unwrap().trim_end()), "{both}");
    }

    #[test]
    fn every_code_of_a_config_file_has_a_page() {
        for code in kindlm_config::Code::ALL {
            let text = code_page(code.as_str());
            assert!(text.starts_with(&format!("# {code}\n\n")), "{text}");
        }
        assert!(code_page("gate_violated").contains("kindlm explain gates"));
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
        let docs = kindlm_assertions::find("keywords").unwrap().meta.docs;
        assert!(text.contains(&without_fixtures(docs)));
    }
}
