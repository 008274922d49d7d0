//! A suite uses an assertion, a gate, a provider and a reporter that the caller registered.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[expect(dead_code, reason = "only the registration is used")]
#[path = "../../kindlm-assertions/examples/own_assertion.rs"]
mod own_assertion;
#[expect(dead_code, reason = "the test calls what `main` prints")]
#[path = "../../kindlm-engine/examples/own_gate.rs"]
mod own_gate;
#[expect(dead_code, reason = "only the registration is used")]
#[path = "../../kindlm-providers/examples/own_provider.rs"]
mod own_provider;
#[expect(dead_code, reason = "only the registration is used")]
#[path = "../../kindlm-reporters/examples/own_reporter.rs"]
mod own_reporter;

use std::sync::Arc;

use kindlm_engine::{measure_gates, merge};
use kindlm_run::{
    OpenOptions, Prepared, Project, Purpose, Registries, RunConfig, Style, World, gates, project,
    trust, write_file,
};
use kindlm_testing::mock::{MockReply, MockServer};
use kindlm_types::{CaseResult, ExitStatus, GateResult, Outcome, Report, ShardInfo};
use serde_json::{Value, json};

fn registries() -> Registries {
    let known = Registries::default();
    let assertions = kindlm_assertions::Registry::built_in().with([&own_assertion::NO_SHOUTING]);
    Registries {
        assertions: Arc::new(assertions.unwrap()),
        gates: known.gates.with([&own_gate::CASES_MAX]).unwrap(),
        providers: known.providers.with([&own_provider::ORACLE]).unwrap(),
        reporters: known.reporters.with([&own_reporter::LINES]).unwrap(),
    }
}

#[test]
fn a_suite_reaches_registered_entries() {
    let reply = |_: &_| MockReply::json(&serde_json::json!({ "answer": "It has shipped!" }));
    let server = MockServer::answering(reply).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let suite = format!(
        "\
kindlm: 1
project: p
suite: {{ name: s }}
providers: {{ oracle: {{ url: \"{}/ask\" }} }}
models: [{{ id: m, provider: oracle, model: x }}]
prompts: {{ p: {{ user: \"{{{{q}}}}\" }} }}
tests:
  - {{ name: calm, prompt: p, vars: {{ q: hi }}, expect: {{ assert: [{{ type: no-shouting }}] }} }}
gates: {{ casesMax: 0 }}
reports: {{ lines: lines.txt }}
",
        server.url()
    );
    std::fs::write(folder.path().join("kindlm.yaml"), suite).unwrap();

    let mut world = World::new(folder.path(), Arc::new(|_| None));
    world.registries = registries();
    let opened = Project::open(&world, &OpenOptions::new("kindlm.yaml"), Purpose::Run).unwrap();
    let specs = project::reports(&world, &opened.place, &opened.suite, false).unwrap();
    let target = folder.path().join(specs[0].path.as_ref().unwrap());
    let prepared = Prepared::new(&world, opened, RunConfig::default(), None).unwrap().unwrap();
    let mut gates = Vec::new();
    let status = prepared.run(&world, Box::new(()), &mut |report| {
        gates.extend(report.gates.iter().map(|it| it.message.clone()));
        write_file(&target, specs[0].reporter, report, &Style::default())
    });
    assert_eq!(status.unwrap(), ExitStatus::GatesFailed);
    assert!(gates.contains(&"Cases: 1 (max: 0)".to_owned()), "{gates:?}");
    assert_eq!(std::fs::read_to_string(target).unwrap(), "Failed calm on m\n");
}

/// Returns the result of `casesMax` in the merged report of two shards with two cases each.
fn merged_cases_max(options: &Value, outcome: Outcome) -> GateResult {
    let mut world = World::new(std::env::temp_dir(), Arc::new(|_| None));
    world.registries = registries();
    let suite_gates = own_gate::gates(&json!({ "casesMax": options })).unwrap();
    let shard = |index: u32| {
        let first = u64::from(index - 1) * 2;
        let case = |at: u64| {
            let case = CaseResult::new(format!("case {at}"), "m", outcome);
            CaseResult { plan_index: Some(at), ..case }
        };
        let mut report = Report {
            shard: Some(ShardInfo { index, count: 2, cases: 4, ..ShardInfo::default() }),
            cases: vec![case(first), case(first + 1)],
            ..Report::default()
        };
        report.gates = measure_gates(&suite_gates, &report).unwrap();
        (format!("{index}.json"), report)
    };
    let shards = vec![shard(1), shard(2)];
    let rebuilt = gates::rebuild(&world, &shards[0].1.gates).unwrap();
    let before = trust::results_of_shards(&world, &rebuilt, &shards).unwrap();
    let mut report = merge(shards, &rebuilt).unwrap();
    trust::carry_over(&world, &mut report.gates, &before);
    report.gates.into_iter().find(|it| it.gate == "casesMax").unwrap()
}

#[test]
fn merge_measures_a_registered_gate_again() {
    let result = merged_cases_max(&json!(3), Outcome::Passed);
    assert_eq!((result.passed(), result.message.as_str()), (false, "Cases: 4 (max: 3)"));
    let result = merged_cases_max(&json!({ "value": 4 }), Outcome::Passed);
    assert_eq!((result.passed(), result.message.as_str()), (true, "Cases: 4 (max: 4)"));
}

#[test]
fn merge_violates_a_gate_with_lost_options() {
    for outcome in [Outcome::Passed, Outcome::Failed] {
        let result = merged_cases_max(&json!({ "value": 9, "onlyFailed": true }), outcome);
        assert!(!result.passed(), "{result:?}");
        assert!(result.message.contains("lack the options"), "{result:?}");
    }
}
