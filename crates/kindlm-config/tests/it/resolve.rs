//! Tests of the suite that a valid file resolves to.

use std::collections::HashSet;
use std::time::Duration;

use kindlm_engine::{CaseBody, Subject, Suite, TestCase, Until};
use kindlm_stats::Sprt;
use serde_json::{Value, json};

use crate::memory::{GOOD, Memory, load_text, load_with, render_all, with};

fn suite(text: &str) -> Suite {
    let loaded = load_text(text);
    let said = render_all(&loaded);
    loaded.suite.unwrap_or_else(|| panic!("{said}"))
}

fn body(case: &TestCase) -> CaseBody {
    case.body.body().unwrap().into_owned()
}

fn command_line(case: &TestCase) -> String {
    let Subject::Command { command_line } = body(case).subject else { panic!("{case:?}") };
    command_line
}

fn messages(case: &TestCase) -> Vec<String> {
    let Subject::Prompt { messages } = body(case).subject else { panic!("{case:?}") };
    messages.iter().map(|it| it.content.clone()).collect()
}

#[test]
fn a_file_becomes_a_suite() {
    let suite = suite(GOOD);
    assert_eq!((suite.info.project.as_str(), suite.info.name.as_str()), ("demo", "support"));
    assert_eq!(suite.info.config_path.as_deref(), Some("kindlm.yaml"));
    assert_eq!(suite.providers["openai"], json!({"apiKeyEnv": "OPENAI_API_KEY"}));
    let [greets, agent] = suite.cases.as_slice() else { panic!() };
    assert_eq!(messages(greets), ["You are polite.", "Greet Ada."]);
    assert_eq!(*greets.models, ["fast", "good"]);
    assert_eq!(body(greets).checks.len(), 1);
    assert_eq!((greets.repeat, body(greets).max_turns, greets.skip.clone()), (1, 10, None));
    assert_eq!(command_line(agent), "./agent --name 'Grace Hopper'");
    assert!(agent.models.is_empty());
    assert_eq!(suite.defaults.timeout, Duration::from_mins(1));
    assert!(suite.models.iter().all(|it| it.price.is_some()));
    let held: Vec<String> = suite.gates.iter().map(|it| it.evaluate(&[]).gate).collect();
    assert_eq!(
        held,
        [
            "passRateMin",
            "schemaFailuresMax",
            "piiFailuresMax",
            "keywordFailuresMax",
            "erroredMax",
            "providerErrorsMax"
        ]
    );
}

#[test]
fn a_model_may_be_named_by_its_provider_wherever_one_is_named() {
    let text =
        GOOD.replace(
            "models:\n  - id: fast\n    provider: openai\n    model: gpt-4o-mini\n",
            "models:\n  - ollama:llama3:8b\n",
        )
        .replace(
            "    vars: { name: Ada }\n",
            "    vars: { name: Ada }\n    models: [good, 'openai:gpt-4.1', 'openai:gpt-4.1']\n",
        )
        .replace(
            "output: { contains: [Ada] }",
            "judge: [{ criteria: Kind?, model: 'anthropic:claude-sonnet-4-5' }]",
        ) + "defaults: { judgeModel: 'gemini:gemini-2.0-flash' }\n";
    let suite = suite(&text);
    let models: Vec<(&str, &str, &str)> = suite
        .models
        .iter()
        .map(|it| (it.id.as_str(), it.provider.as_str(), it.name.as_str()))
        .collect();
    assert_eq!(
        models,
        [
            ("ollama:llama3:8b", "ollama", "llama3:8b"),
            ("good", "openai", "gpt-4o"),
            ("gemini:gemini-2.0-flash", "gemini", "gemini-2.0-flash"),
            ("openai:gpt-4.1", "openai", "gpt-4.1"),
            ("anthropic:claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5"),
        ]
    );
    // Judge models are not tested themselves.
    assert_eq!(*suite.cases[0].models, ["good", "openai:gpt-4.1"]);
    assert_eq!(suite.defaults.judge_model.as_deref(), Some("gemini:gemini-2.0-flash"));
    assert_eq!(suite.providers["anthropic"], json!({"apiKeyEnv": "ANTHROPIC_API_KEY"}));
    assert_eq!(suite.providers["ollama"], json!({}));
    assert_eq!(suite.models[0].params.temperature, Some(0.2));
    assert_eq!(suite.models[0].params.max_tokens, Some(1024));
}

#[test]
fn tests_may_be_run_without_a_list_of_providers() {
    let start = GOOD.find("providers:").unwrap();
    let end = GOOD.find("prompts:").unwrap();
    let text = format!("{}models: ['echo:any']\n{}", &GOOD[..start], &GOOD[end..]);
    let suite = suite(&text);
    assert_eq!(*suite.cases[0].models, ["echo:any"]);
    assert_eq!(suite.providers["echo"], json!({}));
}

#[test]
fn options_of_a_test_win_over_defaults() {
    let text = with(
        "    vars: { name: Ada }\n",
        "    vars: { name: Ada }\n    repeat: 10000\n    passRateMin: 0.5\n    maxTurns: 3\n    timeoutMs: 5\n    skip: not today\n    tags: [a, b]\n",
    ) + "defaults: { repeat: 2, passRateMin: 0.9, concurrency: 4096, timeoutMs: 7 }\n";
    let suite = suite(&text);
    let [greets, agent] = suite.cases.as_slice() else { panic!() };
    assert_eq!((greets.repeat, agent.repeat), (10_000, 2));
    assert!((greets.pass_rate_min - 0.5).abs() < 1e-9 && (agent.pass_rate_min - 0.9).abs() < 1e-9);
    assert_eq!((body(greets).max_turns, greets.timeout), (3, Some(Duration::from_millis(5))));
    assert_eq!(greets.skip.as_deref(), Some("not today"));
    assert_eq!(*greets.tags, ["a", "b"]);
    assert_eq!(
        (suite.defaults.concurrency, suite.defaults.timeout),
        (4096, Duration::from_millis(7))
    );
}

#[test]
fn repeats_may_end_early() {
    let text = with("    prompt: greet\n", "    prompt: greet\n    repeat: { max: 7 }\n")
        + "defaults: { repeat: { max: 70, until: decided, fail: 0.7, alpha: 0.1 } }\n";
    let suite = suite(&text);
    let [greets, agent] = suite.cases.as_slice() else { panic!() };
    assert_eq!((greets.repeat, greets.until), (7, Some(Until::Settled)));
    let decided = Until::Decided(Sprt::new(0.7, 0.95, 0.1, 0.05).unwrap());
    assert_eq!((agent.repeat, agent.until), (70, Some(decided)));
}

#[test]
fn skip_may_be_yes_or_no() {
    for (skip, expected) in [("true", true), ("false", false)] {
        let text = with("    command:", &format!("    skip: {skip}\n    command:"));
        assert_eq!(suite(&text).cases[1].skip.is_some(), expected);
    }
}

#[test]
fn variables_may_be_any_json() {
    for (value, expected) in [
        ("Ada", "Greet Ada."),
        ("42", "Greet 42."),
        ("1.0", "Greet 1."),
        ("0.5", "Greet 0.5."),
        ("true", "Greet true."),
        ("null", "Greet null."),
        ("yes", "Greet yes."),
        ("017", "Greet 017."),
        ("[a, 1]", r#"Greet ["a",1]."#),
        ("{ b: 1, a: { c: [] } }", r#"Greet {"b":1,"a":{"c":[]}}."#),
        ("'{{name}}'", "Greet {{name}}."),
        ("\"a\\nb\"", "Greet a\nb."),
    ] {
        let suite = suite(&with("vars: { name: Ada }", &format!("vars: {{ name: {value} }}")));
        assert_eq!(messages(&suite.cases[0])[1], expected);
    }
}

#[test]
fn commands_get_their_variables_quoted() {
    for (value, expected) in [
        ("plain", "./agent --name plain"),
        ("'$(rm -rf /)'", "./agent --name '$(rm -rf /)'"),
        ("\"it's\"", "./agent --name \"it's\""),
        ("''", "./agent --name ''"),
        ("[1, 2]", "./agent --name '[1,2]'"),
    ] {
        let suite = suite(&with("name: Grace Hopper", &format!("name: {value}")));
        assert_eq!(command_line(&suite.cases[1]), expected);
    }
}

#[test]
fn the_environment_is_filled_in() {
    let suite = suite(&with("Greet {{name}}.", "Greet {{name}} of {{env.TENANT}} {{#if}}."));
    assert_eq!(messages(&suite.cases[0])[1], "Greet Ada of acme {{#if}}.");
}

#[test]
fn an_inherited_property_is_no_variable_and_no_prompt() {
    for (part, by) in
        [("Greet {{name}}.", "{{toString}}"), ("    prompt: greet\n", "    prompt: constructor\n")]
    {
        assert!(load_text(&with(part, by)).suite.is_none());
    }
}

#[test]
fn merge_keys_and_aliases_share_configuration() {
    let text = with(
        "  - name: agent",
        "  - &base\n    name: base\n    prompt: greet\n    vars: &vars { name: Bob }\n    repeat: 3\n    expect: { output: { contains: [b] } }\n  - <<: *base\n    name: merged\n    repeat: 5\n  - { <<: [*base, {tags: [x]}], name: both, vars: *vars }\n  - name: agent",
    );
    let suite = suite(&text);
    let repeats: Vec<(&str, u32)> =
        suite.cases.iter().map(|it| (it.name.as_str(), it.repeat)).collect();
    assert_eq!(repeats, [("greets", 1), ("base", 3), ("merged", 5), ("both", 3), ("agent", 1)]);
    assert_eq!(messages(&suite.cases[2])[1], "Greet Bob.");
    assert_eq!(*suite.cases[3].tags, ["x"]);
}

#[test]
fn evidence_is_declared_for_agents_providers_tests_and_traces() {
    use kindlm_types::Channel::{Actions, Errors, Skills, Subagents, Usage};

    let suite = suite(
        "kindlm: 1
project: demo
suite: { name: s }
providers: { http: { url: 'http://127.0.0.1:1/ask', evidence: { complete: [actions, subagents] } } }
models: [{ id: m, provider: http, model: x }]
agents: { mine: { command: ./agent, evidence: { complete: [skills] } } }
prompts: { p: { user: hi } }
trace: { evidence: { complete: [errors] } }
tests:
  - { name: a, prompt: p, evidence: { complete: [usage] }, expect: { output: { contains: [x] } } }
  - { name: b, prompt: p, expect: { output: { contains: [x] } } }
",
    );
    let declared = |at: usize| suite.models[at].declared.iter().copied().collect::<Vec<_>>();
    assert_eq!((declared(0), declared(1)), (vec![Actions, Subagents], vec![Skills]));
    assert_eq!(body(&suite.cases[0]).declared, [Usage].into());
    assert!(body(&suite.cases[1]).declared.is_empty(), "tests share no evidence");
    assert_eq!(suite.trace.evidence.complete, [Errors].into());
}

#[test]
fn short_models_have_the_settings_of_their_provider() {
    let suite = suite(
        "kindlm: 1
project: demo
suite: { name: s }
providers:
  openai: { apiKeyEnv: KEY, body: { functions: [{ name: find, parameters: { type: object } }] } }
  http: { url: 'http://127.0.0.1:1/{{lang}}', evidence: { complete: [actions] } }
models: ['http:x', 'openai:gpt-4o', { id: long, provider: http, model: x }]
prompts: { p: { user: hi } }
tests:
  - { name: a, prompt: p, vars: { lang: de }, expect: { output: { contains: [x] } } }
",
    );
    let [http, openai, long] = suite.models.as_slice() else { panic!("{:?}", suite.models) };
    assert!(http.tells_vars && long.tells_vars && !openai.tells_vars);
    assert_eq!(http.declared, long.declared);
    let offered: Vec<&str> = openai.offers.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(offered, ["find"]);
}

#[test]
fn a_response_of_a_tool_has_one_answer_or_a_list_of_them() {
    for (response, problem) in [
        ("{ then: 1 }", None),
        ("{ when: { a: 1 }, then: 1, status: failed }", None),
        ("{ answers: [{ then: 1, status: failed }, { then: 2 }] }", None),
        ("{ when: { a: 1 } }", Some("this response has no answer")),
        ("{ then: 1, answers: [{ then: 2 }] }", Some("both `then` and `answers`")),
        ("{ status: failed, answers: [{ then: 2 }] }", Some("belongs to none of them")),
    ] {
        let loaded = load_text(&with(
            "    vars: { name: Ada }\n",
            &format!(
                "    vars: {{ name: Ada }}\n    tools: [{{ name: f, responses: [{response}] }}]\n"
            ),
        ));
        let said = render_all(&loaded);
        match problem {
            None => assert!(loaded.suite.is_some(), "{response}: {said}"),
            Some(problem) => assert!(said.contains(problem), "{response}: {said}"),
        }
    }
}

#[test]
fn tools_and_turns_are_resolved() {
    let text = with(
        "    vars: { name: Ada }\n",
        "    vars: { name: Ada }\n    tools:\n      - name: find\n        parameters: { type: object }\n        responses: [{ when: { id: 1 }, then: null }]\n        defaultResponse: null\n      - { name: other }\n    conversation:\n      - { turn: first, user: 'I am {{name}}', expect: { output: { contains: [x] } } }\n      - { turn: second }\n",
    );
    let suite = suite(&text);
    let case = body(&suite.cases[0]);
    assert_eq!(case.tools[0].responses[0].answers[0].then, Value::Null);
    assert_eq!(case.tools[0].default_response, Some(Value::Null));
    assert_eq!(case.tools[1].default_response, None);
    assert_eq!(case.conversation[0].user.as_deref(), Some("I am Ada"));
    assert_eq!((case.conversation[0].checks.len(), case.conversation[1].checks.len()), (1, 0));
}

#[test]
fn a_prompt_brings_its_own_rules() {
    let text = with(
        "    system: You are polite.\n",
        "    system: You are polite.\n    assertions:\n      - { id: polite, instruction: Be polite. }\n",
    );
    let suite = suite(&text);
    let ids: Vec<&str> = body(&suite.cases[0]).checks.iter().map(|it| it.meta.id).collect();
    assert_eq!(ids, ["schema", "prompt-assertion"]);
    assert_eq!(body(&suite.cases[1]).checks.len(), 1);

    let loaded = load_text(&text.replace("instruction:", "instructoin:"));
    assert_eq!(loaded.diagnostics[0].path, "prompts.greet.assertions[0].instructoin");
}

#[test]
fn a_price_may_be_given() {
    let suite = suite(&with(
        "model: gpt-4o\n",
        "model: gpt-4o\n    price: { input: 1, output: 2, cachedInput: 0.5 }\n",
    ));
    let price = suite.models[1].price.unwrap();
    assert!((price.input - 1.0).abs() < 1e-9 && price.cached_input == Some(0.5));
}

#[test]
fn one_broken_test_hides_nothing() {
    let text = GOOD
        .replace("expect:\n      output:\n", "expct:\n      output:\n")
        .replace("    prompt: greet\n", "    prompt: gret\n    models: [nobody]\n    expectt: 1\n");
    let loaded = load_text(&text);
    let codes: Vec<String> =
        loaded.diagnostics.iter().map(|it| format!("{} {}", it.code, it.path)).collect();
    assert_eq!(
        codes,
        [
            "CONFIG_UNKNOWN_REFERENCE tests[0].prompt",
            "CONFIG_UNKNOWN_REFERENCE tests[0].models[0]",
            "CONFIG_UNKNOWN_KEY tests[0].expectt",
            "CONFIG_UNKNOWN_KEY tests[1].expct",
        ]
    );
}

#[test]
fn files_are_read_through_the_door_that_is_given() {
    let files = Memory::from_files([("schemas/order.json", r#"{"type": "object"}"#)]);
    let text = with("contains: [Ada]", "format: json, schemaFile: ./schemas/order.json");
    assert!(load_with(&text, &files).suite.is_some());
}

/// Returns the digest of a test in a suite with one test.
fn digest(test: &str, schema: &str) -> String {
    let yaml = format!(
        "kindlm: 1\nproject: p\nsuite: {{ name: s }}\nproviders: {{ echo: {{}} }}\n\
         models: [{{ id: m, provider: echo, model: m }}]\n\
         prompts: {{ p: {{ user: \"Hi {{{{a}}}}{{{{b}}}}\" }}, q: {{ user: \"Ho {{{{a}}}}{{{{b}}}}\" }} }}\n\
         tests:\n  - {test}\n"
    );
    let loaded = load_with(&yaml, &Memory::from_files([("s.json", schema)]));
    let said = render_all(&loaded);
    let suite = loaded.suite.unwrap_or_else(|| panic!("{said}"));
    suite.cases[0].digest.unwrap().to_string()
}

#[test]
fn a_changed_test_has_another_digest() {
    const OBJECT: &str = "{\"type\": \"object\"}";
    let test = "{ name: t, prompt: p, vars: { a: 1, b: 2 }, expect: { output: { format: json, schemaFile: s.json } } }";
    let first = digest(test, OBJECT);
    for (from, to, changes) in [
        ("", "", false),
        ("name: t", "name: u", false),
        ("a: 1, b: 2", "b: 2, a: 1", false),
        ("prompt: p", "tags: [x], repeat: 3, timeoutMs: 5, models: [m], prompt: p", false),
        ("prompt: p", "prompt: q", true),
        ("a: 1, b: 2", "a: 12, b: ''", true),
        ("a: 1, b: 2", "a: 1, b: 2, c: 3", true),
        ("output: {", "output: { maxLength: 5,", true),
        ("expect:", "tools: [{ name: x }], expect:", true),
        ("expect:", "conversation: [{ turn: x, user: y }], expect:", true),
    ] {
        let other = digest(&test.replacen(from, to, 1), OBJECT);
        assert_eq!(other != first, changes, "{from} → {to}");
    }
    assert_ne!(digest(test, "{\"type\": \"object\", \"minProperties\": 0}"), first);
}

/// Pass rates under another rule that ends repeats early are not comparable.
#[test]
fn the_end_of_repeats_belongs_to_the_task() {
    let task = |test: &str| {
        let yaml = format!(
            "kindlm: 1\nproject: p\nsuite: {{ name: s }}\nproviders: {{ echo: {{}} }}\n\
             models: [{{ id: m, provider: echo, model: m }}]\nprompts: {{ p: {{ user: hi }} }}\n\
             tests:\n  - {{ name: t, prompt: p, expect: {{ output: {{ contains: [hi] }} }}, {test} }}\n"
        );
        let loaded = load_with(&yaml, &Memory::from_files([]));
        let said = render_all(&loaded);
        let suite = loaded.suite.unwrap_or_else(|| panic!("{said}"));
        suite.cases[0].task_digest.unwrap().to_string()
    };
    let fixed = task("repeat: 20, passRateMin: 1");
    assert_eq!(fixed, task("repeat: 20, passRateMin: 0.5"), "the rate of all repeats is compared");
    let rules = [
        "repeat: { max: 20 }, passRateMin: 1",
        "repeat: { max: 20 }, passRateMin: 0.5",
        "repeat: { max: 20, until: decided, pass: 0.95, fail: 0.7 }",
        "repeat: { max: 20, until: decided, pass: 0.95, fail: 0.6 }",
    ];
    let tasks: HashSet<String> = rules.into_iter().map(task).chain([fixed]).collect();
    assert_eq!(tasks.len(), 5);
}

#[test]
fn the_threshold_is_the_tests_else_the_prompts_else_the_default() {
    let text = |defaults: &str, prompt: &str, test: &str| {
        format!(
            "kindlm: 1\nproject: demo\nsuite: {{ name: s }}\nproviders: {{ echo: {{}} }}\n\
             models: [{{ id: e, provider: echo, model: e }}]\ndefaults: {{ repeat: 1{defaults} }}\n\
             prompts: {{ p: {{ user: hi{prompt} }} }}\n\
             tests: [{{ name: a, prompt: p{test}, expect: {{ output: {{ contains: [hi] }} }} }}]\n"
        )
    };
    let given = |value: &str| format!(", threshold: {value}");
    for (defaults, prompt, test, expected) in [
        ("", "", "", None),
        ("0.5", "", "", Some(0.5)),
        ("0.5", "0.75", "", Some(0.75)),
        ("0.5", "0.75", "1", Some(1.0)),
        ("", "0.75", "", Some(0.75)),
    ] {
        let [defaults, prompt, own] = [defaults, prompt, test]
            .map(|it| if it.is_empty() { String::new() } else { given(it) });
        let suite = suite(&text(&defaults, &prompt, &own));
        assert_eq!(suite.cases[0].threshold, expected);
    }
    // The effective threshold is part of the digest.
    let digest = |text: &str| suite(text).cases[0].digest;
    assert_ne!(digest(&text("", &given("0.75"), "")), digest(&text("", &given("0.5"), "")));
    assert_eq!(digest(&text(&given("0.5"), "", "")), digest(&text("", &given("0.5"), "")));
}

#[test]
fn rules_of_sets_and_prompt_are_judged_in_one_call() {
    let text = "kindlm: 1\nproject: demo\nsuite: { name: s }\nproviders: { echo: {} }\n\
        models: [{ id: e, provider: echo, model: e }]\n\
        assertionSets:\n  tone: file://sets/tone.yaml\n  facts: [{ id: cites, instruction: Cite. }]\n\
        prompts: { p: { user: hi, assertionSets: [tone], assertions: [{ id: brief, instruction: Be brief. }] } }\n\
        tests:\n\
        \x20 - { name: a, prompt: p, expect: {} }\n\
        \x20 - { name: b, prompt: p, assertionSets: [facts, tone], expect: {} }\n\
        \x20 - { name: c, command: ls, assertionSets: [facts], expect: {} }\n";
    let tone = "version: '2'\nassertions:\n  - { id: formal, instruction: Be formal. }\n  - { id: kind, instruction: Be kind., weight: 2 }\n";
    let files = |tone: &str| Memory::from_files([("sets/tone.yaml", tone)]);
    let loaded = load_with(text, &files(tone));
    let suite = loaded.suite.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
    for (case, ids) in suite.cases.iter().zip([
        &["brief", "formal", "kind"][..],
        &["brief", "formal", "kind", "cites"],
        &["cites"],
    ]) {
        let body = body(case);
        assert_eq!(body.checks.len(), 1, "{}", case.name);
        let (execution, answers) = <(kindlm_types::Execution, kindlm_types::Answers)>::default();
        let evidence = kindlm_assertions::Evidence {
            execution: &execution,
            answers: &answers,
            baseline: None,
            comparison: None,
        };
        let labels: Vec<String> =
            body.checks[0].evaluate(&evidence).into_iter().map(|it| it.label).collect();
        assert_eq!(labels, ids, "{}", case.name);
        assert_eq!(body.checks[0].questions(&evidence).len(), 1);
    }
    let sets: Vec<(&str, Option<&str>, u64)> = suite
        .info
        .assertion_sets
        .iter()
        .map(|it| (it.name.as_str(), it.version.as_deref(), it.assertions))
        .collect();
    assert_eq!(sets, [("tone", Some("2"), 2), ("facts", None, 1), ("prompts.p", None, 1)]);
    assert_eq!(suite.info.prompts[0].assertion_sets, ["tone"]);
    // Changing the set file changes the set and its tests, but not the prompts.
    let other = load_with(text, &files(&tone.replace("formal.", "stiff."))).suite.unwrap();
    assert_ne!(other.info.assertion_sets[0].digest, suite.info.assertion_sets[0].digest);
    assert_eq!(other.info.assertion_sets[1], suite.info.assertion_sets[1]);
    assert_eq!(other.info.prompts, suite.info.prompts);
    let same: Vec<bool> =
        other.cases.iter().zip(&suite.cases).map(|(a, b)| a.digest == b.digest).collect();
    assert_eq!(same, [false, false, true]);
}

#[test]
fn problems_of_sets_name_their_place() {
    let text = "kindlm: 1\nproject: demo\nsuite: { name: s }\nproviders: { echo: {} }\n\
        models: [{ id: e, provider: echo, model: e }]\n\
        assertionSets:\n  tone: file://sets/tone.yaml\n  gone: file://sets/gone.yaml\n  odd: sets/tone.yaml\n  \
        facts: [{ id: formal, instruction: Other. }, { instruction: No id. }]\n  same: [{ id: formal, instruction: Again. }]\n\
        prompts: { p: { user: hi, assertionSets: [tone, tune, same] } }\n\
        tests: [{ name: a, prompt: p, expect: {} }]\n";
    let files = Memory::from_files([(
        "sets/tone.yaml",
        "- { id: formal, instruction: Be formal. }\n- { id: kind, criterion: x, instruction: y }\n",
    )]);
    let broken = render_all(&load_with(text, &files));
    for part in [
        "sets/tone.yaml:2:",
        "`criterion`",
        "sets/gone.yaml",
        "expected a list of rules, or `file://`",
        "`id` is required",
        "there is no assertion set `tune`",
        "did you mean `tone`?",
    ] {
        assert!(broken.contains(part), "{part}:\n{broken}");
    }
    let files = Memory::from_files([
        ("sets/tone.yaml", "- { id: formal, instruction: Be formal. }\n"),
        ("sets/gone.yaml", "[{ id: a, instruction: x }]"),
    ]);
    let text = text.replace("  odd: sets/tone.yaml\n", "").replace(", { instruction: No id. }", "");
    let twice = render_all(&load_with(&text.replace("tune, ", ""), &files));
    assert!(twice.contains("the set `same` has another assertion with the id `formal`"), "{twice}");
}

#[test]
fn unused_sets_are_not_reported_if_tests_cannot_be_read() {
    let text = "kindlm: 1\nproject: demo\nsuite: { name: s }\nproviders: { echo: {} }\n\
        models: [{ id: e, provider: echo, model: e }]\nprompts: { p: { user: hi } }\n\
        assertionSets:\n  tone: [{ id: formal, instruction: Be formal. }]\ntests: file://cases.jsonl\n";
    let warned = |files: &Memory| {
        let warnings = load_with(text, files).warnings;
        warnings.iter().any(|it| it.message.contains("refers to the assertion set `tone`"))
    };
    assert!(!warned(&Memory::default()), "the dataset is missing");
    let row = "{\"name\": \"a\", \"prompt\": \"p\", \"expect\": {}}\n";
    assert!(warned(&Memory::from_files([("cases.jsonl", row)])));
}

#[test]
fn changed_command_files_make_another_test() {
    let text = "kindlm: 1\nproject: demo\nsuite: { name: s }\ntests:\n\
        - { name: agent, command: \"python3 {{program}} --fast\", vars: { program: agent.py }, expect: {} }\n\
        - { name: other, command: echo agent, expect: {} }\n";
    let digests = |agent: &str, tools: &str| {
        let files = Memory::from_files([("agent.py", agent), ("tools.py", tools)]);
        let cases = load_with(text, &files).suite.unwrap().cases;
        cases.iter().map(|it| it.digest.unwrap()).collect::<Vec<_>>()
    };
    let before = digests("import tools", "1");
    assert_eq!(before, digests("import tools", "1"));
    for (agent, tools) in [("import tools  # new", "1"), ("import tools", "2")] {
        let now = digests(agent, tools);
        assert_ne!(before[0], now[0], "{agent}, {tools}");
        assert_eq!(before[1], now[1], "it runs no file");
    }
}

#[test]
fn checks_have_the_places_at_which_they_are_written() {
    let suite = suite(
        "kindlm: 1\nproject: p\nsuite: { name: s }\nproviders: { openai: { apiKeyEnv: OPENAI_API_KEY } }\nmodels: [{ id: m, provider: openai, model: gpt }]\n\
         prompts:\n  ask: { user: hi }\n\
         tests:\n\
         - name: one\n  prompt: ask\n  expect:\n    latency: { maxMs: 5 }\n    assert:\n    - type: contains\n      value: a\n    - { type: contains, value: b }\n\
         - { name: two, prompt: ask, expect: { latency: { maxMs: 5 } } }\n",
    );
    let places = |index: usize| -> Vec<(String, Option<u32>)> {
        let case = &suite.cases[index];
        let test = case.source.as_ref().unwrap();
        let body = body(case);
        let place = |check| case.check_places.as_ref()?.find(test, None, check);
        let line = |check| place(check).map(|it| it.line);
        body.checks.iter().map(|it| (it.at.clone(), line(it))).collect()
    };
    let own = |at: &str, line| (at.to_owned(), line);
    let expected =
        [own("/latency", Some(12)), own("/assert/0", Some(14)), own("/assert/1", Some(16))];
    assert_eq!(places(0), expected);
    // Checks on the line of their test have no place of their own.
    assert_eq!(places(1), [own("/latency", None)]);
}
