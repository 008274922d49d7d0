//! Finds registry entries that use another entry.
//!
//! Code that two entries need belongs in a module that is not an entry. A module that is not an entry may use entries.
//! Examples are the file with `REGISTRY`, and `client` in `kindlm-providers`, which selects an entry by its id.
//!
//! Tests do not count. [`references`] describes how uses are found, and the limit for `use module::*`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::references::{self, ModulePath};
use crate::registries::{self, Kind};

/// Returns a finding for each file of an entry that uses or re-exports an item of another entry.
///
/// `src` is the source folder of the registry's crate, and `files` are its files. Fails if a file cannot be read or
/// parsed, or if the registry has no entries.
pub(crate) fn check(root: &Path, kind: Kind, src: &Path, files: &[PathBuf]) -> Result<Vec<String>> {
    let entries = entries(root, kind, src)?;
    ensure!(!entries.is_empty(), "{}: the registry has no entries", kind.package());
    let modules = references::read_modules(src, files)?;
    let mut findings = BTreeSet::new();
    for path in modules.keys() {
        let Some(entry) = entry_of(&entries, path) else { continue };
        let mut targets = references::used(&modules, path);
        targets.extend(references::re_exported(&modules, path));
        let others = targets.iter().filter_map(|it| entry_of(&entries, it));
        for other in others.filter(|it| *it != entry) {
            let (file, other) = (path.join("::"), other.join("::"));
            findings.insert(format!(
                "{}: `{file}` uses the entry `{other}`: move what both use into a module that is no entry",
                kind.package()
            ));
        }
    }
    Ok(findings.into_iter().collect())
}

/// Returns the module paths of a registry's entries.
fn entries(root: &Path, kind: Kind, src: &Path) -> Result<Vec<ModulePath>> {
    let mut entries = Vec::new();
    for file in kind.files(root)? {
        let folder = file.parent().context("a file has a folder")?.strip_prefix(src)?;
        let group: ModulePath = folder.iter().map(|it| it.to_string_lossy().into_owned()).collect();
        for module in registries::listed(&file)? {
            entries.push(group.iter().cloned().chain([module]).collect());
        }
    }
    Ok(entries)
}

/// Returns the entry whose file or folder contains this module; `None` if the module belongs to no entry.
fn entry_of<'e>(entries: &'e [ModulePath], path: &ModulePath) -> Option<&'e ModulePath> {
    entries.iter().find(|it| path.starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the findings for a registry of providers with the entries `a` and `b`, and these other files.
    fn findings(others: &[(&str, &str)]) -> Vec<String> {
        let lib = "mod a; mod b; mod shared;\npub use b::B;\n\
            pub static REGISTRY: &[&Registration] = &[&a::REGISTRATION, &b::REGISTRATION];";
        let root = tempfile::tempdir().unwrap();
        let src = root.path().join("crates/kindlm-providers/src");
        let mut files = Vec::new();
        for (name, text) in [("lib.rs", lib), ("b/mod.rs", "pub struct B;")].iter().chain(others) {
            let path = src.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            files.push(path);
        }
        check(root.path(), Kind::Provider, &src, &files).unwrap()
    }

    #[test]
    fn entries_that_use_another_entry_are_found() {
        let expected = "kindlm-providers: `a` uses the entry `b`: move what both use into a module that is no entry";
        for text in [
            "use crate::b::B;",
            "use super::b;\nfn f(_: b::B) {}",
            "use crate::B;",
            "use crate::b::*;",
            "pub use crate::b::B;",
            "pub(crate) use crate::b;\nfn f(_: b::B) {}",
            "fn f(_: crate::b::B) {}",
            "fn f() { let _ = vec![crate::b::B]; }",
        ] {
            assert_eq!(findings(&[("a/mod.rs", text)]), [expected], "{text}");
            assert_eq!(findings(&[("a.rs", text)]), [expected], "{text}");
            let below = text.replace("super::", "super::super::");
            let below = findings(&[("a/mod.rs", "mod c;"), ("a/c.rs", below.as_str())]);
            assert_eq!(below, [expected.replace("`a`", "`a::c`")], "{text}");
        }
    }

    #[test]
    fn re_exports_in_other_files_do_not_hide_an_entry() {
        let expected = "kindlm-providers: `a` uses the entry `b`: move what both use into a module that is no entry";
        for (file, text, a) in [
            ("shared/mod.rs", "pub(crate) use crate::b;", "use crate::shared::b::B;"),
            ("shared/mod.rs", "pub(crate) use crate::b;", "fn f(_: crate::shared::b::B) {}"),
            ("shared/mod.rs", "pub(crate) use crate::b::B;", "use crate::shared::B;"),
            ("shared.rs", "pub(crate) use crate::b::B;", "use crate::shared::B;"),
            ("shared.rs", "pub(crate) use crate::b;", "use crate::shared::b::B;"),
            ("shared.rs", "use crate::b;\npub(super) use b::B;", "use crate::shared::B;"),
        ] {
            assert_eq!(findings(&[(file, text), ("a/mod.rs", a)]), [expected], "{file}: {text}");
        }
    }

    #[test]
    fn a_registry_without_entries_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let src = root.path().join("crates/kindlm-assertions/src");
        std::fs::create_dir_all(src.join("text")).unwrap();
        let err = check(root.path(), Kind::Assertion, &src, &[]).unwrap_err();
        assert_eq!(err.to_string(), "kindlm-assertions: the registry has no entries");
    }

    #[test]
    fn other_modules_are_no_entries() {
        for (file, text) in [
            ("a/mod.rs", "mod b;\nuse b::C;\nuse crate::a::b::D;\nuse crate::Registration;"),
            ("a/mod.rs", "use crate::shared::E;\nuse crate::shared::b::F;"),
            ("a/mod.rs", "use b::outside;\n#[cfg(test)]\nmod tests { use crate::b::B; }"),
            ("a/mod.rs", "#[cfg(test)]\nuse crate::b::B;\n#[cfg(test)]\nfn f(_: crate::b::B) {}"),
            ("shared.rs", "use crate::a::A;\nuse crate::b::B;"),
        ] {
            assert_eq!(findings(&[(file, text)]), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn entries_of_all_groups_of_assertions_count() {
        let root = tempfile::tempdir().unwrap();
        let src = root.path().join("crates/kindlm-assertions/src");
        let slice = |entry: &str| {
            format!(
                "mod {entry};\npub static REGISTRY: &[&Registration] = &[&{entry}::REGISTRATION];"
            )
        };
        let mut files = Vec::new();
        for (name, text) in [
            ("one/mod.rs", slice("tests")),
            // The name does not make a module a test.
            ("one/tests/mod.rs", "use crate::two::b::B;".to_owned()),
            ("two/mod.rs", slice("b")),
            ("two/b/mod.rs", "use super::Registration;\npub struct B;".to_owned()),
        ] {
            let path = src.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            files.push(path);
        }
        let findings = check(root.path(), Kind::Assertion, &src, &files).unwrap();
        assert_eq!(
            findings,
            [
                "kindlm-assertions: `one::tests` uses the entry `two::b`: move what both use into a module that is no entry"
            ]
        );
    }
}
