//! The time from the start of the process to its first response.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::client::request;
use crate::server::Server;
use crate::{Settings, quantile, record, shown};

pub(crate) fn run(settings: &Settings, folder: &Path) {
    println!(
        "| from the start to the first evaluated record | starts | best | median | worst | memory |"
    );
    println!("|---|--:|--:|--:|--:|--:|");
    let new = |number: usize| folder.join(format!("{number}.db"));
    row("a new SQLite file", settings.starts, folder, new);
    // The first row has created this file with its tables.
    row("an existing SQLite file", settings.starts, folder, |_| folder.join("0.db"));
}

fn row(what: &str, starts: usize, folder: &Path, file: impl Fn(usize) -> std::path::PathBuf) {
    let request = request("POST /v1/evaluate", &["content-type: application/json"], &record(0));
    let mut memory = 0.0_f64;
    let mut times: Vec<Duration> = (0..starts)
        .map(|number| {
            let begin = Instant::now();
            let server = Server::start(folder, &format!("sqlite://{}", file(number).display()));
            let reply = server.connect().send(&request).unwrap();
            let time = begin.elapsed();
            assert_eq!(reply.status, 200, "{}", reply.body);
            memory = memory.max(server.memory()[1]);
            time
        })
        .collect();
    times.sort_unstable();
    let [best, median, worst] = [0.0, 0.5, 1.0].map(|it| shown(quantile(&times, it)));
    println!("| {what} | {starts} | {best} | {median} | {worst} | {memory:.1} MiB |");
}
