//! Memory over time, with requests and samples.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::client::request;
use crate::server::Server;
use crate::{Settings, lines, record};

/// The number of connections. Each evaluates records, one after the other.
const CONNECTIONS: usize = 8;

/// The number of samples in a request. A request is sent every [`PAUSE`]: 100 samples a second.
const BATCH: usize = 20;

/// The pause between two requests with samples.
const PAUSE: Duration = Duration::from_millis(200);

/// The number of intervals. The table has a row at the start, and at the end of each interval.
const ROWS: u32 = 20;

pub(crate) fn run(settings: &Settings, folder: &Path) {
    println!(
        "| soak: minutes | evaluated records | stored samples | pending samples | memory | peak |"
    );
    println!("|--:|--:|--:|--:|--:|--:|");
    let (database, _) = settings.database(folder);
    let server = Server::start(folder, &database);
    server.evaluate_agent("soak");
    let [evaluated, stored] = [(); 2].map(|()| AtomicUsize::new(0));
    let is_over = AtomicBool::new(false);
    let interval = Duration::from_secs_f64(settings.minutes * 60.0) / ROWS;
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| evaluate(&server, &evaluated, &is_over));
        }
        scope.spawn(|| store(&server, &stored, &is_over));
        for row in 0..=ROWS {
            std::thread::sleep((begin + interval * row).saturating_duration_since(Instant::now()));
            let [now, peak] = server.memory();
            println!(
                "| {:.1} | {} | {} | {} | {now:.1} MiB | {peak:.1} MiB |",
                begin.elapsed().as_secs_f64() / 60.0,
                evaluated.load(Ordering::Relaxed),
                stored.load(Ordering::Relaxed),
                server.pending(),
            );
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

fn evaluate(server: &Server, evaluated: &AtomicUsize, is_over: &AtomicBool) {
    let mut connection = server.connect();
    while !is_over.load(Ordering::Relaxed) {
        let number = evaluated.fetch_add(1, Ordering::Relaxed);
        let head = ["content-type: application/json"];
        let reply = connection.send(&request("POST /v1/evaluate", &head, &record(number))).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
    }
}

fn store(server: &Server, stored: &AtomicUsize, is_over: &AtomicBool) {
    let mut connection = server.connect();
    while !is_over.load(Ordering::Relaxed) {
        let body = lines("soak", stored.load(Ordering::Relaxed), BATCH);
        let head = ["content-type: application/x-ndjson"];
        let reply = connection.send(&request("POST /v1/samples", &head, &body)).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
        stored.fetch_add(BATCH, Ordering::Relaxed);
        std::thread::sleep(PAUSE);
    }
}
