//! Tests of incomplete evidence: no check may pass because a text or an event is absent from such evidence.

use kindlm_assertions::{Evidence, Setup, compile};
use kindlm_testing::examples;
use kindlm_types::{
    Answers, Channel, CommandEnd, Completeness, Coverage, Event, Execution, Speaker, Spend, Trace,
    Turn, UnsupportedPart, Usage,
};
use serde_json::{Value, json};

use crate::support::Memory;

/// Returns the results of checks as `status code`, and the number of their questions.
///
/// The questions are not answered.
fn found(list: &Value, execution: &Execution) -> (Vec<String>, usize) {
    let files = Memory::default();
    let (checks, problems) = compile(&json!({"assert": list}), &Setup::new(&files, None));
    assert_eq!(examples::show_problems(&problems), "");
    let answers = Answers::default();
    let evidence = Evidence { execution, answers: &answers, baseline: None, comparison: None };
    let words = |it: &kindlm_types::AssertionResult| {
        let code = it.cause.as_ref().map(ToString::to_string);
        let own = it.verdict.code().map(|it| it.as_str().to_owned());
        format!("{} {}", it.verdict.status(), code.or(own).unwrap_or_default()).trim().to_owned()
    };
    let results = checks.iter().flat_map(|it| it.evaluate(&evidence));
    let asked = checks.iter().map(|it| it.questions(&evidence).len()).sum();
    (results.map(|it| words(&it)).collect(), asked)
}

/// Returns the results of one check.
fn found_in(check: &Value, execution: &Execution) -> String {
    found(&json!([check]), execution).0.join(", ")
}

fn only(channels: &[Channel]) -> Coverage {
    Coverage::Only(channels.iter().copied().collect())
}

#[test]
fn missing_image_data_names_its_remedy() {
    let check = json!({"assert": [{"type": "llm-rubric", "value": "It is red"}]});
    let files = Memory::default();
    let (checks, _) = compile(&check, &Setup::new(&files, None));
    for (cached, expected) in [(true, "`--responses live` or `record`"), (false, "the last turn")] {
        let execution = Execution {
            output: "[image image.png: image/png, 8 bytes, sha256 0123456789ab]".to_owned(),
            spend: Spend { cached, ..Spend::default() },
            ..Execution::default()
        };
        let evidence = Evidence {
            execution: &execution,
            answers: &Answers::default(),
            baseline: None,
            comparison: None,
        };
        assert!(checks[0].questions(&evidence).is_empty());
        let results = checks[0].evaluate(&evidence);
        assert_eq!(results[0].verdict.status(), "errored");
        let message = results[0].verdict.message().unwrap();
        assert!(message.contains(expected), "{message}");
    }
}

/// Returns executions without a usable output: it was cut, not recorded, or missing in the spans.
fn without_the_output() -> Vec<(&'static str, Execution)> {
    let cut = Execution {
        output: "The order".to_owned(),
        completeness: Completeness {
            gaps: vec!["the transcript ends with a message of the user".to_owned()],
            ..Completeness::default()
        },
        ..Execution::default()
    };
    let traced = || Some(Box::new(Trace::default()));
    vec![
        ("a transcript that is cut", cut.clone()),
        ("a trace that is cut", Execution { trace: traced(), ..cut }),
        (
            "a record of calls",
            Execution {
                completeness: Completeness { coverage: only(&[]), ..Completeness::default() },
                ..Execution::default()
            },
        ),
        (
            "spans without texts",
            Execution {
                trace: traced(),
                completeness: Completeness {
                    coverage: only(&[Channel::Usage]),
                    ..Completeness::default()
                },
                ..Execution::default()
            },
        ),
    ]
}

#[test]
fn no_judge_is_asked_about_an_unknown_output() {
    let script = json!({"type": "javascript", "value": "!output.includes('error')"});
    for (source, execution) in without_the_output() {
        for check in [
            script.clone(),
            json!({"type": "not-javascript", "value": "output.includes('error')"}),
            json!({"type": "python", "value": "'error' not in output"}),
            json!({"type": "ruby", "value": "!output.include?('error')"}),
            json!({"type": "satisfies", "value": "!value.includes('error')"}),
            json!({"type": "webhook", "value": "https://a.example", "scripts": {"net": ["a.example"]}}),
            json!({"type": "javascript", "value": "output > 1", "transform": "output.length"}),
            json!({"type": "llm-rubric", "value": "kind"}),
            json!({"type": "not-contains", "value": "error"}),
            json!({"type": "assert-set", "assert": [script.clone()]}),
            json!({"type": "assert-set", "threshold": 0.1, "assert": [script.clone(),
                {"type": "assert-set", "assert": [script.clone(), {"type": "excludes", "value": "error"}]}]}),
        ] {
            let (found, asked) = found(&json!([check]), &execution);
            assert_eq!(
                (found.join(", ").as_str(), asked),
                ("errored EVIDENCE_MISSING", 0),
                "{source}: {check}"
            );
        }
    }
    // A script may read recorded evidence, which it selects with `on`.
    let spans = Execution {
        trace: Some(Box::new(Trace::default())),
        completeness: Completeness { coverage: only(&[]), ..Completeness::default() },
        ..Execution::default()
    };
    let on_trace =
        json!([{"type": "javascript", "on": "trace", "value": "output.spans.length === 0"}]);
    assert_eq!(found(&on_trace, &spans).1, 1);
}

#[test]
fn missing_evidence_is_no_proof_of_absence() {
    let said = Execution {
        output: "Done.".to_owned(),
        requests: 1,
        completeness: Completeness {
            gaps: vec!["a call of `pay` has no result".to_owned()],
            ..Completeness::default()
        },
        ..Execution::default()
    };
    for check in [
        json!({"type": "not-called-tool", "value": "pay"}),
        json!({"type": "used-no-tools"}),
        json!({"type": "max-tool-calls", "value": 3}),
        json!({"type": "no-failed-actions"}),
        json!({"type": "not-event", "value": "error"}),
        json!({"type": "max-turns", "value": 3}),
        json!({"type": "tool-calls", "tool": "pay", "shouldNotCall": true}),
        json!({"type": "not-tool-calls", "tool": "pay"}),
        json!({"type": "not-tool-call-f1", "value": "pay"}),
        json!({"type": "not-is-valid-function-call"}),
        json!({"type": "not-is-valid-openai-function-call"}),
        json!({"type": "not-is-valid-openai-tools-call"}),
        json!({"type": "pii", "denyPatterns": ["pay"], "scan": ["tool-args"]}),
        json!({"type": "not-trajectory:tool-sequence", "value": ["pay"]}),
        json!({"type": "not-trajectory:tool-args-match", "value": {"name": "pay", "args": {}}}),
        json!({"type": "not-trajectory:tool-used", "value": "pay"}),
        json!({"type": "trajectory:step-count", "value": {"max": 3}}),
        json!({"type": "not-skill-used", "value": "pay"}),
        json!({"type": "not-includes", "on": "toolCalls", "value": "pay"}),
        json!({"type": "succeeded"}),
    ] {
        assert_eq!(found_in(&check, &said), "errored EVIDENCE_MISSING", "{check}");
        // This command reports only its text.
        let alone = Execution {
            completeness: Completeness {
                gaps: Vec::new(),
                coverage: only(&[Channel::Messages]),
                ..said.completeness.clone()
            },
            command: Some(CommandEnd { exit_code: Some(0), ..CommandEnd::default() }),
            ..said.clone()
        };
        // The end of the command and the number of its answers are known.
        let is_known = matches!(check["type"].as_str(), Some("succeeded" | "max-turns"));
        let expected = if is_known { "passed" } else { "errored EVIDENCE_MISSING" };
        assert_eq!(found_in(&check, &alone), expected, "{check}");
        let whole = Execution {
            completeness: Completeness { gaps: Vec::new(), ..said.completeness.clone() },
            ..said.clone()
        };
        assert_eq!(found_in(&check, &whole), "passed", "{check}");
    }
    // Unseen steps may have reached the goal, so the judge is not asked.
    let missed = json!({"type": "not-trajectory:goal-success", "value": "nobody has paid"});
    assert_eq!(found_in(&missed, &said), "errored EVIDENCE_MISSING");
}

#[test]
fn partly_reported_tokens_are_no_count() {
    let usage = |json: Value| -> Usage { serde_json::from_value(json).unwrap() };
    let mut sum = usage(json!({"inputTokens": 5, "outputTokens": 2}));
    sum += usage(json!({"inputTokens": 5}));
    let both = |on: &str| json!([{"type": "max-tokens", "value": 100}, {"type": "satisfies", "on": on, "value": "value < 50"}]);
    let unknown = "errored EVIDENCE_MISSING";
    for (usage, on, most, asked) in [
        (sum, "usage.outputTokens", unknown, 0),
        (sum, "usage.inputTokens", unknown, 0),
        (sum, "usage.totalTokens", unknown, 0),
        (sum, "usage", unknown, 0),
        (usage(json!({"totalTokens": 9})), "usage.outputTokens", "passed", 0),
        (usage(json!({"totalTokens": 9})), "usage", "passed", 0),
        (usage(json!({"totalTokens": 9})), "usage.totalTokens", "passed", 1),
        (usage(json!({"inputTokens": 5, "outputTokens": 0})), "usage.outputTokens", "passed", 1),
    ] {
        let execution = Execution { usage, requests: 1, ..Execution::default() };
        let (found, questions) = found(&both(on), &execution);
        assert_eq!((found[0].as_str(), questions), (most, asked), "{usage:?} {on}");
        assert!(found[1] == unknown || asked == 1, "{usage:?} {on}: {found:?}");
    }
}

/// Returns an execution whose answer has a part of an unsupported type.
fn partial_answer() -> Execution {
    let why = "`wobble` at /1/content/1 is of a type that is not understood here";
    Execution {
        output: "fine".to_owned(),
        completeness: Completeness { unread: Some(why.to_owned()), ..Completeness::default() },
        metadata: json!({"pattern": "other"}).as_object().unwrap().clone(),
        ..Execution::default()
    }
}

#[test]
fn unsupported_parts_of_an_answer_pass_no_check() {
    let half = partial_answer();
    let whole = Execution {
        completeness: Completeness { unread: None, ..half.completeness.clone() },
        ..half.clone()
    };
    for check in [
        json!({"type": "not-contains", "value": "secret"}),
        json!({"type": "not-icontains", "value": "secret"}),
        json!({"type": "not-contains-any", "value": ["secret"]}),
        json!({"type": "not-contains-all", "value": ["secret"]}),
        json!({"type": "excludes", "value": "secret"}),
        json!({"type": "not-includes", "value": "secret"}),
        json!({"type": "not-regex", "value": "secret"}),
        json!({"type": "matches", "value": {"const": "fine"}}),
        json!({"type": "regex", "value": "^fine$"}),
        json!({"type": "starts-with", "value": "fine"}),
        json!({"type": "equals", "value": "fine"}),
        json!({"type": "not-equals", "value": "finesecret"}),
        json!({"type": "pii"}),
        json!({"type": "keywords", "deny": ["secret"]}),
        json!({"type": "schema", "maxLength": 10}),
        json!({"type": "schema", "notContains": ["secret"]}),
        json!({"type": "not-is-json"}),
        json!({"type": "not-is-refusal"}),
        json!({"type": "word-count", "value": 1}),
        json!({"type": "levenshtein", "value": "fine"}),
        json!({"type": "assert-set", "assert": [{"type": "not-contains", "value": "secret"}]}),
    ] {
        for (execution, expected) in [(&whole, "passed"), (&half, "errored EVIDENCE_MISSING")] {
            let found = found_in(&check, execution);
            assert!(found.split(", ").all(|it| it == expected), "{check}: {found}");
        }
    }
    // The judge is not asked about an incomplete answer.
    for check in [
        json!({"type": "judge", "criteria": "says nothing secret"}),
        json!({"type": "llm-rubric", "value": "says nothing secret"}),
        json!({"type": "javascript", "value": "!output.includes('secret')"}),
        json!({"type": "not-moderation"}),
        json!({"type": "similar", "value": "fine"}),
    ] {
        let unknown = vec!["errored EVIDENCE_MISSING".to_owned()];
        assert_eq!(found(&json!([check]), &half), (unknown, 0), "{check}");
    }
    // The judge is not asked either, whether for one sample or for several.
    let lost_earlier = Execution {
        output: "fine".to_owned(),
        turns: vec![
            Turn { unread: half.completeness.unread.clone(), ..Turn::default() },
            Turn { text: "fine".to_owned(), ..Turn::default() },
        ],
        ..Execution::default()
    };
    for samples in [1, 3] {
        let check = json!([{"type": "conversation-relevance", "samples": samples}]);
        let unknown = vec!["errored EVIDENCE_MISSING".to_owned()];
        assert_eq!(found(&check, &lost_earlier), (unknown, 0), "{check}");
    }
    // A match stays valid, and other values are complete.
    for (check, expected) in [
        (json!({"type": "contains", "value": "fine"}), "passed"),
        (json!({"type": "contains-all", "value": ["fine"]}), "passed"),
        (json!({"type": "includes", "value": "fine"}), "passed"),
        (json!({"type": "not-excludes", "value": "fine"}), "passed"),
        (json!({"type": "not-keywords", "deny": ["fine"]}), "passed"),
        (json!({"type": "keywords", "allow": ["fine"]}), "passed"),
        (json!({"type": "not-contains", "value": "fine"}), "failed ASSERTION_FAILED"),
        (json!({"type": "keywords", "deny": ["fine"]}), "failed KEYWORD_DENIED"),
        (json!({"type": "pii", "denyPatterns": ["fine"]}), "failed PII_DETECTED"),
        (json!({"type": "contains", "value": "secret"}), "errored EVIDENCE_MISSING"),
        (json!({"type": "equals", "on": "metadata.pattern", "value": "other"}), "passed"),
        (json!({"type": "not-contains", "on": "metadata.pattern", "value": "x"}), "passed"),
    ] {
        assert_eq!(found_in(&check, &half), expected, "{check}");
    }
}

#[test]
fn silent_commands_pass_no_output_check() {
    let silent = Execution {
        command: Some(CommandEnd { exit_code: Some(1), stderr: "no such order".to_owned() }),
        completeness: Completeness {
            coverage: only(&[Channel::Messages]),
            ..Completeness::default()
        },
        ..Execution::default()
    };
    for (check, expected) in [
        (json!({"type": "not-contains", "value": "secret"}), "errored EVIDENCE_MISSING"),
        (json!({"type": "schema", "maxLength": 5}), "errored EVIDENCE_MISSING"),
        (json!({"type": "keywords", "deny": ["secret"]}), "errored EVIDENCE_MISSING"),
        (json!({"type": "not-keywords", "allow": ["secret"]}), "errored EVIDENCE_MISSING"),
        (json!({"type": "equals", "value": ""}), "errored EVIDENCE_MISSING"),
        (
            json!({"type": "not-assert-set", "assert": [{"type": "contains", "value": "secret"}]}),
            "errored EVIDENCE_MISSING",
        ),
        (json!({"type": "contains", "value": "fine"}), "failed ASSERTION_FAILED"),
        (json!({"type": "not-succeeded"}), "passed"),
    ] {
        assert_eq!(found_in(&check, &silent), expected, "{check}");
        let said = Execution { output: "No such order.".to_owned(), ..silent.clone() };
        assert!(!found_in(&check, &said).starts_with("errored"), "{check}");
        // Neither exit code 0 nor a declaration of completeness is an output.
        let vouches = Execution {
            completeness: Completeness {
                coverage: Coverage::Complete,
                ..silent.completeness.clone()
            },
            ..silent.clone()
        };
        let fine = Execution {
            command: CommandEnd::from_parts(Some(0), "no such order".to_owned()),
            ..silent.clone()
        };
        for execution in [vouches, fine] {
            let found = found_in(&check, &execution);
            assert_eq!(found.starts_with("errored"), expected.starts_with("errored"), "{check}");
        }
    }
}

#[test]
fn guardrails_see_every_answer_of_a_conversation() {
    let turn = |label: &str, text: &str, events: std::ops::Range<usize>| Turn {
        label: label.to_owned(),
        text: text.to_owned(),
        events,
        ..Turn::default()
    };
    let says = |text: &str| Event::Message { role: Speaker::Assistant, text: text.to_owned() };
    let told = Execution {
        output: "Bye.".to_owned(),
        turns: vec![turn("one", "To ada@example.org.", 0..2), turn("two", "Bye.", 2..3)],
        metadata: json!({"x": "clean"}).as_object().unwrap().clone(),
        ..Execution::default()
    };
    let on_the_way = Execution {
        turns: vec![turn("one", "Done.", 0..2), turn("two", "Bye.", 2..3)],
        recorded_events: vec![says("To ada@example.org."), says("Done."), says("Bye.")],
        ..told.clone()
    };
    for execution in [told, on_the_way] {
        for (check, expected) in [
            (
                json!({"type": "pii", "denyPatterns": [], "detectors": ["email"]}),
                "Found 1 PII match for pattern \"e-mail address\" in turn `one`",
            ),
            (
                json!({"type": "keywords", "deny": ["ADA"]}),
                "Output contains denied keyword \"ADA\" in turn `one`",
            ),
            (
                json!({"type": "keywords", "allow": ["ada"]}),
                "Output must contain at least one of: ada",
            ),
            (json!({"type": "pii", "on": "metadata.x"}), ""),
            (json!({"type": "not-contains", "value": "ada"}), ""),
        ] {
            let files = Memory::default();
            let (checks, problems) =
                compile(&json!({"assert": [check]}), &Setup::new(&files, None));
            assert_eq!(examples::show_problems(&problems), "");
            let answers = Answers::default();
            let evidence = Evidence {
                execution: &execution,
                answers: &answers,
                baseline: None,
                comparison: None,
            };
            let results = checks[0].evaluate(&evidence);
            assert_eq!(results[0].verdict.message().unwrap_or_default(), expected, "{check}");
        }
        let mut half = execution;
        half.turns[0].unread = Some("`wobble` is odd".to_owned());
        let deny = |word: &str| json!({"type": "keywords", "deny": [word]});
        assert_eq!(found_in(&deny("secret"), &half), "errored EVIDENCE_MISSING");
        assert_eq!(found_in(&deny("ada"), &half), "failed KEYWORD_DENIED");
        assert_eq!(found_in(&json!({"type": "not-contains", "value": "secret"}), &half), "passed");
    }
}

#[test]
fn unsupported_parts_are_named() {
    for (kind, places, named) in [
        ("tool_search_call", vec!["/2", "/4"], "`tool_search_call` at /2 has"),
        ("mystery", vec!["span `chat`"], "`mystery` at span `chat` has"),
        ("system/notice", vec![], "`system/notice` has"),
    ] {
        let places = places.into_iter().map(str::to_owned).collect();
        let execution = Execution {
            output: "Done.".to_owned(),
            completeness: Completeness {
                coverage: only(&[]),
                unsupported: vec![UnsupportedPart::new(kind, places)],
                ..Completeness::default()
            },
            ..Execution::default()
        };
        let files = Memory::default();
        let block = json!({"toolCalls": [{"tool": "pay", "shouldNotCall": true}]});
        let (checks, _) = compile(&block, &Setup::new(&files, None));
        let answers = Answers::default();
        let evidence =
            Evidence { execution: &execution, answers: &answers, baseline: None, comparison: None };
        let results = checks[0].evaluate(&evidence);
        let message = results[0].verdict.message().unwrap();
        assert!(message.contains(named), "{message}");
    }
}
