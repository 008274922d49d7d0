//! A mock model API for experiments without a key. The argument is the latency: `-- [MILLISECONDS]`.
//!
//! It prints its URL, sends the same answer to every request, and ends when stdin closes.
#![expect(clippy::print_stdout, reason = "the caller wants the address")]
#![expect(clippy::unwrap_used, reason = "an example may fail loudly")]

use std::time::Duration;

use kindlm_testing::MockServer;

fn main() {
    let latency = std::env::args().nth(1).map_or(0, |it| it.parse().unwrap());
    let server = MockServer::for_bench(Duration::from_millis(latency)).unwrap();
    println!("{}", server.url());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
}
