//! A server process, and requests to it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// A running server. Dropping this value ends the server.
pub(crate) struct Server {
    process: Child,
    address: String,
    stderr: Arc<Mutex<String>>,
}

/// A response.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|err| panic!("{err}: {}", self.body))
    }

    /// Waits for the response on a connection. Returns `None` if the connection ended without a response.
    pub(crate) fn from_stream(stream: TcpStream) -> Option<Self> {
        received(stream).map(Self::new)
    }

    fn new((head, body): (String, Vec<u8>)) -> Self {
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head, body: String::from_utf8(body).unwrap() }
    }

    /// Returns the lines of a JSON lines body.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.body.lines().map(|it| serde_json::from_str(it).unwrap()).collect()
    }
}

/// Joins the chunks of a body. The last chunk is empty, and shows that the response is complete.
fn joined(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let Some(end) = body.windows(2).position(|it| it == b"\r\n") else {
            panic!("the response is not complete");
        };
        let size = std::str::from_utf8(&body[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return whole;
        }
        whole.extend_from_slice(&body[end + 2..][..size]);
        body = &body[end + 2 + size + 2..];
    }
}

/// Returns the head in lower case, and the body of a response. Returns `None` if the connection ended before the
/// end of the head.
fn received(mut stream: TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reply = Vec::new();
    let _ = stream.read_to_end(&mut reply);
    let end = reply.windows(4).position(|it| it == b"\r\n\r\n")?;
    let (head, body) = (std::str::from_utf8(&reply[..end]).unwrap(), &reply[end + 4..]);
    let head = head.to_lowercase();
    let is_chunked = head.contains("transfer-encoding: chunked");
    let body = if is_chunked { joined(body) } else { body.to_owned() };
    Some((head, body))
}

/// Returns the command of a server that works in this folder.
pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kindlm-server"));
    command.current_dir(folder).env_remove("KINDLM_DATABASE");
    command
}

impl Server {
    pub(crate) fn start(folder: &Path, args: &[&str]) -> Self {
        Self::start_on(folder, "127.0.0.1:0", args)
    }

    pub(crate) fn start_on(folder: &Path, listen: &str, args: &[&str]) -> Self {
        let mut command = command(folder);
        command.args(["--listen", listen]).args(args).env("MOCK_KEY", "k");
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut seen = String::new();
        let address = lines.find_map(|line| {
            let line = line.unwrap();
            seen.push_str(&line);
            Some(line.strip_prefix("listening on http://")?.to_owned())
        });
        let stderr = Arc::<Mutex<String>>::default();
        let all = Arc::clone(&stderr);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                *all.lock().unwrap() += &(line + "\n");
            }
        });
        Self { process, address: address.unwrap_or_else(|| panic!("{seen}")), stderr }
    }

    /// Returns what the process has written to its standard error.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Sends SIGTERM, and waits until the process has ended.
    #[cfg(unix)]
    pub(crate) fn terminate(mut self) -> std::process::ExitStatus {
        self.signal("TERM");
        self.process.wait().unwrap()
    }

    /// Sends a signal to the process.
    #[cfg(unix)]
    pub(crate) fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Sends SIGKILL, and waits until the process has ended.
    pub(crate) fn kill(self) {
        drop(self);
    }

    /// Sends a request: its first line without the HTTP version, further lines of its head, and its body.
    pub(crate) fn send(&self, first: &str, head: &[&str], body: &[u8]) -> Reply {
        Reply::new(self.exchange(first, head, body))
    }

    /// Sends a GET request that accepts gzip, and returns the head and the body of the response.
    pub(crate) fn bytes(&self, path: &str) -> (String, Vec<u8>) {
        let head = ["host: localhost", "accept-encoding: gzip"];
        self.exchange(&format!("GET {path}"), &head, b"")
    }

    fn exchange(&self, first: &str, head: &[&str], body: &[u8]) -> (String, Vec<u8>) {
        received(self.begin(first, head, body)).unwrap_or_else(|| panic!("no response to {first}"))
    }

    /// Sends a request, and does not wait for the response.
    pub(crate) fn begin(&self, first: &str, head: &[&str], body: &[u8]) -> TcpStream {
        let mut stream = self.connect();
        let mut text = format!("{first} HTTP/1.1\r\nconnection: close\r\n");
        let length = format!("content-length: {}", body.len());
        for line in head.iter().copied().chain([length.as_str(), ""]) {
            text += line;
            text += "\r\n";
        }
        stream.write_all(text.as_bytes()).unwrap();
        // The server may refuse a large body before it has read all of it.
        let _ = stream.write_all(body);
        stream
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).unwrap()
    }

    /// Sends JSON with a `Host` that a server without tokens accepts.
    pub(crate) fn json(&self, first: &str, body: &Value) -> Reply {
        let head = ["host: localhost", "content-type: application/json"];
        self.send(first, &head, body.to_string().as_bytes())
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send(&format!("GET {path}"), &["host: localhost"], b"")
    }

    pub(crate) fn evaluate(&self, record: &Value) -> Reply {
        self.json("POST /v1/evaluate", record)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
