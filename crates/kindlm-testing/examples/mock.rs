//! A model's API to try things against, without a key and as fast as is wanted: `-- [MILLISECONDS]`.
//!
//! It prints its address, answers every request alike, and ends when its input does.
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
