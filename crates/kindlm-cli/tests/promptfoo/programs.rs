//! Programs of a config: their results, their permissions, and their errors.

use kindlm_testing::installed;
use serde_json::{Value, json};

use crate::ran::{CONFIG, folder, kindlm, rows};

/// The title of a test, its files (the config first), and the output of each execution.
type Makes = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);

const MAKES: &[Makes] = &[
    (
        "a prompt function is told variables and provider",
        &[
            (
                CONFIG,
                "prompts: [file://p.js]\nproviders: [echo, { id: echo, label: loud }]\ntests: [{ vars: { name: Ada } }, { vars: { name: Bob } }]\n",
            ),
            (
                "p.js",
                "module.exports = ({ vars, provider }) => `${provider.label === 'loud' ? 'HEY' : 'hey'} ${vars.name}`;",
            ),
        ],
        &["hey Ada", "HEY Ada", "hey Bob", "HEY Bob"],
    ),
    (
        "a named prompt function, its config, and a template that it returns",
        &[
            (
                CONFIG,
                "prompts: [{ id: 'file://p.mjs:ask', label: asking, config: { mark: '?' } }]\nproviders: [echo]\ntests: [{ vars: { name: Ada } }]\n",
            ),
            (
                "p.mjs",
                "export async function ask({ config }) { return { prompt: 'Who is {{ name }}' + config.mark }; }",
            ),
        ],
        &["Who is Ada?"],
    ),
    (
        "a prompt function in Python that returns a chat",
        &[
            (
                CONFIG,
                "prompts: ['file://p.py:chat']\nproviders: [echo]\ntests: [{ vars: { name: Ada } }]\n",
            ),
            (
                "p.py",
                "def chat(context):\n    return [{'role': 'system', 'content': 'x'}, {'role': 'user', 'content': 'Hi ' + context['vars']['name']}]\n",
            ),
        ],
        // promptfoo sends the chat as indented JSON.
        &[
            "[\n  {\n    \"role\": \"system\",\n    \"content\": \"x\"\n  },\n  {\n    \"role\": \"user\",\n    \"content\": \"Hi Ada\"\n  }\n]",
        ],
    ),
    (
        "tests that a program makes, with its config",
        &[
            (
                CONFIG,
                "prompts: ['{{n}}']\nproviders: [echo]\ntests: [{ path: 'file://t.ts:make', config: { count: 3 } }, { vars: { n: last } }]\n",
            ),
            (
                "t.ts",
                "type Config = { count: number };\nexport const make = ({ count }: Config) => Array.from({ length: count }, (_, n) => ({ vars: { n } }));",
            ),
        ],
        &["0", "1", "2", "last"],
    ),
    (
        "tests that a module exports, and tests of a Python function",
        &[
            (CONFIG, "prompts: ['{{n}}']\nproviders: [echo]\ntests: [file://t.js, file://t.py]\n"),
            ("t.js", "module.exports = [{ vars: { n: 'js' } }];"),
            ("t.py", "def generate_tests():\n    return [{'vars': {'n': 'py'}}]\n"),
        ],
        &["js", "py"],
    ),
    (
        "a variable that a program makes",
        &[
            (
                CONFIG,
                "prompts: ['{{ctx}}']\nproviders: [echo]\ntests: [{ vars: { topic: tea, ctx: file://v.js } }, { vars: { topic: rye, ctx: file://v.py } }]\n",
            ),
            (
                "v.js",
                "module.exports = (name, prompt, vars) => ({ output: `${name} of ${vars.topic} for ${prompt}` });",
            ),
            (
                "v.py",
                "def get_var(name, prompt, vars):\n    return {'output': name + ' about ' + vars['topic']}\n",
            ),
        ],
        &["ctx of tea for {{ctx}}", "ctx about rye"],
    ),
    (
        "variables that are transformed",
        &[
            (
                CONFIG,
                "prompts: ['{{a}} {{b}}']\nproviders: [echo]\ndefaultTest: { options: { transformVars: '({ a: vars.a.toUpperCase(), b: 1 })' } }\ntests: [{ vars: { a: x } }, { vars: { a: y }, options: { transformVars: file://t.js } }]\n",
            ),
            ("t.js", "module.exports = (vars) => ({ ...vars, b: [...vars.a].length });"),
        ],
        &["X 1", "y 1"],
    ),
    (
        "filters, in prompts and in the values of checks",
        &[
            (
                CONFIG,
                "prompts: ['{{ name | shout(2) }} {{ \"{{\" }}']\nproviders: [echo]\nnunjucksFilters: { shout: ./shout.js }\ntests:\n  - vars: { name: ada }\n    assert: [{ type: starts-with, value: '{{ name | shout(2) }}' }]\n",
            ),
            (
                "shout.js",
                "module.exports = (text, count) => text.toUpperCase() + '!'.repeat(count);",
            ),
        ],
        &["ADA!! {{"],
    ),
    (
        "providers in files: a class, a function, Python",
        &[
            (
                CONFIG,
                "prompts: ['Hi {{name}}']\nproviders:\n  - { id: file://class.js, config: { mark: '!' } }\n  - 'file://fn.mjs:ask'\n  - file://p.py\ntests: [{ vars: { name: Ada } }]\n",
            ),
            (
                "class.js",
                "module.exports = class {\n  constructor(options) { this.mark = options.config.mark; }\n  id() { return 'mine'; }\n  async callApi(prompt, context) { return { output: prompt + this.mark + context.vars.name }; }\n};",
            ),
            ("fn.mjs", "export const ask = async (prompt) => ({ output: { said: prompt } });"),
            (
                "p.py",
                "def call_api(prompt, options, context):\n    return {'output': prompt + ' ' + context['vars']['name']}\n",
            ),
        ],
        &["Hi Ada!Ada", r#"{"said":"Hi Ada"}"#, "Hi Ada Ada"],
    ),
    (
        "variables that name each other",
        &[(
            CONFIG,
            "prompts: ['{{greeting}}']\nproviders: [echo]\ntests: [{ vars: { name: Ada, greeting: 'Hi {{ name }}' } }]\n",
        )],
        &["Hi Ada"],
    ),
    (
        "settings that a prompt and its function have",
        &[
            (
                CONFIG,
                "prompts: [{ id: file://p.js, label: p, config: { a: 1, b: 1 } }, { raw: plain, label: q, config: { b: 3 } }]\nproviders: [{ id: file://provider.js, config: { b: 0, c: 0 } }]\ntests: [{ vars: { x: 1 } }]\n",
            ),
            (
                "p.js",
                "module.exports = ({ config }) => ({ prompt: `asks ${config.b}`, config: { b: 2 } });",
            ),
            (
                "provider.js",
                "module.exports = class { constructor(options) { this.config = options.config } callApi(prompt) { return { output: `${prompt} ${JSON.stringify(this.config)}` } } };",
            ),
        ],
        &["asks 1 {\"b\":2,\"c\":0,\"a\":1}", "plain {\"b\":3,\"c\":0}"],
    ),
    (
        "a prompt that a whole Python program prints, and a method that makes tests",
        &[
            (
                CONFIG,
                "prompts: [file://p.py]\nproviders: [echo]\ntests: 'file://t.py:Maker.make'\n",
            ),
            ("p.py", "import json, sys\nprint('Hi ' + json.loads(sys.argv[1])['vars']['name'])\n"),
            (
                "t.py",
                "class Maker:\n    @staticmethod\n    def make():\n        return [{'vars': {'name': 'Ada'}}]\n",
            ),
        ],
        &["Hi Ada"],
    ),
    (
        "prompts that programs of any language print",
        &[
            (
                CONFIG,
                "prompts: ['exec: sh p.sh \"a  b\"', { raw: 'exec:sh q.sh', label: q }]\nproviders: [echo]\ntests: [{ vars: { name: Ada } }]\n",
            ),
            ("p.sh", "printf '\\033[1m%s: %s\\033[0m\\n\\n' \"$1\" \"$2\"\necho why >&2\n"),
            ("q.sh", "echo $#\n"),
            // The programs are started by Python.
            ("needs.py", ""),
        ],
        &[
            "a  b: {\"vars\":{\"name\":\"Ada\"},\"provider\":{\"id\":\"echo\",\"label\":\"\"},\"config\":{}}",
            "1",
        ],
    ),
    (
        "outputs that are there already",
        &[
            (
                CONFIG,
                "prompts: ['{{x}}']\nproviders: [file://never.js]\ntests: [{ vars: { x: 1 }, providerOutput: canned, assert: [{ type: equals, value: canned }] }, { vars: { x: 2 }, providerOutput: { a: 1 }, assert: [{ type: javascript, value: output.a === 1 }] }]\n",
            ),
            ("never.js", "module.exports = () => { throw new Error('asked') };"),
        ],
        &["canned", r#"{"a":1}"#],
    ),
];

#[test]
fn programs_make_their_parts_of_the_suite() {
    for (name, files, expected) in MAKES {
        let needs_python =
            files.iter().any(|(name, _)| name.rsplit_once('.').is_some_and(|it| it.1 == "py"));
        if needs_python && !installed("python3") {
            continue;
        }
        let folder = folder(files);
        let (ran, rows) = rows(folder.path(), CONFIG, &[]);
        assert_eq!(ran.code, 0, "{name}: {}{}", ran.stdout, ran.stderr);
        let outputs: Vec<&str> = rows.iter().map(|it| it["output"].as_str().unwrap()).collect();
        let mut expected = expected.to_vec();
        let mut sorted = outputs.clone();
        expected.sort_unstable();
        sorted.sort_unstable();
        assert_eq!(sorted, expected, "{name}");
    }
}

/// The title of a test, its files, and a part of stderr. No request is sent.
type Fails = (&'static str, &'static [(&'static str, &'static str)], &'static str);

const FAILS: &[Fails] = &[
    (
        "a program that throws, at its place",
        &[
            (CONFIG, "prompts: [file://p.js]\nproviders: [echo]\ntests: [{ vars: { a: 1 } }]\n"),
            ("p.js", "module.exports = () => { throw new Error('no idea'); };"),
        ],
        "the prompt function `p.js` failed: it threw `no idea`\n --> promptfooconfig.yaml:1:11",
    ),
    (
        "a prompt function that returns an empty text, at its place",
        &[
            (CONFIG, "prompts: [file://p.js]\nproviders: [echo]\ntests: [{}, {}]\n"),
            ("p.js", "module.exports = () => '';"),
        ],
        "the prompt function `p.js` returned no text, so the prompt is empty\n --> promptfooconfig.yaml:1:11",
    ),
    (
        "a program that never ends",
        &[
            (
                CONFIG,
                "prompts: ['{{a}}']\nproviders: [echo]\nscripts: { timeoutMs: 300 }\ntests: file://t.js\n",
            ),
            ("t.js", "module.exports = () => { for (;;); };"),
        ],
        "`t.js` failed: it ran longer than 0.3 s and was stopped",
    ),
    (
        "a program that wants npm packages",
        &[
            (CONFIG, "prompts: ['x']\nproviders: [echo]\ntests: file://t.js\n"),
            ("t.js", "const _ = require('lodash'); module.exports = () => [];"),
        ],
        "with `scripts.runtime: node`, Node.js runs the script, without a sandbox",
    ),
    (
        "a program that reads what it may not",
        &[
            (CONFIG, "prompts: ['x']\nproviders: [echo]\ntests: file://t.js\n"),
            ("t.js", "module.exports = () => require('fs').readFileSync('/etc/passwd');"),
        ],
        "a script sees no files unless `scripts.read` names their folder",
    ),
    (
        "a program that makes no tests",
        &[
            (CONFIG, "prompts: ['x']\nproviders: [echo]\ntests: file://t.js\n"),
            ("t.js", "module.exports = () => ({ a: 1 });"),
        ],
        "`t.js` returned `{\"a\":1}`, not a list of tests",
    ),
    (
        "a variable without an output",
        &[
            (
                CONFIG,
                "prompts: ['{{x}}']\nproviders: [echo]\ntests: [{ vars: { x: file://v.js } }]\n",
            ),
            ("v.js", "module.exports = () => ({ error: 'not today' });"),
        ],
        "the program of the variable `x`: not today",
    ),
    (
        "a filter that fails",
        &[
            (
                CONFIG,
                "prompts: ['{{ x | bad }}']\nproviders: [echo]\nnunjucksFilters: { bad: bad.js }\ntests: [{ vars: { x: 1 } }]\n",
            ),
            ("bad.js", "module.exports = () => null.x;"),
        ],
        "the filter `bad`: it threw",
    ),
    (
        "a function that is not there",
        &[
            (CONFIG, "prompts: ['file://p.js:ask']\nproviders: [echo]\ntests: [{}]\n"),
            ("p.js", "exports.other = () => 'x';"),
        ],
        "`p.js` exports no function `ask`; it exports `other`",
    ),
];

#[test]
fn impossible_programs_are_refused_at_their_place() {
    for (name, files, expected) in FAILS {
        let folder = folder(files);
        let ran = kindlm(folder.path(), &["validate", "-c", CONFIG]);
        assert_eq!(ran.code, 2, "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{name}: {}", ran.stderr);
    }
}

#[test]
fn validating_a_config_runs_no_program() {
    let python = "import pathlib\npathlib.Path('ran').write_text('x')\ndef generate_tests():\n    return [{'vars': {'n': 1}}]\n";
    let javascript = "module.exports = () => [{ vars: { n: 1 } }];";
    for (scripts, file, program, refused) in [
        ("", "t.js", javascript, None),
        ("", "t.py", python, Some("it would run without a sandbox")),
        ("scripts: { runtime: node }\n", "t.js", javascript, Some("Node.js would run it")),
        ("scripts: { net: [localhost] }\n", "t.js", javascript, Some("it may use the network")),
    ] {
        let config =
            format!("prompts: ['{{{{n}}}}']\nproviders: [echo]\n{scripts}tests: file://{file}\n");
        let folder = folder(&[(CONFIG, &config), (file, program)]);
        let needs = if file == "t.py" { "python3" } else { "node" };
        if refused.is_some() && !installed(needs) {
            continue;
        }
        let commands: [&[&str]; 3] = [
            &["validate", "-c", CONFIG],
            &["test", "-c", CONFIG, "--dry-run"],
            &["import", CONFIG, "-o", "-"],
        ];
        for command in commands {
            let ran = kindlm(folder.path(), command);
            match refused {
                None => assert_eq!(ran.code, 0, "{command:?}: {}", ran.stderr),
                Some(refused) => {
                    assert_eq!(ran.code, 2, "{command:?}: {}", ran.stderr);
                    assert!(ran.stderr.contains(refused), "{command:?}: {}", ran.stderr);
                    assert!(ran.stderr.contains("--allow-programs"), "{}", ran.stderr);
                    let permitted: Vec<&str> =
                        command.iter().copied().chain(["--allow-programs"]).collect();
                    let ran = kindlm(folder.path(), &permitted);
                    assert_eq!(ran.code, 0, "{permitted:?}: {}", ran.stderr);
                }
            }
            if file == "t.py" {
                let trace = folder.path().join("ran");
                assert!(trace.exists(), "it was run once it was permitted");
                std::fs::remove_file(trace).unwrap();
            }
        }
        let ran = kindlm(folder.path(), &["test", "-c", CONFIG, "-q"]);
        assert_eq!(ran.code, 0, "a run may run programs: {}", ran.stderr);
    }
}

#[test]
fn a_provider_that_fails_is_a_provider_error() {
    for (program, message) in [
        ("module.exports = () => { throw new Error('down') };", "`p.js` threw: down"),
        ("module.exports = () => ({ error: 'no luck' });", "`p.js`: no luck"),
        ("module.exports = { notIt: 1 };", "`p.js` is no provider"),
        (
            "module.exports = async () => (await fetch('http://127.0.0.1:9/')).text();",
            "a script has no network unless `scripts.net` names its hosts",
        ),
    ] {
        let config = "prompts: ['hi']\nproviders: [file://p.js]\ntests: [{}]\n";
        let folder = folder(&[(CONFIG, config), ("p.js", program)]);
        let ran = kindlm(folder.path(), &["test", "-c", CONFIG]);
        assert_eq!(ran.code, 3, "{}{}", ran.stdout, ran.stderr);
        // The report wraps its lines.
        let said: Vec<&str> = ran.stdout.split_whitespace().collect();
        assert!(said.join(" ").contains(message), "{message}: {}", ran.stdout);
    }
}

#[test]
fn a_scoring_function_decides_over_the_checks() {
    let config = "prompts: ['{{x}}']\nproviders: [echo]\ndefaultTest:\n  assertScoringFunction: file://score.js\n  threshold: 0.4\ntests:\n  - vars: { x: a }\n    assert: [{ type: equals, value: a, metric: right }, { type: equals, value: b, metric: wrong }]\n  - vars: { x: c }\n    assert: [{ type: equals, value: a, metric: right }]\n";
    let score = "module.exports = (scores, { threshold, componentResults }) => {\n  const score = scores.right / componentResults.length;\n  return { pass: score >= threshold, score, reason: `${score} of ${threshold}` };\n};";
    let folder = folder(&[(CONFIG, config), ("score.js", score)]);
    let (ran, rows) = rows(folder.path(), CONFIG, &[]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let seen: Vec<Value> = rows
        .iter()
        .map(|it| json!([it["status"], it["score"], it["namedScores"], it["results"][0]["why"]]))
        .collect();
    assert_eq!(
        json!(seen),
        json!([
            ["passed", 0.5, {"right": 1.0, "wrong": 0.0}, "0.5 of 0.4"],
            ["failed", 0.0, {"right": 0.0}, "0 of 0.4"],
        ])
    );
}

#[test]
fn reports_are_written_to_the_configured_paths() {
    let config = "prompts: ['x']\nproviders: [echo]\noutputPath: [out/r.json, r.xml]\ntests: [{ metadata: { kind: a }, assert: [{ type: javascript, value: context.test.metadata.kind === 'a' }] }]\n";
    let folder = folder(&[(CONFIG, config)]);
    let ran = kindlm(folder.path(), &["test", "-c", CONFIG]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("PASSED"), "the usual report is shown too: {}", ran.stdout);
    assert!(folder.path().join("out/r.json").is_file());
    assert!(std::fs::read_to_string(folder.path().join("r.xml")).unwrap().contains("<testsuite"));

    let outside = config.replace("out/r.json", "../r.json");
    std::fs::write(folder.path().join(CONFIG), outside).unwrap();
    let ran = kindlm(folder.path(), &["test", "-c", CONFIG]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("outside the folder of the config file"), "{}", ran.stderr);
}

/// A config that is a program, its helper, and the output of its only test.
const CONFIGS: &[(&str, &str, &str)] = &[
    (
        "promptfooconfig.js",
        "const { ask } = require('./lib.js');\nmodule.exports = { prompts: [ask], providers: ['echo'], tests: [{ vars: { name: 'Ada' } }] };",
        "Hi Ada",
    ),
    (
        "promptfooconfig.ts",
        "import type { UnifiedConfig } from 'promptfoo';\nimport lib from './lib.js';\nconst config: UnifiedConfig = { prompts: [lib.ask], providers: ['echo'], tests: [{ vars: { name: 'Bob' } }] };\nexport default config;",
        "Hi Bob",
    ),
    (
        "promptfooconfig.mjs",
        "export default async () => ({ prompts: ['{{n}}'], providers: ['echo'], tests: [1].map((n) => ({ vars: { n } })) });",
        "1",
    ),
];

#[test]
fn a_config_may_be_a_program() {
    for (name, text, expected) in CONFIGS {
        let folder = folder(&[(name, text), ("lib.js", "exports.ask = 'Hi {{name}}';")]);
        let (ran, rows) = rows(folder.path(), name, &[]);
        assert_eq!(ran.code, 0, "{name}: {}{}", ran.stdout, ran.stderr);
        assert_eq!(rows.len(), 1, "{name}");
        assert_eq!(rows[0]["output"], *expected, "{name}");
        let imported = kindlm(folder.path(), &["import", name, "--output", "-"]);
        assert!(imported.stdout.contains("model: echo:echo"), "{name}: {}", imported.stderr);
    }
}

#[test]
fn a_config_that_cannot_be_run_says_why() {
    for (text, expected) in [
        ("throw new Error('no idea')", "the config cannot be evaluated: it threw `no idea`"),
        ("require('lodash')", "the config cannot be evaluated: Cannot find module 'lodash'"),
        ("module.exports = [1]", "the config does not export an object"),
        (
            "module.exports = { prompts: ['x'], providers: [() => 1] }",
            "the config has a function at `providers.0`, which is not supported",
        ),
        (
            "module.exports = { prompts: ['x'], providers: ['echo'], tests: [{ vars: 1 }] }",
            "promptfooconfig.js (as JSON):10:15",
        ),
        (
            "module.exports = { prompts: ['x'], providers: [process.env.MODEL || 'echo'] }",
            "the config reads the environment variable `MODEL`",
        ),
        ("module.exports = { a: 1 }", "this is not a promptfoo config"),
    ] {
        let folder = folder(&[("promptfooconfig.js", text)]);
        let ran = kindlm(folder.path(), &["import", "promptfooconfig.js", "--output", "-"]);
        assert_eq!(ran.code, 2, "{text}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains(expected), "{text}: {}", ran.stderr);
    }
}

#[test]
fn imports_of_a_config_are_files_of_the_suite() {
    let (name, text, _) = CONFIGS[0];
    let folder = folder(&[(name, text), ("lib.js", "exports.ask = 'Hi {{name}}';")]);
    let ran = kindlm(folder.path(), &["test", "-c", name, "-q", "--reporter", "json=ran.json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let report = std::fs::read_to_string(folder.path().join("ran.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let files =
        report["suite"]["files"].as_array().unwrap_or_else(|| panic!("{}", report["suite"]));
    let paths: Vec<&str> = files.iter().filter_map(|it| it["path"].as_str()).collect();
    assert_eq!(paths, ["lib.js", name]);
}

#[test]
fn a_redirect_to_another_host_is_refused() {
    let server = kindlm_testing::MockServer::answering(|_| {
        kindlm_testing::MockReply::redirect(302, "http://elsewhere.example:81/tests.csv")
    })
    .unwrap();
    let config = format!("prompts: [a]\nproviders: [echo]\ntests: '{}/tests.csv'\n", server.url());
    let folder = folder(&[(CONFIG, &config)]);
    let ran = kindlm(folder.path(), &["test", "-c", CONFIG, "--allow-network"]);
    assert_eq!((ran.code, server.count()), (2, 1), "{ran:?}");
    let expected = "it redirects to elsewhere.example:81; write the address there";
    assert!(ran.stderr.contains(expected), "{ran:?}");
}

#[test]
fn tests_are_read_from_the_network_only_if_allowed() {
    let server = kindlm_testing::MockServer::answering(|_| {
        kindlm_testing::MockReply::json(&json!([{"vars": {"name": "Ada"}}]))
    })
    .unwrap();
    let url = format!("{}/tests.json?key=secret", server.url());
    let config = format!("prompts: ['Hi {{{{name}}}}']\nproviders: [echo]\ntests: '{url}'\n");
    let folder = folder(&[(CONFIG, &config)]);
    let refused = kindlm(folder.path(), &["test", "-c", CONFIG]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("`--allow-network` lets KindLM read them"), "{refused:?}");
    assert!(!refused.stderr.contains("secret"), "{refused:?}");
    assert_eq!(server.count(), 0);
    let args = ["test", "-c", CONFIG, "--allow-network", "--reporter", "json=-"];
    let ran = kindlm(folder.path(), &args);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("Hi Ada"), "{ran:?}");
    let looked = kindlm(folder.path(), &["validate", "-c", CONFIG, "--allow-network"]);
    assert_eq!((looked.code, server.count()), (0, 2), "{looked:?}");
}
