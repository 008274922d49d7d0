//! Tests of scripts in Node.js, Python and Ruby. These scripts behave like scripts in QuickJS, but run without a
//! sandbox. A test is skipped with a note if its interpreter is not installed.

use std::sync::Arc;
use std::time::Duration;

use kindlm_script::{HostOptions, Interpreters, ScriptHost};
use kindlm_testing::installed;
use kindlm_types::script::{ScriptQuestion, ScriptRuntime, ScriptSource};

use crate::support::{MADE_JSON, body, file, folder, options, shown};

fn host(root: &std::path::Path) -> ScriptHost {
    let env = Arc::new(|name: &str| std::env::var(name).ok());
    ScriptHost::new(HostOptions { workers: 1, env, ..options(root) })
}

pub(crate) fn with(runtime: ScriptRuntime, mut question: ScriptQuestion) -> ScriptQuestion {
    question.runtime = runtime;
    question.source = match question.source {
        ScriptSource::Body { code, .. } if runtime != ScriptRuntime::Node => {
            ScriptSource::Body { params: vec!["output".to_owned(), "context".to_owned()], code }
        }
        source => source,
    };
    question
}

async fn check(runtime: ScriptRuntime, root: &std::path::Path, cases: &[(ScriptQuestion, &str)]) {
    let host = host(root);
    for (question, expected) in cases {
        let question = with(runtime, question.clone());
        let shown = shown(&host.run(&question).await);
        assert!(shown.starts_with(expected), "{:?}\n{shown}\n{expected}", question.source);
    }
}

fn quick(code: &str) -> ScriptQuestion {
    body(code).with_timeout(Duration::from_millis(300))
}

#[tokio::test]
async fn node_runs_the_same_scripts() {
    if !installed("node") {
        return;
    }
    let folder = folder(&[
        ("a.js", "module.exports = (output, context) => output.length + context.vars.topic"),
        ("b.mjs", "import os from 'node:os'; export const f = async () => typeof os.cpus"),
        ("c.js", "exports.x = 1"),
        ("node_modules/dep/index.js", "module.exports = 'from a package'"),
        ("d.js", "const dep = require('dep'); module.exports = () => dep"),
        ("e.js", "const = 1"),
    ]);
    check(
        ScriptRuntime::Node,
        folder.path(),
        &[
            (body("return output === 'hello world'"), "true"),
            (body("return {score: NaN}"), r#"{"score":{"$num":"NaN"}}"#),
            (body("return -Infinity"), "-inf"),
            (
                body("return await new Promise(r => setTimeout(r, 5, typeof process.version))"),
                r#""string""#,
            ),
            (body("throw new Error('boom')"), "threw boom"),
            (body("throw 'text'"), "threw: text"),
            (body("return ("), "Load: SyntaxError"),
            (body("return new Promise(() => {})"), "NeverResolved"),
            (quick("while (true) {}"), "Timeout"),
            (body("process.stdout.write('noise'); return 1"), "1"),
            (body("process.exit(3)"), "Exited: it called `process.exit(3)`"),
            (body("return 2"), "2"),
            (file("a.js", None), r#""11bananas""#),
            (file("b.mjs", Some("f")), r#""function""#),
            (file("d.js", None), r#""from a package""#),
            (file("c.js", Some("nope")), "Load: `c.js` exports no function `nope`; it exports `x`"),
            (file("e.js", None), "Load: SyntaxError"),
            (file("gone.js", None), "Load: Cannot find module"),
        ],
    )
    .await;
}

#[tokio::test]
async fn json_results_are_judged_alike_in_node() {
    if !installed("node") {
        return;
    }
    let cases = MADE_JSON.map(|(code, expected)| (body(code), expected));
    check(ScriptRuntime::Node, folder(&[]).path(), &cases).await;
}

#[tokio::test]
async fn python_runs_functions_and_bodies() {
    if !installed("python3") {
        return;
    }
    let folder = folder(&[
        (
            "a.py",
            "import helper\ndef get_assert(output, context):\n    print('seen')\n    return {'pass': True, 'score': helper.half, 'reason': context['vars']['topic']}\n",
        ),
        ("helper.py", "half = 0.5\n"),
        ("b.py", "async def f(output, context):\n    return len(output)\n"),
        ("c.py", "def broken(:\n"),
    ]);
    check(
        ScriptRuntime::Python,
        folder.path(),
        &[
            (body("return output == 'hello world'"), "true"),
            (body("return float('nan')"), "NaN"),
            (body("return json.loads('[1]')[0]"), "1"),
            (body("return [float('inf'), None]"), r#"[{"$num":"Infinity"},null]"#),
            (body("raise ValueError('boom')"), "threw boom"),
            (body("return ("), "Load: SyntaxError"),
            (body("import sys\nsys.exit(2)"), "Exited: it called `exit(2)`"),
            (quick("while True: pass"), "Timeout"),
            (file("a.py", None), r#"{"pass":true,"score":0.5,"reason":"bananas"}"#),
            (file("b.py", Some("f")), "11"),
            (file("b.py", Some("nope")), "Load: `b.py` has no function `nope`; it has f"),
            (file("c.py", None), "Load: SyntaxError"),
            (file("gone.py", None), "Load: there is no file `gone.py`"),
        ],
    )
    .await;
}

#[tokio::test]
async fn ruby_runs_methods_and_bodies() {
    if !installed("ruby") {
        return;
    }
    let folder = folder(&[(
        "a.rb",
        "def get_assert(output, context)\n  { 'pass' => true, 'score' => 0.5, 'reason' => context['vars']['topic'] }\nend\n",
    )]);
    check(
        ScriptRuntime::Ruby,
        folder.path(),
        &[
            (body("return output == 'hello world'"), "true"),
            (body("raise 'boom'"), "threw boom"),
            (body("exit 2"), "Exited"),
            (file("a.rb", None), r#"{"pass":true,"score":0.5,"reason":"bananas"}"#),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_interpreter_that_is_missing_is_named() {
    let folder = folder(&[]);
    let interpreters = Interpreters { ruby: "no-such-ruby".into(), ..Interpreters::default() };
    let host = ScriptHost::new(HostOptions { interpreters, ..options(folder.path()) });
    let answer = host.run(&with(ScriptRuntime::Ruby, body("1"))).await;
    assert_eq!(
        shown(&answer),
        "Runtime: a worker for scripts does not start: there is no program `no-such-ruby`: install Ruby 3 or newer \
         from https://www.ruby-lang.org, and check that it is in `PATH`"
    );
}

#[tokio::test]
async fn python_is_compiled_without_running() {
    if !installed("python3") {
        return;
    }
    let folder = folder(&[
        ("fine.py", "import missing\nraise SystemExit(3)\n"),
        ("broken.py", "def get_assert(output, context):\n    return output ==\n"),
    ]);
    let env = std::sync::Arc::new(|name: &str| std::env::var(name).ok());
    let host = ScriptHost::new(HostOptions { env, workers: 1, ..options(folder.path()) });
    for (mut question, expected) in [
        (body("raise SystemExit(3)"), "Ok"),
        (body("return output =="), "SyntaxError: "),
        (file("fine.py", None), "Ok"),
        (file("broken.py", None), "SyntaxError: "),
    ] {
        question.runtime = ScriptRuntime::Python;
        let compiled = host.compile(&question).await;
        let said = compiled.map_or_else(|err| err.message, |()| "Ok".to_owned());
        assert!(said.starts_with(expected), "{:?}: {said}", question.source);
    }
}
