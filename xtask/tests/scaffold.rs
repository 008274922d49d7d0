//! Creates a registry entry in a copy of the workspace.
//!
//! The entry must compile, and a missing part must be reported.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A copy of the workspace's sources.
///
/// The copy shares the target folder, to reuse the compiled dependencies. Cargo identifies crates of a workspace by
/// relative path, so the copy's artifacts replace the real artifacts.
///
/// The copy is deleted at the end, because cargo rebuilds crates whose sources are missing. Otherwise cargo would use
/// the copy's artifacts for the real crates.
struct Scratch {
    folder: PathBuf,
    target: PathBuf,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Scratch {
    fn new(name: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
        let folder = target.join("scratch").join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        for name in
            ["Cargo.toml", "Cargo.lock", "clippy.toml", "ARCHITECTURE.md", "CONTRIBUTING.md"]
        {
            std::fs::copy(root.join(name), folder.join(name)).unwrap();
        }
        for name in ["crates", "docs", "xtask", "schemas", "fixtures"] {
            copy(&root.join(name), &folder.join(name));
        }
        Self { folder, target }
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.folder.join(relative)
    }

    fn cargo(&self, arguments: &[&str]) -> Output {
        self.cargo_with(arguments, &[])
    }

    fn cargo_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        Command::new(env!("CARGO"))
            .current_dir(&self.folder)
            .env_remove("KINDLM_BLESS")
            .env("INSTA_UPDATE", "no")
            .env("CARGO_TARGET_DIR", &self.target)
            .envs(variables.iter().copied())
            .args(arguments)
            .output()
            .unwrap()
    }

    /// Runs the xtask binary on the copy; returns true if it succeeded, and its output.
    fn xtask(&self, arguments: &[&str]) -> (bool, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .current_dir(&self.folder)
            .env("XTASK_ROOT", &self.folder)
            .args(arguments)
            .output()
            .unwrap();
        (output.status.success(), text(&output))
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for item in std::fs::read_dir(from).unwrap() {
        let item = item.unwrap();
        let target = to.join(item.file_name());
        if item.file_type().unwrap().is_dir() {
            copy(&item.path(), &target);
        } else {
            std::fs::copy(item.path(), target).unwrap();
        }
    }
}

#[test]
fn new_entries_compile_and_pass_and_a_forgotten_piece_is_found() {
    let scratch = Scratch::new("new");
    for (kind, name) in [
        ("assertion", "text/zz-example"),
        ("gate", "zzExampleMax"),
        ("provider", "zz-example"),
        ("reporter", "zz-example"),
    ] {
        let (ok, said) = scratch.xtask(&["new", kind, name]);
        assert!(ok, "new {kind} {name}: {said}");
        every_new_file_is_listed(&scratch, &said);
    }
    let (ok, said) = scratch.xtask(&["tidy"]);
    assert!(ok, "tidy after `new`: {said}");

    // The entries pass the tests of their crates as made, without warnings.
    for package in ["kindlm-assertions", "kindlm-engine", "kindlm-providers", "kindlm-reporters"] {
        let output = scratch.cargo(&["test", "--quiet", "-p", package, "--test", "it"]);
        let said = text(&output);
        assert!(output.status.success() && !said.contains("warning:"), "{package}: {said}");
    }
    forget(&scratch);
}

/// Checks that `new` listed the registry's file, all files of the folder that it made, and the test of the entry with
/// its `mod` line.
fn every_new_file_is_listed(scratch: &Scratch, said: &str) {
    let listed: Vec<&str> = said.lines().filter_map(|it| it.strip_prefix("made ")).collect();
    let folder = Path::new(listed[0]).parent().unwrap();
    let mut expected = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for item in std::fs::read_dir(scratch.folder.join(&folder)).unwrap() {
            let item = item.unwrap();
            let path = folder.join(item.file_name());
            if item.file_type().unwrap().is_dir() {
                open.push(path);
            } else {
                expected.push(path.display().to_string());
            }
        }
    }
    let (tests, mut listed): (Vec<String>, Vec<String>) =
        listed.iter().map(|it| (*it).to_owned()).partition(|it| it.contains("/tests/it/"));
    for test in tests {
        let path = scratch.path(&test);
        assert!(path.is_file(), "{test}");
        let module = path.file_stem().unwrap().to_str().unwrap();
        let main = std::fs::read_to_string(path.with_file_name("main.rs")).unwrap();
        assert!(main.lines().any(|it| it == format!("mod {module};")), "{test}: {main}");
        assert!(said.contains("/tests/it/main.rs: a `mod` line"), "{said}");
    }
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected);
    assert!(said.lines().any(|it| it.starts_with("changed crates/")), "{said}");
}

/// Removes each part of a complete entry in turn, and checks that its absence is reported.
fn forget(scratch: &Scratch) {
    let folder = scratch.path("crates/kindlm-assertions/src/text/zz_example");
    let registry = scratch.path("crates/kindlm-assertions/src/text/mod.rs");
    let whole = std::fs::read_to_string(&registry).unwrap();

    for (what, without, advice) in [
        (
            "the line of the slice",
            whole.replace("    &zz_example::REGISTRATION,\n", ""),
            "not registered: add `&zz_example::REGISTRATION,` to `REGISTRY` in crates/kindlm-assertions/src/text/mod.rs",
        ),
        (
            "the `mod` line",
            whole.replace("mod zz_example;\n", ""),
            "not compiled: add `mod zz_example;` to crates/kindlm-assertions/src/text/mod.rs",
        ),
    ] {
        assert_ne!(without, whole, "{what} was there");
        std::fs::write(&registry, without).unwrap();
        let (ok, said) = scratch.xtask(&["tidy"]);
        assert!(!ok && said.contains(advice), "without {what}: {said}");
    }
    std::fs::write(&registry, &whole).unwrap();

    let page = std::fs::read_to_string(folder.join("docs.md")).unwrap();
    std::fs::remove_file(folder.join("docs.md")).unwrap();
    let (ok, said) = scratch.xtask(&["tidy"]);
    assert!(!ok && said.contains("no docs.md: write the page"), "{said}");

    // The tests of the registry fail for a failure code without an example on the page.
    let (first, _) = page.split_once("```yaml expect").unwrap();
    std::fs::write(folder.join("docs.md"), first).unwrap();
    let output = scratch.cargo(&["test", "--quiet", "-p", "kindlm-assertions", "--test", "it"]);
    let said = text(&output);
    assert!(
        !output.status.success()
            && said.contains("`zz-example`: no example gives `ASSERTION_FAILED`"),
        "{said}"
    );
}

#[test]
fn refuses_an_existing_name_and_a_bad_one() {
    let scratch = Scratch::new("refused");
    for (name, advice) in [
        ("safety/keywords", "exists already"),
        ("text/Key_Words", "kebab-case"),
        ("key-words", "add its group, such as `text/key-words`"),
        ("words/key-words", "there is no group `words`"),
    ] {
        let (ok, said) = scratch.xtask(&["new", "assertion", name]);
        assert!(!ok && said.contains(advice), "{name}: {said}");
    }
}
