//! A sample report with all variants of results.

mod build;
mod cases;
mod comparison;

pub use comparison::sample_comparison;
use kindlm_types::{
    AssertionSetInfo, CanaryWatch, CheckInfo, Class, ComplianceInfo, DerivedMetric, DerivedValue,
    FileDigest, GateOutcome, GateResult, InstructionsInfo, JudgeCalibration, JudgeIdentity,
    JudgeInfo, ModelInfo, Params, PromptInfo, Report, RunInfo, Severity, SkippedCase, SuiteInfo,
    TestInfo,
};

/// Returns the calibration of the judges: their measured agreement with the labels of people.
fn calibration() -> JudgeCalibration {
    JudgeCalibration {
        kappa: Some(0.712),
        low: Some(0.551),
        high: Some(0.873),
        agreement: 0.87,
        labels: 120,
        calibrated_at: "2026-10-02T09:30:00Z".to_owned(),
        alarm: None,
    }
}

/// Returns the canary results of three judges: an unchanged judge, a changed judge, and a judge that was not asked.
fn canaries() -> Vec<CanaryWatch> {
    let judge = |judge: &str| CanaryWatch::new(judge, "judge");
    let unchanged = CanaryWatch {
        asked: 5,
        different: 0,
        watches: 3,
        evidence: Some(0.41),
        tokens: 1_640,
        ..judge("gpt-4o")
    };
    let changed = CanaryWatch {
        asked: 4,
        different: 3,
        errored: 1,
        watches: 1,
        evidence: Some(31.5),
        alarm: Some(
            "judge changed: 3 of 4 differ from the calibration, own noise ≤ 6.3%; calibrate again"
                .to_owned(),
        ),
        ..judge("gemini-2.5-pro")
    };
    let not_asked = CanaryWatch {
        not_asked: Some("it was never calibrated for it".to_owned()),
        ..judge("<script>alert(1)</script>")
    };
    vec![unchanged, changed, not_asked]
}

/// Returns a report with all variants:
/// - cases that are passed, scored, failed, errored, not run, skipped, cached, truncated and flaky;
/// - conversations and commands;
/// - hostile and long outputs;
/// - known and unknown costs;
/// - gates that held, failed, and had nothing to measure;
/// - a comparison with each kind of change;
/// - judges with canaries, with and without an alarm.
///
/// The report is always the same, so that it can be used in snapshots.
pub fn sample_report() -> Report {
    Report {
        run: run(),
        suite: SuiteInfo {
            project: "acme-shop".to_owned(),
            name: "support-agent".to_owned(),
            description: Some(
                "The support agent of the web shop: orders, refunds, tone.".to_owned(),
            ),
            tags: vec!["nightly".to_owned()],
            config_path: Some("agents/support/kindlm.yaml".to_owned()),
            config_sha256: Some(
                "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned(),
            ),
            prompts: vec![PromptInfo {
                name: "support".to_owned(),
                digest: "5f1d7a84db00d2fce00b31a7fc73224f".to_owned(),
                assertion_sets: vec!["tone".to_owned()],
            }],
            assertion_sets: vec![AssertionSetInfo {
                name: "tone".to_owned(),
                version: Some("3".to_owned()),
                digest: "0c2a5f2d81d84be63c2e0f8b2d7a1c94".to_owned(),
                assertions: 4,
                file: Some("sets/tone.yaml".to_owned()),
            }],
            files: files(),
            suite_digest: Some(
                "4524d670d997af7b7adf973a1ddbb761d72cce44eff3572b411bb5fd9fb5a447".to_owned(),
            ),
            tests: tests(),
            judges: vec![JudgeInfo {
                check: "judge".to_owned(),
                models: vec!["gpt-4o".to_owned(), "gemini-2.5-pro".to_owned()],
                identities: judge_identities(),
                samples: 3,
                rules: vec!["jury: majority".to_owned()],
                instructions: vec!["3b1f0c9d2e4a5b6c".to_owned()],
                calibration: Some(calibration()),
            }],
            instructions: vec![InstructionsInfo {
                digest: "3b1f0c9d2e4a5b6c".to_owned(),
                text: "You judge an answer by a criterion.\n\nReply with JSON: a score from 0 to 1 | a reason."
                    .to_owned(),
            }],
        },
        models: models(),
        cases: cases::cases(),
        shard: None,
        comparison: Some(sample_comparison()),
        canaries: canaries(),
        skipped: vec![SkippedCase {
            case: "answers in French".to_owned(),
            tags: vec!["tone".to_owned(), "i18n".to_owned()],
            reason: "`skip: true` in the suite".to_owned(),
            plan_index: None,
        }],
        gates: gates(),
        derived: derived(),
        compliance: Some(ComplianceInfo {
            framework: "eu-ai-act".to_owned(),
            system_name: Some("ACME support agent | web".to_owned()),
            system_version: Some("2.4.0".to_owned()),
            risk_level: Some("limited".to_owned()),
            operator: None,
            provider: Some("ACME GmbH".to_owned()),
            deployer: None,
            intended_purpose: Some(
                "Answers customers' questions about orders.\nIssues refunds up to 50 EUR."
                    .to_owned(),
            ),
            data_governance_notes: None,
        }),
        warnings: vec![
            "no price is known for `gemini-2.5-pro`: add `pricing` to the model to count its cost"
                .to_owned(),
        ],
    }
}

/// Returns the models of the judges.
fn judge_identities() -> Vec<JudgeIdentity> {
    let known = [("gpt-4o", "openai", "gpt-4o"), ("gemini-2.5-pro", "gemini", "gemini-2.5-pro")];
    let identities = known.map(|(id, provider, name)| JudgeIdentity {
        id: id.to_owned(),
        provider: provider.to_owned(),
        name: name.to_owned(),
    });
    identities.into()
}

fn files() -> Vec<FileDigest> {
    let file = |path: &str, sha256: &str| FileDigest::new(path, sha256);
    vec![
        file("kindlm.yaml", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
        file("sets/tone.yaml", "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"),
    ]
}

fn tests() -> Vec<TestInfo> {
    let check = |assertion: &str, label: &str, class, threshold| CheckInfo {
        assertion: assertion.to_owned(),
        label: label.to_owned(),
        class,
        threshold,
        ..CheckInfo::default()
    };
    let test = |name: &str, repeat, checks| TestInfo {
        name: name.to_owned(),
        digest: Some("c157a79031e1c40f85931829bc5fc552".to_owned()),
        prompt: Some("support".to_owned()),
        repeat,
        pass_rate_min: 1.0,
        threshold: None,
        checks,
    };
    let tone = CheckInfo {
        severity: Severity::Soft,
        turn: Some("refund".to_owned()),
        ..check("judge", "Judge: friendly | calm", Class::Probabilistic, Some(0.8))
    };
    let tool = CheckInfo {
        config: Some("{\"tool\":\"lookup_order\",\"argsMatch\":{\"id\":\"A|1\"}}".to_owned()),
        ..check("tool-calls", "tool-calls", Class::Deterministic, None)
    };
    vec![test("looks up the order", 3, vec![tool, tone]), test("answers in German", 1, Vec::new())]
}

/// Returns two derived metrics. The second metric cannot be computed for any model.
fn derived() -> Vec<DerivedMetric> {
    let metric = |name: &str, formula: &str, of: &dyn Fn(usize) -> Result<f64, String>| {
        let values = models().into_iter().take(2).enumerate();
        let values = values.map(|(at, model)| DerivedValue { model: model.id, value: of(at) });
        DerivedMetric {
            name: name.to_owned(),
            formula: formula.to_owned(),
            values: values.collect(),
        }
    };
    let missing = Err("no check gave a score named `recall`".to_owned());
    vec![
        metric("tone per case", "tone / __count", &|at| Ok([0.3, 0.125][at])),
        metric("F1", "2 * tone * recall / (tone + recall)", &move |_| missing.clone()),
    ]
}

/// Returns the report of a run without failures: two cases, two models and one gate.
pub fn green_report() -> Report {
    let mut report = sample_report();
    report.cases.retain(|case| case.outcome == kindlm_types::Outcome::Passed);
    report.cases.truncate(2);
    report.models.truncate(2);
    report.skipped.clear();
    report.warnings.clear();
    report.compliance = None;
    report.derived.clear();
    report.comparison = Some(comparison::unchanged_comparison());
    report.gates = vec![gate("passRateMin", Some(1.0), 0.95, "Pass rate: 100.0% (min: 95.0%)")];
    report.run.duration_ms = 1840.0;
    report
}

fn run() -> RunInfo {
    RunInfo {
        id: "20261120-140102-7f3a".to_owned(),
        version: "0.1.0".to_owned(),
        started_at: "2026-11-20T14:01:02.345Z".to_owned(),
        duration_ms: 83_412.5,
        platform: "linux-x86_64".to_owned(),
        git_commit: Some("4b825dc642cb6eb9a060e54bf8d69288fbee4904".to_owned()),
        git_branch: Some("release/2.4".to_owned()),
        git_dirty: Some(true),
        interrupted: false,
        partial: false,
    }
}

fn models() -> Vec<ModelInfo> {
    let model = |id: &str, provider: &str, name: &str, params| ModelInfo {
        id: id.to_owned(),
        provider: provider.to_owned(),
        name: name.to_owned(),
        params,
    };
    let params = Params {
        temperature: Some(0.2),
        max_tokens: Some(1024),
        top_p: Some(0.9),
        stop_sequences: vec!["END".to_owned()],
        seed: Some(7),
    };
    vec![
        model("gpt-4o", "openai", "gpt-4o-2024-08-06", params),
        model("claude", "anthropic", "claude-sonnet-4-5", Params::default()),
        model("gemini-2.5-pro", "gemini", "gemini-2.5-pro", Params::default()),
    ]
}

fn gate(id: &str, actual: Option<f64>, threshold: f64, message: &str) -> GateResult {
    let outcome = if actual.is_some() { GateOutcome::Held } else { GateOutcome::NothingToMeasure };
    GateResult::new(id, outcome, threshold, message).with_actual(actual)
}

fn broken(id: &str, actual: f64, threshold: f64, message: &str) -> GateResult {
    GateResult::new(id, GateOutcome::Violated, threshold, message).with_actual(actual)
}

fn gates() -> Vec<GateResult> {
    vec![
        broken("passRateMin", 4.0 / 13.0, 0.95, "Pass rate: 30.8% (min: 95.0%)"),
        gate("schemaFailuresMax", Some(0.0), 0.0, "Schema failures: 0 (max: 0)"),
        broken("piiFailuresMax", 1.0, 0.0, "PII failures: 1 (max: 0)"),
        gate("judgeAvgMin", Some(0.62), 0.6, "Judge avg: 62.0% (min: 60.0%)"),
        gate("driftScoreMax", None, 0.15, "Drift score: nothing to measure (max: 0.15)"),
        gate("costMaxUsd", Some(0.031_9), 0.5, "Cost: $0.0319 (max: $0.5)"),
        broken("providerErrorsMax", 1.0, 0.0, "Provider errors: 1 (max: 0)"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use kindlm_types::{ExecutionError, Outcome};
    use kindlm_wire::{parse_report, v1};

    #[test]
    fn has_every_outcome_and_every_error() {
        let report = sample_report();
        for outcome in
            [Outcome::Passed, Outcome::Scored, Outcome::Failed, Outcome::Errored, Outcome::Skipped]
        {
            assert!(report.cases.iter().any(|it| it.outcome == outcome), "{outcome}");
        }
        let kinds: Vec<_> = report
            .cases
            .iter()
            .flat_map(kindlm_types::CaseResult::errors)
            .map(|it| match it.error {
                ExecutionError::Provider(_) => "provider",
                ExecutionError::NotRun { .. } => "not run",
                ExecutionError::Internal { .. } => "internal",
            })
            .collect();
        assert_eq!(kinds, ["provider", "internal", "not run"]);
    }

    #[test]
    fn a_json_round_trip_loses_nothing() {
        for report in [sample_report(), green_report(), Report::default()] {
            let json = serde_json::to_vec(&v1::Report::from(&report)).unwrap();
            assert_eq!(parse_report(&json).unwrap(), report);
        }
    }

    /// Cases are parsed one at a time, and an error has its place in the whole text.
    #[test]
    fn errors_of_cases_have_the_place_in_the_report() {
        let report = v1::Report::from(&sample_report());
        for json in [
            serde_json::to_string(&report).unwrap(),
            serde_json::to_string_pretty(&report).unwrap(),
        ] {
            let keys: Vec<_> = json.match_indices("\"outcome\"").map(|(at, _)| at + 1).collect();
            assert!(keys.len() > 20, "{}", keys.len());
            for at in keys {
                let mut json = json.clone();
                json.replace_range(at..=at, "O");
                let expected = serde_json::from_str::<v1::Report>(&json).unwrap_err();
                assert!(expected.to_string().starts_with("missing field `outcome` at line"));
                let found = parse_report(json.as_bytes()).unwrap_err().to_string();
                assert_eq!(found, format!("not a KindLM report: {expected}"));
            }
        }
    }
}
