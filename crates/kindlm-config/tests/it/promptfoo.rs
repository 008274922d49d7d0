//! Imports of promptfoo configs.

use insta::assert_snapshot;
use kindlm_config::{import, render};

use crate::memory::{Memory, load_text, render_all};

/// Returns all problems of a config, and then its `kindlm.yaml`, or `(nothing)` without one.
fn imported(config: &str, files: &Memory) -> String {
    let env = |name: &str| (name == "REGION").then(|| "eu".to_owned());
    let imported = import("promptfooconfig.yaml", config.as_bytes(), files, &env);
    let problems = imported.diagnostics.iter().chain(&imported.warnings);
    let problems: Vec<String> =
        problems.map(|it| render(it, false).trim_end().to_owned()).collect();
    let problems: String = problems.join("\n\n") + if problems.is_empty() { "" } else { "\n\n" };
    format!("{problems}{}", imported.yaml.unwrap_or_else(|| "(nothing)\n".to_owned()))
}

fn plain(config: &str) -> String {
    imported(config, &Memory::default())
}

#[test]
fn a_small_config_becomes_a_small_suite() {
    assert_snapshot!(plain(
        r#"
description: greetings
prompts: ["Say hello to {{ name | upper }}."]
providers: [openai:gpt-4o-mini]
tests:
  - description: greets
    vars: { name: Ada }
    assert:
      - { type: equals, value: "{{name}}" }
      - { type: not-equals, value: sorry, weight: 2 }
    threshold: 0.6
"#
    ));
}

#[test]
fn keys_in_comments_are_masked() {
    let yaml = plain(
        "# apiKey: sk-proj-abcdefghijklmnop\nprompts: [hi]\nproviders: [echo]\ntests: [{ vars: { x: 1 } }]\n",
    );
    assert!(yaml.contains("# apiKey: sk-*") && !yaml.contains("abcdefgh"), "{yaml}");
}

#[test]
fn prompts_come_from_files_and_may_be_chats() {
    let files = Memory::from_files([
        ("prompts/a.txt", "First {{x}}\n---\nSecond {{x}}\n"),
        ("prompts/b.md", "# Third\n"),
        (
            "chat.json",
            r#"[{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "{{x}}"}]}]"#,
        ),
        ("chat.yaml", "- role: developer\n  content: Be kind.\n- { role: user, content: Hi }\n"),
    ]);
    assert_snapshot!(imported(
        r#"
prompts:
  - file://prompts/*.txt
  - prompts/b.md
  - { id: file://chat.json, label: chat }
  - file://chat.yaml
  - { raw: "Raw {{x}}", label: raw }
providers: [echo]
tests:
  - vars: { x: 1 }
    prompts: [chat, raw]
"#,
        &files
    ));
}

#[test]
fn providers_become_models_and_share_settings() {
    assert_snapshot!(plain(
        r#"
prompts: [hi]
providers:
  - openai:chat:gpt-4o
  - id: openai:gpt-4o
    label: warm
    config: { temperature: 0.9, max_tokens: 99, stop: END }
  - openai:gpt-4o-mini: { config: { apiKey: "{{env.OTHER_KEY}}", apiHost: proxy.example } }
  - anthropic:messages:claude-sonnet-4-5
  - ollama:chat:llama3.2:1b
  - openrouter:meta/llama-3
  - id: https://api.example/chat
    config:
      method: POST
      headers: { authorization: "{{env.CHAT_KEY}}", x-team: a }
      body: { q: "{{prompt}}" }
      transformResponse: json.choices[0].text
  - exec:./agent.sh -q
  - id: openai:gpt-4o
    label: with-tools
    prompts: [hi]
    config:
      tools:
        - type: function
          function: { name: look_up, description: Looks up., parameters: { type: object } }
tests: [{ assert: [{ type: equals, value: x }] }]
"#
    ));
}

#[test]
fn judges_do_not_get_the_parameters_that_tested_models_share() {
    let yaml = plain(
        r"
prompts: [hi]
providers:
  - { id: openai:gpt-4o, config: { seed: 42, max_tokens: 4000 } }
  - { id: openai:gpt-4o-mini, config: { seed: 42, max_tokens: 4000 } }
tests: [{ assert: [{ type: llm-rubric, value: is kind }] }]
",
    );
    let loaded = load_text(&yaml);
    let suite = loaded.suite.as_ref().unwrap_or_else(|| panic!("{yaml}\n{}", render_all(&loaded)));
    let tested = &suite.cases[0].models;
    assert_eq!(tested.len(), 2, "{yaml}");
    let judges: Vec<_> = suite.models.iter().filter(|it| !tested.contains(&it.id)).collect();
    assert!(!judges.is_empty(), "{yaml}");
    for model in &suite.models {
        let has_shared = (model.params.seed, model.params.max_tokens) == (Some(42), Some(4000));
        assert_eq!(has_shared, tested.contains(&model.id), "{}: {yaml}", model.id);
    }
}

#[test]
fn variables_stand_for_several_tests() {
    let files = Memory::from_files([
        ("v/a.txt", " text a \n"),
        ("v/b.txt", "text b"),
        ("data.yaml", "{ k: 1 }"),
        ("more.yaml", "city: Rome\nname: from file\n"),
    ]);
    assert_snapshot!(imported(
        r#"
prompts: ["{{name}} {{doc}}"]
providers: [echo]
defaultTest:
  vars: { name: D, other: o }
  assert: [{ type: equals, value: d }]
tests:
  - vars: { name: [A, B], doc: file://v/*.txt }
  - vars: { list: [1, 2], doc: file://data.yaml }
    options: { transform: "output.trim()" }
  - vars: file://more.yaml
    assert: [{ type: equals, value: Rome }]
  - vars: { name: [A, B] }
    options: { disableVarExpansion: true }
scenarios:
  - config: [{ vars: { lang: en } }, { vars: { lang: fr } }]
    tests: [{ description: speaks, assert: [{ type: equals, value: "{{lang}}" }] }]
"#,
        &files
    ));
}

#[test]
fn tables_have_assertions_in_short_form() {
    let files = Memory::from_files([(
        "t.csv",
        "name,__expected1,__expected2,__description,__metric,__threshold,__prefix\n\
         Bob,contains: Bob,levenshtein(2): Hello Bo,two,M,0.5,\n\
         Ann,Hello Ann,,,,,Dear \n",
    )]);
    assert_snapshot!(imported(
        "prompts: ['Hello {{name}}']\nproviders: [echo]\ntests: file://t.csv\n",
        &files
    ));
}

#[test]
fn a_key_without_equivalent_is_an_error_at_its_place() {
    assert_snapshot!(plain(
        r#"
prompts: [file://prompt.js, "plain {{x}}"]
providers:
  - browser
  - { id: openai:gpt-4o, config: { apiKey: not-of-a-known-shape, response_format: { type: json_object } } }
redteam: { purpose: none }
nunjucksFilters: { a: ./a.js }
outputPath: out.json
sharing: true
evaluateOptions: { delay: 100, maxConcurrency: 8 }
tests:
  - vars: { x: file://x.py }
    providerOutput: canned
    assertScoringFunction: file://s.js
    options: { storeOutputAs: y }
  - file://tests.js
"#
    ));
}
