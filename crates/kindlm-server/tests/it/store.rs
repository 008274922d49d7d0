//! The same tests on SQLite and on PostgreSQL.

use std::path::{Path, PathBuf};
use std::process::Command;

use kindlm_server::store::Store;
use kindlm_server::store::idempotency::RequestKey;
use kindlm_server::store::samples::{Cursor, NewFeedback, NewSample, SampleFilter};
use kindlm_server::store::tokens::Scope;
use serde_json::{Map, Value, json};

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn sample(id: &str, agent: &str, subject: &str) -> NewSample {
    let (id, agent, subject) = (Some(id.to_owned()), agent.to_owned(), subject.to_owned());
    let (version, body) = (String::new(), object(&json!({"agent_output": "x"})));
    NewSample { id, agent, subject, version, body }
}

async fn tokens_are_found_until_they_are_revoked(store: &Store) {
    assert!(!store.has_tokens().await.unwrap());
    let text = store.create_token("ci", &[Scope::Evaluate, Scope::Read]).await.unwrap();
    let token = store.find_token(&text).await.unwrap().unwrap();
    assert!(token.permits(Scope::Read) && !token.permits(Scope::Admin));
    let forged = format!("{}0", &text[..text.len() - 1]);
    for other in [forged.as_str(), "", "kindlm_", "kindlm__", &text[..20]] {
        if other != text {
            assert!(store.find_token(other).await.unwrap().is_none(), "{other}");
        }
    }
    assert!(store.revoke_token(&token.id).await.unwrap());
    assert!(!store.revoke_token(&token.id).await.unwrap());
    assert!(store.find_token(&text).await.unwrap().is_none());
    assert!(store.has_tokens().await.unwrap());
    assert!(store.tokens().await.unwrap()[0].revoked_at.is_some());
}

async fn each_change_of_a_set_is_a_version(store: &Store) {
    let (first, second) = (object(&json!({"threshold": 0.5})), object(&json!({"threshold": 0.7})));
    let (one, is_new) = store.put_set("a", &first, "ann").await.unwrap();
    assert!(is_new && one.version == 1);
    assert!(!store.put_set("a", &first, "bob").await.unwrap().1);
    let (two, _) = store.put_set("a", &second, "bob").await.unwrap();
    assert_eq!((two.version, two.author.as_str()), (2, "bob"));
    assert!(two.diff.contains("-  \"threshold\": 0.5\n+  \"threshold\": 0.7\n"), "{}", two.diff);
    assert_eq!(store.set("a", Some(1)).await.unwrap(), Some(one));
    assert_eq!(store.set("a", None).await.unwrap(), Some(two));
    assert_eq!(store.set("a", Some(3)).await.unwrap(), None);
    let contents: Vec<_> = (0..4).map(|it| object(&json!({"threshold": 0.1, "n": it}))).collect();
    let concurrent = contents.iter().map(|it| store.put_set("b", it, ""));
    for stored in futures_util::future::join_all(concurrent).await {
        stored.unwrap();
    }
    let versions: Vec<i64> =
        store.set_versions("b").await.unwrap().iter().map(|it| it.version).collect();
    assert_eq!(versions, [4, 3, 2, 1]);
    assert_eq!(store.sets().await.unwrap().len(), 2);
}

async fn samples_are_stored_once(store: &Store) {
    let samples = [sample("1", "a", "s"), sample("2", "a", "t"), sample("3", "b", "s")];
    let key = |key: &str, digest: &str| RequestKey {
        owner: String::new(),
        key: key.to_owned(),
        digest: digest.to_owned(),
    };
    let first = store.add_samples(&samples, Some(&key("k", "d"))).await.unwrap();
    assert_eq!((first.stored, first.duplicates), (3, 0));
    assert_eq!(store.add_samples(&samples, Some(&key("k", "d"))).await.unwrap(), first);
    assert!(store.add_samples(&samples, Some(&key("k", "e"))).await.is_err());
    let again = store.add_samples(&samples, None).await.unwrap();
    assert_eq!((again.stored, again.duplicates), (0, 3));
    let all = SampleFilter::default();
    let page = store.samples(&all, 2, None).await.unwrap();
    assert_eq!((page.total, page.items.len()), (3, 2));
    let cursor = Cursor::parse(&page.next.unwrap()).unwrap();
    let rest = store.samples(&all, 2, Some(&cursor)).await.unwrap();
    assert_eq!((rest.items.len(), rest.next), (1, None));
    let feedback = |sample: &str| NewFeedback {
        sample: sample.to_owned(),
        value: "up".to_owned(),
        note: String::new(),
        author: String::new(),
    };
    assert!(store.add_feedback(&feedback("1")).await.unwrap().is_some());
    assert!(store.add_feedback(&feedback("4")).await.unwrap().is_none());
    let of_subject = SampleFilter { subject: Some("s".to_owned()), ..SampleFilter::default() };
    assert_eq!(store.delete_samples(&of_subject).await.unwrap(), 2);
    let old = SampleFilter { before: Some(0), agent: Some("a".to_owned()), subject: None };
    assert_eq!(store.delete_samples(&old).await.unwrap(), 0);
    assert_eq!(store.samples(&all, 9, None).await.unwrap().total, 1);
}

async fn all(url: &str) {
    let store = Store::open(url).await.unwrap();
    tokens_are_found_until_they_are_revoked(&store).await;
    each_change_of_a_set_is_a_version(&store).await;
    samples_are_stored_once(&store).await;
    store.close().await;
    // The tables exist now, and their content is kept.
    let store = Store::open(url).await.unwrap();
    assert_eq!(store.sets().await.unwrap().len(), 2);
    store.close().await;
}

#[tokio::test]
async fn sqlite_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    all(&format!("sqlite://{}", folder.path().join("a.db").display())).await;
    assert!(Store::open("mysql://localhost/x").await.is_err());
    assert!(Store::open("sqlite::memory:").await.is_err());
}

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
