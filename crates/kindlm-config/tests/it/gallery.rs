//! Snapshots of the error messages for invalid files. The snapshots are meant to be read.

use insta::assert_snapshot;

use crate::memory::{GOOD, Memory, brief, load_text, load_with, render_all, with};

/// Takes a snapshot of the error messages for [`GOOD`] with one part replaced.
macro_rules! gallery {
    ($($name:ident: $part:expr => $by:expr;)*) => {$(
        #[test]
        fn $name() {
            let loaded = load_text(&with($part, $by));
            assert!(loaded.suite.is_none());
            assert_snapshot!(render_all(&loaded));
        }
    )*};
}

gallery! {
    a_misspelt_key: "    prompt: greet\n" => "    promt: greet\n";
    a_misspelt_key_of_the_document: "project: demo" => "projet: demo";
    a_misspelt_key_of_a_check: "contains: [Ada]" => "contians: [Ada]";
    a_key_that_is_like_no_other: "  name: support" => "  name: support\n  colour: red";
    a_missing_key: "suite:\n  name: support\n" => "";
    a_missing_key_of_a_model: "    provider: openai\n    model: gpt-4o\n" => "    provider: openai\n";
    a_wrong_type: "contains: [Ada]" => "contains: Ada";
    a_wrong_type_of_a_block: "suite:\n  name: support" => "suite: support";
    a_wrong_word: "contains: [Ada]" => "format: jsn";
    a_number_out_of_range: "suite:\n  name: support" => "suite: { name: s }\ngates: { passRateMin: 95 }";
    a_number_as_text: "suite:\n  name: support" => "suite: { name: s }\ndefaults: { concurrency: '8' }";
    a_null_block: "suite:\n  name: support" => "suite: { name: s }\ndefaults:";
    the_wrong_version: "kindlm: 1" => "kindlm: \"1\"";
    an_unknown_gate: "suite:\n  name: support" => "suite: { name: s }\ngates: { passrate: 0.9 }";
    an_unknown_assertion_of_a_gate: "suite:\n  name: support" => "suite: { name: s }\ngates: { assertions: { keywrds: 0.9 } }";
    a_nested_key_as_assertion_of_a_gate: "suite:\n  name: support" => "suite: { name: s }\ngates: { assertions: { contains: 0.9 } }";
    an_unknown_metric_of_a_gate: "suite:\n  name: support" => "suite: { name: s }\ngates: { metrics: { tone: 0.9 } }";
    an_unknown_tag_of_a_gate: "suite:\n  name: support" => "suite: { name: s }\ngates: { tags: { refunds: 0.9 } }";
    an_unknown_prompt: "    prompt: greet\n" => "    prompt: gret\n";
    an_unknown_model: "    prompt: greet\n" => "    prompt: greet\n    models: [gpt-4o, fats]\n";
    an_unknown_provider_of_a_short_model: "    prompt: greet\n" => "    prompt: greet\n    models: ['opnai:gpt-4o']\n";
    an_unknown_judge: "contains: [Ada]" => "contains: [Ada] }\n      judge: [{ criteria: Is it kind?, model: goood }]\n      keywords: {";
    a_provider_that_is_not_configured: "    provider: openai\n    model: gpt-4o\n" => "    provider: anthropic\n    model: claude\n";
    a_model_given_twice: "  - id: good" => "  - id: fast";
    a_test_given_twice: "  - name: agent" => "  - name: greets";
    a_key_given_twice: "    prompt: greet\n" => "    prompt: greet\n    prompt: greet\n";
    a_bad_regular_expression: "output: { contains: [Ada] }" => "guardrails: { pii: { denyPatterns: ['ok', '(?<a', '[0-9'] } }";
    a_missing_schema_file: "contains: [Ada]" => "format: json, schemaFile: ./order.schema.json";
    a_file_outside: "contains: [Ada]" => "format: json, schemaFile: ../../etc/passwd";
    a_missing_variable: "vars: { name: Ada }" => "vars: { nmae: Ada }";
    a_missing_variable_without_vars: "    vars: { name: Ada }\n" => "";
    an_environment_variable_that_is_not_set: "Greet {{name}}." => "Greet {{name}} of {{env.TENNANT}}.";
    a_placeholder_without_quotes: "user: \"Greet {{name}}.\"" => "user: {{name}}";
    a_variable_in_a_here_document: "    command: ./agent --name {{name}}" => "    command: |\n      cat <<END\n      {{name}}\n      END";
    a_prompt_and_a_command: "    prompt: greet\n" => "    prompt: greet\n    command: ./agent\n";
    neither_prompt_nor_command: "    prompt: greet\n" => "";
    a_tab: "  name: support" => "\tname: support";
    a_colon_in_a_value: "You are polite." => "Rule: be polite.";
    quotes_that_never_end: "\"Greet {{name}}.\"" => "\"Greet {{name}}.";
    a_bad_indent: "    system: You are polite.\n" => "     system: You are polite.\n";
    a_second_document: "prompts:" => "---\nprompts:";
    an_unknown_tag: "    system: You are polite." => "    system: !file polite.txt";
    an_unknown_alias: "    system: You are polite." => "    system: *polite";
    repeats_that_cannot_show_a_pass: "    prompt: greet\n" => "    prompt: greet\n    repeat: { max: 10, until: decided }\n";
    rates_in_the_wrong_order: "    prompt: greet\n" => "    prompt: greet\n    repeat: { max: 60, until: decided, pass: 0.8, fail: 0.9 }\n";
    a_rate_for_a_settled_verdict: "    prompt: greet\n" => "    prompt: greet\n    repeat: { max: 60, pass: 0.9 }\n";
    an_unknown_rule_for_repeats: "    prompt: greet\n" => "    prompt: greet\n    repeat: { max: 60, until: decidd }\n";
    a_word_for_repeats: "    prompt: greet\n" => "    prompt: greet\n    repeat: many\n";
    an_infinite_number: "vars: { name: Ada }" => "vars: { name: .inf }";
}

/// An unknown prompt of a test is an error, even if the suite needs no prompts.
#[test]
fn a_prompt_of_a_suite_without_prompts() {
    const TOP: &str = "kindlm: 1\nproject: p\nsuite: { name: s }\nproviders: { scripted: { replies: [{ text: hi }] } }\n\
        models: [{ id: m, provider: scripted, model: m }]\n";
    const TEST: &str = "  - { name: a, prompt: greet, expect: { output: { contains: [hi] } } }\n";
    for rest in [
        format!("agents: {{ mine: {{ command: ./agent }} }}\ntests:\n{TEST}"),
        format!(
            "tests:\n  - {{ name: b, command: ./agent, expect: {{ output: {{ contains: [hi] }} }} }}\n{TEST}"
        ),
        format!(
            "tests:\n  - {{ name: c, transcript: [{{ role: user, content: hi }}, {{ role: assistant, content: hi }}], expect: {{ output: {{ contains: [hi] }} }} }}\n{TEST}"
        ),
        format!(
            "agents: {{ mine: {{ command: ./agent }} }}\ntests:\n{}",
            TEST.replace("a, prompt", "a, agent: mine, prompt")
        ),
    ] {
        let loaded = load_text(&format!("{TOP}{rest}"));
        assert!(loaded.suite.is_none(), "{rest}");
        let brief = brief(&loaded.diagnostics);
        let [error] = brief.as_slice() else { panic!("{brief:?}") };
        assert!(error.starts_with("CONFIG_UNKNOWN_REFERENCE tests["), "{error}");
        assert!(error.ends_with("].prompt: there is no prompt `greet`"), "{error}");
    }
    let rest = format!("agents: {{ mine: {{ command: ./agent }} }}\ntests:\n{TEST}");
    assert_snapshot!(render_all(&load_text(&format!("{TOP}{rest}"))));
}

#[test]
fn an_empty_file() {
    assert_snapshot!(render_all(&load_text("# nothing yet\n")));
}

#[test]
fn a_text_instead_of_a_file() {
    assert_snapshot!(render_all(&load_text("hello")));
}

#[test]
fn many_problems_at_once() {
    let text = GOOD
        .replace("project: demo", "projet: demo")
        .replace("    prompt: greet\n", "    prompt: gret\n")
        .replace("model: gpt-4o\n", "modell: gpt-4o\n")
        .replace("notContains", "notContain")
        .replace("name: support", "nam: support");
    assert_snapshot!(render_all(&load_text(&text)));
}

#[test]
fn an_alias_shows_both_places() {
    let text =
        with("vars: { name: Ada }", "vars: { name: Ada, often: &often none }\n    repeat: *often");
    assert_snapshot!(render_all(&load_text(&text)));
}

#[test]
fn a_long_line_is_cut() {
    let text =
        with("vars: { name: Ada }", &format!("vars: {{ name: '{}' }}, x: 1", "é".repeat(3000)));
    assert_snapshot!(render_all(&load_text(&text)));
    let text =
        with("contains: [Ada]", &format!("contains: [{}], contians: []", "word, ".repeat(1000)));
    assert_snapshot!(render_all(&load_text(&text)));
}

#[test]
fn bytes_that_are_no_text() {
    let said = |bytes: &[u8]| {
        render_all(&kindlm_config::load("kindlm.yaml", bytes, &Memory::default(), &|_| None))
    };
    assert_snapshot!(
        [
            said(b"kindlm: 1\nproject: caf\xE9 x\nsuite:\n"),
            said(b"kindlm: 1\nproject: a\0b\n"),
            said(b"\xFF\xFEk\0i\0"),
        ]
        .join("\n")
    );
}

#[test]
fn a_broken_schema_file() {
    let files =
        Memory::from_files([("order.json", "{not json"), ("odd.json", r#"{"type": "objekt"}"#)]);
    let said = |file: &str| {
        render_all(&load_with(
            &with("contains: [Ada]", &format!("format: json, schemaFile: {file}")),
            &files,
        ))
    };
    assert_snapshot!([said("order.json"), said("odd.json")].join("\n"));
}

#[test]
fn warnings_are_plain() {
    let text = GOOD
        .replace("output: { contains: [Ada] }", "{}")
        .replace("      {}\n", "")
        .replace("    expect:\n  - name: agent", "    expect: {}\n  - name: agent")
        .replace("    command:", "    models: [fast]\n    command:")
        + "upload: { enabled: true }\ntrace: { port: 4318 }\n";
    let loaded = load_text(&text);
    assert!(loaded.suite.is_some(), "{}", render_all(&loaded));
    assert_snapshot!(render_all(&loaded));
    assert_snapshot!("warnings_of_the_suite", loaded.suite.unwrap().warnings.join("\n"));
}

#[test]
fn machines_get_lines_and_columns() {
    let loaded = load_text(&with("  - name: agent", "  - name: greets"));
    assert_snapshot!(serde_json::to_string_pretty(&loaded.diagnostics).unwrap());
}

#[test]
fn colours_are_only_added() {
    let loaded = load_text(&with("project: demo", "projet: demo"));
    let colored = kindlm_config::render(&loaded.diagnostics[0], true);
    assert!(colored.contains("\u{1b}["));
    let plain = kindlm_config::render(&loaded.diagnostics[0], false);
    assert!(plain.is_ascii() && !plain.contains('\u{1b}'));
}

#[test]
fn different_rules_with_one_id_are_reported() {
    let rule = |instruction: &str| {
        format!("[{{ id: cite, instruction: {instruction}, criteria: [It does] }}]")
    };
    for (own, set, told) in [("Cite it", "Never cite", true), ("Cite it", "Cite it", false)] {
        let text = with(
            "user: \"Greet {{name}}.\"",
            &format!("user: \"Greet {{{{name}}}}.\"\n    assertions: {}", rule(own)),
        ) + &format!("assertionSets: {{ strict: {} }}\n", rule(set));
        let loaded = load_text(&text);
        let found = loaded
            .diagnostics
            .iter()
            .chain(&loaded.warnings)
            .any(|it| it.message.contains("the rule `cite` differs from that in `"));
        assert_eq!(found, told, "{}", render_all(&loaded));
    }
}

#[test]
fn a_prompt_that_is_only_a_file_name_is_read() {
    for (text, is_read) in [
        ("file://prompts/greet.txt", true),
        ("see file://prompts/greet.txt", false),
        ("file://greet.txt is a name", false),
    ] {
        let text = with("user: \"Greet {{name}}.\"", &format!("user: \"{text}\""));
        let loaded = load_text(&text);
        let found = loaded.diagnostics.iter().any(|it| it.message.contains("does not exist"));
        assert_eq!(found, is_read, "{}", render_all(&loaded));
    }
}

/// The digest of a test covers the files that its checks import.
#[test]
fn a_file_that_decides_changes_the_digest() {
    let digest = |suite: &str, files: [(&str, &str); 3]| {
        let loaded = load_with(suite, &Memory::from_files(files));
        let suite = loaded.suite.as_ref().unwrap_or_else(|| panic!("{}", render_all(&loaded)));
        suite.cases[0].digest.unwrap()
    };
    let imports = [("a.mjs", "import './b.mjs'"), ("b.mjs", "1"), ("c.mjs", "1")];
    let expect =
        "expect:\n      assert: [{ type: javascript, value: file://a.mjs }]\n      output: ";
    let suite = with(
        "expect:\n      output: { contains: [Ada] }",
        &format!("{expect}{{ contains: [Ada] }}"),
    );
    let before = digest(&suite, imports);
    assert_ne!(before, digest(&suite, [imports[0], ("b.mjs", "2"), imports[2]]));
    assert_eq!(before, digest(&suite, [imports[0], imports[1], ("c.mjs", "2")]));
}

#[test]
fn gates_that_need_more_tests_have_a_warning() {
    let suite = |gates: &str, tests: usize, cluster: &str| {
        let test = "    prompt: greet\n    vars: { name: Ada }\n    expect: { output: { contains: [Ada] } }\n";
        let each = (0..tests).map(|at| format!("  - name: \"test {at}\"\n{cluster}{test}"));
        let (start, _) = GOOD.split_once("tests:\n").unwrap();
        load_text(&format!("{start}tests:\n{}gates:\n{gates}", each.collect::<String>()))
    };
    let low = |gate: &str, value: &str| format!("  {gate}: {{ value: {value}, bound: low }}\n");
    let cluster = "    cluster: terms\n    tags: [refunds]\n";
    for (name, gates, cluster) in [
        ("too_few_tests", low("passRateMin", "0.99"), ""),
        ("no_number_of_tests", low("judgeAvgMin", "1"), ""),
        (
            "tests_of_one_cluster",
            "  tags: { refunds: { value: 0.25, bound: low } }\n".to_owned(),
            cluster,
        ),
    ] {
        let loaded = suite(&gates, 10, cluster);
        assert!(loaded.suite.is_some());
        assert_snapshot!(name, render_all(&loaded));
    }
    for (gates, tests) in [
        (low("passRateMin", "0.72"), 10),
        (low("passRateMin", "0.9"), 35),
        ("  passRateMin: 1\n".to_owned(), 1),
    ] {
        assert_eq!(render_all(&suite(&gates, tests, "")), "", "{gates}");
    }
}

#[test]
fn repeats_that_often_stay_undecided_have_a_warning() {
    for (name, repeat) in [
        ("too_few_repeats", "{ max: 20, until: decided, pass: 0.95, fail: 0.8 }"),
        ("rates_that_are_close", "{ max: 9000, until: decided, pass: 0.95, fail: 0.949 }"),
    ] {
        let loaded = load_text(&with(
            "    prompt: greet\n",
            &format!("    prompt: greet\n    repeat: {repeat}\n"),
        ));
        assert!(loaded.suite.is_some());
        assert_snapshot!(name, render_all(&loaded));
    }
    for repeat in
        ["{ max: 54, until: decided }", "{ max: 20, until: decided, fail: 0.6 }", "{ max: 2 }"]
    {
        let loaded = load_text(&with(
            "    prompt: greet\n",
            &format!("    prompt: greet\n    repeat: {repeat}\n"),
        ));
        assert_eq!(render_all(&loaded), "", "{repeat}");
    }
}
