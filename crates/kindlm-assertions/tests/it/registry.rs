//! Rules for every entry of the registry.

use std::collections::{BTreeMap, BTreeSet};

use kindlm_assertions::{Check, Code, Registry, assertions, codes, expect_schema, find};
use kindlm_testing::examples::{self, Recorded};
use kindlm_types::{FailureCode, ProviderErrorKind, Verdict};
use serde_json::json;

use crate::support;

/// The failure codes of the original KindLM. An assertion or an error must give each of them.
const ORIGINAL: [&str; 19] = [
    "SCHEMA_INVALID",
    "SCHEMA_PARSE_ERROR",
    "PII_DETECTED",
    "KEYWORD_DENIED",
    "KEYWORD_MISSING",
    "CONTAINS_FAILED",
    "NOT_CONTAINS_FAILED",
    "MAX_LENGTH_EXCEEDED",
    "JUDGE_BELOW_THRESHOLD",
    "TOOL_CALL_MISSING",
    "TOOL_CALL_UNEXPECTED",
    "TOOL_CALL_ARGS_MISMATCH",
    "TOOL_CALL_ORDER_WRONG",
    "TOOL_CALL_ARGS_SCHEMA_INVALID",
    "DRIFT_EXCEEDED",
    "PROVIDER_TIMEOUT",
    "PROVIDER_AUTH_FAILED",
    "PROVIDER_ERROR",
    "INTERNAL_ERROR",
];

fn is_sentence(text: &str) -> bool {
    text.chars().next().is_some_and(char::is_uppercase) || text.starts_with('`')
}

#[test]
fn ids_are_unique_and_in_kebab_case() {
    let mut seen = BTreeSet::new();
    for registration in assertions() {
        let id = registration.meta.id;
        assert!(seen.insert(id), "two assertions are called `{id}`: rename one of them");
        // The id `judge:closedQA` has the spelling of NiceEval, which has the same check.
        let kebab = id == "judge:closedQA"
            || id.starts_with(|it: char| it.is_ascii_lowercase())
                && id.chars().all(|it| {
                    it.is_ascii_lowercase() || it.is_ascii_digit() || matches!(it, '-' | ':')
                })
                && !id.ends_with(['-', ':'])
                && !id.contains("--");
        assert!(
            kebab,
            "`{id}` is not kebab-case: write it like `tool-calls`, or `trajectory:tool-used`"
        );
        assert!(
            !id.starts_with("not-"),
            "`{id}`: `not-` is what negates an assertion; choose another id"
        );
        assert!(std::ptr::eq(find(id).unwrap(), registration));
    }
}

#[test]
fn places_are_unique_and_none_lies_within_another() {
    let paths: Vec<&str> =
        assertions().filter_map(|it| it.meta.path).map(|it| it.pointer).collect();
    for (index, path) in paths.iter().enumerate() {
        assert!(
            path.starts_with('/') && !path.ends_with('/'),
            "`{path}` is not a JSON pointer into `expect`"
        );
        for (other_index, other) in paths.iter().enumerate() {
            let within = *other == *path || other.starts_with(&format!("{path}/"));
            assert!(
                index == other_index || !within,
                "`{other}` lies at or within `{path}`: choose another place"
            );
        }
    }
}

#[test]
fn pages_begin_with_the_id_and_summaries_are_sentences() {
    for registration in assertions() {
        let meta = &registration.meta;
        let first = meta.docs.lines().next().unwrap_or_default();
        let heading = first.trim_start_matches("# ").trim_matches('`');
        assert!(
            first.starts_with("# ") && heading == meta.id,
            "`{}`: the first line of its docs.md must be `# {}`, but is `{first}`",
            meta.id,
            meta.id
        );
        let summaries = std::iter::once(meta.summary).chain(meta.codes.iter().map(|it| it.summary));
        for summary in summaries {
            assert!(
                is_sentence(summary) && summary.ends_with('.') && !summary.contains('\n'),
                "`{}`: a summary is one sentence with a full stop, not `{summary}`",
                meta.id
            );
        }
        assert!(!meta.since.is_empty(), "`{}`: say in `since` which version brought it", meta.id);
    }
}

#[test]
fn codes_are_upper_case_and_mean_one_thing_in_a_page() {
    for registration in assertions() {
        let mut seen = BTreeSet::new();
        for Code { code, .. } in registration.meta.codes {
            let name = code.as_str();
            let id = registration.meta.id;
            assert!(
                name.chars().all(|it| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_'),
                "`{id}`: write the code `{name}` in upper case with underscores"
            );
            assert!(seen.insert(name), "`{id}` declares `{name}` twice: remove one of them");
        }
    }
}

#[test]
fn every_code_has_an_example_and_every_example_a_declared_code() {
    let mut complaints = Vec::new();
    for registration in assertions() {
        let id = registration.meta.id;
        let declared: BTreeSet<&str> =
            registration.meta.codes.iter().map(|it| it.code.as_str()).collect();
        let common: BTreeSet<&str> = codes::COMMON.iter().map(|it| it.code.as_str()).collect();
        let mut seen = BTreeSet::new();
        for case in examples::cases(registration.meta.docs) {
            // An example that cannot run is reported by the test of the pages.
            let Ok((_, results)) = support::run(&case) else { continue };
            let own = results.iter().filter(|it| it.assertion == id);
            seen.extend(own.filter_map(|it| it.verdict.code()).map(|it| it.as_str().to_owned()));
        }
        for code in &declared {
            if !seen.contains(*code) {
                complaints.push(format!(
                    "`{id}`: no example gives `{code}`; add one to its docs.md (fences `yaml expect`, `yaml execution`, `results`) and run `cargo xtask bless {id}`"
                ));
            }
        }
        for code in &seen {
            if !declared.contains(code.as_str()) && !common.contains(code.as_str()) {
                complaints.push(format!(
                    "`{id}`: an example gives `{code}`, which `codes` of its `Meta` does not declare; declare it with a summary"
                ));
            }
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// The checks whose reference pages must show a pass, a failure and missing evidence.
const OF_EVIDENCE: [&str; 27] = [
    "includes",
    "excludes",
    "equals",
    "matches",
    "similarity",
    "satisfies",
    "output-equals",
    "output-matches",
    "succeeded",
    "parked",
    "message-includes",
    "called-tool",
    "tool-order",
    "used-no-tools",
    "max-tool-calls",
    "no-failed-actions",
    "loaded-skill",
    "called-subagent",
    "event",
    "event-order",
    "events-satisfy",
    "max-tokens",
    "max-cost",
    "max-latency",
    "max-first-token",
    "max-turns",
    "tool-trajectory",
];

#[test]
fn pages_of_evidence_checks_show_all_three_verdicts() {
    let mut complaints = Vec::new();
    for id in OF_EVIDENCE {
        let registration = find(id).unwrap();
        let mut shown: BTreeSet<&str> = BTreeSet::new();
        for case in examples::cases(registration.meta.docs) {
            let Ok((_, results)) = support::run(&case) else { continue };
            for result in results.iter().filter(|it| it.assertion == id) {
                let code = result.verdict.code().map(FailureCode::as_str);
                shown.insert(match (&result.verdict, code) {
                    (Verdict::Pass, _) => "a pass",
                    (Verdict::Fail { .. }, _) => "a failure",
                    (Verdict::Errored { .. }, Some("EVIDENCE_MISSING")) => "missing evidence",
                    _ => continue,
                });
            }
        }
        for kind in ["a pass", "a failure", "missing evidence"] {
            if !shown.contains(kind) {
                complaints.push(format!("`{id}`: its docs.md has no example of {kind}"));
            }
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// The checks that ask a judge and have no rule that gives the verdict for a score, with the reason.
const WITHOUT_VERDICT_RULE: [(&str, &str); 3] = [
    ("moderation", "the flags decide, not the score"),
    ("prompt-assertion", "each rule has a verdict of its own"),
    ("select-best", "the selected output decides, not a score"),
];

#[test]
fn checks_that_ask_a_judge_have_a_verdict_rule() {
    for registration in assertions() {
        let id = registration.meta.id;
        let reason = WITHOUT_VERDICT_RULE.iter().find(|it| it.0 == id).map(|it| it.1);
        let mut judged = 0;
        for case in examples::cases(registration.meta.docs) {
            let recorded = Recorded::parse(case.input("execution").unwrap_or_default()).unwrap();
            let (checks, _) = support::compiled(&case, &recorded).unwrap();
            let leaves = checks.iter().flat_map(Check::leaves);
            for check in leaves.filter(|it| it.meta.id == id && it.traits.instructions.is_some()) {
                judged += 1;
                assert_eq!(
                    check.traits.verdict_rule.is_none(),
                    reason.is_some(),
                    "`{id}`: set `verdict_rule` in its `Traits`, or list it in `WITHOUT_VERDICT_RULE`: {reason:?}"
                );
            }
        }
        assert_eq!(
            judged > 0,
            registration.build.asks_judges(),
            "`{id}`: `instructions` in its `Traits` and its `Build` must agree about judges"
        );
    }
}

#[test]
fn common_codes_have_examples_in_some_page() {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for registration in assertions() {
        for case in examples::cases(registration.meta.docs) {
            let Ok((_, results)) = support::run(&case) else { continue };
            for code in results.iter().filter_map(|it| it.verdict.code()) {
                *seen.entry(code.to_string()).or_default() += 1;
            }
        }
    }
    for Code { code, .. } in codes::COMMON {
        assert!(seen.contains_key(code.as_str()), "no page has an example of `{code}`: add one");
    }
}

#[test]
fn every_code_of_the_original_exists() {
    let kinds = [ProviderErrorKind::Auth, ProviderErrorKind::Timeout, ProviderErrorKind::Server];
    let mut known: BTreeSet<String> =
        kinds.iter().map(|it| it.failure_code().to_string()).collect();
    known.insert(FailureCode::INTERNAL_ERROR.to_string());
    known.extend(assertions().flat_map(|it| it.meta.codes).map(|it| it.code.to_string()));
    for code in ORIGINAL {
        assert!(
            known.contains(code),
            "nothing gives `{code}` any more, which users of the original rely on: declare it in the `codes` of an assertion"
        );
    }
}

#[test]
fn the_schema_of_expect_names_every_assertion_and_compiles() {
    let schema = expect_schema(&Registry::built_in());
    let compiled = kindlm_schema::Schema::compile(&with_draft(schema.clone())).unwrap();
    for registration in assertions() {
        let id = registration.meta.id;
        if let Some(path) = registration.meta.path {
            let place = format!("/properties{}", path.pointer.replace('/', "/properties/"));
            let place = place.replacen("/properties/properties", "/properties", 1);
            assert!(schema.pointer(&place).is_some(), "`{id}` has no place at `{place}`");
        }
        let types = schema.pointer("/$defs/ListEntry/properties/type/enum").unwrap();
        assert!(types.as_array().unwrap().contains(&json!(id)));
        assert!(types.as_array().unwrap().contains(&json!(format!("not-{id}"))));
    }
    for (block, valid) in [
        (json!({}), true),
        (json!({"output": {"format": "text", "contains": ["a"]}}), true),
        (json!({"output": {"contain": ["a"]}}), false),
        (json!({"outptu": {}}), false),
        (json!({"assert": [{"type": "not-latency", "maxMs": 5, "severity": "soft"}]}), true),
        (json!({"assert": [{"type": "latency", "maxMs": 5, "tool": "x"}]}), false),
        (json!({"assert": [{"type": "latenci", "maxMs": 5}]}), false),
        (json!({"latency": null}), false),
        (json!({"assert": [{"$ref": "#/assertionTemplates/x", "weight": 0}]}), true),
        (json!({"assert": [{"weight": 0}]}), false),
        (
            json!({"assert": [{"type": "assert-set", "assert": [{"type": "latency", "maxMs": 5}]}]}),
            true,
        ),
        (
            json!({"assert": [{"type": "assert-set", "assert": [{"type": "latency", "maxMs": "x"}]}]}),
            false,
        ),
    ] {
        assert_eq!(compiled.is_valid(&block), valid, "{block}: {:?}", compiled.violations(&block));
    }
}

fn with_draft(mut schema: serde_json::Value) -> serde_json::Value {
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema
}

#[expect(dead_code, reason = "the test calls what `main` prints")]
#[path = "../../examples/own_assertion.rs"]
mod own_assertion;

#[test]
fn an_own_assertion_is_reached_by_its_name() {
    let lines = own_assertion::lines().unwrap();
    assert_eq!(
        lines,
        ["No shouting: the output has an exclamation mark", "Contains: \"refund\": pass"]
    );
}

#[test]
fn an_own_assertion_cannot_take_the_place_of_another() {
    let first = find("contains").unwrap();
    let error = Registry::built_in().with([first]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is another assertion with the id or the path of `contains`"
    );
}
