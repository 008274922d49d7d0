//! Providers that are programs, and transforms between the provider and the checks.

use kindlm_testing::installed;
use serde_json::json;

use crate::ran::{CONFIG, folder, kindlm, rows};

const CLASS: &str = "module.exports = class {
  constructor(options) { this.options = options; this.config = options.config; }
  id() { return 'mine'; }
  async callApi(prompt, context, call) {
    context.logger?.debug('asked');
    return {
      output: [this.config.greeting, prompt, context.vars.name, context.prompt.label, context.prompt.raw === prompt,
        context.test.metadata.team, context.test.options.tone, context.test.vars.name, typeof call].join('|'),
      tokenUsage: { total: 9, prompt: 4, completion: 5, cached: 2 },
      cost: 0.125,
      cached: false,
      raw: { id: 'r-1' },
      metadata: { trace: 't' },
    };
  }
};
";

#[test]
fn a_provider_class_gets_the_whole_context() {
    let config = "prompts: [{ raw: 'Hello {{name}}', label: greeting }]
providers: [{ id: 'file://provider.js', label: mine, config: { greeting: Hi } }]
tests:
  - vars: { name: Ada }
    metadata: { team: blue }
    options: { tone: kind }
    assert:
      - { type: equals, value: 'Hi|Hello Ada|Ada|greeting|true|blue|kind|Ada|object' }
      - { type: cost, threshold: 0.2 }
      - { type: not-cost, threshold: 0.1 }
      - { type: javascript, value: \"context.providerResponse.raw.id === 'r-1'\" }
      - { type: javascript, value: \"context.providerResponse.tokenUsage.cached === 2 && context.providerResponse.cost === 0.125\" }
      - { type: javascript, value: \"context.metadata.trace === 't' && context.test.options.tone === 'kind'\" }
";
    let folder = folder(&[(CONFIG, config), ("provider.js", CLASS)]);
    let (ran, rows) = rows(folder.path(), CONFIG, &[]);
    assert_eq!(rows.len(), 1, "{ran:?}");
    assert_eq!(rows[0]["status"], "passed", "{rows:#?}");
    let ran = kindlm(folder.path(), &["validate", "-c", CONFIG]);
    assert!(ran.stderr.contains("`options.tone` is only seen by scripts"), "{ran:?}");
}

/// promptfoo passes a chat to every provider as indented JSON.
///
/// Templates are rendered only inside the texts of the chat.
#[test]
fn a_chat_stays_a_chat_also_with_one_message() {
    let config = "prompts:
  - '[{\"role\": \"user\", \"content\": \"Hi {{name}}\"}]'
  - 'Hi {{name}}'
  - '{\"ask\": \"Hi {{name}}\", \"n\": 1}'
providers: [echo, 'file://provider.js']
tests:
  - vars: { name: \"A \\\"B\\\"\" }
    assert: [{ type: javascript, value: 'context.prompt === output' }]
";
    let echo = "module.exports = { callApi: async (prompt) => ({ output: prompt }) };\n";
    let folder = folder(&[(CONFIG, config), ("provider.js", echo)]);
    let (ran, rows) = rows(folder.path(), CONFIG, &[]);
    assert_eq!(rows.len(), 6, "{ran:?}");
    for (index, expected) in [
        json!("[\n  {\n    \"role\": \"user\",\n    \"content\": \"Hi A \\\"B\\\"\"\n  }\n]"),
        json!("Hi A \"B\""),
        json!("{\n  \"ask\": \"Hi A \\\"B\\\"\",\n  \"n\": 1\n}"),
    ]
    .into_iter()
    .enumerate()
    {
        for model in ["echo", "file://provider.js"] {
            let row = rows.iter().filter(|it| it["model"] == model).nth(index).unwrap();
            assert_eq!(row["output"], expected, "{model}");
            assert_eq!(row["status"], "passed", "{row:#?}");
        }
    }
}

#[test]
fn the_transform_of_the_provider_runs_before_that_of_the_test() {
    let config = "prompts: ['ab']
providers: [{ id: echo, transform: 'output + \"-p\"' }]
tests:
  - options: { transform: 'output.toUpperCase() + \"-t\"' }
    assert: [{ type: equals, value: AB-P-t }]
  - assert: [{ type: equals, value: ab-p }]
";
    let folder = folder(&[(CONFIG, config)]);
    let (ran, rows) = rows(folder.path(), CONFIG, &[]);
    assert_eq!(ran.code, 0, "{ran:?} {rows:#?}");
}

/// The expected values are from promptfoo 0.121.20.
#[test]
fn variables_may_be_templates_of_others() {
    let config = "prompts: ['{{greeting}} / {{loud}} / {{ items.length }} / {{ name.toUpperCase() }}']
providers: [echo]
tests:
  - vars: { name: Ada, greeting: 'Hello {{name}}', loud: '{{ greeting | upper }}', items: { length: 3 } }
    assert:
      - { type: equals, value: 'Hello Ada / HELLO ADA / 3 / ADA' }
      - { type: contains, value: '{{ env.REGION }}{{ name }}' }
";
    let folder = folder(&[(CONFIG, config)]);
    let (ran, rows) = rows(folder.path(), CONFIG, &[("REGION", "")]);
    assert_eq!(ran.code, 0, "{ran:?} {rows:#?}");
}

/// Node.js does not run all TypeScript: older versions run none, and newer versions no enumerations.
#[test]
fn node_runs_typescript_with_imports() {
    if !installed("node") {
        return;
    }
    let files = [
        (
            CONFIG,
            "prompts: ['file://prompt.ts:hello']
scripts: { runtime: node }
providers: ['file://provider.ts']
tests:
  - vars: { name: Ada }
    assert:
      - { type: javascript, value: 'file://checks/check.ts' }
      - { type: javascript, value: 'file://old.cts:check' }
",
        ),
        (
            "prompt.ts",
            "export const hello = ({ vars }: { vars: { name: string } }): string => `Hi ${vars.name}`;\n",
        ),
        (
            "provider.ts",
            "import { shout, Tone } from './lib/util';
import path from 'node:path';
interface Answer { output: string }
export default class Mine {
  constructor(private options: { config: object }) {}
  async callApi(prompt: string): Promise<Answer> {
    return { output: shout(prompt, Tone.Loud) + path.sep + typeof this.options.config };
  }
}
",
        ),
        (
            "lib/util.ts",
            "export enum Tone { Quiet, Loud }
export const shout = (text: string, tone: Tone): string => tone === Tone.Loud ? text.toUpperCase() : text;
",
        ),
        ("checks/check.ts", "export default (output: string): boolean => output === 'HI ADA/object';\n"),
        (
            "old.cts",
            "const { count } = require('./count.ts');
exports.check = (output: string) => count(output) === 13;
",
        ),
        ("count.ts", "exports.count = (text: string): number => text.length;\n"),
    ];
    let folder = folder(&files);
    let (ran, rows) = rows(folder.path(), CONFIG, &[]);
    assert_eq!(rows.len(), 1, "{ran:?}");
    assert_eq!(rows[0]["status"], "passed", "{rows:#?}");
    // No files are left next to the files of the suite.
    let mut kept: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    kept.retain(|name| {
        name != ".kindlm" && !files.iter().any(|(it, _)| it.split('/').next() == Some(name))
    });
    assert_eq!(kept, Vec::<String>::new());

    std::fs::write(folder.path().join("old.cts"), "exports.check = (output: ) => 1;").unwrap();
    let (_, rows) = crate::ran::rows(folder.path(), CONFIG, &[]);
    let why = rows[0]["results"][1]["why"].as_str().unwrap_or_default();
    assert!(why.contains("old.cts`: 1:"), "{rows:#?}");
}

/// A legacy `function_call` is an object for checks, as in promptfoo.
#[test]
fn a_function_call_has_the_form_of_promptfoo() {
    let server = kindlm_testing::MockServer::answering(|_| {
        let call = json!({"name": "find", "arguments": "{\"id\": 7}"});
        let message = json!({"role": "assistant", "content": null, "function_call": call});
        let choice = json!({"index": 0, "message": message, "finish_reason": "function_call"});
        kindlm_testing::MockReply::json(&json!({"model": "m", "choices": [choice]}))
    })
    .unwrap();
    let config = format!(
        "prompts: [hi]
providers: [{{ id: 'openai:gpt-4', config: {{ apiBaseUrl: '{}/v1', apiKeyEnvar: KEY, functions: [{{ name: find, parameters: {{ type: object }} }}] }} }}]
tests:
  - assert:
      - {{ type: javascript, value: \"output.name === 'find' && JSON.parse(output.arguments).id === 7\" }}
",
        server.url()
    );
    let folder = folder(&[(CONFIG, &config)]);
    let (ran, rows) = rows(folder.path(), CONFIG, &[("KEY", "k")]);
    assert_eq!(rows.len(), 1, "{ran:?}");
    assert_eq!(rows[0]["status"], "passed", "{rows:#?}");
    assert_eq!(server.requests()[0].json()["functions"][0]["name"], "find");
}
