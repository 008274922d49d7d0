//! The npm packages: packed, installed from their files, and run. `xtask/tests/wheel.rs` tests the wheel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use kindlm_testing::installed;

use crate::release::{VERSION, copy_quickstart, release, root, targets, text};

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

fn run_or_panic(command: &mut Command) -> String {
    let output = run(command);
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Returns the files of a folder whose name starts with `prefix` and ends with `suffix`.
fn files(folder: &Path, prefix: &str, suffix: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let fits = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(prefix) && name.ends_with(suffix)
    };
    paths.filter(fits).collect()
}

#[test]
fn npm_packages_install_and_run() {
    if !["node", "npm"].into_iter().all(installed) {
        return;
    }
    let releases = release();
    let folder = tempfile::tempdir().unwrap();
    let packed = folder.path().join("packed");
    let archives = releases.path().join(format!("v{VERSION}"));
    let build = root().join(".release/npm/build.mjs");
    let mut node = Command::new("node");
    node.arg(&build).arg(&archives).arg(&packed).args(["--only", &targets()[0]]);
    run_or_panic(&mut node);

    let project = folder.path().join("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("package.json"), r#"{ "private": true }"#).unwrap();
    let npm = |name: &str| {
        let mut command = Command::new(name);
        // npm needs neither a registry nor a cache, because all packages are files.
        command.arg("--offline").current_dir(&project);
        command.env("npm_config_cache", folder.path().join("cache"));
        command
    };
    let tarballs = files(&packed, "kindlm-", ".tgz");
    assert_eq!(tarballs.len(), 2, "{tarballs:?}");
    run_or_panic(npm("npm").args(["install", "--no-audit", "--no-fund"]).args(tarballs));
    assert_eq!(
        run_or_panic(npm("npx").args(["kindlm", "--version"])),
        format!("kindlm {VERSION}\n")
    );

    copy_quickstart(&project);
    let output = run(npm("npx").args(["kindlm", "test", "-q", "-c", "broken.yaml"]));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));

    // A signal to the Node.js script of the package reaches the binary, and ends both processes.
    let program = project.join("node_modules/.bin/kindlm");
    let mut child = Command::new(&program);
    child.args(["trace", "--port", "0", "--timeout", "60s"]).current_dir(&project);
    let mut child = child.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let stderr = child.stderr.take().unwrap();
    let first = std::io::BufRead::lines(std::io::BufReader::new(stderr)).next();
    assert!(first.is_some(), "the binary did not start");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(!child.wait().unwrap().success());

    // Without the package of the platform, the message names the missing package.
    fs::remove_dir_all(project.join("node_modules/@kindlm")).unwrap();
    let output = run(Command::new(&program).arg("--version"));
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("is not installed\nhelp: install without `--omit=optional`")
    );
}

#[test]
fn npm_packages_reject_a_wrong_checksum() {
    if !["node", "npm"].into_iter().all(installed) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let target = &targets()[0];
    let archive = folder.path().join(format!("kindlm-cli-{target}.tar.gz"));
    fs::write(&archive, "other content").unwrap();
    fs::write(folder.path().join(format!("kindlm-cli-{target}.tar.gz.sha256")), "0 *x\n").unwrap();
    let mut node = Command::new("node");
    node.arg(root().join(".release/npm/build.mjs"))
        .arg(folder.path())
        .arg(folder.path().join("packed"));
    let output = run(node.args(["--only", target]));
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("wrong checksum of"), "{}", text(&output.stderr));
}
