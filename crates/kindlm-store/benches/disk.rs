//! Measures the cost of durability and of the response store, on the disk that holds the target folder.
//!
//! Prints one table with the operations per second and the time of each operation.
#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot run must say so loudly")]

use std::path::Path;
use std::time::{Duration, Instant};

use kindlm_store::journal::{Durability, Header, Journal, JournalWriter, PlannedCase};
use kindlm_store::responses::{Mode, Recorded, Responses};
use kindlm_types::{
    AssertionResult, AttemptBudget, BoxFuture, Embedding, Execution, ExecutionResult, Message,
    Models, Prompt, ProviderError, Reply, Role, Spend, Unlimited, Usage,
};

fn main() {
    // Only `cargo bench` passes `--bench`. `cargo test --benches` starts the program too, but must not measure.
    if !std::env::args().any(|it| it == "--bench") {
        return;
    }
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    println!("| what | a second | each |");
    println!("|---|--:|--:|");
    journal(scratch.path());
    responses(scratch.path());
    let peak = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(peak) = peak.lines().find(|it| it.starts_with("VmHWM:")) {
        println!("\npeak memory of all of it: {}", peak.trim_start_matches("VmHWM:").trim());
    }
}

fn row(what: &str, times: u32, work: impl FnOnce()) {
    let begin = Instant::now();
    work();
    let each = begin.elapsed() / times;
    println!("| {what} | {:.0} | {:.1} µs |", 1.0 / each.as_secs_f64(), each.as_secs_f64() * 1e6);
}

/// Returns a result with three checks and an output of 144 words, about 2 KiB as a line.
fn result(index: u32) -> ExecutionResult {
    let labels = ["Output does not contain: sorry", "PII scan", "Keyword deny list"];
    let execution = Execution {
        case: format!("case number {index}"),
        model: "gpt-4o".to_owned(),
        input: vec![
            Message::new(Role::System, "You are helpful."),
            Message::new(Role::User, "Say hello."),
        ],
        output: "Your order is on its way. ".repeat(24),
        requests: 1,
        latency_ms: Some(812.345),
        spend: Spend { cost_usd: Some(0.0031), ..Spend::default() },
        ..Execution::default()
    };
    ExecutionResult::new(execution, labels.map(|it| AssertionResult::pass("output", it)).into())
}

fn journal(scratch: &Path) {
    const MANY: u32 = 100_000;
    let mut header = Header::new("r", "0.1.0", "2026-11-20T14:09:12Z", "bench");
    header
        .cases
        .extend((0..MANY).map(|it| PlannedCase::new(format!("case number {it}"), "gpt-4o", 1)));
    let folder = scratch.join("many");
    let begin = Instant::now();
    let writer = JournalWriter::create(&folder, &header, Durability::Flush).unwrap();
    println!("| begin a journal of 100,000 cases | | {} ms |", begin.elapsed().as_millis());
    row("append, `Flush`", MANY, || {
        for index in 0..MANY {
            writer.append(&result(index)).unwrap();
        }
    });
    drop(writer);
    for (name, count, batch) in [("one", 1_000, 1), ("sixteen", 4_000, 16)] {
        let header = Header::new("r", "0.1.0", "2026-11-20T14:09:12Z", "bench");
        let writer = JournalWriter::create(scratch.join(name), &header, Durability::Sync).unwrap();
        let results: Vec<_> = (0..count).map(result).collect();
        let what = if batch == 1 { "append, `Sync`" } else { "append 16 at once, `Sync`" };
        row(what, count, || {
            for some in results.chunks(batch) {
                writer.append_all(some).unwrap();
            }
        });
    }
    let begin = Instant::now();
    let journal = Journal::open(&folder).unwrap();
    println!("| open it again | | {} ms |", begin.elapsed().as_millis());
    println!("| compare it | | {} ms |", {
        let begin = Instant::now();
        assert!(journal.header().compare(&header).is_empty());
        begin.elapsed().as_millis()
    });
    drop(header);
    let mut index = None;
    row("index", MANY, || index = Some(journal.index().unwrap()));
    let index = index.unwrap();
    row("read in another order", MANY, || {
        for it in (0..MANY).rev() {
            let place = index.get(&format!("case number {it}"), "gpt-4o", 0).unwrap();
            journal.read_execution(place).unwrap();
        }
    });
}

/// A model port that answers without a delay.
struct Instantly;

impl Models for Instantly {
    fn complete<'a>(
        &'a self,
        _provider: &'a str,
        _prompt: &'a Prompt,
        _timeout: Duration,
        _budget: &'a dyn AttemptBudget,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        Box::pin(std::future::ready(Ok(Reply::text("Your order is on its way. ".repeat(24)))))
    }

    fn embed<'a>(
        &'a self,
        _provider: &'a str,
        _model: &'a str,
        _text: &'a str,
        _timeout: Duration,
    ) -> BoxFuture<'a, Result<Embedding, ProviderError>> {
        Box::pin(std::future::ready(Ok(Embedding::new(vec![0.123_456_7; 1536], Usage::default()))))
    }

    fn has_answer(&self, _provider: &str, _prompt: &Prompt) -> bool {
        false
    }

    fn limits_calls(&self) -> bool {
        false
    }
}

fn responses(scratch: &Path) {
    const COUNT: u32 = 5_000;
    let folder = scratch.join("responses");
    let prompt = |index: u32| Prompt {
        model: "gpt-4o".to_owned(),
        messages: vec![
            Message::new(Role::System, "You are helpful. ".repeat(40)),
            Message::new(Role::User, format!("Where is order {index}?")),
        ],
        params: kindlm_types::Params::default(),
        tools: Vec::new(),
        tool_choice: None,
        response_format: None,
        sample: 0,
        ..Prompt::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let minute = Duration::from_mins(1);
    let ask = |mode, from: u32, misses: bool| {
        let store = Recorded::new(Instantly, Responses::new(&folder, mode));
        runtime.block_on(async {
            for index in from..from + COUNT {
                let reply = store.complete("openai", &prompt(index), minute, &Unlimited).await;
                assert_eq!(reply.is_err(), misses);
            }
        });
    };
    row("answer without a store", COUNT, || ask(Mode::Live, 0, false));
    row("keep an answer", COUNT, || ask(Mode::Record, 0, false));
    row("keep the same answer again", COUNT, || ask(Mode::Record, 0, false));
    row("recall an answer", COUNT, || ask(Mode::Replay, 0, false));
    row("miss an answer among 5,000", COUNT, || ask(Mode::Replay, COUNT, true));
}
