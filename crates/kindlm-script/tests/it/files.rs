//! Tests of files: CommonJS, ES modules, JSON, and the selection of their functions.

use kindlm_testing::installed;
use kindlm_types::script::{ExportUse, ScriptRuntime, ScriptSource};

use crate::support::{body, file, folder, from_source, host, shown};

/// A file and its function, the content of the folder, and the expected result.
type Case =
    (&'static str, Option<&'static str>, &'static [(&'static str, &'static str)], &'static str);

const CASES: &[Case] = &[
    (
        "a.js",
        None,
        &[("a.js", "module.exports = (output, context) => output.length + context.vars.topic")],
        r#""11bananas""#,
    ),
    (
        "./sub/a.js",
        None,
        &[
            ("sub/a.js", "const h = require('./h'); module.exports = o => h(o)"),
            ("sub/h.js", "module.exports = o => o.startsWith('hello')"),
        ],
        "true",
    ),
    ("a.js", Some("get"), &[("a.js", "exports.get = o => o.length")], "11"),
    ("a.js", None, &[("a.js", "exports.default = () => 1")], "1"),
    (
        "a.cjs",
        None,
        &[(
            "a.cjs",
            "module.exports = function () { return [arguments.length, this === globalThis] }",
        )],
        "[2,true]",
    ),
    ("a.mjs", None, &[("a.mjs", "export default async o => o.length")], "11"),
    ("a.mjs", Some("foo"), &[("a.mjs", "export const foo = () => 2")], "2"),
    ("a.mjs", Some("foo"), &[("a.mjs", "export default { foo: () => 3 }")], "3"),
    (
        "a.mjs",
        None,
        &[("a.mjs", "const x = await Promise.resolve(4); export default () => x")],
        "4",
    ),
    (
        "a.mjs",
        None,
        &[(
            "a.mjs",
            "export default () => [import.meta.url.startsWith('file:///'), import.meta.url.endsWith('/a.mjs')]",
        )],
        "[true,true]",
    ),
    (
        "a.js",
        None,
        &[
            ("a.js", "import { b } from './b.js';\nexport default () => b"),
            ("b.js", "export const b = 5"),
        ],
        "5",
    ),
    (
        "a.js",
        None,
        &[("package.json", r#"{"type":"module"}"#), ("a.js", "export default () => 6")],
        "6",
    ),
    (
        "a.js",
        None,
        &[("package.json", r#"{"type":"module"}"#), ("a.js", "module.exports = () => 7")],
        "7",
    ),
    (
        "a.mjs",
        None,
        &[
            ("a.mjs", "import c, { d } from './c.cjs'; export default () => [c.d, d]"),
            ("c.cjs", "exports.d = 8"),
        ],
        "[8,8]",
    ),
    (
        "a.mjs",
        None,
        &[
            ("a.mjs", "import j from './j.json' with { type: 'json' }; export default () => j.x"),
            ("j.json", r#"{"x":9}"#),
        ],
        "9",
    ),
    (
        "a.js",
        None,
        &[
            ("a.js", "const j = require('./j'); module.exports = () => j.x"),
            ("j.json", r#"{"x":10}"#),
        ],
        "10",
    ),
    (
        "a.js",
        None,
        &[
            ("a.js", "module.exports = async () => (await import('./m.mjs')).v"),
            ("m.mjs", "export const v = 11"),
        ],
        "11",
    ),
    (
        "a.js",
        None,
        &[
            ("a.js", "const m = require('./m.mjs'); module.exports = () => m.v"),
            ("m.mjs", "export const v = 12"),
        ],
        "12",
    ),
    (
        "a.js",
        None,
        &[
            ("a.js", "const lib = require('./lib'); module.exports = () => lib.n"),
            ("lib/index.js", "exports.n = 13"),
        ],
        "13",
    ),
    (
        "a.js",
        None,
        &[
            ("a.js", "exports.n = 1; const b = require('./b'); module.exports = () => b.seen"),
            ("b.js", "exports.seen = require('./a').n"),
        ],
        "1",
    ),
    ("a.js", None, &[("a.js", "let n = 0; module.exports = () => ++n")], "1"),
    (
        "a.js",
        None,
        &[(
            "a.js",
            "module.exports = () => [require('path').basename(__filename), __dirname === process.cwd()]",
        )],
        r#"["a.js",true]"#,
    ),
    ("my file#1%20.js", None, &[("my file#1%20.js", "module.exports = () => true")], "true"),
    ("a.js", None, &[("a.js", "#!/usr/bin/env node\nmodule.exports = () => true")], "true"),
    (
        "a.js",
        Some("nope"),
        &[("a.js", "exports.customFunction = () => 1")],
        "Load: `a.js` exports no function `nope`; it exports `customFunction`",
    ),
    (
        "a.js",
        None,
        &[("a.js", "exports.a = 1")],
        "Load: a.js must export a function or have a default export as a function; it exports `a`",
    ),
    (
        "a.mjs",
        Some("foo"),
        &[("a.mjs", "export default () => 1; export const foo = () => 2")],
        "Load: `a.mjs` has a default export, which hides its named export `foo`: make `foo` a property of the default export, or remove the default export",
    ),
    ("a.js", None, &[("a.js", "throw new Error('at load')")], "threw at load"),
    ("a.js", None, &[], "Load: Cannot find module './a.js': there is no file `a.js`"),
    ("../a.js", None, &[], "Load: '../a.js' lies outside"),
    (
        "a.js",
        None,
        &[("a.js", "require('./gone')")],
        "Load: Cannot find module './gone', which 'a.js' asks for: there is no file `gone`",
    ),
    (
        "a.js",
        None,
        &[(
            "a.js",
            "module.exports = () => { try { require('./gone') } catch (e) { return e.code } }",
        )],
        r#""MODULE_NOT_FOUND""#,
    ),
    (
        "a.js",
        None,
        &[("a.js", "require('lodash')")],
        "Load: Cannot find module 'lodash': it is not a file of the suite",
    ),
    (
        "a.js",
        None,
        &[("a.js", "require('child_process')")],
        "Load: Cannot find module 'child_process': it is a module of Node.js that the sandbox does not have",
    ),
    ("a.js", None, &[("a.js", "const = 1")], "Load: "),
    (
        "a.mjs",
        None,
        &[("a.mjs", "import x from './b.mjs'"), ("b.mjs", "export const y = 1")],
        "Load: ",
    ),
    ("a.json", None, &[("a.json", "{")], "Load: "),
];

#[tokio::test]
async fn the_exported_function_is_found() {
    for &(name, function, files, expected) in CASES {
        let folder = folder(files);
        let host = host(folder.path());
        // The second and third run use the cached bytecode.
        for time in 1..=3 {
            let shown = shown(&host.run(&file(name, function)).await);
            let open = expected.starts_with("Load: ");
            let as_expected = if open { shown.starts_with(expected) } else { shown == expected };
            assert!(as_expected, "time {time}: {name} {function:?} {files:?}\n{shown}\n{expected}");
        }
    }
}

/// A file, the name of an export, its use, and the expected result. The arguments are `"hello world"` and a context.
const EXPORTS: &[(&str, Option<&str>, ExportUse, &str)] = &[
    ("module.exports = [1, { a: 2 }]", None, ExportUse::Value, r#"[1,{"a":2}]"#),
    ("module.exports = (text) => [text.length]", None, ExportUse::Value, "[11]"),
    ("export const rows = [1]", Some("rows"), ExportUse::Value, "[1]"),
    ("export default async () => 'x'", None, ExportUse::Value, r#""x""#),
    ("exports.a = 1", Some("b"), ExportUse::Value, "Load: `a.js` exports no function `b`"),
    (
        "module.exports = class { constructor(text) { this.text = text } callApi(context) { return this.text + context.vars.topic } }",
        None,
        ExportUse::Provider,
        r#""hello worldbananas""#,
    ),
    (
        "export default { callApi: async (context) => context.vars.topic }",
        None,
        ExportUse::Provider,
        r#""bananas""#,
    ),
    (
        "exports.ask = (context) => context.vars.topic",
        Some("ask"),
        ExportUse::Provider,
        r#""bananas""#,
    ),
    ("module.exports = { ask: 1 }", None, ExportUse::Provider, "Load: "),
];

#[tokio::test]
async fn exports_may_be_values_and_providers() {
    for runtime in [ScriptRuntime::QuickJs, ScriptRuntime::Node] {
        if runtime == ScriptRuntime::Node && !installed("node") {
            continue;
        }
        for (code, name, usage, expected) in EXPORTS {
            let folder = folder(&[("a.js", code)]);
            let env = std::sync::Arc::new(|name: &str| std::env::var(name).ok());
            let options = crate::support::options(folder.path());
            let host =
                kindlm_script::ScriptHost::new(kindlm_script::HostOptions { env, ..options });
            let name = name.map(str::to_owned);
            let source = ScriptSource::Export { path: "a.js".to_owned(), name, usage: *usage };
            let question = from_source(runtime, source);
            let shown = shown(&host.run(&question).await);
            assert!(shown.starts_with(expected), "{runtime:?} {code}\n{shown}");
        }
    }
}

#[tokio::test]
async fn a_host_without_files_loads_none_and_tells_nothing_about_them() {
    let folder = folder(&[
        ("canary.json", r#"{ "secret": "canary-7f3a" }"#),
        ("canary.txt", "canary-7f3a"),
        ("canary.js", "module.exports = 'canary-7f3a'"),
    ]);
    let options = crate::support::options(folder.path());
    let open = kindlm_script::ScriptHost::new(options);
    let options = crate::support::options(folder.path());
    let closed = kindlm_script::HostOptions { loads_files: false, ..options };
    let closed = kindlm_script::ScriptHost::new(closed);
    let absolute = folder.path().join("canary.json").display().to_string().replace('\\', "/");
    for path in ["./canary.json", "./canary.txt", "./canary", "./none.json", absolute.as_str()] {
        for code in [
            format!("return process.mainModule.require('{path}')"),
            format!("return JSON.stringify(await import('{path}'))"),
        ] {
            let shown = shown(&closed.run(&body(&code)).await);
            let expected =
                format!("Load: Cannot find module '{path}': this script cannot load files");
            assert!(shown.starts_with(&expected), "{code}: {shown}");
        }
    }
    let source = ScriptSource::File { path: "canary.js".to_owned(), function: None };
    let question = from_source(ScriptRuntime::QuickJs, source);
    assert!(!shown(&closed.run(&question).await).contains("7f3a"));
    assert_eq!(shown(&closed.run(&body("return process.cwd()")).await), r#""/""#);
    // Modules without files work, and so do the files of another host.
    let code = "return process.mainModule.require('path').join('a', 'b')";
    assert_eq!(shown(&closed.run(&body(code)).await), r#""a/b""#);
    let code = "return process.mainModule.require('./canary.json').secret";
    assert_eq!(shown(&open.run(&body(code)).await), r#""canary-7f3a""#);
}
