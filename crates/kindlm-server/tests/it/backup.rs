//! Backups of both databases, and servers that start with them.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use crate::server::{Server, command};

fn sample(id: &str) -> Value {
    json!({"id": id, "agent": "shop", "agent_output": "x"})
}

/// Returns the ids of all samples, the newest first.
fn ids(server: &Server) -> Vec<String> {
    let page = server.get("/v1/samples").json();
    let items = page["items"].as_array().unwrap();
    items.iter().map(|it| it["sample"]["id"].as_str().unwrap().to_owned()).collect()
}

fn back_up(folder: &Path, database: &str, file: &str) -> Output {
    command(folder).args(["--database", database, "backup", file]).output().unwrap()
}

#[test]
fn sqlite_is_copied_while_the_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    assert_eq!(server.json("POST /v1/samples", &sample("1")).status, 200);
    let made = back_up(folder.path(), "sqlite://kindlm.db", "copy.db");
    assert!(made.status.success(), "{made:?}");
    // The copy does not have a sample that is stored later.
    assert_eq!(server.json("POST /v1/samples", &sample("2")).status, 200);
    assert_eq!(ids(&server), ["2", "1"]);
    server.kill();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let copy = folder.path().join("copy.db").metadata().unwrap();
        assert_eq!(copy.permissions().mode() & 0o777, 0o600);
    }
    // A backup does not replace a file.
    let again = back_up(folder.path(), "sqlite://kindlm.db", "copy.db");
    assert_eq!(again.status.code(), Some(2), "{again:?}");
    let restored = Server::start(folder.path(), &["--database", "sqlite://copy.db"]);
    assert_eq!(ids(&restored), ["1"]);
    assert_eq!(restored.json("POST /v1/samples", &sample("3")).status, 200);
    assert_eq!(ids(&restored), ["3", "1"]);
}

#[test]
fn names_of_files_are_not_urls() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--database", "sqlite://my%20data.db"]);
    assert_eq!(server.json("POST /v1/samples", &sample("1")).status, 200);
    for file in ["a%20b.db", "file:c.db", "d ?mode=ro#.db"] {
        let made = back_up(folder.path(), "sqlite://my%20data.db", file);
        assert!(made.status.success(), "{file}: {made:?}");
        let size = folder.path().join(file).metadata().unwrap().len();
        assert!(size > 4096, "{file}: {size} bytes");
    }
    server.kill();
    let restored = Server::start(folder.path(), &["--database", "sqlite://a%2520b.db"]);
    assert_eq!(ids(&restored), ["1"]);
}

#[cfg(unix)]
#[test]
fn a_backup_with_a_name_that_is_not_utf_8_is_refused() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    let before = files();
    let mut backup = command(folder.path());
    backup.args(["--database", "sqlite://kindlm.db", "backup"]);
    let made = backup.arg(OsStr::from_bytes(b"copy\xff.db")).output().unwrap();
    assert_eq!(made.status.code(), Some(2), "{made:?}");
    let message = String::from_utf8_lossy(&made.stderr);
    assert!(message.contains("the path is not UTF-8; use another path"), "{message}");
    assert_eq!(files(), before);
    drop(server);
}

#[test]
fn a_backup_of_a_missing_database_makes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    for database in ["sqlite://none.db", "sqlite:none.db", "sqlite://none.db?mode=rwc"] {
        let made = back_up(folder.path(), database, "copy.db");
        assert_eq!(made.status.code(), Some(2), "{made:?}");
        let message = String::from_utf8_lossy(&made.stderr);
        assert!(message.contains("there is no file `none.db`"), "{message}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{database}");
    }
}

#[cfg(unix)]
#[test]
fn postgres_is_dumped_and_restored() {
    use crate::postgres::{Cluster, postgres};
    let Some(bin) = postgres() else {
        kindlm_testing::not_run("postgresql", "PostgreSQL is not installed");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(&bin);
    let server = Server::start(folder.path(), &["--database", &cluster.url]);
    assert_eq!(server.json("POST /v1/samples", &sample("1")).status, 200);
    let refused = back_up(folder.path(), &cluster.url, "copy.db");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("pg_dump"), "{refused:?}");
    let dump = folder.path().join("kindlm.dump");
    let run = |program: &str, args: &[&str]| {
        let ran = std::process::Command::new(bin.join(program)).args(args).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    };
    let file = dump.to_str().unwrap();
    run("pg_dump", &["--format=custom", &format!("--file={file}"), &cluster.url]);
    server.kill();
    let (host, _) = cluster.url.rsplit_once('/').unwrap();
    let other = format!("{host}/restored");
    run("psql", &[&cluster.url, "-c", "CREATE DATABASE restored"]);
    run("pg_restore", &[&format!("--dbname={other}"), file]);
    let restored = Server::start(folder.path(), &["--database", &other]);
    assert_eq!(ids(&restored), ["1"]);
}
