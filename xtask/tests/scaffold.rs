//! Creates a registry entry in a copy of the workspace.
//!
//! The entry must compile, and a missing part must be reported.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A copy of the workspace's sources.
///
/// The copy shares the target folder, to reuse the compiled dependencies. Cargo identifies crates of a workspace by
/// relative path, so the copy's artifacts replace the real ones.
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
        for name in ["Cargo.toml", "Cargo.lock", "clippy.toml", "ARCHITECTURE.md"] {
            std::fs::copy(root.join(name), folder.join(name)).unwrap();
        }
        for name in ["crates", "xtask", "schemas", "fixtures"] {
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
    }
    let (ok, said) = scratch.xtask(&["tidy"]);
    assert!(ok, "tidy after `new`: {said}");

    // The examples of the scaffold and the tests of the registry pass, without warnings.
    let arguments = ["test", "--quiet", "-p", "kindlm-assertions", "--test", "it"];
    let blessed =
        scratch.cargo_with(&arguments, &[("KINDLM_BLESS", "1"), ("INSTA_UPDATE", "always")]);
    assert!(blessed.status.success(), "{}", text(&blessed));
    let output = scratch.cargo(&arguments);
    assert!(output.status.success(), "{}", text(&output));
    let page = std::fs::read_to_string(
        scratch.path("crates/kindlm-assertions/src/text/zz_example/docs.md"),
    );
    assert!(page.unwrap().contains("fail  0  ZZ_EXAMPLE_FAILED"), "the page shows what was found");
    for package in ["kindlm-engine", "kindlm-providers", "kindlm-reporters"] {
        // A codec needs no features of `kindlm-providers`. Features would double the build time.
        let output = scratch.cargo(&["check", "--quiet", "--no-default-features", "-p", package]);
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{package}: {}",
            text(&output)
        );
    }
    forget(&scratch);
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
    assert!(!output.status.success() && said.contains("ZZ_EXAMPLE_FAILED"), "{said}");
}

#[test]
fn refuses_an_existing_name_and_a_bad_one() {
    let scratch = Scratch::new("refused");
    for (name, advice) in [
        ("safety/keywords", "exists already"),
        ("text/Key_Words", "kebab-case"),
        ("key-words", "say its group, such as `text/key-words`"),
        ("words/key-words", "there is no group `words`"),
    ] {
        let (ok, said) = scratch.xtask(&["new", "assertion", name]);
        assert!(!ok && said.contains(advice), "{name}: {said}");
    }
}
