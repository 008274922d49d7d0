//! Measures `POST /v1/evaluate`, and the same evaluations by the library without HTTP.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kindlm_run::World;
use kindlm_run::evaluate::service::RecordService;

use crate::client::request;
use crate::server::{Server, cpu, memory};
use crate::{Settings, quantile, record, shown};

/// With this first argument, the bench measures the library: `--library <callers> <requests>`.
///
/// The library runs in a separate process, because memory and processor time are measured per process.
pub(crate) const LIBRARY: &str = "--library";

/// The numbers of parallel callers: connections to the server, and then tasks that call the library.
const CONNECTIONS: [usize; 3] = [1, 32, 256];

/// The number of requests of each connection before the measurement.
const WARM_UP: usize = 4;

/// The number of records that the library evaluates at once: the server's default of `--concurrency`.
const AT_ONCE: usize = 16;

/// The time limit for the measurement of one table row.
const LONGEST: Duration = Duration::from_mins(1);

pub(crate) fn run(settings: &Settings, folder: &Path) {
    println!(
        "| evaluate a record with 4 checks | at once | requests | requests/s | p50 | p99 | CPU each | memory | peak |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    for connections in CONNECTIONS {
        http(settings, folder, connections);
    }
    for callers in CONNECTIONS {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([LIBRARY, &callers.to_string(), &settings.requests.to_string()]);
        assert!(command.current_dir(folder).status().unwrap().success());
    }
}

/// Prints a row of the table. `now` and `peak` are memory in MiB.
fn row(
    what: &str,
    at_once: usize,
    mut times: Vec<Duration>,
    [wall, cpu]: [Duration; 2],
    [now, peak]: [f64; 2],
) {
    times.sort_unstable();
    let count = times.len() as f64;
    println!(
        "| {what} | {at_once} | {} | {:.0} | {} | {} | {:.0} µs | {now:.1} MiB | {peak:.1} MiB |",
        times.len(),
        count / wall.as_secs_f64(),
        shown(quantile(&times, 0.5)),
        shown(quantile(&times, 0.99)),
        cpu.as_secs_f64() * 1e6 / count,
    );
}

/// Measures a server with this number of connections. All responses must have the status 200.
fn http(settings: &Settings, folder: &Path, connections: usize) {
    let database = format!("sqlite://{}", folder.join(format!("{connections}.db")).display());
    let server = Server::start(folder, &database);
    let mut open: Vec<_> = (0..connections).map(|_| server.connect()).collect();
    let ask = |connection: &mut crate::client::Connection, number: usize| {
        let head = ["content-type: application/json"];
        let request = request("POST /v1/evaluate", &head, &record(number));
        let begin = Instant::now();
        let reply = connection.send(&request).unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
        begin.elapsed()
    };
    for connection in &mut open {
        for number in 0..WARM_UP {
            ask(connection, number);
        }
    }
    let next = AtomicUsize::new(0);
    let (before, begin) = (server.cpu(), Instant::now());
    let times: Vec<Duration> = std::thread::scope(|scope| {
        let work = |mut connection| {
            let mut times = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= settings.requests || begin.elapsed() > LONGEST {
                    return times;
                }
                times.push(ask(&mut connection, number));
            }
        };
        let threads: Vec<_> =
            open.into_iter().map(|connection| scope.spawn(move || work(connection))).collect();
        threads.into_iter().flat_map(|it| it.join().unwrap()).collect()
    });
    let spent = [begin.elapsed(), server.cpu().saturating_sub(before)];
    row("`POST /v1/evaluate`", connections, times, spent, server.memory());
}

/// Measures the library with this number of parallel callers: the evaluations, and the encoding of the results as JSON.
#[tokio::main]
pub(crate) async fn library(callers: usize, requests: usize) {
    let world = World::new(std::env::current_dir().unwrap(), Arc::new(|_| None));
    let service = RecordService::start(world, None, AT_ONCE).unwrap();
    for number in 0..callers * WARM_UP {
        service.evaluate(record(number)).await.unwrap();
    }
    let next = Arc::new(AtomicUsize::new(0));
    let (before, begin) = (cpu("self"), Instant::now());
    let callers_at_work: Vec<_> = (0..callers)
        .map(|_| {
            let (service, next) = (service.clone(), Arc::clone(&next));
            tokio::spawn(async move {
                let mut times = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= requests || begin.elapsed() > LONGEST {
                        return times;
                    }
                    let record = record(number);
                    let begin = Instant::now();
                    let evaluated = service.evaluate(record).await.unwrap();
                    assert!(!serde_json::to_vec(&evaluated.evaluation).unwrap().is_empty());
                    times.push(begin.elapsed());
                }
            })
        })
        .collect();
    let mut times = Vec::new();
    for caller in callers_at_work {
        times.extend(caller.await.unwrap());
    }
    let spent = [begin.elapsed(), cpu("self").saturating_sub(before)];
    row("`RecordService::evaluate`", callers, times, spent, memory("self"));
}
