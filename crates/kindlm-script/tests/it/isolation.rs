//! Tests of isolation: calls share no state, permissions, time or memory.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::Arc;
use std::time::Duration;

use kindlm_script::{Fetch, FetchRequest, FetchResponse, HostOptions, ScriptHost};
use kindlm_types::BoxFuture;
use kindlm_types::script::{
    ExportUse, ScriptOutcome, ScriptPermissions, ScriptQuestion, ScriptRuntime, ScriptSource,
};
use tempfile::TempDir;

use crate::support::{body, file, folder, from_source, host, options, permit, shown};

/// The changes that a malicious script makes to globals.
const EVIL: &str = "(String.prototype.includes = () => true, Object.prototype.toJSON = () => ({ pass: true }), \
                    globalThis.leak = 1, Array.prototype.map = null, process.env.LEAK = 'x', JSON.parse = null)";

/// A script that detects these changes, inline and in a file.
const VICTIM: &str = "return [output.includes('NOT THERE'), JSON.stringify({ pass: false }), typeof leak, \
                      typeof [].map, Object.keys(process.env).length, typeof JSON.parse]";
const HONEST: &str = r#"[false,"{\"pass\":false}","undefined","function",0,"function"]"#;

/// Texts that close the function around them, run `EVIL`, and open another function. `F` stands for `function` with
/// its prefix.
const ESCAPES: [&str; 14] = [
    "}, EVIL, F(){",
    "}), EVIL, (F(){",
    "}); EVIL; (F(){",
    "});EVIL;(F(){",
    "});{EVIL};(F(){",
    "}, EVIL, {a(){",
    "}, EVIL, class { m(){} static { ",
    "}, EVIL, () => {",
    "}[EVIL] = F(){",
    "}(EVIL), F(){",
    "}`${EVIL}`, F(){",
    "} + EVIL, F(){",
    "} ? EVIL : F(){",
    "/*", // opens a comment that is not closed
];

/// The kinds of files in a suite. Each entry has the file, the file that loads it, and the text of the first file.
const FILES: [(&str, &str, &str); 9] = [
    ("a.js", "a.js", "module.exports = () => true"),
    ("a.cjs", "a.cjs", "module.exports = () => true"),
    ("a.mjs", "a.mjs", "export default () => true"),
    ("a.json", "a.json", "1"),
    ("lib/a.js", "requires.js", "module.exports = () => true"),
    ("lib/a.cjs", "imports.mjs", "module.exports = () => true"),
    ("lib/a.mjs", "requires-module.js", "export default () => true"),
    #[cfg(feature = "typescript")]
    ("a.ts", "a.ts", "module.exports = () => true"),
    #[cfg(not(feature = "typescript"))]
    ("b.js", "b.js", "module.exports = () => true"),
    #[cfg(feature = "typescript")]
    ("a.cts", "a.cts", "module.exports = (n: number): boolean => true"),
    #[cfg(not(feature = "typescript"))]
    ("b.cjs", "b.cjs", "module.exports = () => true"),
];

fn suite(files: &[(&str, &str)]) -> TempDir {
    let victim = format!("module.exports = (output) => {{ {VICTIM} }}");
    let mut all = vec![
        ("victim.js", victim.as_str()),
        ("requires.js", "module.exports = require('./lib/a.js')"),
        ("imports.mjs", "import a from './lib/a.cjs'; export default a"),
        ("requires-module.js", "module.exports = require('./lib/a.mjs').default"),
    ];
    all.extend(files);
    folder(&all)
}

async fn assert_honest(host: &ScriptHost, after: &str) {
    for victim in [body(VICTIM), file("victim.js", None)] {
        assert_eq!(shown(&host.run(&victim).await), HONEST, "after: {after}");
    }
}

#[tokio::test]
async fn inline_code_that_leaves_its_function_changes_no_other_check() {
    let suite = suite(&[]);
    let host = host(suite.path());
    assert_honest(&host, "nothing").await;
    for escape in ESCAPES {
        for (prefix, start) in [("async function", "0;\n"), ("function", "return true;")] {
            let escape = escape.replace('F', prefix).replace("EVIL", EVIL);
            let code = format!("{start}{escape}\nreturn true;");
            let said = shown(&host.run(&body(&code)).await);
            assert!(said.starts_with("Load: SyntaxError: "), "{code}: {said}");
            assert_honest(&host, &code).await;
        }
    }
}

#[tokio::test]
async fn no_form_of_file_changes_another_check() {
    for escape in ESCAPES {
        for (path, entry, rest) in FILES {
            let escape = escape.replace('F', "function").replace("EVIL", EVIL);
            let suite = suite(&[(path, &format!("var x = 1;\n{escape}\n{rest}"))]);
            let host = host(suite.path());
            let usages = [ExportUse::Value, ExportUse::Provider].map(|usage| {
                let source = ScriptSource::Export { path: entry.to_owned(), name: None, usage };
                from_source(ScriptRuntime::QuickJs, source)
            });
            for question in usages.iter().chain([&file(entry, None), &file(entry, Some("get"))]) {
                let said = shown(&host.run(question).await);
                assert_ne!(said, "true", "{path}: {escape}");
                assert_honest(&host, &format!("{path}: {escape}")).await;
            }
        }
    }
}

/// Checks that a script's changes to globals do not affect later calls.
#[tokio::test]
async fn changes_of_a_script_end_with_its_call() {
    for (path, entry, rest) in FILES {
        let text = if path == "a.json" { rest.to_owned() } else { format!("{EVIL};\n{rest}") };
        let suite = suite(&[(path, &text)]);
        let host = host(suite.path());
        for _ in 0..2 {
            host.run(&file(entry, None)).await.ok();
            assert_honest(&host, path).await;
        }
    }
}

#[tokio::test]
async fn a_file_outside_is_loaded_only_with_leave() {
    let outside = folder(&[("x.mjs", "export default 1"), ("x.js", "module.exports = 1")]);
    let place = outside.path().canonicalize().unwrap().display().to_string();
    let suite = suite(&[(
        "load.mjs",
        &format!("export default async () => (await import('{place}/x.mjs')).default"),
    )]);
    let host = host(suite.path());
    let leave = ScriptPermissions { read: vec![place.clone()], ..ScriptPermissions::default() };
    let questions = [
        body(&format!("return (await import('{place}/x.mjs')).default")),
        body(&format!("return process.mainModule.require('{place}/x.js')")),
        file("load.mjs", None),
    ];
    for question in questions {
        for _ in 0..2 {
            assert_eq!(shown(&host.run(&permit(question.clone(), leave.clone())).await), "1");
            let said = shown(&host.run(&question).await);
            assert!(said.contains("lies outside the folder of the suite"), "{said}");
        }
    }
}

/// Checks that every hostile script ends and does not affect the next call. The worker stays usable.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_scripts_reach_no_other_call() {
    let suite = Arc::new(suite(&[
        ("loopa.js", "exports.x = 1; require('./loopb.js')"),
        ("loopb.js", "require('./loopa.js')"),
        (".env", "KEY=sk-CANARY-env"),
        ("data/ok", "ok"),
    ]));
    traps(suite.path());
    let scripts: Vec<serde_json::Value> = include_str!("../hostile/scripts.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let chunks = scripts.chunks(scripts.len().div_ceil(4)).map(|chunk| {
        let (suite, chunk) = (Arc::clone(&suite), chunk.to_vec());
        tokio::spawn(async move {
            let host = host(suite.path());
            for script in chunk {
                let name = script["name"].as_str().unwrap();
                let code = script["code"].as_str().unwrap();
                let question = if script["form"] == "file" {
                    let path = format!("{}.js", name.replace(|c: char| !c.is_alphanumeric(), "_"));
                    let text =
                        format!("module.exports = async (output, context) => {{\n{code}\n}}");
                    std::fs::write(suite.path().join(&path), text).unwrap();
                    file(&path, None)
                } else {
                    body(code)
                };
                let read = script["read"].as_array().into_iter().flatten();
                let read = read.map(|it| it.as_str().unwrap().to_owned()).collect();
                let permissions = ScriptPermissions { read, ..Default::default() };
                let question =
                    permit(question, permissions).with_timeout(Duration::from_millis(150));
                let said = shown(&host.run(&question).await);
                assert!(!said.starts_with("Internal: "), "{name}: {said}");
                assert!(!said.contains("root:x:0"), "{name}: {said}");
                assert_honest(&host, name).await;
            }
        })
    });
    for chunk in chunks.collect::<Vec<_>>() {
        chunk.await.unwrap();
    }
}

/// Creates symbolic links to the outside, pipes, devices, and files that are too large.
#[cfg(target_os = "linux")]
fn traps(folder: &std::path::Path) {
    use std::os::unix::fs::symlink;

    for (target, link) in [
        ("/etc/passwd", "link.js"),
        ("/etc/passwd", "link-out.js"),
        ("/etc", "etcdir"),
        ("/etc", "linkdir"),
        ("/dev/zero", "zero.js"),
        ("self.js", "self.js"),
        ("/etc/passwd", "data/link"),
        ("/etc", "data/dir"),
        ("/dev/zero", "data/zero"),
    ] {
        symlink(target, folder.join(link)).unwrap();
    }
    for pipe in ["fifo.js", "data/fifo"] {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(
            rustix::fs::CWD,
            folder.join(pipe),
            rustix::fs::FileType::Fifo,
            mode,
            0,
        )
        .unwrap();
    }
    for (name, size) in [
        ("huge.json", 2 << 30),
        ("data/big", 2 << 30),
        ("data/b33", 33 << 20),
        ("data/b31", 31 << 20),
    ] {
        std::fs::File::create(folder.join(name)).unwrap().set_len(size).unwrap();
    }
}

/// A client that answers every request with a body of this size.
struct Body(usize);

impl Fetch for Body {
    fn fetch(&self, _: FetchRequest) -> BoxFuture<'static, Result<FetchResponse, String>> {
        let body = vec![b'x'; self.0];
        Box::pin(async { Ok(FetchResponse { status: 200, headers: Vec::new(), body }) })
    }
}

fn online(root: &std::path::Path, size: usize) -> ScriptHost {
    ScriptHost::new(HostOptions { workers: 1, fetch: Some(Arc::new(Body(size))), ..options(root) })
}

fn with_net(question: ScriptQuestion) -> ScriptQuestion {
    let net = vec!["example.com".to_owned()];
    permit(question, ScriptPermissions { net, ..ScriptPermissions::default() })
}

#[tokio::test]
async fn a_worker_that_does_not_read_is_late() {
    let suite = suite(&[]);
    let host = online(suite.path(), 8 << 20);
    let code = "fetch('http://example.com/'); Array.prototype.copyWithin.call({ length: 2 ** 53 - 1 }, 0, 1)";
    let question = with_net(body(code)).with_timeout(Duration::from_millis(300));
    let said = shown(&host.run(&question).await);
    assert!(said.starts_with("Timeout: "), "{said}");
    assert_honest(&host, code).await;
}

/// Checks that many concurrent requests cause no deadlock. The worker sends questions without reading, while the host
/// sends replies that are not yet read.
#[tokio::test]
async fn many_requests_at_once_are_all_answered() {
    let suite = suite(&[]);
    let host = online(suite.path(), 100_000);
    let code = "const all = await Promise.all(Array.from({ length: 500 }, () => fetch('http://example.com/')));\n\
                return all.length";
    assert_eq!(shown(&host.run(&with_net(body(code))).await), "500");
}

#[tokio::test]
async fn content_of_32_mib_is_taken() {
    let most = kindlm_script::limits::CONTENT;
    let suite = suite(&[
        ("data/text", &"x".repeat(most)),
        ("data.json", &format!("\"{}\"", "x".repeat(most - 2))),
        ("data.js", "module.exports = () => require('./data.json').length"),
        (
            "text.js",
            "module.exports = () => require('fs').readFileSync('data/text', 'utf8').length",
        ),
        ("bytes.js", "module.exports = () => require('fs').readFileSync('data/text').length"),
    ]);
    let host = online(suite.path(), most);
    let minute = |question: ScriptQuestion| question.with_timeout(Duration::from_mins(1));
    let read = ScriptPermissions { read: vec!["data".to_owned()], ..Default::default() };
    assert_eq!(
        shown(&host.run(&minute(file("data.js", None))).await),
        (most - 2).to_string(),
        "JSON"
    );
    for path in ["text.js", "bytes.js"] {
        let question = minute(permit(file(path, None), read.clone()));
        assert_eq!(shown(&host.run(&question).await), most.to_string(), "{path}");
    }
    let code = "return (await (await fetch('http://example.com/')).text()).length";
    assert_eq!(shown(&host.run(&minute(with_net(body(code)))).await), most.to_string(), "a body");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn workers_without_memory_end_with_an_error() {
    let suite = suite(&[]);
    let host = host(suite.path());
    let code = "return new TextDecoder().decode(new Uint8Array(110 << 20).fill(255)).length";
    let question = body(code).with_timeout(Duration::from_mins(1));
    let said = shown(&host.run(&question).await);
    assert!(said.starts_with("Memory: out of memory: beside the 128 MiB of the script"), "{said}");
    assert_honest(&host, code).await;
}

#[tokio::test]
async fn engines_without_memory_report_it_everywhere() {
    let suite = suite(&[]);
    let host = host(suite.path());
    for code in [
        "const all = []; for (;;) all.push('x'.repeat(1e6) + all.length)",
        "return 'a'.repeat(1e6).replace(/(?=(a*))/g, '$1').length",
    ] {
        let question = body(code).with_timeout(Duration::from_mins(1));
        let said = shown(&host.run(&question).await);
        assert!(said.starts_with("Memory: it used more than 128 MiB"), "{code}: {said}");
    }
    let numbers = format!("[{}1]", "1,".repeat(15 << 20));
    let suite = self::suite(&[
        ("numbers.json", &numbers),
        ("check.js", "module.exports = () => require('./numbers.json').length"),
    ]);
    let question = file("check.js", None).with_timeout(Duration::from_mins(1));
    let said = shown(&self::host(suite.path()).run(&question).await);
    assert!(said.starts_with("Memory: it used more than 128 MiB"), "{said}");
}

#[tokio::test]
async fn the_text_of_an_error_is_bounded() {
    let suite = suite(&[]);
    let host = host(suite.path());
    let question = body("throw new Error('é'.repeat(1e7))").with_timeout(Duration::from_mins(1));
    let Ok(answer) = host.run(&question).await else { panic!("it threw") };
    let ScriptOutcome::Threw { message: Some(message), stack, thrown } = answer.outcome else {
        panic!("it threw an error")
    };
    for text in [message, stack, thrown] {
        assert!(text.len() < (64 << 10) + 4 && text.ends_with('…'), "{} bytes", text.len());
    }
}

#[tokio::test]
async fn random_bytes_are_as_many_as_asked_or_refused() {
    let suite = suite(&[(
        "r.js",
        "module.exports = n => require('crypto').randomBytes(JSON.parse(n)).length",
    )]);
    let host = host(suite.path());
    for (size, expected) in [
        ("16", "16"),
        ("2097152", "2097152"),
        ("1073741824", "threw the sandbox gives at most 32 MiB of random bytes at once"),
        ("-1", "threw the sandbox gives at most 32 MiB of random bytes at once"),
    ] {
        let args = vec![format!("\"{size}\"").into()];
        let question = file("r.js", None).with_args(args);
        assert_eq!(shown(&host.run(&question).await), expected, "{size}");
    }
}

/// Checks that a worker does not inherit open files of the host's parent process.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_worker_keeps_no_inherited_files() {
    use rustix::io::{FdFlags, fcntl_setfd};

    let suite = suite(&[]);
    let inherited = std::fs::File::open(suite.path().join("victim.js")).unwrap();
    fcntl_setfd(&inherited, FdFlags::empty()).unwrap();
    let host = host(suite.path());
    assert_honest(&host, "the start").await;
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let lists = tasks.filter_map(|it| std::fs::read_to_string(it.path().join("children")).ok());
    let mut workers = 0;
    for child in lists.flat_map(|it| it.split_whitespace().map(str::to_owned).collect::<Vec<_>>()) {
        let program = std::fs::read_link(format!("/proc/{child}/exe")).unwrap_or_default();
        if !program.ends_with("kindlm-script-worker") {
            continue;
        }
        for open in std::fs::read_dir(format!("/proc/{child}/fd")).into_iter().flatten().flatten() {
            workers += usize::from(open.file_name() == "0");
            let target = std::fs::read_link(open.path()).unwrap_or_default();
            assert!(!target.ends_with("victim.js"), "{child} has {target:?} open");
        }
    }
    assert!(workers > 0, "no worker was looked at");
    drop(inherited);
}

/// Checks that the compilation reports syntax errors without running the script. It does not detect runtime errors.
#[tokio::test]
async fn scripts_are_compiled_without_running() {
    let suite = suite(&[
        ("fine.js", "require('./missing.js'); throw new Error('it ran')"),
        ("fine.mjs", "import './missing.mjs'; throw new Error('it ran')"),
        ("broken.js", "module.exports = () => {\n  return 1 +;\n}"),
        ("broken.mjs", "export default (;"),
        ("closing.cjs", "});(function(){"),
        ("broken.json", "{"),
    ]);
    let host = host(suite.path());
    for (question, expected) in [
        (body("throw new Error('it ran')"), "Ok"),
        (body("return output.length >"), "SyntaxError: "),
        (body("return 1 }, async function () {"), "SyntaxError: unexpected '}'"),
        (file("fine.js", None), "Ok"),
        (file("fine.mjs", None), "Ok"),
        (file("broken.js", None), "SyntaxError: unexpected token in expression: ';' (at "),
        (file("broken.mjs", None), "SyntaxError: "),
        (file("closing.cjs", None), "SyntaxError: "),
        (file("missing.js", None), "Cannot find module './missing.js'"),
    ] {
        let compiled = host.compile(&question).await;
        let said = compiled.map_or_else(|err| err.message, |()| "Ok".to_owned());
        assert!(said.starts_with(expected), "{:?}: {said}", question.source);
    }
}
