//! The agents and the suite in `docs/agents.md` work.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::Command;

use kindlm_testing::examples::{self, Example};
use kindlm_testing::installed;

use crate::binary;

fn page() -> Vec<Example> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agents.md");
    examples::parse(&fs::read_to_string(page).unwrap())
}

#[test]
fn the_suite_of_the_page_is_valid() {
    let fences = page();
    let suite = fences.iter().find(|it| it.info == "suite").unwrap();
    let loaded =
        kindlm_config::load("kindlm.yaml", suite.text.as_bytes(), &kindlm_types::NoFiles, &|_| {
            None
        });
    let said = loaded.diagnostics.iter().chain(&loaded.warnings);
    let said: Vec<String> = said.map(|it| kindlm_config::render(it, false)).collect();
    assert!(loaded.suite.is_some() && said.is_empty(), "{}", said.join("\n"));
}

#[test]
fn the_agents_of_the_page_work_and_are_short() {
    for (language, program, file) in
        [("python", "python3", "agent.py"), ("javascript", "node", "agent.js")]
    {
        let fences = page();
        let code = fences.iter().find(|it| it.language == language && it.info == file).unwrap();
        assert!(code.text.lines().count() <= 30, "{file} has got long");
        if !installed(program) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(file), &code.text).unwrap();
        let suite = format!(
            "kindlm: 1\nproject: p\nsuite: {{ name: s }}\nagents: {{ support: {{ command: {program} {file} }} }}\n\
             tests:\n  - name: remembers\n    agent: support\n    repeat: 2\n    conversation:\n\
             \x20     - {{ turn: greets, user: \"I am Ada, about order 12345.\", expect: {{ toolCalls: [{{ tool: lookup_order, argsMatch: {{ id: \"12345\" }} }}] }} }}\n\
             \x20     - {{ turn: remembers, user: \"Which order was it?\", expect: {{ output: {{ contains: [\"12345\"] }} }} }}\n\
             \x20   expect: {{ assert: [{{ type: not-called-tool, value: shell }}, {{ type: not-called-subagent, value: x }}, {{ type: max-tool-calls, value: 2 }}] }}\n"
        );
        fs::write(folder.path().join("kindlm.yaml"), suite).unwrap();
        let output =
            Command::new(binary()).arg("test").current_dir(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{program}: {said}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
