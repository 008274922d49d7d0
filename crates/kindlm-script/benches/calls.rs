//! Microseconds per call, compared with the same script in a persistent Node.js worker.
#![expect(clippy::print_stdout, reason = "a bench prints its results")]
#![expect(clippy::unwrap_used, reason = "a bench may fail loudly")]

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use kindlm_script::{HostOptions, ScriptHost};
use kindlm_types::script::{ScriptQuestion, ScriptRuntime, ScriptSource};

const JSON_HEAVY: &str = "const j = JSON.parse(output); const g = {}; for (const x of j) { const k = x.ok ? 'a' : 'b'; \
    (g[k] ??= []).push(x.score * 2) } const s = Object.entries(g).map(([k, v]) => [k, v.reduce((a, b) => a + b, 0) / v.length]); \
    return JSON.stringify(j.filter(x => x.tags.includes('b')).map(x => ({ ...x, name: x.name.toUpperCase() }))).length + s.length";

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let worker = env!("CARGO_BIN_EXE_kindlm-script-worker");
    let text = format!("{}x", &"lorem ipsum dolor sit amet ".repeat(76)[..2048]);
    let items: Vec<_> = (0..1300)
        .map(|i| serde_json::json!({"id": i, "name": format!("item {i}"), "tags": ["a", "b", "c"], "score": f64::from(i) * 0.37, "ok": i % 2 == 0}))
        .collect();
    let large = serde_json::to_string(&items).unwrap();
    let context = serde_json::json!({
        "prompt": "p".repeat(500), "vars": {"name": "Bob", "topic": "x", "items": [1, 2, 3, 4, 5], "nested": {"a": {"b": "c"}}},
        "test": {"description": "d", "assert": [{"type": "javascript", "value": "output.includes('x')"}], "options": {}},
        "config": {"threshold": 0.5}, "provider": {"id": "openai:gpt-4o"},
    });
    let context: Arc<str> = context.to_string().into();
    println!("| script | runtime | one by one | 100 at once |\n|---|---|--:|--:|");
    for (name, code, output, calls) in [
        (
            "`output.includes('x')`, 2 KB and the whole context",
            "return output.includes('x')",
            &text,
            3000_u32,
        ),
        ("JSON of 100 KB, read, grouped and written", JSON_HEAVY, &large, 200),
    ] {
        for runtime in [ScriptRuntime::QuickJs, ScriptRuntime::Node] {
            let env = Arc::new(|name: &str| std::env::var(name).ok());
            let host = ScriptHost::new(HostOptions {
                env,
                workers: 1,
                ..HostOptions::new(worker, [] as [&str; 0], ".")
            });
            let source = ScriptSource::Body {
                params: vec!["output".into(), "context".into()],
                code: code.into(),
            };
            let output = serde_json::to_string(output).unwrap();
            let question = ScriptQuestion::new(runtime, source)
                .with_args(vec![output.into(), Arc::clone(&context)]);
            for _ in 0..calls / 10 {
                host.run(&question).await.unwrap();
            }
            let begun = Instant::now();
            for _ in 0..calls {
                host.run(&question).await.unwrap();
            }
            let single = begun.elapsed().as_secs_f64() * 1e6 / f64::from(calls);
            let begun = Instant::now();
            for _ in 0..calls / 100 {
                for result in join_all((0..100).map(|_| host.run(&question))).await {
                    result.unwrap();
                }
            }
            let many = begun.elapsed().as_secs_f64() * 1e6 / f64::from(calls / 100 * 100);
            println!("| {name} | {runtime:?} | {single:.0} µs | {many:.0} µs |");
        }
    }
}
