//! A suite uses an assertion, a gate, a provider and a reporter that the caller registered.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[expect(dead_code, reason = "only the registration is used")]
#[path = "../../kindlm-assertions/examples/own_assertion.rs"]
mod own_assertion;
#[expect(dead_code, reason = "only the registration is used")]
#[path = "../../kindlm-engine/examples/own_gate.rs"]
mod own_gate;
#[expect(dead_code, reason = "only the registration is used")]
#[path = "../../kindlm-providers/examples/own_provider.rs"]
mod own_provider;
#[expect(dead_code, reason = "only the registration is used")]
#[path = "../../kindlm-reporters/examples/own_reporter.rs"]
mod own_reporter;

use std::sync::Arc;

use kindlm_run::{
    OpenOptions, Prepared, Project, Purpose, Registries, RunConfig, Style, World, project,
    write_file,
};
use kindlm_testing::mock::{MockReply, MockServer};
use kindlm_types::ExitStatus;

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
