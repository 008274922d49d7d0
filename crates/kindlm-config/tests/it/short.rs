//! Tests of short forms: models, prompts, their defaults, `matrix`, and datasets in promptfoo's format.

use kindlm_config::Loaded;
use kindlm_engine::Subject;

use crate::memory::{Memory, load_with, render_all};

/// Returns a suite with these blocks.
fn suite(blocks: &str) -> String {
    format!("kindlm: 1\nproject: p\nsuite: {{ name: s }}\n{blocks}\n")
}

fn loaded(blocks: &str, files: &Memory) -> Loaded {
    load_with(&suite(blocks), files)
}

/// Returns the messages of each test, as `name: role text, role text`.
fn messages(loaded: &Loaded) -> Vec<String> {
    let suite = loaded.suite.as_ref().unwrap_or_else(|| panic!("{}", render_all(loaded)));
    let of = |it: &kindlm_engine::TestCase| {
        let Subject::Prompt { messages } = it.body.body().unwrap().into_owned().subject else {
            panic!("{}", it.name)
        };
        let texts: Vec<String> =
            messages.iter().map(|it| format!("{} {}", it.role.as_str(), it.content)).collect();
        format!("{}: {}", it.name, texts.join(", "))
    };
    suite.cases.iter().map(of).collect()
}

#[test]
fn a_model_names_its_provider() {
    let blocks = "models:\n- openai:gpt-4o\n- { model: openai:gpt-4.1, params: { temperature: 1 } }\n\
        - { id: mine, model: anthropic:claude-sonnet-4-5 }\n- { provider: echo, model: a:b }\nproviders: { echo: {} }\n\
        defaults: { params: { temperature: 0, maxTokens: 7 } }\nprompts: { p: { user: hi } }\n\
        tests: [{ name: t, prompt: p, expect: { judge: [{ criteria: kind, model: openai:gpt-5 }] } }]";
    let loaded = loaded(blocks, &Memory::default());
    let suite = loaded.suite.as_ref().unwrap_or_else(|| panic!("{}", render_all(&loaded)));
    let models: Vec<String> = suite
        .models
        .iter()
        .map(|it| {
            let params = (it.params.temperature.unwrap(), it.params.max_tokens.unwrap());
            format!("{}|{}|{}|{params:?}", it.id, it.provider, it.name)
        })
        .collect();
    assert_eq!(
        models,
        [
            "openai:gpt-4o|openai|gpt-4o|(0.0, 7)",
            "openai:gpt-4.1|openai|gpt-4.1|(1.0, 1024)",
            "mine|anthropic|claude-sonnet-4-5|(0.0, 7)",
            "echo:a:b|echo|a:b|(0.0, 7)",
            "openai:gpt-5|openai|gpt-5|(0.2, 1024)",
        ]
    );
    assert_eq!(suite.providers["anthropic"]["apiKeyEnv"], "ANTHROPIC_API_KEY");
    assert_eq!(suite.cases[0].models.len(), 4);
}

#[test]
fn a_model_names_a_compatible_server() {
    for (blocks, models) in [
        ("models: [groq:llama-3.3-70b-versatile, { model: xai:grok-4 }]", &["groq", "xai"][..]),
        (
            "providers: { groq: { apiKeyEnv: MINE, body: { service_tier: flex } } }\n\
             models: [{ id: fast, provider: groq, model: openai/gpt-oss-20b }]",
            &["groq"],
        ),
        (
            "providers: { fast: { type: cerebras, apiKeyEnv: MINE } }\n\
             models: [{ id: fast, provider: fast, model: gpt-oss-120b }]",
            &["fast"],
        ),
        (
            "providers: { databricks: { apiKeyEnv: MINE, baseUrl: 'https://w.example/serving-endpoints' } }\n\
             models: [databricks:mine]",
            &["databricks"],
        ),
    ] {
        let rest = "prompts: { p: hi }\ntests: [{ name: t, prompt: p, expect: {} }]";
        let loaded = loaded(&format!("{blocks}\n{rest}"), &Memory::default());
        let suite = loaded.suite.as_ref().unwrap_or_else(|| panic!("{}", render_all(&loaded)));
        let found: Vec<&str> = suite.models.iter().map(|it| it.provider.as_str()).collect();
        assert_eq!(found, models, "{blocks}");
        let key = suite.providers[models[0]]["apiKeyEnv"].as_str().unwrap();
        assert!(["GROQ_API_KEY", "MINE"].contains(&key), "{key}");
    }
    for (blocks, messages) in [
        (
            "models: [{ model: gorq:x }]",
            ["the provider `gorq` is not configured", "did you mean `groq`?"],
        ),
        (
            "models: [{ model: databricks:x }]",
            ["`databricks` is not configured", "DATABRICKS_TOKEN"],
        ),
        (
            "providers: { databricks: { apiKeyEnv: KEY } }\nmodels: [databricks:x]",
            ["`databricks` needs `baseUrl`", "serving-endpoints"],
        ),
    ] {
        let rest = "prompts: { p: hi }\ntests: [{ name: t, prompt: p, expect: {} }]";
        let broken = render_all(&loaded(&format!("{blocks}\n{rest}"), &Memory::default()));
        for message in messages {
            assert!(broken.contains(message), "{blocks}: {broken}");
        }
    }
}

#[test]
fn a_prompt_with_more_words_than_a_model_reads_is_a_warning() {
    let words = |count: usize| "word ".repeat(count);
    let warnings = |models: &str, texts: &[String]| {
        let tests: Vec<String> = texts
            .iter()
            .enumerate()
            .map(|(at, text)| {
                format!("{{ name: t{at}, prompt: p, vars: {{ text: \"{text}\" }}, expect: {{}} }}")
            })
            .collect();
        let blocks = format!(
            "models: [{models}]\nprompts: {{ p: \"{{{{text}}}} end\" }}\ntests: [{}]",
            tests.join(", ")
        );
        let loaded = loaded(&blocks, &Memory::default());
        assert!(loaded.suite.is_some(), "{}", render_all(&loaded));
        let all = loaded.warnings.iter().map(|it| it.message.clone());
        all.filter(|it| it.contains("words")).collect::<Vec<String>>()
    };
    // `gpt-4` reads 8,192 tokens.
    let long = words(8192);
    let message =
        "the prompt of the test `t0` has 8193 words, and `openai:gpt-4` reads at most 8192 tokens";
    let one = std::slice::from_ref(&long);
    assert_eq!(warnings("openai:gpt-4o, openai:gpt-4", one), [message]);
    let two = [long.clone(), long.clone()];
    let messages = warnings("openai:gpt-4", &two);
    assert_eq!(messages, [format!("{message}; the same holds for 1 more")]);
    assert_eq!(warnings("openai:gpt-4", &[words(8191)]), [""; 0]);
    assert_eq!(warnings("openai:gpt-4o, openai:of-mine, echo:gpt-4", one), [""; 0]);
}

#[test]
fn a_limit_for_the_first_token_without_a_stream_is_a_warning() {
    let limits =
        "expect: { assert: [{ type: contains, value: a }, { type: max-first-token, value: 9 }] }";
    for (config, model, warned) in [
        ("openai: { apiKeyEnv: KEY }", "openai:m", Some("`openai` does not stream")),
        ("openai: { apiKeyEnv: KEY, stream: true }", "openai:m", None),
        ("groq: { apiKeyEnv: KEY }", "groq:m", Some("`groq` does not stream")),
        ("mine: { type: anthropic, apiKeyEnv: KEY }", "mine:m", Some("`mine` does not stream")),
        ("echo: {}", "echo:m", None),
    ] {
        let blocks = format!(
            "providers: {{ {config} }}\nmodels: ['{model}']\nprompts: {{ p: hi }}\ntests: [{{ name: t, prompt: p, {limits} }}, {{ name: u, prompt: p, {limits} }}]"
        );
        let loaded = loaded(&blocks, &Memory::default());
        assert!(loaded.suite.is_some(), "{}", render_all(&loaded));
        let all = loaded.warnings.iter().map(|it| it.message.as_str());
        let found: Vec<&str> = all.filter(|it| it.contains("first token")).collect();
        match warned {
            None => assert_eq!(found, [""; 0], "{config}"),
            Some(part) => {
                assert_eq!(found.len(), 1, "{config}");
                assert!(found[0].contains(part), "{}", found[0]);
                assert!(found[0].contains("the same holds for 1 more"), "{}", found[0]);
            }
        }
    }
}

#[test]
fn a_judge_that_is_also_tested_has_the_default_parameters() {
    let judged = "expect: { judge: [{ criteria: kind, model: openai:gpt-5 }] }";
    let grades = format!("{{ name: a, prompt: p, models: [openai:gpt-4o], {judged} }}");
    let runs = "{ name: b, prompt: p, models: [openai:gpt-5], expect: {} }";
    for (tests, seed) in [
        (grades.clone(), None),
        (format!("{grades}, {runs}"), Some(7)),
        (format!("{runs}, {grades}"), Some(7)),
    ] {
        let blocks = format!(
            "models: [openai:gpt-4o]\ndefaults: {{ params: {{ seed: 7 }} }}\nprompts: {{ p: hi }}\ntests: [{tests}]"
        );
        let loaded = loaded(&blocks, &Memory::default());
        let suite = loaded.suite.as_ref().unwrap_or_else(|| panic!("{}", render_all(&loaded)));
        let model = suite.models.iter().find(|it| it.id == "openai:gpt-5").unwrap();
        assert_eq!(model.params.seed, seed, "{tests}");
    }
}

#[test]
fn a_model_without_a_provider_is_an_error() {
    for (model, message) in [
        ("{ id: a, model: gpt-4o }", "`provider` is required, because `model` does not name it"),
        ("{ model: opnai:gpt-4o }", "the provider `opnai` is not configured"),
        ("{ provider: echo }", "`model` is required"),
    ] {
        let blocks = format!(
            "providers: {{ echo: {{}} }}\nmodels: [{model}]\nprompts: {{ p: hi }}\ntests: [{{ name: t, prompt: p, expect: {{}} }}]"
        );
        let broken = render_all(&loaded(&blocks, &Memory::default()));
        assert!(broken.contains(message), "{model}: {broken}");
    }
    for (model, messages) in [
        (
            "{ model: opnai:gpt-4o }",
            ["the provider `opnai` is not configured", "did you mean `openai`?"],
        ),
        ("{ model: http:x }", ["the provider `http` is not configured", "under `providers`"]),
        ("{ provider: opnai, model: x }", ["`providers` is required", "apiKeyEnv"]),
        ("'opnai:x'", ["there is no provider `opnai`", "did you mean `openai:x`?"]),
        ("'azure:x'", ["there is no provider `azure`", "type: openai, apiKeyEnv: AZURE_API_KEY"]),
        ("'aliyun:x'", ["there is no provider `aliyun`", "write `dashscope:x`"]),
        ("'qqqqqqqqqqqq:x'", ["there is no provider `qqqqqqqqqqqq`", "providers: `"]),
        ("'http:x'", ["the provider `http` is not configured", "under `providers`"]),
        ("'openai:'", ["`openai:` does not name its model", "name the model: `openai:…`"]),
        ("gpt-4o", ["`gpt-4o` does not name its provider", "write `provider:model`"]),
    ] {
        let blocks = format!(
            "models: [{model}]\nprompts: {{ p: hi }}\ntests: [{{ name: t, prompt: p, expect: {{}} }}]"
        );
        let loaded = loaded(&blocks, &Memory::default());
        assert_eq!(loaded.diagnostics.len(), 1, "{model}: {}", render_all(&loaded));
        for message in messages {
            assert!(render_all(&loaded).contains(message), "{model}: {}", render_all(&loaded));
        }
    }
}

#[test]
fn a_provider_without_a_key_names_its_usual_variable() {
    for (provider, help) in [
        ("groq", "GROQ_API_KEY` (the environment variable of the key), `apiKeyEnv: null`"),
        ("vllm", "VLLM_API_KEY` (the environment variable of the key), `apiKeyEnv: null`"),
        ("mistral", "MISTRAL_API_KEY` (the environment variable of the key), or `apiKey"),
    ] {
        let blocks = format!(
            "providers: {{ {provider}: {{ baseUrl: 'https://a.example/v1' }} }}\nmodels: ['{provider}:m']\nprompts: {{ p: hi }}\ntests: [{{ name: t, prompt: p, expect: {{}} }}]"
        );
        let broken = render_all(&loaded(&blocks, &Memory::default()));
        assert!(broken.contains(help), "{provider}: {broken}");
    }
}

#[test]
fn prompts_are_texts_and_files() {
    let files = Memory::from_files([
        ("ask.txt", "\u{feff}Ask {{x}}\n\n"),
        ("system.md", "Be kind."),
        (
            "chat.json",
            r#"[{"role": "system", "content": "Be {{x}}."}, {"role": "user", "content": "Hi"}]"#,
        ),
        ("object.json", r#"{"x": "{{x}}"}"#),
        ("messages.yaml", "- { role: user, content: '{{x}} {{ y }}' }\n"),
    ]);
    let blocks = "providers: { echo: {} }\nmodels: [{ provider: echo, model: e }]\n\
        defaults: { template: jinja, test: { vars: { x: one }, expect: {} } }\nprompts:\n  text: 'Say {{x}}{{ gone }}'\n  \
        file: file://ask.txt\n  chat: file://chat.json\n  yaml: file://messages.yaml\n  \
        both: { system: file://system.md, user: file://ask.txt }\n  json: { template: json, user: file://object.json }\n\
        tests: [{ name: t, prompts: [text, file, chat, yaml, both, json] }]";
    let loaded = loaded(blocks, &files);
    assert_eq!(
        messages(&loaded),
        [
            "t · text: user Say one",
            "t · file: user Ask one",
            "t · chat: system Be one., user Hi",
            "t · yaml: user one ",
            "t · both: system Be kind., user Ask one",
            "t · json: user {\n  \"x\": \"one\"\n}",
        ]
    );
}

#[test]
fn a_file_of_a_prompt_that_cannot_be_read_is_an_error_at_its_name() {
    for prompt in ["file://gone.txt", "{ user: file://gone.txt }"] {
        let blocks = format!(
            "providers: {{ echo: {{}} }}\nmodels: [echo:e]\nprompts: {{ p: {prompt} }}\ntests: [{{ name: t, prompt: p, expect: {{}} }}]"
        );
        let broken = render_all(&loaded(&blocks, &Memory::default()));
        assert!(broken.contains("`gone.txt` does not exist"), "{broken}");
    }
}

#[test]
fn a_file_with_a_broken_list_of_messages_is_an_error() {
    for (name, text, message) in [
        ("chat.json", "[{\"role\": \"user\", \"content\": \"Hi\"}", "chat.json:1:"),
        (
            "chat.json",
            "[\n{\"role\": \"user\", \"role\": \"system\", \"content\": \"Hi\"}]",
            "chat.json:2:",
        ),
        ("chat.yaml", "- role: user\n  role: system\n  content: Hi\n", "duplicate key `role`"),
    ] {
        let files = Memory::from_files([(name, text)]);
        let suite = |prompt: &str| {
            format!(
                "models: [echo:e]\nproviders: {{ echo: {{}} }}\nprompts: {{ p: {prompt} }}\ntests: [{{ name: t, prompt: p, expect: {{}} }}]"
            )
        };
        let broken = loaded(&suite(&format!("file://{name}")), &files);
        assert!(broken.suite.is_none(), "{text}");
        assert!(render_all(&broken).contains(message), "{text}: {}", render_all(&broken));
        // As the text of the user, the file may have any content.
        let text = loaded(&suite(&format!("{{ user: file://{name} }}")), &files);
        assert!(text.suite.is_some(), "{}", render_all(&text));
    }
}

#[test]
fn a_matrix_is_a_test_for_each_combination() {
    let blocks = "providers: { echo: {} }\nmodels: [{ provider: echo, model: e }]\nprompts: { p: '{{a}}{{b}}{{c}}', q: '{{b}}' }\n\
        tests: [{ name: t, prompts: [p, q], vars: { a: x }, matrix: { b: [1, 2], c: [y, z] }, expect: {} }]";
    assert_eq!(
        messages(&loaded(blocks, &Memory::default())),
        [
            "t, variant 1 · p: user x1y",
            "t, variant 1 · q: user 1",
            "t, variant 2 · p: user x1z",
            "t, variant 2 · q: user 1",
            "t, variant 3 · p: user x2y",
            "t, variant 3 · q: user 2",
            "t, variant 4 · p: user x2z",
            "t, variant 4 · q: user 2",
        ]
    );
    for (matrix, message) in [
        ("{ b: x }", "expected a list, found a string"),
        ("{ b: [] }", "must not be empty"),
        ("[1]", "expected an object, found a list"),
        ("{}", "must not be empty"),
        ("{ a: [1], b: [2], c: [3] }", "`a` is in `vars` and in `matrix`"),
    ] {
        let broken = blocks.replace("{ b: [1, 2], c: [y, z] }", matrix);
        let broken = render_all(&loaded(&broken, &Memory::default()));
        assert!(broken.contains(message), "{matrix}: {broken}");
    }
}

/// The blocks of a suite with one dataset.
fn with_dataset(dataset: &str) -> String {
    format!(
        "providers: {{ echo: {{}} }}\nmodels: [{{ provider: echo, model: e }}]\nprompts: {{ p: 'Say {{{{word}}}} {{{{end}}}}' }}\n\
         defaults: {{ test: {{ prompt: p, vars: {{ end: now }}, expect: {{ assert: [{{ type: contains, value: Say }}] }} }} }}\n\
         tests: [{dataset}]"
    )
}

#[test]
fn a_dataset_may_have_the_format_of_promptfoo() {
    let files = Memory::from_files([
        (
            "cases.csv",
            "word,__expected,__expected2,__description,__metadata:kind\nhi,contains: hi,is-json,,a\nho,equals: ho,,greets,b\n",
        ),
        (
            "cases.yaml",
            "- vars: { word: [one, two] }\n  assert: [{ type: icontains, value: ONE }]\n- { vars: { word: x, end: y } }\n",
        ),
        ("cases.jsonl", "{\"vars\": {\"word\": \"a\"}, \"threshold\": 0.5}\n"),
    ]);
    for (file, expected) in [
        ("cases.csv", &["Row #1: user Say hi now", "greets: user Say ho now"][..]),
        (
            "cases.yaml",
            &[
                "Test 1, variant 1: user Say one now",
                "Test 1, variant 2: user Say two now",
                "Test 2: user Say x y",
            ],
        ),
        ("cases.jsonl", &["Test 1: user Say a now"]),
    ] {
        let dataset = format!("{{ dataset: file://{file}, format: promptfoo }}");
        let loaded = loaded(&with_dataset(&dataset), &files);
        assert_eq!(messages(&loaded), expected, "{file}");
        let cases = &loaded.suite.as_ref().unwrap().cases;
        let checks: Vec<usize> =
            cases.iter().map(|it| it.body.body().unwrap().checks.len()).collect();
        match file {
            "cases.csv" => assert_eq!(checks, [3, 2]),
            "cases.yaml" => assert_eq!(checks, [2, 2, 1]),
            _ => assert_eq!((checks, cases[0].threshold), (vec![1], Some(0.5))),
        }
    }
}

#[test]
fn mistakes_in_a_dataset_of_promptfoo_are_reported() {
    let files = Memory::from_files([
        ("cases.csv", "word,__expected\nhi\n"),
        (
            "cases.yaml",
            "- { vars: { word: hi }, provider: openai:gpt-4o, options: { prefix: x } }\n",
        ),
        ("vars.yaml", "- { vars: { word: file://make.js } }\n"),
        (
            "graded.yaml",
            "- { assert: [{ type: llm-rubric, value: a, provider: { id: openai:gpt-4o, config: { temperature: 1 } } }] }\n",
        ),
        ("drops.yaml", "- { vars: { word: hi }, options: { disableDefaultAsserts: true } }\n"),
        ("row.yaml", "- { description: greets, vars: { word: hi }, threshold: high }\n"),
        ("empty.json", "[]"),
    ]);
    for (dataset, messages) in [
        (
            "{ dataset: file://cases.csv, format: promptfo }",
            &["unknown format", "kindlm.yaml:8:"][..],
        ),
        ("{ dataset: cases.csv }", &["expected `file://` and the path of a dataset"]),
        ("{ dataset: file://cases.csv, vars: {} }", &["unknown key `vars` of a dataset"]),
        ("{ dataset: file://gone.csv, format: promptfoo }", &["`gone.csv` does not exist"]),
        ("{ dataset: file://cases.csv, format: promptfoo }", &["cases.csv:2:"]),
        (
            "{ dataset: file://cases.yaml, format: promptfoo }",
            &["test 1 of the file has `provider`", "`options.prefix`"],
        ),
        (
            "{ dataset: file://vars.yaml, format: promptfoo }",
            &["the variable `word` of test 1 of the file is made by a program"],
        ),
        (
            "{ dataset: file://graded.yaml, format: promptfoo }",
            &["test 1 of the file has `assert[].provider`, which a dataset cannot have"],
        ),
        (
            "{ dataset: file://drops.yaml, format: promptfoo }",
            &["test 1 of the file has `options.disableDefaultAsserts`"],
        ),
        (
            "{ dataset: file://row.yaml, format: promptfoo }",
            &["in the test `greets` of `row.yaml`", "kindlm.yaml:8:"],
        ),
        ("{ dataset: file://empty.json, format: promptfoo }", &["has no tests in it"]),
    ] {
        let broken = render_all(&loaded(&with_dataset(dataset), &files));
        for message in messages {
            assert!(broken.contains(message), "{dataset}: {message}: {broken}");
        }
    }
}
