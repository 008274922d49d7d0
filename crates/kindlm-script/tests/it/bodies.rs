//! Tests of inline code: results, exceptions, and visible variables.

use kindlm_types::script::{ScriptOutcome, ScriptPermissions};

use kindlm_script::{HostOptions, ScriptHost};

use crate::support::{MADE_JSON, body, folder, host, options, permit, shown};

#[tokio::test]
async fn objects_that_make_json_of_themselves_are_no_verdicts() {
    let folder = folder(&[]);
    let host = host(folder.path());
    for (code, expected) in MADE_JSON {
        assert_eq!(shown(&host.run(&body(code)).await), expected, "{code}");
    }
}

#[tokio::test]
async fn values_come_back_as_they_are() {
    let folder = folder(&[]);
    let host = host(folder.path());
    for (code, expected) in [
        ("return output === 'hello world'", "true"),
        ("return output.length", "11"),
        ("return 0.1 + 0.2", "0.30000000000000004"),
        ("return NaN", "NaN"),
        ("return -Infinity", "-inf"),
        ("return", "undefined"),
        ("return null", "null"),
        (
            "return {pass: true, score: 0.5, reason: context.vars.topic}",
            r#"{"pass":true,"score":0.5,"reason":"bananas"}"#,
        ),
        (
            "return {a: NaN, b: [undefined, 1/0], c: undefined, d: null}",
            r#"{"a":{"$num":"NaN"},"b":[null,{"$num":"Infinity"}],"d":null}"#,
        ),
        ("return Promise.resolve(7)", "7"),
        ("await null; return [await 1, await Promise.resolve('x')]", r#"[1,"x"]"#),
        ("return {then(done) { done(9) }}", "9"),
        ("return await new Promise(done => setTimeout(done, 3, 'late'))", r#""late""#),
        (
            "let n = 0; await new Promise(done => { const t = setInterval(() => { if (++n === 3) { clearInterval(t); done() } }, 1) }); return n",
            "3",
        ),
        (
            "let s = ''; setTimeout(() => s += 'c', 5); setTimeout(() => s += 'b', 1); queueMicrotask(() => s += 'a'); await new Promise(r => setTimeout(r, 8)); return s",
            r#""abc""#,
        ),
        ("return () => 1", "function () => 1"),
        ("return Symbol('s')", "symbol Symbol(s)"),
        ("return 10n", "bigint 10"),
        ("return '\\ud800x'", "\"\u{fffd}x\""),
        ("return '😀'.length", "2"),
        ("return this === globalThis", "true"),
        ("return arguments.length + ',' + typeof arguments[2]", r#""3,object""#),
        ("leak = 5; return leak", "5"),
        ("return typeof require + typeof module", r#""undefinedundefined""#),
        ("return process.env.HOME === undefined", "true"),
        ("return typeof process.version", r#""string""#),
        ("return new Date(0).getHours()", "0"),
        ("return // nothing", "undefined"),
        ("throw new Error('boom')", "threw boom"),
        ("throw 'text'", "threw: text"),
        ("throw null", "threw: null"),
        ("return Promise.reject()", "threw: undefined"),
        ("return Promise.reject(new TypeError('no'))", "threw no"),
        ("throw {message: 'made by hand'}", "threw made by hand"),
        (
            "setTimeout(() => { throw new Error('in a timer') }, 1); await new Promise(r => setTimeout(r, 50))",
            "threw in a timer",
        ),
        ("const a = {}; a.a = a; return a", "threw circular reference"),
        (
            "return new Promise(() => {})",
            "NeverResolved: its promise was never resolved: no timer, request or other work is left that could resolve it",
        ),
        (
            "process.exit(3)",
            "Exited: it called `process.exit(3)`: return a result, or throw an error",
        ),
        (
            "try { process.exit() } catch {} return true",
            "Exited: it called `process.exit(0)`: return a result, or throw an error",
        ),
        ("return (", "Load: SyntaxError: unexpected token in expression: '}' (at script:2:1)"),
        ("return 1 }); globalThis.leak = 1; (function(){", "Load: "),
    ] {
        let answer = host.run(&body(code)).await;
        let shown = shown(&answer);
        if expected == "Load: " {
            assert!(shown.starts_with(expected), "{code}: {shown}");
        } else {
            assert_eq!(shown, expected, "{code}");
        }
    }
}

#[tokio::test]
async fn errors_name_the_line_of_the_throw() {
    let folder = folder(&[]);
    let host = host(folder.path());
    let answer =
        host.run(&body("const f = () => {\n  context.nothing.x;\n};\nf();")).await.unwrap();
    let ScriptOutcome::Threw { stack, .. } = answer.outcome else { panic!("it throws") };
    assert!(stack.starts_with("TypeError: cannot read property 'x' of undefined\n"), "{stack}");
    assert!(stack.contains("script:2:"), "{stack}");
}

#[tokio::test]
async fn the_console_is_kept_within_bounds() {
    let folder = folder(&[]);
    let host = host(folder.path());
    let answer =
        host.run(&body("console.log('a'); console.error('b\\nc'); return 1")).await.unwrap();
    assert_eq!(answer.console, ["a", "b\nc"]);
    let answer =
        host.run(&body("for (let i = 0; i < 1000; i++) console.log('x'); return 1")).await.unwrap();
    assert_eq!(answer.console.len(), 201);
    assert_eq!(answer.console[200], "… (800 lines more)");
    let answer = host.run(&body("console.log('é'.repeat(1e5)); console.log('x')")).await.unwrap();
    assert_eq!(answer.console.len(), 2);
    assert!(
        answer.console[0].ends_with("… (134464 bytes more)"),
        "{}",
        &answer.console[0][60_000..]
    );
}

#[tokio::test]
async fn nothing_is_left_of_a_call() {
    let folder = folder(&[]);
    let host = host(folder.path());
    let clean = "return [typeof leak, [].extra, 'x'.includes('x'), {}.polluted, JSON.stringify([1]), typeof Promise, \
                 Object.keys(process.env).length, typeof console.log, Math.random() < 1, new Date(0).getTime()]";
    let expected = shown(&host.run(&body(clean)).await);
    for dirty in [
        "globalThis.leak = 1",
        "leak = 1",
        "Array.prototype.extra = 1",
        "String.prototype.includes = () => false",
        "Object.prototype.polluted = 1",
        "JSON.stringify = () => 'no'; JSON.parse = null",
        "delete globalThis.Promise; delete globalThis.JSON",
        "process.env.X = 1; console.log = 5; process.exit = null",
        "Math.random = () => 5; Date.prototype.getTime = () => 5",
        "for (const key of Reflect.ownKeys(globalThis)) delete globalThis[key]",
        "setInterval(() => {}, 1)",
        "Promise.prototype.then = function () { throw new Error('no') }",
        "Object.freeze(Array.prototype); Object.freeze(globalThis)",
        "new Promise((_, reject) => reject(new Error('unhandled')))",
        "Function.prototype.call = null; Reflect.apply = null",
        "let a = []; for (let i = 0; i < 1e5; i++) a.push({i}); globalThis.a = a",
    ] {
        host.run(&body(dirty)).await.ok();
        assert_eq!(shown(&host.run(&body(clean)).await), expected, "{dirty}");
    }
}

#[tokio::test]
async fn only_permitted_variables_are_visible() {
    let folder = folder(&[]);
    let host = ScriptHost::new(HostOptions {
        env: std::sync::Arc::new(|name| Some(format!("value of {name}"))),
        ..options(folder.path())
    });
    let code = "return [process.env.SECRET, process.env.REGION, Object.keys(process.env).length]";
    let permissions = ScriptPermissions { env: vec!["REGION".to_owned()], ..Default::default() };
    let answer = host.run(&permit(body(code), permissions)).await;
    assert_eq!(shown(&answer), r#"[null,"value of REGION",1]"#);
    assert_eq!(shown(&host.run(&body(code)).await), "[null,null,0]");
}

/// Checks that a device is refused. Reading a device would never end, and the host's reads have no timeout.
#[cfg(unix)]
#[tokio::test]
async fn a_device_is_no_file() {
    let folder = folder(&[]);
    let host = ScriptHost::new(options(folder.path()));
    let code = "return process.mainModule.require('fs').readFileSync('/dev/zero', 'utf8')";
    let permissions = ScriptPermissions { read: vec!["/dev".to_owned()], ..Default::default() };
    let answer = host.run(&permit(body(code), permissions)).await;
    let said = shown(&answer);
    assert!(said.contains("`/dev/zero` is not a file"), "{said}");
}
