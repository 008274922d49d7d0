//! A release with one archive, and the files and servers that the CI script needs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};

use kindlm_testing::{MockReply, MockServer};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The version of this checkout.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the targets whose archive a script may choose on this machine.
pub(crate) fn targets() -> Vec<String> {
    let cpu = std::env::consts::ARCH;
    if cfg!(target_os = "macos") {
        vec![format!("{cpu}-apple-darwin")]
    } else {
        vec![format!("{cpu}-unknown-linux-gnu"), format!("{cpu}-unknown-linux-musl")]
    }
}

/// Creates a folder with the archives of a release and their digests, laid out as on GitHub.
///
/// Both archives of Linux contain the same binary.
pub(crate) fn release() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let release = folder.path().join(format!("v{VERSION}"));
    fs::create_dir(&release).unwrap();
    let (packed, digest) = packed();
    for target in targets() {
        let name = format!("kindlm-cli-{target}.tar.gz");
        fs::copy(&packed, release.join(&name)).unwrap();
        // The tool `dist` writes digests in this format.
        let line = format!("{digest} *{name}\n");
        fs::write(release.join(format!("{name}.sha256")), line).unwrap();
    }
    folder
}

/// Packs the binary once for all tests. Returns the archive and its digest.
fn packed() -> (PathBuf, String) {
    let binary = Path::new(env!("CARGO_BIN_EXE_kindlm"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("distribution");
    fs::create_dir_all(&folder).unwrap();
    // Other test processes wait here until the archive is packed.
    let lock = fs::File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let archive = folder.join("kindlm.tar.gz");
    let made = fs::metadata(binary).unwrap().modified().unwrap();
    let current = fs::read_to_string(folder.join("made")).ok() == Some(format!("{made:?}"));
    if !current {
        let name = format!("kindlm-cli-{}", targets()[0]);
        let content = folder.join(&name);
        fs::create_dir_all(&content).unwrap();
        fs::copy(binary, content.join("kindlm")).unwrap();
        // Debug information only makes the archive larger. Without `strip`, the test is slower.
        let _ = Command::new("strip").arg(content.join("kindlm")).stderr(Stdio::null()).status();
        let pack = "tar -cf - \"$1\" | gzip -1 > \"$2\"";
        let mut sh = Command::new("sh");
        sh.args(["-c", pack, "sh", &name]).arg(&archive).current_dir(&folder);
        assert!(sh.status().unwrap().success());
        fs::write(folder.join("made"), format!("{made:?}")).unwrap();
    }
    let digest = sha256(&fs::read(&archive).unwrap());
    (archive, digest)
}

/// A comment on the pull request or merge request.
#[derive(Clone, Debug)]
pub(crate) struct Comment {
    pub(crate) id: u64,
    pub(crate) author: String,
    pub(crate) body: String,
}

/// A server with the parts of the APIs of GitHub and GitLab that concern comments.
///
/// Only the token `may-write` may write. The token `may-read` may read. Others may do nothing.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) server: MockServer,
    comments: Arc<Mutex<Vec<Comment>>>,
}

pub(crate) const ACCOUNT: &str = "github-actions[bot]";

impl Api {
    pub(crate) fn start(comments: Vec<Comment>) -> Self {
        let comments = Arc::new(Mutex::new(comments));
        let shared = Arc::clone(&comments);
        let server = MockServer::answering(move |request| {
            let authorization = request.header("authorization").unwrap_or_default();
            let token = request.header("private-token").unwrap_or_default();
            let token = authorization.strip_prefix("Bearer ").unwrap_or(token).to_owned();
            if token == "breaks" {
                return MockReply::error(422, "broken");
            }
            if token != "may-write" && !(token == "may-read" && request.method == "GET") {
                return MockReply::error(403, "Resource not accessible by integration");
            }
            let mut comments = shared.lock().unwrap();
            answer(&request.method, &request.path, &request.body, &mut comments)
        });
        Self { server: server.unwrap(), comments }
    }

    pub(crate) fn comments(&self) -> MutexGuard<'_, Vec<Comment>> {
        self.comments.lock().unwrap()
    }
}

fn answer(method: &str, path: &str, body: &[u8], comments: &mut Vec<Comment>) -> MockReply {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let body = || {
        let body: Value = serde_json::from_slice(body).unwrap();
        body["body"].as_str().unwrap().to_owned()
    };
    match (method, path) {
        ("GET", "/user") => MockReply::json(&json!({ "username": ACCOUNT })),
        ("GET", "/repos/acme/shop/issues/7/comments" | "/projects/3/merge_requests/7/notes") => {
            let page: usize = query.strip_prefix("per_page=100&page=").unwrap().parse().unwrap();
            let of_page = comments.iter().skip((page - 1) * 100).take(100);
            let items = of_page.map(|it| {
                let (user, author) =
                    (json!({ "login": it.author }), json!({ "username": it.author }));
                if path.starts_with("/repos") {
                    json!({ "id": it.id, "user": user, "body": it.body })
                } else {
                    json!({ "id": it.id, "author": author, "body": it.body })
                }
            });
            MockReply::json(&Value::Array(items.collect()))
        }
        ("POST", "/repos/acme/shop/issues/7/comments" | "/projects/3/merge_requests/7/notes") => {
            let id = 1000 + comments.len() as u64;
            comments.push(Comment { id, author: ACCOUNT.to_owned(), body: body() });
            MockReply::json(&json!({ "id": id })).with_status(201)
        }
        ("PATCH" | "PUT", path) => {
            let (folder, id) = path.rsplit_once('/').unwrap();
            let expected = match method {
                "PATCH" => "/repos/acme/shop/issues/comments",
                _ => "/projects/3/merge_requests/7/notes",
            };
            assert_eq!(folder, expected);
            let id: u64 = id.parse().unwrap();
            let comment = comments.iter_mut().find(|it| it.id == id).unwrap();
            comment.body = body();
            MockReply::json(&json!({ "id": id }))
        }
        (method, path) => panic!("unexpected request: {method} {path}"),
    }
}

/// Runs a command line in a shell, with `environment` and `PATH` only.
pub(crate) fn sh(line: &str, folder: &Path, environment: &BTreeMap<String, String>) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(folder).env_clear().envs(environment);
    if !environment.contains_key("PATH") {
        command.env("PATH", std::env::var_os("PATH").unwrap());
    }
    command.stdin(Stdio::null()).output().unwrap()
}

/// Copies the files of the quickstart, and of its folder `schemas`.
pub(crate) fn copy_quickstart(to: &Path) {
    let from = root().join("fixtures/quickstart");
    for item in fs::read_dir(&from).unwrap() {
        let path = item.unwrap().path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
    fs::create_dir(to.join("schemas")).unwrap();
    for item in fs::read_dir(from.join("schemas")).unwrap() {
        let path = item.unwrap().path();
        fs::copy(&path, to.join("schemas").join(path.file_name().unwrap())).unwrap();
    }
}
