//! The cost of judges with prompt caching.
//!
//! A server that charges like Anthropic measures the cost.

use std::collections::HashSet;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use kindlm_testing::{MockReply, MockServer};
use kindlm_types::ask::mark_in;
use serde_json::{Value, json};

use crate::binary;

/// Estimates the number of tokens of a text.
fn tokens(text: &str) -> u64 {
    text.chars().count() as u64 / 4
}

/// The charged tokens: at the input price, written to the cache, and read from the cache.
#[derive(Clone, Copy, Debug, Default)]
struct Bill {
    input: u64,
    written: u64,
    read: u64,
}

impl Bill {
    /// Returns the total cost, expressed in input tokens.
    #[expect(clippy::cast_precision_loss, reason = "token counts stay far below 2^52")]
    fn weighed(self) -> f64 {
        self.input as f64 + 1.25 * self.written as f64 + 0.1 * self.read as f64
    }
}

/// Starts a judge that passes all rules, and caches marked prefixes of at least 1,024 tokens.
fn judge(rules: usize, total: Arc<Mutex<Bill>>) -> MockServer {
    let cached = Mutex::new(HashSet::new());
    MockServer::answering(move |request| {
        let body = request.json();
        let system = body["system"].as_str().unwrap_or_default();
        let content = &body["messages"][0]["content"];
        let blocks: Vec<&Value> = content.as_array().map(|it| it.iter().collect()).unwrap_or_default();
        let texts: Vec<&str> = if blocks.is_empty() {
            vec![content.as_str().unwrap_or_default()]
        } else {
            blocks.iter().filter_map(|it| it["text"].as_str()).collect()
        };
        let whole = texts.concat();
        let form = body["tools"].to_string();
        let prefix = match blocks.first() {
            Some(first) if first["cache_control"]["type"] == "ephemeral" => format!("{form}{system}{}", texts[0]),
            _ => String::new(),
        };
        let all = tokens(&form) + tokens(system) + tokens(&whole);
        let mut bill = Bill { input: all, ..Bill::default() };
        if tokens(&prefix) >= 1_024 {
            bill.input = all - tokens(&prefix);
            if cached.lock().unwrap().insert(prefix.clone()) {
                bill.written = tokens(&prefix);
            } else {
                bill.read = tokens(&prefix);
            }
        }
        let mut sum = total.lock().unwrap();
        sum.input += bill.input;
        sum.written += bill.written;
        sum.read += bill.read;
        let results: Vec<Value> = (0..rules)
            .map(|it| json!({"id": format!("r{it}"), "pass": true, "reasoning": "It is kept."}))
            .collect();
        let answer = json!({"mark": mark_in(&whole), "results": results});
        MockReply::json(&json!({
            "id": "msg", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": [{"type": "tool_use", "id": "t", "name": body["tools"][0]["name"], "input": answer}],
            "stop_reason": "tool_use",
            "usage": {
                "input_tokens": bill.input, "cache_creation_input_tokens": bill.written,
                "cache_read_input_tokens": bill.read, "output_tokens": 100,
            },
        }))
    })
    .unwrap()
}

/// Judges 25 outputs by this number of rules; returns the charged tokens.
fn evaluated(rules: usize) -> Bill {
    let (folder, total) = (tempfile::tempdir().unwrap(), Arc::new(Mutex::new(Bill::default())));
    let server = judge(rules, Arc::clone(&total));
    let yaml = format!(
        "kindlm: 1\nproviders: {{ anthropic: {{ apiKeyEnv: KEY, baseUrl: \"{}\" }} }}\n\
         models: [{{ id: judge, provider: anthropic, model: claude-sonnet-4-5 }}]\n",
        server.url()
    );
    fs::write(folder.path().join("kindlm.yaml"), yaml).unwrap();
    let instruction = "Always cite the data source when you refer to specific metrics or facts.";
    let criteria = ["Does the output cite a source for each number?", "Is each source named?"];
    let set: Vec<Value> = (0..rules)
        .map(|it| json!({"id": format!("r{it}"), "instruction": instruction, "criteria": criteria}))
        .collect();
    let records = (0..25).map(|it| {
        let input = format!("Sum up the account {it}.");
        let output = format!("Account {it}: revenue was $1.2M (Salesforce). ").repeat(8);
        json!({"agent_input": input, "agent_output": output, "assertions": set}).to_string() + "\n"
    });
    fs::write(folder.path().join("records.jsonl"), records.collect::<String>()).unwrap();
    let mut command = Command::new(binary());
    command.args([
        "evaluate",
        "-c",
        "kindlm.yaml",
        "--concurrency",
        "1",
        "--jsonl",
        "records.jsonl",
    ]);
    command.current_dir(folder.path()).stdin(Stdio::null()).env("KEY", "key-4711");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines.lines().count(), 25);
    *total.lock().unwrap()
}

#[test]
fn the_rules_of_a_large_set_are_paid_in_full_once() {
    let bill = evaluated(40);
    let whole = Bill { input: bill.input + bill.written + bill.read, ..Bill::default() };
    assert!(bill.written > 1_024 && bill.read == 24 * bill.written, "{bill:?}");
    // The measured cost is 11,797 of 61,030 tokens.
    assert!(bill.weighed() < 0.2 * whole.weighed(), "{bill:?}");
}

#[test]
fn a_short_prompt_is_not_marked() {
    let bill = evaluated(2);
    assert_eq!((bill.written, bill.read), (0, 0));
}
