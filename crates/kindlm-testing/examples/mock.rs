//! A mock model API for experiments without a key. The argument is the latency: `-- [MILLISECONDS]`.
//!
//! The program prints the URL of the server, answers every request with `ok`, and ends when stdin closes. The default
//! latency is 0.
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
