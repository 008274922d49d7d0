//! Samples that are stored and evaluated in the background, by one or several servers.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::request;
use crate::ingest::BATCH;
use crate::server::Server;
use crate::{Settings, lines};

/// The number of results of a sample: one for each check.
const RESULTS: usize = 4;

pub(crate) fn run(settings: &Settings, folder: &Path) {
    println!(
        "| evaluate samples in the background | servers | samples | time | samples/s | CPU each | peak memory of a server |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let (database, name) = settings.database(folder);
    // Servers on different machines cannot share a SQLite file, so only one server uses it.
    let most = if settings.database.is_some() { settings.servers } else { 1 };
    let mut count = 1;
    while count <= most {
        row(settings, folder, (&database, name), count);
        count *= 2;
    }
}

fn row(settings: &Settings, folder: &Path, (database, name): (&str, &str), count: usize) {
    let servers: Vec<Server> = (0..count).map(|_| Server::start(folder, database)).collect();
    let agent = format!("queue-{count}");
    servers[0].evaluate_agent(&agent);
    let samples = settings.evaluated;
    let before: Vec<Duration> = servers.iter().map(Server::cpu).collect();
    let begin = Instant::now();
    let mut connections: Vec<_> = servers.iter().map(Server::connect).collect();
    for (number, from) in (0..samples).step_by(BATCH).enumerate() {
        let body = lines(&agent, from, BATCH.min(samples - from));
        let request = request("POST /v1/samples", &["content-type: application/x-ndjson"], &body);
        let reply = connections[number % count].send(&request).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
    // The time limit is a minute, and a second for each sample, so that a slow disk suffices.
    let end = begin + Duration::from_mins(1) + Duration::from_secs(samples as u64);
    while servers[0].pending() > 0 {
        assert!(Instant::now() < end, "{} samples are pending", servers[0].pending());
        std::thread::sleep(Duration::from_millis(100));
    }
    let wall = begin.elapsed().as_secs_f64();
    let cpu: Duration =
        servers.iter().zip(before).map(|(it, before)| it.cpu().saturating_sub(before)).sum();
    let body = servers[0].send(&format!("GET /v1/metrics/assertions?agent={agent}"), &Value::Null);
    let rates: Value = serde_json::from_str(&body).unwrap();
    // Each result of each sample must be counted once. A check has one item for each day, so the counts are added.
    let items = rates["items"].as_array().unwrap();
    let checks: BTreeSet<&str> = items.iter().filter_map(|it| it["assertion"].as_str()).collect();
    let passed: u64 = items.iter().filter_map(|it| it["passed"].as_u64()).sum();
    assert_eq!((passed, checks.len()), ((RESULTS * samples) as u64, RESULTS), "{rates}");
    let peak = servers.iter().map(|it| it.memory()[1]).fold(0.0, f64::max);
    println!(
        "| {name} | {count} | {samples} | {wall:.1} s | {:.0} | {:.0} µs | {peak:.1} MiB |",
        samples as f64 / wall,
        cpu.as_secs_f64() * 1e6 / samples as f64,
    );
}
