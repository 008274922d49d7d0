//! Verdicts and requests that are the same as promptfoo's, one by one.
//!
//! The expected values are the results of promptfoo 0.123.1 with the same config and the same server.

use kindlm_testing::{MockReply, MockServer};
use serde_json::{Value, json};

use crate::ran::{CONFIG, Ran, folder, kindlm_with, rows};

/// Replaces `URL` in a config, runs it, and returns the rows and the requests that the server got.
fn run(server: &MockServer, config: &str, env: &[(&str, &str)]) -> (Ran, Vec<Value>, Vec<Value>) {
    let folder = folder(&[(CONFIG, &config.replace("URL", &server.url()))]);
    let before = server.count();
    let (ran, rows) = rows(folder.path(), CONFIG, env);
    let sent = server.requests()[before..].iter().map(kindlm_testing::MockRequest::json).collect();
    (ran, rows, sent)
}

/// Returns the status of each check of the only row, with its type.
fn checks(rows: &[Value]) -> Vec<String> {
    let results = rows[0]["results"].as_array().unwrap().iter();
    results
        .map(|it| format!("{} {}", it["type"].as_str().unwrap(), it["status"].as_str().unwrap()))
        .collect()
}

const TOOLS: &str = "tools: [{ type: function, function: { name: delete_account, parameters: { type: object, \
    properties: { id: { type: number } } } } }]";

/// The environment variables that decide the default graders.
const KEYS: [&str; 13] = [
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "PALM_API_KEY",
    "MISTRAL_API_KEY",
    "XAI_API_KEY",
    "AZURE_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "AZURE_CLIENT_ID",
    "AZURE_DEPLOYMENT_NAME",
    "AZURE_OPENAI_DEPLOYMENT_NAME",
    "OPENAI_API_HOST",
];

const CHECKS: &str = "
      - { type: not-contains, value: delete_account }
      - { type: contains, value: delete_account }
      - { type: is-json }
      - { type: not-regex, value: 'delete_\\w+' }
      - { type: is-valid-openai-tools-call }
      - { type: javascript, value: CODE }";

#[test]
fn checks_see_the_calls_of_an_answer_as_promptfoo_shows_them() {
    let openai = json!({
        "model": "gpt-4o",
        "choices": [{"finish_reason": "tool_calls", "message": {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "delete_account", "arguments": "{\"id\":7}"}},
        ]}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    });
    let anthropic = json!({
        "model": "claude-sonnet-4-5", "role": "assistant", "type": "message", "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": "t1", "name": "delete_account", "input": {"id": 7}}],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    });
    for (id, base, answer, code, is_openai_call) in [
        (
            "openai:gpt-4o",
            "URL/v1",
            openai,
            "output[0].function.name === 'delete_account'",
            "passed",
        ),
        (
            "anthropic:messages:claude-sonnet-4-5",
            "URL",
            anthropic,
            "JSON.parse(output).name === 'delete_account'",
            "failed",
        ),
    ] {
        let server = MockServer::answering(move |_| MockReply::json(&answer)).unwrap();
        let config = format!(
            "prompts: [Remove me]\nproviders: [{{ id: '{id}', config: {{ apiBaseUrl: '{base}', apiKeyEnvar: KEY, \
             {TOOLS} }} }}]\ntests:\n  - assert:{}\n",
            CHECKS.replace("CODE", &format!("\"{code}\""))
        );
        let (ran, rows, _) = run(&server, &config, &[("KEY", "k")]);
        assert_eq!(rows.len(), 1, "{ran:?}");
        let expected = [
            "contains failed".to_owned(),
            "contains passed".to_owned(),
            "is-json passed".to_owned(),
            "regex failed".to_owned(),
            format!("is-valid-openai-tools-call {is_openai_call}"),
            "javascript passed".to_owned(),
        ];
        assert_eq!(checks(&rows), expected, "{id}: {rows:?}");
    }
}

#[test]
fn the_application_is_never_its_own_grader() {
    let app = MockServer::answering(|_| MockReply::text("The capital is Paris.")).unwrap();
    let config = "prompts: ['Capital of France?']\n\
        providers: [{ id: 'URL/chat', config: { method: POST, body: { q: '{{prompt}}' }, transformResponse: 'text' } }]\n\
        tests: [{ assert: [{ type: llm-rubric, value: Names Paris }, { type: similar, value: Paris }] }]\n";
    for (env, grader, embeddings) in [
        (&[][..], "openai:gpt-5.6-sol", "openai:text-embedding-3-large"),
        (
            &[("ANTHROPIC_API_KEY", "k")],
            "anthropic:claude-sonnet-4-6",
            "openai:text-embedding-3-large",
        ),
        (&[("MISTRAL_API_KEY", "k")], "mistral:mistral-large-latest", "mistral:mistral-embed"),
    ] {
        let folder = folder(&[(CONFIG, &config.replace("URL", &app.url()))]);
        let mut all: Vec<(&str, &str)> = KEYS.iter().map(|it| (*it, "")).collect();
        all.extend(env);
        let ran = kindlm_with(folder.path(), &["import", CONFIG, "--output", "-"], &all);
        let yaml = format!("{}{}", ran.stdout, ran.stderr);
        assert!(yaml.contains(&format!("model: {grader} }}")), "{yaml}");
        assert!(yaml.contains(&format!("model: {embeddings} }}")), "{yaml}");
    }
}

#[test]
fn a_default_grader_at_azure_is_refused() {
    let config =
        "prompts: [hi]\nproviders: [echo]\ntests: [{ assert: [{ type: llm-rubric, value: x }] }]\n";
    let names = [("AZURE_DEPLOYMENT_NAME", "d"), ("AZURE_OPENAI_DEPLOYMENT_NAME", "d")];
    let credentials =
        [("AZURE_CLIENT_ID", "i"), ("AZURE_CLIENT_SECRET", "s"), ("AZURE_TENANT_ID", "t")];
    for (env, is_refused) in [
        ([&names[..], &[("AZURE_API_KEY", "k")]].concat(), true),
        ([&names[..], &credentials].concat(), true),
        ([&names[..], &credentials[1..]].concat(), false),
        ([&names[1..], &[("AZURE_API_KEY", "k")]].concat(), false),
        ([&names[..], &[("AZURE_API_KEY", "k"), ("OPENAI_API_KEY", "k")]].concat(), false),
    ] {
        let folder = folder(&[(CONFIG, config)]);
        let all = KEYS.iter().map(|it| (*it, "")).chain(env.iter().copied());
        let all: Vec<(&str, &str)> = all.collect();
        let ran = kindlm_with(folder.path(), &["import", CONFIG, "--output", "-"], &all);
        let found = ran.stderr.contains("a default grader at Azure");
        assert_eq!(found, is_refused, "{env:?}: {ran:?}");
        assert_eq!(ran.stdout.contains("gpt-5.6-sol"), !is_refused, "{env:?}: {ran:?}");
    }
}

#[test]
fn chats_are_rendered_before_they_are_read() {
    let server = MockServer::start().unwrap();
    let provider = "providers: [{ id: 'openai:gpt-4o', config: { apiBaseUrl: 'URL/v1', apiKeyEnvar: KEY } }]\n";
    let chat = "      [\n        {% for it in history %}{ \"role\": \"{{ it.role }}\", \
        \"content\": {{ it.text | dump }} },{% endfor %}\n        \
        { \"role\": \"user\", \"content\": {{ q | dump }} }\n      ]\n";
    let vars = "tests: [{ vars: { q: 'say \"hi\"', history: [{ role: user, text: a }, { role: assistant, text: b }] } }]\n";
    for (prompt, expected) in [
        (
            chat,
            json!([
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": "b"},
                {"role": "user", "content": "say \"hi\""},
            ]),
        ),
        (
            "      - role: system\n        content: Be brief.\n      - role: user\n        content: {{ q }}\n",
            json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "say \"hi\""}]),
        ),
        ("      {{ q }}!\n", json!([{"role": "user", "content": "say \"hi\"!"}])),
        ("      [see] {{ q }}\n", json!([{"role": "user", "content": "[see] say \"hi\""}])),
    ] {
        let config = format!("prompts:\n  - |-\n{prompt}{provider}{vars}");
        let (ran, rows, sent) = run(&server, &config, &[("KEY", "k")]);
        assert_eq!(rows.len(), 1, "{ran:?}");
        assert_eq!(sent[0]["messages"], expected, "{prompt}");
    }
    let config = format!(
        "prompts:\n  - '[{{ \"role\": \"user\", \"content\": \"{{{{ q }}}}\" }} ,{{% if q %}}{{% endif %}}]'\n{provider}{vars}"
    );
    let (ran, rows, _) = run(&server, &config, &[("KEY", "k")]);
    let message = "in the test \"Test 1\", the rendered prompt looks like a chat";
    assert!(rows.is_empty() && ran.stderr.contains(message), "{ran:?}");
}

#[test]
fn requests_have_the_parameters_of_promptfoo_and_no_others() {
    let server = MockServer::start().unwrap();
    let own = |it: &Value| {
        let mut body = it.as_object().unwrap().clone();
        for key in ["messages", "contents", "model", "stream"] {
            body.shift_remove(key);
        }
        Value::Object(body)
    };
    for (id, config, expected) in [
        ("openai:gpt-4o", "", json!({"temperature": 0, "max_tokens": 1024})),
        ("openai:gpt-5", "", json!({})),
        ("openai:o3", "max_tokens: 800", json!({})),
        ("openai:o3", "max_completion_tokens: 800", json!({"max_completion_tokens": 800})),
        ("google:gemini-2.5-flash", "", json!({"generationConfig": {}})),
        (
            "google:gemini-2.5-flash",
            "generationConfig: { temperature: 0.5, topK: 3 }",
            json!({"generationConfig": {"temperature": 0.5, "topK": 3}}),
        ),
        ("ollama:chat:llama3", "", json!({"options": {}})),
        ("ollama:chat:llama3", "num_ctx: 99", json!({"options": {"num_ctx": 99}})),
        ("litellm:x", "", json!({})),
        ("xai:grok-3", "stop: [x]", json!({"temperature": 0, "max_tokens": 1024, "stop": ["x"]})),
        ("xai:grok-4", "max_tokens: 9, stop: [x]", json!({"temperature": 0})),
        (
            "xai:grok-4.3",
            "max_completion_tokens: 9, reasoning_effort: low",
            json!({"temperature": 0, "max_tokens": 9, "reasoning_effort": "low"}),
        ),
        ("mistral:mistral-large-latest", "", json!({"max_tokens": 1024, "top_p": 1})),
        ("cohere:command-r", "", json!({"temperature": 0.3})),
        ("anthropic:messages:claude-sonnet-4-5", "", json!({"max_tokens": 1024, "temperature": 0})),
        (
            "deepseek:deepseek-chat",
            "unknown_setting: 1",
            json!({"temperature": 0, "max_tokens": 1024, "unknown_setting": 1}),
        ),
    ] {
        let base =
            if id.starts_with("openai") || id.starts_with("litellm") { "URL/v1" } else { "URL" };
        let config = format!(
            "prompts: [hi]\nproviders: [{{ id: '{id}', config: {{ apiBaseUrl: '{base}', apiKeyEnvar: KEY, {config} }} }}]\n\
             tests: [{{ assert: [] }}]\n"
        );
        let (ran, _, sent) = run(&server, &config, &[("KEY", "k")]);
        assert_eq!(sent.len(), 1, "{id}: {ran:?}");
        assert_eq!(
            own(&sent[0]).to_string().replace(".0", ""),
            expected.to_string(),
            "{id}: {config}"
        );
    }
}

#[test]
fn prompts_from_stores_and_models_of_sounds_are_refused() {
    for (config, message) in [
        (
            "prompts: ['langfuse://support@production:chat']\nproviders: [echo]\n",
            "a prompt from `langfuse://`",
        ),
        ("prompts: ['portkey://abc']\nproviders: [echo]\n", "a prompt from `portkey://`"),
        (
            "prompts: [{ raw: 'helicone://a:1' }]\nproviders: [echo]\n",
            "a prompt from `helicone://`",
        ),
        ("prompts: [hi]\nproviders: ['hyperbolic:audio:tts']\n", "`hyperbolic:audio`"),
    ] {
        let folder = folder(&[(CONFIG, config)]);
        let ran = kindlm_with(folder.path(), &["validate", "-c", CONFIG], &[]);
        assert_eq!(ran.code, 2, "{config}: {ran:?}");
        assert!(ran.stderr.contains(message), "{config}: {ran:?}");
    }
}

#[test]
fn rows_have_the_verdicts_of_promptfoo() {
    for (config, expected) in [
        // The last line break of a variable is removed.
        (
            "prompts: ['<{{x}}>']\nproviders: [echo]\ntests:\n  - vars:\n      x: |\n        one\n    assert: [{ type: equals, value: '<one>' }, { type: contains, value: '{{x}}>' }]\n",
            vec!["equals passed", "contains passed"],
        ),
        // A set of weight 0 requires its checks, a check of weight 0 does not.
        (
            "prompts: [a]\nproviders: [echo]\ntests: [{ assert: [{ type: assert-set, weight: 0, assert: [{ type: equals, value: b }] }, { type: equals, value: c, weight: 0 }] }]\n",
            vec!["assert-set failed", "equals passed"],
        ),
        (
            "prompts: ['SELECT group FROM t']\nproviders: [echo]\ntests: [{ assert: [{ type: is-sql }] }]\n",
            vec!["is-sql failed"],
        ),
    ] {
        let folder = folder(&[(CONFIG, config)]);
        let (ran, rows) = rows(folder.path(), CONFIG, &[]);
        assert_eq!(rows.len(), 1, "{config}: {ran:?}");
        assert_eq!(checks(&rows), expected, "{config}");
    }
}

#[test]
fn a_threshold_of_a_script_in_a_table_is_ignored() {
    let csv = "x,__expected\na,javascript(0.5): 0.4\n";
    let config = "prompts: ['{{x}}']\nproviders: [echo]\ntests: file://t.csv\n";
    let folder = folder(&[(CONFIG, config), ("t.csv", csv)]);
    let (ran, rows) = rows(folder.path(), CONFIG, &[]);
    assert_eq!(rows[0]["results"][0]["status"], "passed", "{ran:?}");
    assert_eq!(rows[0]["results"][0]["score"], 0.4);
    let ran = kindlm_with(folder.path(), &["validate", "-c", CONFIG], &[]);
    assert!(ran.stderr.contains("promptfoo ignores the threshold"), "{ran:?}");
}

#[test]
fn findings_of_factuality_have_the_scores_of_the_options() {
    let server = MockServer::answering(|request| {
        let is_judge = request.json()["messages"].to_string().contains("reference");
        let finding = json!({"category": "A", "reason": "a part"}).to_string();
        MockReply::text(if is_judge { finding } else { "Paris.".to_owned() })
    })
    .unwrap();
    let provider = "{ id: 'openai:gpt-4o', config: { apiBaseUrl: 'URL/v1', apiKeyEnvar: KEY } }";
    let config = format!(
        "prompts: ['Answer: {{{{query}}}}']\nproviders: [{provider}]\n\
         defaultTest: {{ options: {{ factuality: {{ subset: 0.25 }}, provider: {provider} }} }}\n\
         tests: [{{ vars: {{ query: capital }}, assert: [{{ type: factuality, value: Paris is the capital. }}] }}]\n"
    );
    let (ran, rows, sent) = run(&server, &config, &[("KEY", "k")]);
    assert_eq!(rows[0]["results"][0]["score"], 0.25, "{ran:?}");
    assert_eq!(rows[0]["results"][0]["status"], "passed", "{ran:?}");
    // The grader sees the whole prompt, not the variable `query`.
    assert!(sent[1]["messages"].to_string().contains("Answer: capital"), "{sent:?}");
}

#[test]
fn packages_of_npm_are_named_before_the_run() {
    let provider = "const { x } = require('promptfoo');\nmodule.exports = class { callApi() { return { output: 'a' } } };\n";
    let config = "prompts: [hi]\nproviders: [file://p.js]\ntests: [{ assert: [] }]\n";
    for (config, is_named) in
        [(config.to_owned(), true), (format!("{config}scripts: {{ runtime: node }}\n"), false)]
    {
        let folder = folder(&[(CONFIG, &config), ("p.js", provider)]);
        let ran = kindlm_with(folder.path(), &["validate", "-c", CONFIG], &[]);
        let named = ran.stderr.contains("imports the npm package `promptfoo`");
        assert_eq!(named, is_named, "{ran:?}");
    }
}
