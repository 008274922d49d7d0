//! Builds the wheels with maturin, installs them with pip and uv, and runs the program and the Python module.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

// Include only this file, because the whole crate takes much longer to build.
#[path = "../../crates/kindlm-testing/src/programs.rs"]
#[expect(dead_code, unreachable_pub, reason = "other tests use the rest")]
mod programs;

const TOOLS: [&str; 2] = ["maturin==1.16.0", "uv==0.13.9"];

const PYARROW: &str = "pyarrow==26.0.1";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

fn run_or_panic(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = run(command);
    let [stdout, stderr] = [stdout, stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(status.success(), "{command:?}: {stdout}{stderr}");
    stdout
}

/// Creates a virtual environment of Python, and returns its folder of programs.
fn environment(folder: &Path) -> PathBuf {
    run_or_panic(Command::new("python3").args(["-m", "venv"]).arg(folder));
    folder.join(if cfg!(windows) { "Scripts" } else { "bin" })
}

/// Installs the tools with pip. If that fails, prints a message and returns `None`.
fn tools(folder: &Path) -> Option<PathBuf> {
    if !programs::installed("python3") {
        return None;
    }
    let tools = environment(folder);
    let output = run(Command::new(tools.join("pip")).args(["install", "--quiet"]).args(TOOLS));
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        programs::not_run("pypi", &format!("pip cannot install {}: {stderr}", TOOLS.join(" and ")));
        return None;
    }
    Some(tools)
}

/// Builds the wheel of a crate into a new folder, and returns its path.
fn wheel(maturin: &Path, crate_name: &str, features: &[&str], folder: &Path) -> PathBuf {
    let manifest = format!("crates/{crate_name}/Cargo.toml");
    let mut maturin = Command::new(maturin);
    maturin.args(["build", "--locked", "--profile", "quick", "--manifest-path"]).arg(manifest);
    maturin.arg("--out").arg(folder).args(features).current_dir(root());
    // The build script of ring depends on these variables, and a test has other values than `cargo run`.
    for (name, _) in std::env::vars() {
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            maturin.env_remove(name);
        }
    }
    run_or_panic(&mut maturin);
    let mut files = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let (wheel, None) = (files.next().unwrap(), files.next()) else { panic!("several wheels") };
    wheel
}

#[test]
fn wheels_install_side_by_side_and_run() {
    let folder = tempfile::tempdir().unwrap();
    let Some(tools) = tools(&folder.path().join("tools")) else { return };
    let (root, maturin) = (root(), tools.join("maturin"));
    // Use few features and the profile of the README's first command, to reuse its artifacts. The checks of the module run JavaScript. A
    // released wheel has all features.
    let wheels = folder.path().join("program");
    let program = wheel(&maturin, "kindlm-cli", &["--features", "javascript"], &wheels);

    let expected = format!("kindlm {}\n", env!("CARGO_PKG_VERSION"));
    let programs = environment(&folder.path().join("project"));
    let mut pip = Command::new(programs.join("pip"));
    run_or_panic(pip.args(["install", "--quiet", "--no-index"]).arg(&program));
    let kindlm = programs.join("kindlm");
    assert_eq!(run_or_panic(Command::new(&kindlm).arg("--version")), expected);
    let mut test = Command::new(&kindlm);
    test.args(["test", "--no-journal", "-c", "fixtures/quickstart/broken.yaml"]).current_dir(&root);
    assert_eq!(run(&mut test).status.code(), Some(1));

    let mut uvx = Command::new(tools.join("uvx"));
    uvx.args(["--offline", "--no-index", "--no-cache", "--from"]).arg(&program);
    assert_eq!(run_or_panic(uvx.args(["kindlm", "--version"])), expected);

    let mut pip = Command::new(programs.join("pip"));
    let output = run(pip.args(["install", "--quiet", PYARROW]));
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        return programs::not_run("pypi", &format!("pip cannot install {PYARROW}: {stderr}"));
    }
    let features = ["--no-default-features", "--features", "javascript"];
    let module = wheel(&maturin, "kindlm-python", &features, &folder.path().join("module"));
    // One wheel is for all versions of Python from 3.10.
    assert!(module.to_string_lossy().contains("-cp310-abi3-"), "{}", module.display());
    let mut pip = Command::new(programs.join("pip"));
    run_or_panic(pip.args(["install", "--quiet", "--no-index"]).arg(&module));
    let mut checks = Command::new(programs.join("python"));
    checks.arg(root.join("crates/kindlm-python/tests/checks.py")).arg(&kindlm);
    assert_eq!(run_or_panic(&mut checks), "all checks hold\n");
}
