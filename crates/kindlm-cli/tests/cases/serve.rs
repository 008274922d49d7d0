//! `kindlm serve` starts the server that is installed.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the binary from this folder, so that only the files of the folder are beside it.
fn serve(folder: &Path, args: &[&str]) -> Output {
    run(folder, &[&["serve"], args].concat())
}

fn run(folder: &Path, args: &[&str]) -> Output {
    let program = folder.join("kindlm");
    if !program.exists() {
        std::fs::hard_link(env!("CARGO_BIN_EXE_kindlm"), &program).unwrap();
    }
    let mut command = Command::new(program);
    command.args(args).env("PATH", folder.join("path")).current_dir(folder);
    command.output().unwrap()
}

fn install(folder: &Path, name: &str) {
    std::fs::create_dir_all(folder).unwrap();
    let file = folder.join("kindlm-server");
    std::fs::write(&file, format!("#!/bin/sh\necho \"{name}: $*\"\nexit 7\n")).unwrap();
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn serve_passes_on_arguments_and_the_exit_code() {
    // A hard link must be on the same file system as the binary.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let output = serve(folder.path(), &["--listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("`kindlm-server` is not installed"), "{said}");
    assert!(said.contains("cargo install"), "{said}");
    for (place, name) in
        [(folder.path().join("path"), "path"), (folder.path().to_owned(), "beside")]
    {
        install(&place, name);
        let output = serve(folder.path(), &["--listen", "127.0.0.1:0", "-c", "kindlm.yaml"]);
        assert_eq!(output.status.code(), Some(7));
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, format!("{name}: --listen 127.0.0.1:0 -c kindlm.yaml\n"));
    }
}

#[test]
fn token_runs_the_command_of_the_server() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    install(folder.path(), "server");
    for args in [&["list"][..], &["create", "ci", "--scopes", "evaluate,read"]] {
        let output = run(folder.path(), &[&["token"], args].concat());
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, format!("server: token {}\n", args.join(" ")));
    }
}
