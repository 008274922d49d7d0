//! The tests of `store.rs` on PostgreSQL, with a database server of their own.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::store::all;

#[tokio::test]
async fn postgres_keeps_everything() {
    let Some(bin) = postgres() else {
        kindlm_testing::not_run("postgresql", "PostgreSQL is not installed");
        return;
    };
    let cluster = Cluster::start(&bin);
    all(&cluster.url).await;
}

/// Returns the folder of the programs of Debian's package.
fn postgres() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut folders: Vec<PathBuf> = versions.flatten().map(|it| it.path().join("bin")).collect();
    folders.sort();
    folders.pop().filter(|it| it.join("initdb").is_file())
}

/// A database server of its own, in a temporary folder.
struct Cluster {
    bin: PathBuf,
    folder: tempfile::TempDir,
    url: String,
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
    fn start(bin: &Path) -> Self {
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

/// Returns the user that runs PostgreSQL, if it is not this one.
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
