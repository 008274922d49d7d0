//! Gates: the vectors of the reference implementation (`fixtures/conformance/kindlm`), the examples of every page, and
//! the properties of the registry.

use std::collections::HashSet;
use std::path::PathBuf;

use kindlm_engine::{evaluate_gates, gates};
use kindlm_testing::examples;
use kindlm_types::{
    AssertionResult, CaseResult, CheckCounts, Class, Cost, Execution, ExecutionError,
    ExecutionResult, FailureCode, GateOutcome, GateResult, NOT, Outcome, PROMPT_ASSERTION,
    ProviderErrorKind, Score, ScoreSummary,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::support::{close, failure, vectors};

/// Intended differences from the reference implementation: gates that had nothing to measure.
///
/// The reference implementation reports a measured value (1 for judges, 0 for drift), which looks like a pass. The
/// gates of this crate hold too, but report that there was nothing to measure.
const NOTHING_TO_MEASURE: &[(&str, &str)] = &[
    ("gates-004", "driftScoreMax"),
    ("gates-007", "judgeAvgMin"),
    ("gates-010", "driftScoreMax"),
    ("gates-013", "driftScoreMax"),
    ("gates-019", "judgeAvgMin"),
    ("gates-024", "judgeAvgMin"),
    ("gates-026", "judgeAvgMin"),
    ("gates-027", "driftScoreMax"),
    ("gates-029", "driftScoreMax"),
    ("gates-030", "judgeAvgMin"),
    ("gates-031", "judgeAvgMin"),
    ("gates-031", "driftScoreMax"),
    ("gates-032", "driftScoreMax"),
    ("gates-035", "judgeAvgMin"),
    ("gates-035", "driftScoreMax"),
    ("gates-038", "driftScoreMax"),
    ("gates-044", "driftScoreMax"),
    ("gates-047", "driftScoreMax"),
    ("gates-048", "judgeAvgMin"),
    ("gates-048", "driftScoreMax"),
    ("gates-057", "judgeAvgMin"),
    ("gates-057", "driftScoreMax"),
    ("gates-059", "driftScoreMax"),
    ("gates-060", "judgeAvgMin"),
];

#[test]
fn agrees_with_the_reference() {
    let vectors = vectors("kindlm/gates.jsonl");
    let mut differing = Vec::new();
    for vector in &vectors {
        let id = vector["id"].as_str().unwrap();
        let cases: Vec<CaseResult> =
            vector["results"].as_array().unwrap().iter().map(aggregated).collect();
        let block = vector["gates"].as_object().unwrap();
        let (gates, problems) = gates::compile(block);
        assert_eq!(problems, [], "{id}");
        // The reference implementation has five gates, and reports only the gates that the block contains.
        let results = evaluate_gates(&gates, &cases)
            .into_iter()
            .filter(|it| block.contains_key(it.gate.as_str()))
            .collect::<Vec<_>>();
        let expected = vector["expect"]["gates"].as_array().unwrap();
        assert_eq!(results.len(), expected.len(), "{id}");
        assert_eq!(results.iter().all(GateResult::passed), vector["expect"]["passed"], "{id}");
        for (result, expected) in results.iter().zip(expected) {
            assert_eq!(result.gate, expected["gateName"], "{id}");
            assert_eq!(result.passed(), expected["passed"], "{id}: {result:?}");
            assert!(close(result.threshold, expected["threshold"].as_f64().unwrap()), "{id}");
            let same = without_interval(&result.message) == expected["message"]
                && result.actual.is_some_and(|it| close(it, expected["actual"].as_f64().unwrap()));
            if !same {
                assert_eq!(result.outcome, GateOutcome::NothingToMeasure, "{id}: {result:?}");
                differing.push((id, result.gate.clone()));
            }
        }
    }
    let listed: Vec<_> =
        NOTHING_TO_MEASURE.iter().map(|&(id, gate)| (id, gate.to_owned())).collect();
    assert_eq!(differing, listed);
    assert_eq!(vectors.len(), 60);
}

/// Returns the message without the counts and the interval, which the reference implementation does not show.
fn without_interval(message: &str) -> String {
    match message.split_once(" (") {
        Some((start, rest)) if rest.contains("; 95% CI ") => match rest.split_once(" (") {
            Some((_, limit)) => format!("{start} ({limit}"),
            None => start.to_owned(),
        },
        _ => message.to_owned(),
    }
}

fn aggregated(it: &Value) -> CaseResult {
    let scores = it["assertionScores"].as_object().unwrap().iter().map(|(key, score)| {
        let (assertion, label) = key.split_once(':').unwrap();
        let number = |name: &str| score[name].as_f64().unwrap();
        ScoreSummary {
            assertion: assertion.to_owned(),
            label: label.to_owned(),
            class: Class::Deterministic,
            mean: number("mean"),
            min: number("min"),
            max: number("max"),
            count: 1,
        }
    });
    CaseResult {
        case: it["testCaseName"].as_str().unwrap().to_owned(),
        model: it["modelId"].as_str().unwrap().to_owned(),
        outcome: if it["passed"] == true { Outcome::Passed } else { Outcome::Failed },
        pass_rate: it["passRate"].as_f64().unwrap(),
        scores: scores.collect(),
        failure_codes: serde_json::from_value(it["failureCodes"].clone()).unwrap(),
        latency_avg_ms: it["latencyAvgMs"].as_f64(),
        ..Written::default().case()
    }
}

/// A case result in the format of the examples on the pages.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Written {
    case: String,
    model: String,
    cluster: Option<String>,
    tags: Vec<String>,
    outcome: Outcome,
    codes: Vec<FailureCode>,
    /// The mean scores of checks, by assertion.
    scores: indexmap::IndexMap<String, Vec<f64>>,
    /// The results of rules, by id: `passed`, `failed`, `errored` or `skipped`.
    rules: indexmap::IndexMap<String, Vec<Outcome>>,
    /// The results of checks, by id: `contains`, or `not-contains` if negated.
    checks: indexmap::IndexMap<String, Vec<Outcome>>,
    /// The scores by the name of their metric.
    metrics: indexmap::IndexMap<String, Vec<f64>>,
    /// The number of passed checks, and the total.
    deterministic: (u64, u64),
    probabilistic: (u64, u64),
    latency_ms: Option<f64>,
    cost_usd: f64,
    unknown_costs: u32,
    total_tokens: u64,
    judge_cost_usd: f64,
    provider_errors: usize,
    /// The number of executions without a verdict.
    errored: usize,
}

impl Default for Written {
    fn default() -> Self {
        Self {
            case: "case".to_owned(),
            model: "model".to_owned(),
            cluster: None,
            tags: Vec::new(),
            outcome: Outcome::Passed,
            codes: Vec::new(),
            scores: indexmap::IndexMap::new(),
            rules: indexmap::IndexMap::new(),
            checks: indexmap::IndexMap::new(),
            metrics: indexmap::IndexMap::new(),
            deterministic: (0, 0),
            probabilistic: (0, 0),
            latency_ms: None,
            cost_usd: 0.0,
            unknown_costs: 0,
            total_tokens: 0,

            judge_cost_usd: 0.0,
            provider_errors: 0,
            errored: 0,
        }
    }
}

impl Written {
    fn case(self) -> CaseResult {
        let scores = self.scores.iter().flat_map(|(assertion, means)| {
            means.iter().map(|&mean| ScoreSummary {
                assertion: assertion.clone(),
                label: String::new(),
                class: Class::Deterministic,
                mean,
                min: mean,
                max: mean,
                count: 1,
            })
        });
        let error = ExecutionError::Provider(failure(ProviderErrorKind::Server));
        let mut executions = vec![execution(Some(error), 0.0); self.provider_errors];
        let mut results = rules(&self.rules);
        results.extend(checks(&self.checks));
        results.extend(metrics(&self.metrics));
        executions.push(ExecutionResult { results, ..execution(None, self.judge_cost_usd) });
        let errored = ExecutionResult { outcome: Outcome::Errored, ..execution(None, 0.0) };
        executions.extend(vec![errored; self.errored]);
        CaseResult {
            tags: self.tags,
            cluster: self.cluster,
            pass_rate: if self.outcome.held() { 1.0 } else { 0.0 },
            repeats: 1,
            scores: scores.collect(),
            failure_codes: self.codes,
            checks: CheckCounts {
                deterministic_passed: self.deterministic.0,
                deterministic_total: self.deterministic.1,
                probabilistic_passed: self.probabilistic.0,
                probabilistic_total: self.probabilistic.1,
            },
            latency_avg_ms: self.latency_ms,
            cost: Cost { known_usd: self.cost_usd, unknown: self.unknown_costs },
            total_tokens: self.total_tokens,
            executions,
            ..CaseResult::new(self.case, self.model, self.outcome)
        }
    }
}

fn rules(written: &indexmap::IndexMap<String, Vec<Outcome>>) -> Vec<AssertionResult> {
    const CODE: FailureCode = FailureCode::new("PROMPT_ASSERTION_FAILED");
    let result = |id: &str, outcome: Outcome| match outcome {
        Outcome::Failed => AssertionResult::fail(PROMPT_ASSERTION, id, CODE, "violated"),
        Outcome::Errored => AssertionResult::errored(PROMPT_ASSERTION, id, CODE, "no verdict"),
        Outcome::Skipped => AssertionResult::skipped(PROMPT_ASSERTION, id, "does not apply"),
        Outcome::Passed | Outcome::Scored => AssertionResult::pass(PROMPT_ASSERTION, id),
    };
    let each = written.iter().flat_map(|(id, all)| all.iter().map(move |it| (id, *it)));
    let class = Class::Probabilistic;
    each.map(|(id, outcome)| AssertionResult { class, ..result(id, outcome) }).collect()
}

fn checks(written: &indexmap::IndexMap<String, Vec<Outcome>>) -> Vec<AssertionResult> {
    const CODE: FailureCode = FailureCode::new("ASSERTION_FAILED");
    let result = |id: &str, outcome: Outcome| {
        let plain = id.strip_prefix(NOT);
        // Gates also find checks by their label, so it must differ from the id.
        let (name, label) = (plain.unwrap_or(id), format!("the check {id}"));
        let result = match outcome {
            Outcome::Failed => AssertionResult::fail(name, label, CODE, "violated"),
            Outcome::Errored => AssertionResult::errored(name, label, CODE, "no verdict"),
            Outcome::Skipped => AssertionResult::skipped(name, label, "does not apply"),
            Outcome::Passed | Outcome::Scored => AssertionResult::pass(name, label),
        };
        AssertionResult { is_negated: plain.is_some(), ..result }
    };
    let each = written.iter().flat_map(|(id, all)| all.iter().map(move |it| (id, *it)));
    each.map(|(id, outcome)| result(id, outcome)).collect()
}

fn metrics(written: &indexmap::IndexMap<String, Vec<f64>>) -> Vec<AssertionResult> {
    let each = written.iter().flat_map(|(name, all)| all.iter().map(move |it| (name, *it)));
    let result = |(name, score): (&String, f64)| AssertionResult {
        metric: Some(name.clone()),
        ..AssertionResult::pass("judge", "Judge").with_score(Score::new(score).unwrap())
    };
    each.map(result).collect()
}

fn execution(error: Option<ExecutionError>, judge_cost_usd: f64) -> ExecutionResult {
    ExecutionResult {
        outcome: if error.is_some() { Outcome::Errored } else { Outcome::Passed },
        error,
        judge_cost_usd: Some(judge_cost_usd),
        ..ExecutionResult::new(Execution::default(), Vec::new())
    }
}

fn page(id: &str) -> PathBuf {
    let module: String =
        id.chars()
            .map(|c| {
                if c.is_ascii_uppercase() {
                    format!("_{}", c.to_ascii_lowercase())
                } else {
                    c.into()
                }
            })
            .collect();
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/gates").join(module).join("docs.md")
}

#[test]
fn the_guide_lists_every_key_of_cases() {
    let message = serde_yaml::from_str::<Written>("unknown: 1").err().unwrap().to_string();
    let (_, expected) = message.split_once("expected one of ").unwrap();
    // The message continues with the position: `a`, `b` at line 1.
    let expected: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../CONTRIBUTING.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let (_, table) = guide.split_once("| Key of a case |").unwrap();
    let rows = table.lines().skip(2).take_while(|it| it.starts_with('|'));
    let listed: Vec<&str> = rows.filter_map(|it| it.split('`').nth(1)).collect();
    assert_eq!(listed, expected, "list the fields of `Written` in CONTRIBUTING.md, in their order");
}

/// Runs one example: the inputs are `yaml gate` and `yaml cases`; the results are outcome and message.
fn run_example(id: &str, example: &examples::Case) -> Result<(GateOutcome, String), String> {
    let block = example.input("gate").ok_or("the example has no `yaml gate` block")?;
    let cases = example.input("cases").ok_or("the example has no `yaml cases` block")?;
    let block: Map<String, Value> = serde_yaml::from_str(block).map_err(|err| err.to_string())?;
    let cases: Vec<Written> = serde_yaml::from_str(cases).map_err(|err| err.to_string())?;
    let (gates, problems) = gates::compile(&block);
    if !problems.is_empty() {
        return Err(examples::show_problems(&problems));
    }
    let cases: Vec<CaseResult> = cases.into_iter().map(Written::case).collect();
    let result = evaluate_gates(&gates, &cases)
        .into_iter()
        .find(|it| gates::kind_of_result(&it.gate) == id)
        .ok_or_else(|| format!("the example does not set `{id}`"))?;
    let outcome = match result.outcome {
        GateOutcome::Held => "held",
        GateOutcome::Violated => "violated",
        GateOutcome::NothingToMeasure => "nothing to measure",
    };
    Ok((result.outcome, format!("{outcome}: {}\n", result.message)))
}

#[test]
fn every_gate_page_shows_its_gate() {
    for it in gates::REGISTRY {
        let id = it.meta.id;
        let mut seen = Vec::new();
        let checked = examples::check(&page(id), |example| {
            let (outcome, shown) = run_example(id, example)?;
            seen.push(outcome);
            Ok(shown)
        });
        if let Err(message) = checked {
            panic!("{message}");
        }
        // Cases contain no calibrations, baseline and mutants, so these examples cannot show other outcomes.
        let shown: &[GateOutcome] = match id {
            "judgeKappaMin" | "mutationScoreMin" | "noRegression" => {
                &[GateOutcome::NothingToMeasure]
            }
            _ => &[GateOutcome::Held, GateOutcome::Violated],
        };
        for outcome in shown {
            assert!(seen.contains(outcome), "{id}: docs.md has no example that is {outcome:?}");
        }
    }
}

#[test]
fn the_registry_is_in_order() {
    let ids: Vec<&str> = gates::REGISTRY.iter().map(|it| it.meta.id).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "an id is there twice");
    for it in gates::REGISTRY {
        let meta = &it.meta;
        assert!(
            meta.docs.starts_with(&format!("# `{}`\n", meta.id)),
            "{}: title of docs.md",
            meta.id
        );
        assert!(meta.summary.ends_with('.') && meta.summary.len() < 100, "{}: summary", meta.id);
        assert!(
            meta.default.is_none_or(|it| meta.threshold.parse_value(&it.into()).is_ok()),
            "{}",
            meta.id
        );
        assert_eq!((it.build)(0.5).evaluate(&[]).gate, meta.id, "the result names another gate");
    }
    let defaults: Vec<GateResult> = evaluate_gates(&gates::defaults(), &[]);
    let defaults: Vec<(&str, f64)> =
        defaults.iter().map(|it| (it.gate.as_str(), it.threshold)).collect();
    assert_eq!(
        defaults,
        [
            ("passRateMin", 0.95),
            ("schemaFailuresMax", 0.0),
            ("piiFailuresMax", 0.0),
            ("keywordFailuresMax", 0.0),
            ("erroredMax", 0.0),
            ("providerErrorsMax", 0.0),
        ]
    );
}

#[test]
fn reports_every_problem_of_a_block() {
    let block = json!({
        "passRateMinn": 1, "passRateMin": 95, "piiFailuresMax": 0.5, "costMaxUsd": 0,
        "judgeAvgMin": null, "latencyMaxMs": "fast", "schemaFailuresMax": 1.0,
    });
    let (gates, problems) = gates::compile(block.as_object().unwrap());
    let shown = examples::show_problems(&problems);
    let expected = "\
invalid  /passRateMinn  there is no gate `passRateMinn` (did you mean `passRateMin`?)
invalid  /passRateMin  `passRateMin` must be a share from 0 to 1, but is 95 (did you mean `0.95`?)
invalid  /piiFailuresMax  `piiFailuresMax` must be a whole number from 0, but is 0.5
invalid  /judgeAvgMin  `judgeAvgMin` must be a share from 0 to 1, but is null
invalid  /costMaxUsd  `costMaxUsd` must be a number above 0, but is 0
invalid  /latencyMaxMs  `latencyMaxMs` must be a number above 0, but is \"fast\"
";
    assert_eq!(shown, expected);
    let ids: Vec<String> = evaluate_gates(&gates, &[]).into_iter().map(|it| it.gate).collect();
    assert_eq!(ids, ["schemaFailuresMax", "keywordFailuresMax", "erroredMax", "providerErrorsMax"]);
}

#[test]
fn the_schema_describes_every_gate() {
    let schema = gates::schema();
    assert_eq!(schema["additionalProperties"], false);
    let property = |id: &str| schema["properties"][id].clone();
    for it in gates::REGISTRY {
        assert_eq!(property(it.meta.id)["description"], it.meta.summary);
    }
    assert_eq!(property("passRateMin")["default"], 0.95);
    assert_eq!(property("passRateMin")["anyOf"][0]["maximum"], 1);
    assert_eq!(property("piiFailuresMax")["type"], "integer");
    assert_eq!(property("costMaxUsd")["exclusiveMinimum"], 0);
    assert_eq!(property("costMaxUsd").get("default"), None);
}

#[test]
fn the_lower_end_of_an_interval_may_be_compared() {
    // The lowest numbers of passes that show a rate of at least 0.9.
    for (passed, total, holds) in [
        (35, 35, true),
        (34, 34, false),
        (52, 53, true),
        (51, 52, false),
        (96, 100, true),
        (95, 100, false),
        (281, 300, true),
        (280, 300, false),
        (0, 0, false),
    ] {
        let block = json!({ "passRateMin": { "value": 0.9, "bound": "low" } });
        let (gates, problems) = gates::compile(block.as_object().unwrap());
        assert_eq!(problems, []);
        let case = |at| {
            let outcome = if at < passed { Outcome::Passed } else { Outcome::Failed };
            let written = Written { outcome, case: format!("case {at}"), ..Written::default() };
            written.case()
        };
        let cases: Vec<CaseResult> = (0..total).map(case).collect();
        let result = evaluate_gates(&gates[..1], &cases).remove(0);
        assert_eq!(
            (result.gate.as_str(), result.passed()),
            ("passRateMin.low", holds),
            "{result:?}"
        );
        let again = gates::of_result(&gates::built_in(), &result).unwrap();
        assert_eq!(again.evaluate(&cases), result);
    }
}

#[test]
fn cases_of_a_cluster_lower_the_bound() {
    let block = json!({
        "passRateMin": { "value": 0.5, "bound": "low" },
        "avgScoreMin": { "value": 0.5, "bound": "low" },
        "assertions": { "contains": { "value": 0.5, "bound": "low" } },
        "tags": { "refunds": { "value": 0.5, "bound": "low" } },
        "judgeAvgMin": { "value": 0.5, "bound": "low" },
        "deterministicPassRate": { "value": 0.5, "bound": "low" },
        "probabilisticPassRate": { "value": 0.5, "bound": "low" },
    });
    let (gates, problems) = gates::compile(block.as_object().unwrap());
    assert_eq!(problems, []);
    let bounds = |names: [(u32, &str); 6], cluster: Option<&str>| -> Vec<String> {
        let cases = names.map(|(at, model)| {
            let written = Written {
                case: format!("case {at}"),
                model: model.to_owned(),
                cluster: cluster.map(str::to_owned),
                tags: vec!["refunds".to_owned()],
                checks: [("contains".to_owned(), vec![Outcome::Passed; 2])].into(),
                scores: [("judge".to_owned(), vec![1.0])].into(),
                deterministic: (2, 2),
                probabilistic: (3, 3),
                ..Written::default()
            };
            written.case()
        });
        let results = evaluate_gates(&gates, &cases);
        let low = results.iter().filter(|it| it.gate.strip_suffix(".low").is_some());
        low.map(|it| format!("{:.3}", it.actual.unwrap())).collect()
    };
    let each = [1, 2, 3, 4, 5, 6].map(|at| (at, "a"));
    let on_two_models = [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (3, "a"), (3, "b")];
    // The lower ends of the intervals for 6 of 6, 3 of 3, and 1 of 1 clusters.
    assert_eq!(bounds(each, None), ["0.610"; 7]);
    assert_eq!(bounds(on_two_models, None), ["0.439"; 7]);
    assert_eq!(bounds(each, Some("document")), ["0.207"; 7]);
}

#[test]
fn independent_cases_have_the_same_result_without_their_names() {
    let block = json!({ "passRateMin": { "value": 0.5, "bound": "low" }, "judgeAvgMin": 0.5 });
    let (gates, _) = gates::compile(block.as_object().unwrap());
    let mut measurements = [gates::Measurements::begin(&gates), gates::Measurements::begin(&gates)];
    measurements[1].cases_are_independent();
    for at in 0..9_u32 {
        let scores = [("judge".to_owned(), vec![f64::from(at) / 8.0])].into();
        let written = Written { case: format!("case {at}"), scores, ..Written::default() };
        let case = written.case();
        for it in &mut measurements {
            it.observe(&case);
        }
    }
    let shown = measurements.map(|it| it.finish().into_iter().map(|it| it.message));
    let [named, unnamed] = shown.map(Iterator::collect::<Vec<String>>);
    assert_eq!(named, unnamed);
}

#[test]
fn a_check_without_a_verdict_violates_its_gate() {
    for (gate, check) in [
        ("judgeAvgMin", "judge"),
        ("driftScoreMax", "drift"),
        ("deterministicPassRate", "contains"),
        ("probabilisticPassRate", "rule"),
    ] {
        let violated = |outcome: Option<Outcome>, provider_errors| {
            let block = json!({ gate: 0.5, "erroredMax": 9 });
            let (gates, _) = gates::compile(block.as_object().unwrap());
            let results =
                indexmap::IndexMap::from_iter(outcome.map(|it| (check.to_owned(), vec![it])));
            let none = indexmap::IndexMap::new();
            let (rules, checks) = if check == "rule" { (results, none) } else { (none, results) };
            let written = Written { rules, checks, provider_errors, ..Written::default() };
            let results = evaluate_gates(&gates, &[written.case()]);
            results.iter().find(|it| it.gate == gate).unwrap().outcome
        };
        let (none, errored, skipped) = (None, Some(Outcome::Errored), Some(Outcome::Skipped));
        for (outcome, provider_errors, expected) in [
            (none, 0, GateOutcome::NothingToMeasure),
            (skipped, 0, GateOutcome::NothingToMeasure),
            (skipped, 1, GateOutcome::NothingToMeasure),
            (errored, 0, GateOutcome::Violated),
            (errored, 1, GateOutcome::Violated),
            (none, 1, GateOutcome::Violated),
        ] {
            let found = violated(outcome, provider_errors);
            assert_eq!(found, expected, "{gate}: {outcome:?}, {provider_errors} provider errors");
        }
    }
}

#[test]
fn invalid_options_of_a_rate_are_problems() {
    let block = json!({
        "passRateMin": { "value": 95, "bound": "lower" },
        "judgeAvgMin": { "bound": "low" },
        "deterministicPassRate": { "value": 0.5, "bounds": "low" },
    });
    let (_, problems) = gates::compile(block.as_object().unwrap());
    let expected = "\
invalid  /passRateMin/value  `value` must be a share from 0 to 1, but is 95
invalid  /passRateMin/bound  `bound` must be `mean` or `low`, but is \"lower\"
invalid  /judgeAvgMin  `value` is missing
invalid  /deterministicPassRate/bounds  unknown key `bounds` (the keys are `value` and `bound`)
";
    assert_eq!(examples::show_problems(&problems), expected);
}

#[test]
fn a_gate_per_name_is_created_again_from_its_result() {
    let block = json!({
        "assertions": { "judge": 0.5, "a.low": { "value": 0.5, "bound": "low" } },
        "metrics": { "tone": -1.5 },
        "tags": { "x[1]": 1, "a.low": { "value": 0.2, "bound": "low" } },
        "avgScoreMin": { "value": 0.5, "bound": "low" },
    });
    let (gates, problems) = gates::compile(block.as_object().unwrap());
    assert_eq!(problems, []);
    let written = json!({
        "tags": ["x[1]", "a.low"], "rules": { "a.low": ["passed", "failed"] },
        "metrics": { "tone": [0.5] },
    });
    let case = serde_json::from_value::<Written>(written).unwrap().case();
    for cases in [vec![], vec![case]] {
        let results = evaluate_gates(&gates, &cases);
        let named: Vec<&GateResult> =
            results.iter().filter(|it| gates::find(&it.gate).is_none()).collect();
        let ids: Vec<&str> = named.iter().map(|it| it.gate.as_str()).collect();
        assert_eq!(
            ids,
            [
                "avgScoreMin.low",
                "assertions[judge]",
                "assertions[a.low].low",
                "metrics[tone]",
                "tags[x[1]]",
                "tags[a.low].low"
            ]
        );
        for result in named {
            let again = gates::of_result(&gates::built_in(), result).unwrap();
            assert_eq!(again.evaluate(&cases), *result);
            assert_eq!(result.actual.is_none(), cases.is_empty(), "{result:?}");
            assert!(!cases.is_empty() || !result.passed(), "nothing was measured: {result:?}");
        }
    }
}

#[test]
fn assertions_are_found_by_id_label_and_rule() {
    let code = FailureCode::new("ANY");
    let part = AssertionResult::fail("contains", "has a source", code, "absent");
    let results = vec![
        AssertionResult::pass(PROMPT_ASSERTION, "mine").with_rule_id("cite_sources"),
        AssertionResult {
            components: vec![part],
            set: Some(kindlm_types::SetRule { checks: 1, ..Default::default() }),
            ..AssertionResult::pass(kindlm_types::ASSERT_SET, "set")
        },
        AssertionResult::pass(kindlm_types::AGGREGATE_SCORE, "all"),
        AssertionResult::skipped("drift", "Drift", "no baseline"),
    ];
    let mut case = Written::default().case();
    case.executions[0].results = results;
    for (name, expected) in [
        ("cite_sources", Some(1.0)),
        ("mine", Some(1.0)),
        ("prompt-assertion", Some(1.0)),
        ("contains", Some(0.0)),
        ("has a source", Some(0.0)),
        ("assert-set", Some(1.0)),
        ("threshold", None),
        ("drift", None),
    ] {
        let block = json!({ "assertions": { name: 0.5 } });
        let (gates, _) = gates::compile(block.as_object().unwrap());
        let results = evaluate_gates(&gates, std::slice::from_ref(&case));
        let result = results.iter().find(|it| it.gate.starts_with("assertions[")).unwrap();
        assert_eq!(result.actual, expected, "{name}");
        assert_eq!(result.passed(), expected == Some(1.0), "{name}");
    }
}

#[test]
fn invalid_gates_per_name_are_problems() {
    let block = json!({
        "assertions": { "a": 95, "b": { "value": 0.5, "bounds": "low" }, "c": 0.5 },
        "metrics": { "tone": "0.8" },
        "tags": {},
    });
    let (_, problems) = gates::compile(block.as_object().unwrap());
    let expected = "\
invalid  /assertions/a  `a` must be a share from 0 to 1, but is 95 (did you mean `0.95`?)
invalid  /assertions/b/bounds  unknown key `bounds` (the keys are `value` and `bound`)
invalid  /metrics/tone  `tone` must be a number, but is \"0.8\"
invalid  /tags  names nothing, so it has no effect (write a name with its threshold, such as `{ name: 0.9 }`, or remove the key)
";
    assert_eq!(examples::show_problems(&problems), expected);
    let block = json!({ "assertions": 0.9 });
    let (_, problems) = gates::compile(block.as_object().unwrap());
    assert_eq!(
        examples::show_problems(&problems),
        "invalid  /assertions  `assertions` must be an object with a threshold for each name, such as `{ name: 0.9 }`, \
         but is 0.9\n"
    );
}

#[test]
fn thresholds_have_a_tolerance() {
    for (id, threshold, case) in [
        // In doubles, the average of 0.7, 0.8 and 0.9 is 0.7999999999999999, and 1 - 0.7 is 0.30000000000000004.
        ("judgeAvgMin", 0.8, json!({ "scores": { "judge": [0.7, 0.8, 0.9] } })),
        ("driftScoreMax", 0.3, json!({ "scores": { "drift": [0.7] } })),
        ("costMaxUsd", 0.3, json!({ "costUsd": 0.1 + 0.2 })),
    ] {
        let gate = (gates::find(id).unwrap().build)(threshold);
        let case: Written = serde_json::from_value(case).unwrap();
        let result = gate.evaluate(&[case.case()]);
        assert_eq!(result.outcome, GateOutcome::Held, "{result:?}");
    }
}

#[test]
fn an_unknown_cost_of_a_judge_breaks_the_budget() {
    let mut case = Written::default().case();
    case.executions[0].judge_cost_usd = None;
    let result = (gates::find("costMaxUsd").unwrap().build)(5.0).evaluate(&[case]);
    assert_eq!(result.outcome, GateOutcome::Violated);
    assert!(result.message.contains("unknown for 1 execution,"), "{}", result.message);
}

#[test]
fn failed_judge_providers_are_provider_errors() {
    let mut case = Written::default().case();
    case.executions[0].results = vec![kindlm_types::AssertionResult::errored(
        "judge",
        "tone",
        FailureCode::PROVIDER_AUTH_FAILED,
        "401",
    )];
    let result = (gates::find("providerErrorsMax").unwrap().build)(0.0).evaluate(&[case]);
    assert_eq!(result.message, "Provider errors: 1 (max: 0)");
}

#[expect(dead_code, reason = "the test calls what `main` prints")]
#[path = "../../examples/own_gate.rs"]
mod own_gate;

#[test]
fn an_own_gate_is_reached_by_its_name() {
    let gates = own_gate::gates(&json!({ "casesMax": 1 })).unwrap();
    let messages: Vec<String> = gates.iter().map(|it| it.evaluate(&[]).message).collect();
    assert!(messages.contains(&"Cases: 0 (max: 1)".to_owned()), "{messages:?}");
    let problems = own_gate::gates(&json!({ "caseMax": 1 })).unwrap_err();
    assert_eq!(problems[0].help.as_deref(), Some("did you mean `casesMax`?"));
}

#[test]
fn an_own_gate_has_options() {
    let options = json!({ "value": 1, "onlyFailed": true });
    let gates = own_gate::gates(&json!({ "casesMax": options })).unwrap();
    let messages: Vec<String> = gates.iter().map(|it| it.evaluate(&[]).message).collect();
    assert!(messages.contains(&"Failed cases: 0 (max: 1)".to_owned()), "{messages:?}");
    for (options, pointer) in [
        (json!({ "value": -1 }), "/casesMax/value"),
        (json!({ "value": 1, "tag": "x" }), "/casesMax/tag"),
        (json!({ "value": 1, "onlyFailed": "true" }), "/casesMax/onlyFailed"),
    ] {
        let problems = own_gate::gates(&json!({ "casesMax": options })).unwrap_err();
        assert_eq!(problems[0].pointer, pointer);
    }
    let registry = gates::built_in().with([&own_gate::CASES_MAX]).unwrap();
    let schema = gates::schema_with(&registry);
    let property = &schema["properties"]["casesMax"];
    assert_eq!(property["anyOf"][1]["required"], json!(["value"]), "{property}");
}

/// A gate of another crate on the number of cases of each model, whose results have its options.
static CASES_PER_MODEL: gates::Registration = gates::Registration::new(
    gates::Meta {
        id: "casesPerModel",
        summary: "The most test cases of each model.",
        since: "1.0",
        threshold: gates::Threshold::Names,
        default: None,
        docs: "",
    },
    |threshold| Box::new(CasesPerModel { model: String::new(), threshold, cases: 0.0 }),
)
.with_options(
    gates::Options::new(
        || json!({ "type": "object", "additionalProperties": { "type": "number" } }),
        |object| {
            let gate = |(model, max): (&String, &Value)| -> Box<dyn gates::Gate> {
                let threshold = max.as_f64().unwrap();
                Box::new(CasesPerModel { model: model.clone(), threshold, cases: 0.0 })
            };
            Ok(object.iter().map(gate).collect())
        },
    )
    .recorded(),
);

#[derive(Clone, Debug)]
struct CasesPerModel {
    model: String,
    threshold: f64,
    cases: f64,
}

impl gates::Gate for CasesPerModel {
    fn begin(&self) -> Box<dyn gates::Measurement> {
        Box::new(self.clone())
    }
}

impl gates::Measurement for CasesPerModel {
    fn observe(&mut self, case: &CaseResult) {
        if case.model == self.model {
            self.cases += 1.0;
        }
    }

    fn finish(&self) -> GateResult {
        let id = format!("casesPerModel[{}]", self.model);
        gates::at_most(&id, self.cases, self.threshold, format!("Cases: {}", self.cases))
    }
}

#[test]
fn recorded_options_of_an_own_gate_are_read_back() {
    let registry = gates::built_in().with([&CASES_PER_MODEL]).unwrap();
    let block = json!({ "casesPerModel": { "a": 1, "b": 2 } });
    let (compiled, problems) = gates::compile_with(&registry, block.as_object().unwrap());
    assert_eq!(problems, []);
    let cases = ["a", "b", "b", "b"].map(|it| CaseResult::new("case", it, Outcome::Passed));
    let results = evaluate_gates(&compiled, &cases);
    let results: Vec<_> =
        results.iter().filter(|it| it.gate.starts_with("casesPerModel[")).collect();
    let held: Vec<_> = results.iter().map(|it| (it.gate.as_str(), it.passed())).collect();
    assert_eq!(held, [("casesPerModel[a]", true), ("casesPerModel[b]", false)]);
    for result in results {
        let again = gates::of_result(&registry, result).unwrap();
        assert_eq!(again.evaluate(&cases), *result);
    }
}
