//! A server process, and the CPU time and memory that it uses.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::client::{Connection, request};

/// A running server. Dropping this value kills it.
pub(crate) struct Server {
    process: Child,
    address: String,
}

impl Server {
    /// Starts a server on a free port, and waits until it listens.
    pub(crate) fn start(folder: &Path, database: &str) -> Self {
        Self::start_on("127.0.0.1:0", folder, database)
    }

    fn start_on(listen: &str, folder: &Path, database: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_kindlm-server"))
            .args(["--listen", listen, "--database", database, "--lease", "5"])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let first = lines.next().and_then(Result::ok).unwrap_or_default();
        let address = first.strip_prefix("listening on http://");
        let address = address.unwrap_or_else(|| panic!("{first}")).to_owned();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = writeln!(std::io::stderr(), "kindlm-server: {line}");
            }
        });
        Self { process, address }
    }

    /// Sends SIGKILL, waits until the process has ended, and starts it again on the same address.
    pub(crate) fn kill_and_start(&mut self, folder: &Path, database: &str) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        *self = Self::start_on(&self.address, folder, database);
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(&self.address).unwrap()
    }

    /// Sends a request on a new connection, and returns the body of the response. The request must succeed.
    pub(crate) fn send(&self, first: &str, body: &Value) -> String {
        let request =
            request(first, &["content-type: application/json"], body.to_string().as_bytes());
        let reply = self.connect().send(&request).unwrap();
        assert!((200..300).contains(&reply.status), "{first}: {} {}", reply.status, reply.body);
        reply.body
    }

    /// Makes the server evaluate all samples of an agent in the background.
    pub(crate) fn evaluate_agent(&self, agent: &str) {
        self.send("PUT /v1/assertion-sets/load", &serde_json::json!({"expect": crate::checks()}));
        self.send(&format!("PUT /v1/agents/{agent}"), &serde_json::json!({"set": "load"}));
    }

    /// Returns the number of samples that wait for their evaluation.
    pub(crate) fn pending(&self) -> usize {
        let body = self.send("GET /metrics", &Value::Null);
        let name = "kindlm_samples{state=\"pending\"} ";
        body.lines().find_map(|it| it.strip_prefix(name)).unwrap().parse().unwrap()
    }

    /// Returns the memory in MiB: the resident set now, and its peak.
    pub(crate) fn memory(&self) -> [f64; 2] {
        memory(&self.process.id().to_string())
    }

    /// Returns the processor time of the process so far: user and system.
    pub(crate) fn cpu(&self) -> Duration {
        cpu(&self.process.id().to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the memory of a process in MiB: the resident set now, and its peak. `process` is an id or `self`.
pub(crate) fn memory(process: &str) -> [f64; 2] {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    ["VmRSS:", "VmHWM:"].map(|name| {
        let line = status.lines().find_map(|it| it.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    })
}

/// Returns the processor time of a process so far. `process` is an id or `self`.
pub(crate) fn cpu(process: &str) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name of the program may have spaces; the last `)` ends the name. Linux counts 100 ticks a second.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2).map(|it| it.parse::<u64>().unwrap());
    Duration::from_millis(ticks.sum::<u64>() * 10)
}
