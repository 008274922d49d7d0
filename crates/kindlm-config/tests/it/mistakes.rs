//! Snapshots of common mistakes in config files, with the error message for each.
//!
//! Each message must name the place, the problem and the fix.
//!
//! Each mistake has a number. The numbers of mistakes that this crate cannot detect are left out: unknown model names
//! of a vendor (23), syntax errors in scripts (58), and two mistakes in whole files (69, 71).

use std::fmt::Write as _;

use insta::assert_snapshot;
use kindlm_config::load;

use crate::memory::{Memory, load_with, render_all, with};

/// The number, the description, and a part of the valid file with its replacement.
type Mistake = (u8, &'static str, &'static str, &'static str);

const SYNTAX: &[Mistake] = &[
    (4, "a list item that is not indented enough", "  - id: good\n", " - id: good\n"),
    (
        5,
        "a key one space too deep",
        "    user: \"Greet {{name}}.\"",
        "     user: \"Greet {{name}}.\"",
    ),
    (6, "a tab for spaces", "    user: \"Greet", "\tuser: \"Greet"),
    (
        7,
        "quotes that are not closed",
        "user: \"Greet {{name}}.\"\ntests:",
        "user: \"Greet {{name}}.\nmore: \"Hello\"\ntests:",
    ),
    (8, "a brace that is not closed", "vars: { name: Ada }", "vars: { name: Ada"),
    (
        27,
        "a key that is given twice",
        "    prompt: greet\n",
        "    prompt: greet\n    prompt: greet\n",
    ),
    (37, "an alias of nothing", "system: You are polite.", "system: *polite"),
    (
        38,
        "an anchor under a key of one's own",
        "project: demo",
        "x-common: &c { a: 1 }\nproject: demo",
    ),
    (57, "a second document", "prompts:", "---\nprompts:"),
    (64, "a comment in a list", "vars: { name: Ada }", "vars: { name: [#1 city] }"),
    (
        65,
        "a colon in a text",
        "contains: [Ada] }",
        "contains: [Ada] }\n      judge:\n        - criteria: Tone: kind",
    ),
    (19, "a variable without quotes", "user: \"Greet {{name}}.\"", "user: {{name}}"),
    (66, "line ends of Windows", "project: demo\n", "projet: demo\r\n"),
];

const KEYS: &[Mistake] = &[
    (1, "test for tests", "tests:\n", "test:\n"),
    (
        2,
        "expects for expect",
        "    expect:\n      output: { contains",
        "    expects:\n      output: { contains",
    ),
    (3, "temprature", "model: gpt-4o\n", "model: gpt-4o\n    params: { temprature: 0 }\n"),
    (42, "no version", "kindlm: 1\n", ""),
    (41, "another version", "kindlm: 1\n", "kindlm: 2\n"),
    (56, "max_length", "contains: [Ada]", "max_length: 3"),
    (54, "passRate for passRateMin", "project: demo", "gates: { passRate: 0.9 }\nproject: demo"),
    (
        60,
        "an assert of promptfoo",
        "    expect:\n      output: { contains",
        "    assert: [{ type: contains, value: Ada }]\n    expect:\n      output: { contains",
    ),
    (45, "no expect", "    expect:\n      output: { contains: [Ada] }\n", ""),
    (46, "a list of no checks", "output: { contains: [Ada] }", "assert: []"),
];

const VALUES: &[Mistake] = &[
    (9, "a number in quotes", "contains: [Ada]", "maxLength: \"100\""),
    (
        10,
        "a text for a list of tags",
        "    prompt: greet\n",
        "    prompt: greet\n    tags: smoke\n",
    ),
    (11, "a word for a number", "    prompt: greet\n", "    prompt: greet\n    repeat: many\n"),
    (12, "no repeat", "    prompt: greet\n", "    prompt: greet\n    repeat: 0\n"),
    (
        13,
        "a temperature of 9",
        "model: gpt-4o\n",
        "model: gpt-4o\n    params: { temperature: 9 }\n",
    ),
    (14, "percent for a share", "project: demo", "gates: { passRateMin: 90 }\nproject: demo"),
    (14, "a percent sign", "project: demo", "gates: { passRateMin: 90% }\nproject: demo"),
    (52, "a text for a list", "contains: [Ada]", "contains: Paris"),
    (53, "a yes and a number for texts", "contains: [Ada]", "contains: [yes, 100]"),
    (
        61,
        "a prompt as a list",
        "  greet:\n    system: You are polite.\n    user: \"Greet {{name}}.\"\n",
        "  greet: [\"Greet {{name}}.\"]\n",
    ),
    (62, "a time with a unit", "    prompt: greet\n", "    prompt: greet\n    timeoutMs: 30s\n"),
    (
        32,
        "an unknown severity",
        "output: { contains: [Ada] }",
        "assert: [{ type: contains, value: Ada, severity: hard }]",
    ),
    (36, "an unknown format", "contains: [Ada]", "format: yaml"),
    (
        44,
        "a key for the name of its variable",
        "apiKeyEnv: OPENAI_API_KEY",
        "apiKeyEnv: sk-0123456789abcdef",
    ),
    (43, "a key in the file", "apiKeyEnv: OPENAI_API_KEY", "apiKey: sk-0123456789abcdef"),
    (
        51,
        "an address without a scheme",
        "apiKeyEnv: OPENAI_API_KEY",
        "apiKeyEnv: OPENAI_API_KEY\n    baseUrl: localhost",
    ),
    (59, "an empty text to look for", "contains: [Ada]", "contains: ['']"),
];

const REFERENCES: &[Mistake] = &[
    (15, "a variable misspelt", "vars: { name: Ada }", "vars: { nmae: Ada }"),
    (16, "a brace too few", "user: \"Greet {{name}}.\"", "user: \"Greet {{name}.\""),
    (17, "a filter misspelt", "user: \"Greet {{name}}.\"", "user: \"Greet {{name|uper}}.\""),
    (
        18,
        "a tag that is not closed",
        "user: \"Greet {{name}}.\"",
        "user: \"{% if vip %}Dear {{name}}\"",
    ),
    (
        63,
        "a key that an object lacks",
        "vars: { name: Ada }",
        "vars: { name: Ada, user: { name: Ada } }\n    conversation: [{ turn: t, user: \"{{user.nmae}}\" }]",
    ),
    (20, "an unknown prompt", "    prompt: greet\n", "    prompt: gret\n"),
    (21, "an unknown model", "    prompt: greet\n", "    prompt: greet\n    models: [fats]\n"),
    (
        22,
        "an unknown provider",
        "    provider: openai\n    model: gpt-4o\n",
        "    provider: anthropic\n    model: claude\n",
    ),
    (
        24,
        "an unknown provider of a short model",
        "    prompt: greet\n",
        "    prompt: greet\n    models: ['openi:gpt-4o']\n",
    ),
    (25, "a test name given twice", "  - name: agent", "  - name: greets"),
    (26, "a model id given twice", "  - id: good", "  - id: fast"),
    (49, "a dataset that is not there", "tests:\n", "tests:\n  - file://cases.csv\n"),
    (35, "a schema that is not there", "contains: [Ada]", "format: json, schemaFile: order.json"),
    (
        55,
        "an environment variable that is not set",
        "Greet {{name}}.",
        "Greet {{name}} of {{env.TENNANT}}.",
    ),
    (
        50,
        "no variable for a key",
        "    apiKeyEnv: OPENAI_API_KEY",
        "    baseUrl: http://localhost:8000/v1",
    ),
    (
        47,
        "a tool that the test does not offer",
        "output: { contains: [Ada] }",
        "toolCalls: [{ tool: lookup }]",
    ),
    (
        48,
        "a model that judges itself",
        "output: { contains: [Ada] }",
        "judge: [{ criteria: Is it kind? }]",
    ),
];

const CHECKS: &[Mistake] = &[
    (
        28,
        "a bad regular expression",
        "output: { contains: [Ada] }",
        "assert: [{ type: regex, value: '(a' }]",
    ),
    (
        29,
        "a named group of Python",
        "output: { contains: [Ada] }",
        "assert: [{ type: regex, value: '(?P<x>a)' }]",
    ),
    (
        74,
        "flags of a regular expression",
        "output: { contains: [Ada] }",
        "assert: [{ type: regex, value: ada, flags: i }]",
    ),
    (30, "an unknown check", "output: { contains: [Ada] }", "assert: [{ type: regexp, value: a }]"),
    (31, "no value", "output: { contains: [Ada] }", "assert: [{ type: contains }]"),
    (
        33,
        "a type of JSON Schema misspelt",
        "contains: [Ada]",
        "format: json, schema: { type: objekt }",
    ),
    (
        34,
        "a key of JSON Schema misspelt",
        "contains: [Ada]",
        "format: json, schema: { type: object, propertys: {} }",
    ),
    (
        75,
        "a regular expression for a text",
        "output: { contains: [Ada] }",
        "assert: [{ type: not-message-includes, value: /order/ }]",
    ),
    (
        76,
        "a regular expression for an argument",
        "output: { contains: [Ada] }",
        "assert: [{ type: not-called-tool, value: bash, input: { command: /^pwd/ } }]",
    ),
    (
        77,
        "a tool misspelt in a negative check",
        "output: { contains: [Ada] }",
        "assert: [{ type: not-called-tool, value: delete_ordr }]\n    tools: [{ name: delete_order }]",
    ),
    (
        78,
        "a threshold of 0",
        "output: { contains: [Ada] }",
        "assert: [{ type: similarity, value: Ada, threshold: 0 }]",
    ),
    (
        78,
        "a threshold of 0 for all tests",
        "project: demo",
        "project: demo\ndefaults: { threshold: 0, passRateMin: 0 }",
    ),
    (78, "a threshold of 0 of a prompt", "  greet:\n", "  greet:\n    threshold: 0\n"),
    (79, "a pass rate of 0", "    prompt: greet\n", "    prompt: greet\n    passRateMin: 0\n"),
    (
        80,
        "only a check without a weight",
        "output: { contains: [Ada] }",
        "assert: [{ type: contains, value: Ada, weight: 0 }]",
    ),
];

fn gallery(mistakes: &[Mistake]) -> String {
    let files = Memory::default();
    let mut text = String::new();
    for (number, name, part, by) in mistakes {
        let loaded = load_with(&with(part, by), &files);
        let _ = writeln!(text, "# {number}. {name}\n\n{}", render_all(&loaded));
    }
    text
}

/// The warning depends on the type of the provider, not on its name: a model behind an API can only call the tools of
/// the test.
#[test]
fn a_tool_that_an_api_is_not_offered_is_found_under_every_name() {
    for (name, provider, is_found) in [
        ("openai", "openai: { apiKeyEnv: KEY }", true),
        ("azure", "azure: { type: openai, apiKeyEnv: KEY }", true),
        ("openai", "openai: { type: http, url: 'http://localhost' }", false),
        ("scripted", "scripted: { file: script.yaml }", false),
    ] {
        let text = with("output: { contains: [Ada] }", "toolCalls: [{ tool: lookup }]")
            .replace("openai:\n    apiKeyEnv: OPENAI_API_KEY", provider)
            .replace("provider: openai", &format!("provider: {name}"));
        let said = render_all(&load_with(&text, &Memory::default()));
        assert_eq!(said.contains("no model can call it"), is_found, "{provider}: {said}");
    }
}

#[test]
fn mistakes_of_syntax() {
    assert_snapshot!(gallery(SYNTAX));
}

#[test]
fn mistakes_of_keys() {
    assert_snapshot!(gallery(KEYS));
}

#[test]
fn mistakes_of_values() {
    assert_snapshot!(gallery(VALUES));
}

#[test]
fn mistakes_of_references() {
    assert_snapshot!(gallery(REFERENCES));
}

#[test]
fn mistakes_of_checks() {
    assert_snapshot!(gallery(CHECKS));
}

#[test]
fn mistakes_of_files() {
    let whole = |name: &str, bytes: &[u8]| {
        let loaded = load("kindlm.yaml", bytes, &Memory::default(), &|_| None);
        format!("# {name}\n\n{}", render_all(&loaded))
    };
    let deep = "[".repeat(20_000);
    let aliases = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n\
        d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\n\
        g: [*f,*f,*f,*f,*f,*f,*f,*f]\n";
    let set = |name: &str, file: &str, text: &str| {
        let suite = with("tests:\n", &format!("tests:\n  - file://{file}\n"));
        format!(
            "# {name}\n\n{}",
            render_all(&load_with(&suite, &Memory::from_files([(file, text)])))
        )
    };
    let all = [
        whole("39. an empty file", b""),
        whole("39. only comments", b"# later\n"),
        whole("40. a list at the top", b"- kindlm: 1\n"),
        whole("67. a mark of byte order", b"\xEF\xBB\xBFprojet: demo\n"),
        whole("68. UTF-16", b"\xFF\xFEk\0i\0"),
        whole("68. Latin-1", b"project: caf\xE9\n"),
        whole("68. a NUL", b"project: a\0b\n"),
        whole("70. brackets without end", deep.as_bytes()),
        whole("70. a billion laughs", aliases.as_bytes()),
        set(
            "72. quotes in CSV that are not closed",
            "t.csv",
            "name,prompt,vars.name\na,greet,\"Ada\nb,greet,Bob\n",
        ),
        set("72. a typo in JSON lines", "t.jsonl", "{\"name\": \"a\", \"promt\": \"greet\"}\n"),
        set("73. a line that is not JSON", "t.jsonl", "{bad json}\n"),
    ];
    assert_snapshot!(all.join("\n"));
}

#[test]
fn yaml_of_a_check_has_no_duplicate_key() {
    let error = kindlm_config::yaml("a: 1\nb: { c: 1, c: 2 }\n").unwrap_err();
    assert_eq!(error, "duplicate key `c` at line 2 column 12");
    let value = kindlm_config::yaml("a: 1\nb: { a: 1 }\n").unwrap();
    assert_eq!(value, serde_json::json!({"a": 1, "b": {"a": 1}}));
}
