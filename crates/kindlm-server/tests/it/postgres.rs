//! The tests of `store.rs` on PostgreSQL, with a database server of their own.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Command;

use kindlm_server::store::Store;
use kindlm_server::store::tokens::Scope;
use serde_json::{Value, json};

use crate::server::Server;
use crate::store::{all, old_samples_become_jobs};

#[tokio::test]
async fn postgres_keeps_everything() {
    let Some(bin) = postgres() else {
        kindlm_testing::not_run("postgresql", "PostgreSQL is not installed");
        return;
    };
    let cluster = Cluster::start(&bin);
    all(&cluster.url).await;
    let pool = sqlx::PgPool::connect(&cluster.url).await.unwrap();
    for sql in [
        "CREATE DATABASE old",
        "CREATE DATABASE strict",
        "CREATE SCHEMA other",
        "CREATE ROLE weak LOGIN",
    ] {
        sqlx::query(sql).execute(&pool).await.unwrap();
    }
    pool.close().await;
    unsuitable_schemas_and_users_are_refused(&cluster.url).await;
    old_samples_become_jobs(&cluster.url.replace("/postgres", "/old")).await;
    let store = Store::open(&cluster.url).await.unwrap();
    let token = store.create_token("test", &[Scope::Admin]).await.unwrap();
    store.close().await;
    let requests = move || refuses_nul_characters(&cluster.url, &token);
    tokio::task::spawn_blocking(requests).await.unwrap();
}

async fn unsuitable_schemas_and_users_are_refused(url: &str) {
    let other = format!("{url}?options=-c%20search_path%3Dother");
    let refused = Store::open(&other).await.unwrap_err().to_string();
    assert!(refused.contains("the current schema is `other`"), "{refused}");
    assert!(refused.contains("a database of its own"), "{refused}");
    // The user is not permitted to create a schema in this database.
    let weak = url.replace("kindlm@", "weak@").replace("/postgres", "/strict");
    let refused = Store::open(&weak).await.unwrap_err().to_string();
    assert!(refused.contains("permission denied"), "{refused}");
    assert!(refused.contains("to create the schema `apalis`"), "{refused}");
}

/// PostgreSQL stores no NUL characters, so the server must refuse them first.
fn refuses_nul_characters(database: &str, token: &str) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--database", database]);
    let authorization = format!("authorization: Bearer {token}");
    let head = ["host: localhost", "content-type: application/json", &authorization];
    let send = |first: &str, body: &Value| server.send(first, &head, body.to_string().as_bytes());
    let sample = json!({"id": "1", "agent": "a", "agent_output": "x\u{0}"});
    assert_eq!(send("POST /v1/samples", &sample).status, 200);
    for (first, body) in [
        ("POST /v1/samples", json!({"id": "2\u{0}", "agent": "a"})),
        ("POST /v1/feedback", json!({"sample": "1", "value": "up", "note": "\u{0}"})),
        ("POST /v1/feedback", json!({"sample": "1", "value": "up", "author": "\u{0}"})),
        ("POST /v1/feedback", json!({"sample": "1\u{0}", "value": "up"})),
        ("PUT /v1/agents/a", json!({"set": "a\u{0}"})),
        ("PUT /v1/agents/a%00", json!({"set": "a"})),
        ("PUT /v1/assertion-sets/a%00", json!({"expect": {"output": {"contains": ["x"]}}})),
        ("GET /v1/samples?agent=%00", json!({})),
        ("GET /v1/metrics/assertions?agent=%00", json!({})),
        ("POST /v1/evaluate", json!({"agent_output": "x", "set": "a\u{0}"})),
    ] {
        let reply = send(first, &body);
        assert!([400, 404, 422].contains(&reply.status), "{first} {body}: {}", reply.body);
    }
}

/// Returns the folder with the programs of Debian's package. Returns `None` if the package is not installed.
pub(crate) fn postgres() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut folders: Vec<PathBuf> = versions.flatten().map(|it| it.path().join("bin")).collect();
    folders.sort();
    folders.pop().filter(|it| it.join("initdb").is_file())
}

/// A database server of its own, in a temporary folder.
pub(crate) struct Cluster {
    bin: PathBuf,
    folder: tempfile::TempDir,
    pub(crate) url: String,
}

/// Returns a command of PostgreSQL, which refuses to run as root.
fn program(bin: &Path, name: &str) -> Command {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|it| {
        use std::os::unix::fs::MetadataExt as _;
        it.uid() == 0
    });
    if !is_root {
        return Command::new(bin.join(name));
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--"]).arg(bin.join(name));
    command
}

fn run(command: &mut Command) {
    // The server keeps the standard output open, so it goes to a file.
    let output = tempfile::tempfile().unwrap();
    command.stdout(output.try_clone().unwrap()).stderr(output);
    assert!(command.current_dir("/").status().unwrap().success(), "{command:?}");
}

impl Cluster {
    pub(crate) fn start(bin: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        std::os::unix::fs::chown(place, user_id(), None).unwrap();
        let data = place.join("data");
        run(program(bin, "initdb").args(["-U", "kindlm", "-A", "trust", "-D"]).arg(&data));
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let options = format!("-h 127.0.0.1 -p {port} -k {}", place.display());
        run(program(bin, "pg_ctl").args(["start", "-w", "-o", &options, "-D"]).arg(&data));
        let url = format!("postgres://kindlm@127.0.0.1:{port}/postgres");
        Self { bin: bin.to_owned(), folder, url }
    }
}

/// Returns the id of the user `postgres` if this process runs as root, because PostgreSQL refuses to run as root.
/// Returns `None` otherwise.
fn user_id() -> Option<u32> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|it| it.starts_with("postgres:"))?;
    let is_root = std::env::var_os("USER").is_none_or(|it| it == "root");
    is_root.then(|| line.split(':').nth(2)?.parse().ok()).flatten()
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let data = self.folder.path().join("data");
        run(program(&self.bin, "pg_ctl").args(["stop", "-w", "-m", "immediate", "-D"]).arg(data));
    }
}
