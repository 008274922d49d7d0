//! Measures the cost of the rate limiter without concurrent requests.
//!
//! `cargo run --release --example limiter_cost`
#![expect(clippy::print_stdout, reason = "it says what it measured")]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kindlm_providers::limit::{Limits, RateLimiter};
use kindlm_providers::{Client, ClientOptions};
use kindlm_types::{Message, Models, NoFiles, Prompt, Role, Unlimited};
use serde_json::{Map, from_value, json};

const CALLS: u32 = 1_000_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let plenty = NonZeroU32::new(u32::MAX);
    let concurrency = Limits { concurrency: NonZeroU32::new(64), ..Limits::default() };
    let everything = Limits { rpm: plenty, tpm: plenty, concurrency: NonZeroU32::new(64) };
    for (name, limits) in [
        ("no limits", Limits::default()),
        ("concurrency", concurrency),
        ("rpm and tpm", everything),
    ] {
        let limiter = RateLimiter::new(limits);
        let started = Instant::now();
        for _ in 0..CALLS {
            let queued = limiter.enqueue(1);
            black_box(&queued).used(1);
            queued.enter(0).await?.answered();
        }
        print_cost(&format!("rate limiter, {name}"), started.elapsed());
    }
    whole_calls().await
}

/// Measures whole calls of `echo`, which answers immediately. This includes the look-up, the rate limiter and the boxed
/// future.
async fn whole_calls() -> Result<(), Box<dyn std::error::Error>> {
    let options = ClientOptions::new(Arc::new(|_| None), ".");
    let client = Client::new(&Map::new(), &NoFiles, options).map_err(|it| format!("{it:?}"))?;
    let prompt: Prompt =
        from_value(json!({"model": "m", "messages": [Message::new(Role::User, "hi")]}))?;
    let started = Instant::now();
    for _ in 0..CALLS {
        black_box(client.complete("echo", &prompt, Duration::from_secs(1), &Unlimited).await?);
    }
    print_cost("whole call of `echo`", started.elapsed());
    Ok(())
}

fn print_cost(what: &str, took: Duration) {
    println!("{what:<24} {:>6.0} ns per call", took.as_secs_f64() * 1e9 / f64::from(CALLS));
}
