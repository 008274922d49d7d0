//! Measures how fast the server stores samples. Halfway, SIGKILL ends the server, and a new one starts.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{Connection, request};
use crate::server::Server;
use crate::{Settings, lines};

/// The number of samples in a request.
pub(crate) const BATCH: usize = 500;

/// The number of clients.
const CLIENTS: usize = 4;

/// The time limit until the server answers again after SIGKILL.
const PATIENCE: Duration = Duration::from_mins(1);

/// The agent of the samples. It has no assertion set, so the server does not evaluate the samples.
const AGENT: &str = "ingest";

pub(crate) fn run(settings: &Settings, folder: &Path) {
    println!(
        "| ingest, with one SIGKILL | samples | time | samples/s | without a server | sent again | peak memory |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let (database, name) = settings.database(folder);
    let batches = settings.samples.div_ceil(BATCH);
    let mut server = Server::start(folder, &database);
    let address = server.address().to_owned();
    let [next, done, again] = [(); 3].map(|()| AtomicUsize::new(0));
    let begin = Instant::now();
    let mut without = Duration::ZERO;
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut connection = None;
                loop {
                    let batch = next.fetch_add(1, Ordering::Relaxed);
                    if batch >= batches {
                        return;
                    }
                    let size = BATCH.min(settings.samples - batch * BATCH);
                    let repeats = store(&address, &mut connection, batch, size);
                    again.fetch_add(repeats, Ordering::Relaxed);
                    done.fetch_add(1, Ordering::Release);
                }
            });
        }
        while done.load(Ordering::Acquire) < batches / 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let killed = Instant::now();
        server.kill_and_start(folder, &database);
        without = killed.elapsed();
    });
    let wall = begin.elapsed().as_secs_f64();
    // `total` counts all samples of the agent, so it shows that no sample is lost.
    let page: Value = serde_json::from_str(
        &server.send(&format!("GET /v1/samples?limit=1&agent={AGENT}"), &Value::Null),
    )
    .unwrap();
    assert_eq!(page["total"], settings.samples, "acknowledged samples are lost");
    let again = again.load(Ordering::Relaxed) * BATCH;
    let [_, peak] = server.memory();
    println!(
        "| {name}, {CLIENTS} clients, {BATCH} samples in a request | {} | {wall:.1} s | {:.0} | {} ms | {again} | {peak:.1} MiB |",
        settings.samples,
        settings.samples as f64 / wall,
        without.as_millis(),
    );
}

/// Sends a batch until the server responds. Returns the number of repeated requests.
fn store(address: &str, connection: &mut Option<Connection>, batch: usize, size: usize) -> usize {
    let key = format!("idempotency-key: {AGENT}-{batch}");
    let head = ["content-type: application/x-ndjson", &key];
    let request = request("POST /v1/samples", &head, &lines(AGENT, batch * BATCH, size));
    let end = Instant::now() + PATIENCE;
    let mut repeats = 0;
    loop {
        if connection.is_none() {
            *connection = Connection::open(address).ok();
        }
        if let Some(open) = connection {
            if let Ok(reply) = open.send(&request) {
                assert_eq!(reply.status, 200, "{}", reply.body);
                let stored: Value = serde_json::from_str(&reply.body).unwrap();
                assert_eq!([&stored["stored"], &stored["duplicates"]], [size, 0]);
                return repeats;
            }
            *connection = None;
            repeats += 1;
        }
        assert!(Instant::now() < end, "the server does not answer again");
        std::thread::sleep(Duration::from_millis(1));
    }
}
