//! Tests of the options of checks, and of the evidence that assertions receive.

use std::sync::Arc;

use super::*;
use crate::core::codes::EVIDENCE_MISSING;
use crate::core::scripting::Transform;
use crate::{Assertion, Code, Meta, Options, Traits};
use crate::{Candidate, Setup};
use kindlm_types::workspace::Gather;
use kindlm_types::{
    Answers, Channel, Class, Completeness, Coverage, Execution, NoFiles, Severity, Trace,
};
use serde_json::json;

static META: Meta = Meta {
    id: "sample",
    path: None,
    summary: "A sample.",
    since: "0.1.0",
    class: Class::Probabilistic,
    severity: Severity::Gate,
    codes: &[Code { code: FailureCode::new("LOW"), summary: "Low." }],
    docs: "",
};

#[derive(Debug)]
struct Fixed(Vec<AssertionResult>);

impl Assertion for Fixed {
    fn traits(&self) -> Traits {
        Traits::OF_OUTPUT
    }

    fn evaluate(&self, _evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        self.0.clone()
    }
}

fn pass(score: f64) -> AssertionResult {
    AssertionResult::pass("sample", "a").with_score(Score::new(score).unwrap())
}

fn fail(score: f64) -> AssertionResult {
    AssertionResult::fail("sample", "b", FailureCode::new("LOW"), "too low")
        .with_score(Score::new(score).unwrap())
}

fn errored() -> AssertionResult {
    AssertionResult::errored("sample", "c", FailureCode::new("LOST"), "lost")
}

fn skipped() -> AssertionResult {
    AssertionResult::skipped("sample", "d", "no baseline")
}

fn run(results: Vec<AssertionResult>, negate: bool, threshold: Option<f64>) -> Vec<String> {
    let mut check = Check::new(&META, Arc::new(Fixed(results)));
    check.options = Options { negate, threshold, ..Options::default() };
    let evidence = Evidence {
        execution: &Execution::default(),
        answers: &Answers::default(),
        baseline: None,
        comparison: None,
    };
    check
        .evaluate(&evidence)
        .iter()
        .map(|it| {
            let score = it.score.map_or("-".to_owned(), |it| it.to_string());
            format!(
                "{} {score} {} {}",
                it.verdict.status(),
                it.label,
                it.verdict.message().unwrap_or_default()
            )
        })
        .collect()
}

#[test]
fn a_threshold_decides_by_score() {
    for (result, threshold, expected) in [
        (pass(0.7), 0.7, "passed 0.7 a "),
        (pass(0.1 + 0.2), 0.3, "passed 0.30000000000000004 a "),
        (pass(0.3), 0.1 + 0.2, "passed 0.3 a "),
        (pass(0.7), 0.8, "failed 0.7 a score 0.7 is below the threshold 0.8"),
        (fail(0.6), 0.5, "passed 0.6 b "),
        (fail(0.6), 0.65, "failed 0.6 b score 0.6 is below the threshold 0.65: too low"),
        (errored(), 0.0, "errored - c lost"),
        (skipped(), 1.0, "skipped - d no baseline"),
    ] {
        assert_eq!(run(vec![result], false, Some(threshold)), [expected]);
    }
}

#[test]
fn not_turns_the_whole_check_round() {
    for (results, expected) in [
        (vec![pass(1.0)], vec!["failed 0 Not: a must not hold, but does: a"]),
        (vec![fail(0.25)], vec!["passed 0.75 Not: b "]),
        (vec![pass(1.0), fail(0.0)], vec!["passed 1 Not: sample "]),
        (
            vec![pass(1.0), pass(0.5)],
            vec!["failed 0.5 Not: sample must not hold, but does: sample"],
        ),
        (vec![errored()], vec!["errored - c lost"]),
        (vec![pass(1.0), errored()], vec!["errored - c lost"]),
        (vec![fail(0.0), errored()], vec!["passed 1 Not: sample "]),
        (vec![skipped()], vec!["skipped - d no baseline"]),
        (vec![], vec![]),
    ] {
        assert_eq!(run(results, true, None), expected);
    }
}

#[test]
fn not_applies_after_the_threshold() {
    assert_eq!(run(vec![pass(0.7)], true, Some(0.8)).len(), 1);
    assert!(run(vec![pass(0.7)], true, Some(0.8))[0].starts_with("passed 0.3"));
    assert!(run(vec![fail(0.6)], true, Some(0.5))[0].starts_with("failed 0.4"));
}

#[test]
fn every_result_carries_the_options() {
    let mut check = Check::new(&META, Arc::new(Fixed(vec![pass(1.0), errored()])));
    check.options = Options {
        severity: Severity::Soft,
        weight: 2.0,
        metric: Some("quality".to_owned()),
        label: Some("mine".to_owned()),
        ..Options::default()
    };
    let execution = Execution::default();
    let answers = Answers::default();
    let evidence =
        Evidence { execution: &execution, answers: &answers, baseline: None, comparison: None };
    for result in check.evaluate(&evidence) {
        assert_eq!(result.class, Class::Probabilistic);
        assert_eq!(result.severity, Severity::Soft);
        assert_eq!(result.weight.to_string(), "2");
        assert_eq!(result.metric.as_deref(), Some("quality"));
        assert_eq!(result.label, "mine");
    }
}

#[test]
fn results_of_weight_zero_keep_their_verdict() {
    let worthless = |result: AssertionResult| AssertionResult { weight: 0.0, ..result };
    for (own, of_the_check, expected) in [
        // A failed result of weight 0 stays failed. A check of weight 0 only reports its score, so it passes.
        (worthless(fail(0.0)), 1.0, ("failed", Severity::Soft)),
        (worthless(pass(1.0)), 1.0, ("passed", Severity::Soft)),
        (fail(0.0), 0.0, ("passed", Severity::Gate)),
        (fail(0.0), 1.0, ("failed", Severity::Gate)),
    ] {
        let mut check = Check::new(&META, Arc::new(Fixed(vec![own])));
        check.options = Options { weight: of_the_check, ..Options::default() };
        let (execution, answers) = (Execution::default(), Answers::default());
        let result = check.evaluate(&evidence(&execution, &answers)).remove(0);
        assert_eq!((result.verdict.status(), result.severity), expected);
    }
}

/// Returns a check with a transform script for the output.
fn transformed(assertion: impl Assertion + 'static) -> Check {
    let transform = Transform::new("output.trim()", &Setup::new(&NoFiles, None)).unwrap();
    let mut check = Check::new(&META, Arc::new(assertion));
    check.views = vec![View::Script(Arc::new(transform))];
    check
}

fn evidence<'e>(execution: &'e Execution, answers: &'e Answers) -> Evidence<'e> {
    Evidence { execution, answers, baseline: None, comparison: None }
}

#[test]
fn transforms_do_not_replace_a_missing_output() {
    let missing = Execution {
        trace: Some(Box::new(Trace::default())),
        completeness: Completeness {
            coverage: Coverage::Only([Channel::Actions].into()),
            ..Completeness::default()
        },
        ..Execution::default()
    };
    let recorded = Execution { output: "yes".to_owned(), ..missing.clone() };
    let check = transformed(Fixed(vec![pass(1.0)]));
    let answers = Answers::default();
    assert_eq!(check.questions(&evidence(&missing, &answers)).len(), 0);
    assert_eq!(check.questions(&evidence(&recorded, &answers)).len(), 1);
    let results = check.evaluate(&evidence(&missing, &answers));
    let Verdict::Errored { code, message } = &results[0].verdict else { panic!("{results:?}") };
    assert_eq!(code, &EVIDENCE_MISSING);
    assert!(message.contains("do not contain the agent's texts"), "{message}");
}

/// An assertion that reads a workspace file and compares outputs.
#[derive(Debug)]
struct Curious;

impl Assertion for Curious {
    fn traits(&self) -> Traits {
        Traits {
            compares: true,
            gathers: vec![Gather::File { path: "a.txt".to_owned() }],
            ..Traits::OF_OUTPUT
        }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let there = |it: OutputComparison<'_>| {
            it.candidates.iter().map(|it| it.is_there.to_string()).collect()
        };
        let there: Vec<String> = evidence.comparison.map(there).unwrap_or_default();
        vec![AssertionResult::pass("sample", there.join(" "))]
    }
}

#[test]
fn skipped_checks_ask_no_workspace_queries() {
    let mut check = Check::new(&META, Arc::new(Curious));
    assert_eq!(check.gathers().len(), 1);
    check.options.skip = Some("not yet".to_owned());
    assert_eq!(check.gathers(), []);
}

/// Returns two candidates with different variables. `second` is the output of the second candidate.
fn comparison(second: &str) -> [Candidate<'static>; 2] {
    [("a", "{\"answer\": 1}"), ("b", second)].map(|(name, output)| {
        let vars = json!({"city": name}).as_object().cloned().unwrap();
        let execution = Execution { output: output.to_owned(), vars, ..Execution::default() };
        Candidate {
            name: name.into(),
            execution: Cow::Owned(execution),
            results: &[],
            is_there: true,
        }
    })
}

#[test]
fn transform_scripts_get_the_context_of_their_output() {
    let candidates = comparison("{}");
    // The judged output is transformed twice: as the output itself and as one of the candidates.
    for (own, expected) in [(0, (3, 2, 1)), (1, (3, 1, 2))] {
        let answers = Answers::default();
        let comparison = Some(OutputComparison { candidates: &candidates, own });
        let execution = &*candidates[own].execution;
        let evidence = Evidence { comparison, ..evidence(execution, &answers) };
        let keys: Vec<String> =
            transformed(Curious).questions(&evidence).iter().map(Question::key).collect();
        let about = |city: &str| {
            let vars = json!({"vars": {"city": city}}).to_string();
            keys.iter().filter(|it| it.contains(&vars)).count()
        };
        assert_eq!((keys.len(), about("a"), about("b")), expected, "{keys:?}");
    }
}

#[test]
fn a_value_that_another_output_lacks_is_no_fault_of_this_one() {
    let mut check = Check::new(&META, Arc::new(Curious));
    check.views = vec![View::On(crate::Selector::new("json.answer").unwrap())];
    let answers = Answers::default();
    for (second, own, expected) in [
        ("{\"answer\": 2}", 0, "passed true true (on json.answer)"),
        ("{}", 0, "passed true false (on json.answer)"),
        ("{}", 1, "failed sample (on json.answer)"),
    ] {
        let candidates = comparison(second);
        let comparison = Some(OutputComparison { candidates: &candidates, own });
        let execution = &*candidates[own].execution;
        let evidence = Evidence { comparison, ..evidence(execution, &answers) };
        let result = &check.evaluate(&evidence)[0];
        assert_eq!(format!("{} {}", result.verdict.status(), result.label), expected);
    }
}
