//! Finds circular dependencies between the files of a crate.
//!
//! A dependency is circular if file A uses an item of file B, and B uses an item of A, itself or through other files.
//!
//! A module and its submodules may depend on each other, because the module lists them and defines their common items.

use std::path::{Path, PathBuf};

use anyhow::Result;
use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use crate::references::{self, ModulePath, Modules};

/// Returns the circular dependencies between the files of a crate.
///
/// Each is a sorted list of files, named by their module paths, such as `b::c`. Fails if a file cannot be read or
/// parsed.
pub(crate) fn of_crate(src: &Path, files: &[PathBuf]) -> Result<Vec<Vec<String>>> {
    Ok(circles(&references::read_modules(src, files)?))
}

fn circles(modules: &Modules) -> Vec<Vec<String>> {
    let names: Vec<&ModulePath> = modules.keys().collect();
    let mut graph = DiGraphMap::<usize, ()>::new();
    for (from, path) in modules.keys().enumerate() {
        for target in references::used(modules, path) {
            let is_related = target.starts_with(path) || path.starts_with(&target);
            if let Some(to) = names.iter().position(|it| **it == target).filter(|_| !is_related) {
                graph.add_edge(from, to, ());
            }
        }
    }
    let found = tarjan_scc(&graph).into_iter().filter(|it| it.len() > 1);
    let mut circles: Vec<Vec<String>> = found
        .map(|circle| {
            let mut files: Vec<String> =
                circle.iter().filter_map(|it| Some(names.get(*it)?.join("::"))).collect();
            files.sort();
            files
        })
        .collect();
    circles.sort();
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let mut paths = Vec::new();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            paths.push(path);
        }
        of_crate(folder.path(), &paths).unwrap()
    }

    #[test]
    fn files_that_need_each_other_are_found() {
        let a = ("a.rs", "use crate::b::B;\npub struct A;");
        for b in [
            "use crate::a::A;\npub struct B;",
            "use super::a;\npub struct B;\nfn f() -> a::A { a::A }",
            "pub struct B;\nfn f(_: crate::a::A) {}",
            "use crate::a::*;\npub struct B;",
            "pub struct B;\nfn f() { let _ = vec![crate::a::A]; }",
            "pub struct B;\nfn f() { assert!(matches!(B, _) && size_of::<B>() == g(crate::a::A)); }",
            "pub use crate::a::A;\npub struct B;",
        ] {
            assert_eq!(
                find_circles(&[("lib.rs", "mod a; mod b;"), a, ("b.rs", b)]),
                [["a", "b"]],
                "{b}"
            );
        }
    }

    #[test]
    fn a_facade_is_no_part_of_a_circle() {
        let lib = ("lib.rs", "mod a; mod b;\npub use a::A;\npub use b::B;");
        let a = ("a.rs", "pub struct A;");
        let b = ("b/mod.rs", "mod c;\npub use c::B;");
        let c = ("b/c.rs", "use crate::A;\npub struct B(A);");
        assert!(find_circles(&[lib, a, b, c]).is_empty());
        let a = ("a.rs", "use crate::B;\npub struct A(B);");
        assert_eq!(find_circles(&[lib, a, b, c]), [["a", "b::c"]]);
    }

    #[test]
    fn re_exports_of_modules_and_of_other_files_are_followed() {
        let b = ("b.rs", "use crate::a::A;\npub struct B;");
        for (shared, a) in [
            (("shared/mod.rs", "pub(crate) use crate::b;"), "use crate::shared::b::B;"),
            (
                ("shared/mod.rs", "pub(crate) use crate::b;"),
                "use crate::shared::b;\nfn f(_: b::B) {}",
            ),
            (("shared.rs", "pub(crate) use crate::b::B;"), "use crate::shared::B;"),
            (("shared.rs", "use crate::b;\npub(crate) use b::B;"), "use crate::shared::B;"),
        ] {
            let a = format!("{a}\npub struct A;");
            let files = [("lib.rs", "mod a; mod b; mod shared;"), ("a.rs", a.as_str()), b, shared];
            assert_eq!(find_circles(&files), [["a", "b"]], "{shared:?} {a}");
        }
    }

    #[test]
    fn tests_of_a_file_do_not_count() {
        let a = ("a.rs", "use crate::b::B;\npub struct A;");
        for (condition, is_for_tests) in [
            ("test", true),
            ("all(test, unix)", true),
            ("all(feature = \"x\", all(unix, test))", true),
            ("any(test, unix)", false),
            ("not(test)", false),
            ("all(unix, not(test))", false),
            ("feature = \"test\"", false),
        ] {
            let b = format!("pub struct B;\n#[cfg({condition})]\nmod tests {{ use crate::a::A; }}");
            let found = find_circles(&[("lib.rs", "mod a; mod b;"), a, ("b.rs", b.as_str())]);
            assert_eq!(found.is_empty(), is_for_tests, "{condition}");
        }
        for b in [
            "#[cfg(test)]\nuse crate::a::A;\npub struct B;",
            "pub struct B;\n#[cfg(test)]\nfn f(_: crate::a::A) {}",
            "pub struct B;\nimpl B {\n#[cfg(test)]\nfn f(_: crate::a::A) {}\n}",
        ] {
            let found = find_circles(&[("lib.rs", "mod a; mod b;"), a, ("b.rs", b)]);
            assert!(found.is_empty(), "{b}");
        }
    }
}
