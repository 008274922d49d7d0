//! Tests of the patterns and detectors: texts that they find, and texts that they must ignore.

use std::sync::LazyLock;

use kindlm_types::{Answers, NoFiles, ToolCall, Verdict};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::shared::pattern::Flags;

fn assertion(config: &Value) -> Arc<dyn Assertion> {
    build(config, &Setup::new(&NoFiles, None)).unwrap()
}

fn evaluate(config: &Value, execution: &Execution) -> Vec<AssertionResult> {
    let answers = Answers::default();
    assertion(config).evaluate(&Evidence {
        execution,
        answers: &answers,
        baseline: None,
        comparison: None,
    })
}

fn with_output(output: &str) -> Execution {
    Execution { output: output.to_owned(), ..Execution::default() }
}

fn found(detector: &str, text: &str) -> Vec<String> {
    let name = DetectorName::deserialize(&json!(detector)).unwrap();
    let mut hits = Vec::new();
    Detector::new(name).unwrap().find(text, |hit| hits.push(hit.to_owned()));
    hits
}

#[test]
fn detectors_find_the_real_thing() {
    for (detector, texts) in [
        (
            "credit-card",
            &[
                "4012888888881881",
                "371449635398431",
                "5555555555554444",
                "30569309025904",
                "6011000400000000",
                "4111111111111111",
                "4111 1111 1111 1111",
                "3714 496353 98431",
                "4012-8888-8888-1881",
                "6304000000000000",
            ][..],
        ),
        (
            "iban",
            &[
                "AL47 2121 1009 0000 0002 3569 8741",
                "AT611904300234573201",
                "BE68539007547034",
                "DE89370400440532013000",
                "de89 3704 0044 0532 0130 00",
                "GB82-WEST-1234-5698-7654-32",
            ],
        ),
        ("us-ssn", &["078-05-1123", "123 45 6780", "219.09.9999"]),
        ("us-itin", &["911-70-1234", "970 88 1234", "999-99-9999"]),
        ("us-npi", &["1234567893", "1245319599"]),
        ("aba-routing", &["021000021", "0210-0002-1", "121000358"]),
        ("uk-nhs", &["401-023-2137", "943 476 5919", "9434765919"]),
        ("ca-sin", &["130 692 544", "130-692-544", "130692544"]),
        (
            "email",
            &[
                "a@b.co",
                "jane.o'doe+tag@mail.example.com",
                "x@xn--bcher-kva.example",
                "a@b.xn--p1ai",
            ],
        ),
        (
            "phone",
            &[
                "+49 170 555 1234",
                "+14155550123",
                "(415) 555-0123",
                "415-555-0123",
                "+44 (0)20 7946 0018",
            ],
        ),
        (
            "ip-address",
            &[
                "192.168.1.10",
                "8.8.8.8",
                "::1",
                "2001:db8::8a2e:370:7334",
                "fe80::1",
                "::ffff:192.0.2.1",
            ],
        ),
    ] {
        for text in texts {
            assert_eq!(found(detector, text), [*text], "{detector}: {text}");
            let around = format!("über 12, {text}, and 7");
            assert_eq!(found(detector, &around), [*text], "{detector}: {around}");
        }
    }
}

#[test]
fn detectors_leave_look_alikes_alone() {
    for (detector, texts) in [
        (
            "credit-card",
            &[
                "4012-8888-8888-1882",
                "36168002586008",
                "1748503543012",
                "0000000000000000",
                "x4111111111111111",
                "41111111111111112222",
                "4111 1111-1111 1111",
                "0.4111111111111111",
                "5999999999999991",
            ][..],
        ),
        (
            "iban",
            &[
                "AT61 1904 3002 3457 3202",
                "BE71 0961 2345 6760",
                "DE00123456789012345678",
                "XX89370400440532013000",
                "xDE89370400440532013000",
            ],
        ),
        (
            "us-ssn",
            &[
                "078-05-0000",
                "693-09.4444",
                "666000000",
                "078051120",
                "078-05-1120",
                "000-12-3456",
                "666-12-3456",
                "900-12-3456",
                "123-00-4567",
                "123-45-6789",
                "987-65-4321",
                "111-11-1111",
                "219099999",
                "order 219-099-999",
            ],
        ),
        ("us-itin", &["911-69-1234", "911-93-1234", "911701234", "811-70-1234"]),
        ("us-npi", &["1234567890", "1111111111", "3234567893"]),
        ("aba-routing", &["021000022", "421000021", "000000000", "0210-00021"]),
        ("uk-nhs", &["401-023-2138", "0000000000", "401-0232137"]),
        ("ca-sin", &["130 692 545", "830 692 544", "046 454 286", "130-692 544"]),
        ("email", &["jane at example", "a@b", "@b.co", "a@-b.co", "a@b.c", "a@b..co"]),
        ("phone", &["555-0123", "1234567", "115-555-0123", "4155550123", "+12345"]),
        (
            "ip-address",
            &[
                "256.1.1.1",
                "1.2.3",
                "1.2.3.4.5",
                "12:30:45",
                "::",
                "a::b",
                "std::cell",
                "01.2.3.4",
                "v1.2.3.4",
            ],
        ),
    ] {
        for text in texts {
            assert_eq!(found(detector, text), [""; 0], "{detector}: {text}");
        }
    }
}

#[test]
fn undelimited_numbers_need_a_word_that_speaks_for_them() {
    for (detector, text, hits) in [
        ("us-ssn", "My SSN is 219099999.", 1),
        ("us-ssn", "Social Security number: 219099999", 1),
        ("us-ssn", "Order 219099999", 0),
        ("us-itin", "taxpayer 911701234", 1),
        ("us-itin", "order 911701234", 0),
    ] {
        assert_eq!(found(detector, text).len(), hits, "{text}");
    }
}

#[test]
fn a_detector_does_not_run_on_into_its_neighbours() {
    for (detector, text, hits) in [
        (
            "iban",
            "Pay DE89 3704 0044 0532 0130 00 is the account",
            &["DE89 3704 0044 0532 0130 00"][..],
        ),
        ("credit-card", "1234 4111 1111 1111 1111 99", &["4111 1111 1111 1111"]),
        (
            "credit-card",
            "4111 1111 1111 1111 5555 5555 5555 4444",
            &["4111 1111 1111 1111", "5555 5555 5555 4444"],
        ),
        ("email", "mailto:jane@example.com.", &["jane@example.com"]),
        ("ip-address", "10.0.0.1, 10.0.0.2.", &["10.0.0.1", "10.0.0.2"]),
    ] {
        assert_eq!(found(detector, text), hits, "{text}");
    }
}

#[test]
fn without_patterns_of_its_own_the_three_default_ones_apply() {
    let labels: Vec<String> = evaluate(&json!({}), &with_output("Jane: 123-45-6789"))
        .into_iter()
        .map(|it| it.label)
        .collect();
    assert_eq!(
        labels,
        ["PII: US social security number", "PII: card number", "PII: e-mail address"]
    );
    let config = json!({"detectors": ["credit-card"]});
    assert_eq!(
        evaluate(&config, &with_output("")).len(),
        4,
        "detectors are added to the default patterns"
    );
    let config = json!({"denyPatterns": [], "detectors": ["credit-card"]});
    let results = evaluate(&config, &with_output("Order 4012-8888-8888-1882"));
    assert_eq!(results.len(), 1);
    assert_eq!(results[0].verdict, Verdict::Pass);
}

#[test]
fn equal_names_of_custom_patterns_have_different_labels() {
    let custom = |name: &str| json!({"name": name, "pattern": "q"});
    let patterns = [custom("x"), custom("x"), custom("x"), custom("x (pattern 5)"), custom("x")];
    let config = json!({"denyPatterns": [], "customPatterns": patterns});
    let results = evaluate(&config, &with_output("q"));
    let labels: Vec<&str> = results.iter().map(|it| it.label.as_str()).collect();
    let expected = ["x", "x (pattern 2)", "x (pattern 3)", "x (pattern 5)", "x (pattern 5 2)"];
    assert_eq!(labels, expected.map(|it| format!("PII: {it}")));
    assert!(results.iter().take(3).all(|it| it.metadata["pattern"] == "x"));
}

#[test]
fn every_default_pattern_compiles() {
    for (pattern, _) in DEFAULT_PATTERNS {
        assert!(Pattern::new(pattern, Flags { ignore_case: true }).is_ok(), "{pattern}");
    }
}

#[test]
fn disabled_checks_still_validate_patterns() {
    let off = json!({"enabled": false, "denyPatterns": ["x"]});
    assert_eq!(evaluate(&off, &with_output("x")), []);
    let bad = json!({"enabled": false, "denyPatterns": ["ok", "[", "a{2}+"], "customPatterns": [{"name": "n", "pattern": "("}]});
    let problems = build(&bad, &Setup::new(&NoFiles, None)).unwrap_err();
    let pointers: Vec<&str> = problems.iter().map(|it| it.pointer.as_str()).collect();
    assert_eq!(pointers, ["/denyPatterns/1", "/denyPatterns/2", "/customPatterns/0/pattern"]);
}

#[test]
fn evidence_is_masked_and_counted_in_full() {
    let config = json!({"denyPatterns": ["\\d{4}"]});
    let output = "1234 ".repeat(LISTED + 1);
    let result = evaluate(&config, &with_output(&output)).remove(0);
    assert_eq!(result.metadata["matchCount"], json!(LISTED + 1));
    assert_eq!(result.metadata["redactedMatches"].as_array().unwrap().len(), LISTED);
    assert_eq!(result.metadata["redactedMatches"][0], json!("123***"));
    assert!(!format!("{result:?}").contains("1234"));
    let ResultEvidence::Matches { of: CheckedText::Output, spans } = &result.evidence[0] else {
        panic!("no places: {result:?}")
    };
    assert_eq!((spans.len(), spans[1].start, spans[1].end), (MOST, 5, 9));
}

#[test]
fn empty_matches_are_no_personal_data() {
    for (pattern, output, matches) in
        [("x*", "abc", 0), (r"\d*", "a12b3", 2), ("", "abc", 0), ("^|$", "a", 0)]
    {
        let result = evaluate(&json!({"denyPatterns": [pattern]}), &with_output(output)).remove(0);
        let count = result.metadata.get("matchCount").map_or(0, |it| it.as_u64().unwrap());
        assert_eq!(count, matches, "{pattern}");
    }
}

#[test]
fn arguments_of_tool_calls_are_searched_when_asked_for() {
    let call = ToolCall {
        name: "send".to_owned(),
        arguments: json!({"to": [{"jane@example.com": true}], "card": 4_111_111_111_111_111_u64}),
        malformed_arguments: Some("{\"ssn\": 078-05-1123".to_owned()),
        ..ToolCall::default()
    };
    let execution = Execution { tool_calls: vec![call], ..with_output("all good") };
    let config = json!({
        "denyPatterns": [], "detectors": ["email", "credit-card", "us-ssn"], "scan": ["output", "tool-args"],
    });
    for result in evaluate(&config, &execution) {
        assert_eq!(result.metadata["matchCount"], json!(1), "{}", result.label);
        assert_eq!(result.metadata["places"], json!(["arguments of send"]));
    }
    let only_output = json!({"denyPatterns": [], "detectors": ["email"]});
    assert!(evaluate(&only_output, &execution)[0].verdict.held());
}

#[test]
fn a_pattern_that_is_given_up_is_errored_not_passed() {
    let config = json!({"denyPatterns": [r"(a|aa)+\1!!$"]});
    let result = evaluate(&config, &with_output(&"a".repeat(5_000))).remove(0);
    assert_eq!(result.verdict.status(), "errored");
    assert_eq!(result.verdict.code(), Some(&INVALID_PATTERN));
    assert_eq!(result.score, None);
}

static ALL: LazyLock<Vec<Detector>> = LazyLock::new(|| {
    let names = [
        "credit-card",
        "iban",
        "us-ssn",
        "us-itin",
        "us-npi",
        "aba-routing",
        "uk-nhs",
        "ca-sin",
        "email",
        "phone",
        "ip-address",
    ];
    names
        .map(|name| Detector::new(DetectorName::deserialize(&json!(name)).unwrap()).unwrap())
        .into_iter()
        .collect()
});

#[test]
fn hostile_texts_take_no_time() {
    let word = |length: usize| "a".repeat(length);
    for (text, hits) in [
        (format!("{}@b.co", "a-".repeat(50_000)), 1),
        (format!("{}@b.co", word(100_000)), 0),
        (format!("{}@b.co", "a.".repeat(50_000)), 0),
        (format!("{}@b.co", word(64)), 1),
        (format!("{}@b.co", word(65)), 0),
        (format!("a@{}co", "b-b.".repeat(25_000)), 0),
        (format!("{}co", "b@b.".repeat(10_000)), 1),
        (format!("{}@b.co ", word(65)).repeat(500), 0),
        ("GB82 ".repeat(2_000), 0),
        ("4111-".repeat(2_000), 0),
        ("+1 ".repeat(5_000), 0),
        ("1:".repeat(5_000), 0),
    ] {
        let mut found = 0;
        for detector in ALL.iter() {
            detector.find(&text, |_| found += 1);
        }
        assert_eq!(found, hits, "{}", &text[..70.min(text.len())]);
    }
}

#[test]
fn dots_stand_between_the_words_of_an_address() {
    for (text, hit) in [
        ("jane.doe@example.com", "jane.doe@example.com"),
        ("see..jane@example.com", "jane@example.com"),
        (".jane@example.com", "jane@example.com"),
        ("a..b@example.com", "b@example.com"),
    ] {
        assert_eq!(found("email", text), [hit], "{text}");
    }
    assert!(found("email", "jane.@example.com").is_empty());
}

proptest! {
    #[test]
    fn at_most_three_characters_of_a_match_are_shown(text in "\\PC{1,40}") {
        let shown = redact(&text);
        let kept = shown.strip_suffix("***").unwrap();
        prop_assert!(kept.chars().count() <= 3 && kept != text);
        prop_assert!(text.starts_with(kept));
    }

    #[test]
    fn detectors_never_panic(text in "[0-9A-Fa-f:. @+()é-]{0,60}") {
        for detector in ALL.iter() {
            detector.find(&text, |hit| assert!(text.contains(hit)));
        }
    }

    #[test]
    fn an_iban_with_one_digit_changed_is_not_found(at in 4usize..22, by in 1u8..10) {
        let mut iban = *b"DE89370400440532013000";
        iban[at] = b'0' + (iban[at] - b'0' + by) % 10;
        let mut hits = 0;
        ALL[1].find(std::str::from_utf8(&iban).unwrap(), |_| hits += 1);
        prop_assert_eq!(hits, 0);
    }
}
