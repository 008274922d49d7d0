//! Checks rules of this repository that the compiler does not check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::registries::{self, ASSERTIONS, Entry, Kind, Piece};
use crate::{circles, entry_uses};

/// The crates that a crate must not depend on, even indirectly.
///
/// For example, a program that uses one check must not need an HTTP client. The first text of a pair is the name of the
/// crate; options of `cargo tree` may follow the name.
const FORBIDDEN: [(&str, &[&str]); 23] = [
    ("kindlm-types", &["tokio", "reqwest", "serde_yaml", "yaml_serde", "regex", "jsonschema"]),
    ("kindlm-wire", &["tokio", "reqwest", "regex", "jsonschema"]),
    ("kindlm-template", &["tokio", "reqwest", "yaml_serde", "jsonschema", "clap"]),
    ("kindlm-schema", &["tokio", "reqwest", "yaml_serde"]),
    ("kindlm-agents --no-default-features", &["tokio", "reqwest", "rustix", "regex"]),
    ("kindlm-process", &["kindlm-types", "serde", "reqwest"]),
    ("kindlm-assertions", &["tokio", "reqwest", "yaml_serde", "granit-parser", "clap"]),
    (
        "kindlm-providers --no-default-features",
        &["tokio", "reqwest", "rustls", "rmcp", "jsonschema"],
    ),
    (
        "kindlm-transport --no-default-features",
        &["tokio", "reqwest", "rustls", "regex", "jsonschema"],
    ),
    ("kindlm-engine", &["reqwest", "rustls", "yaml_serde", "granit-parser", "clap"]),
    // A plain build must not compile QuickJS, HTTP/2 and the signatures of AWS: they take 21 seconds of CPU time.
    ("kindlm-cli", &["rquickjs", "h2", "aws-sigv4"]),
    ("kindlm-config", &["reqwest", "rustls", "rmcp", "clap"]),
    ("kindlm-reporters", &["tokio", "reqwest", "yaml_serde", "jsonschema", "clap"]),
    ("kindlm-script", &["reqwest", "rustls", "yaml_serde", "jsonschema", "clap"]),
    ("kindlm-mutate", &["tokio", "reqwest", "kindlm-assertions", "clap"]),
    ("kindlm-otlp", &["tokio", "hyper", "reqwest", "opentelemetry", "clap"]),
    ("kindlm-redact", &["kindlm-types", "regex", "tokio"]),
    ("kindlm-promptfoo", &["tokio", "reqwest", "kindlm-engine", "clap"]),
    ("kindlm-source", &["tokio", "reqwest", "yaml_serde", "kindlm-assertions", "clap"]),
    ("kindlm-stats", &["serde", "kindlm-types", "nalgebra"]),
    ("kindlm-workspace", &["reqwest", "yaml_serde", "jsonschema", "clap"]),
    // A plain build must not compile the typesetter `typst`, because this takes minutes.
    ("kindlm-run", &["clap", "indicatif", "terminal_size", "typst"]),
    ("kindlm-store", &["tokio", "reqwest", "yaml_serde", "jsonschema", "clap"]),
];

/// The maximum number of code lines in the binary, including unit tests, without blank lines and comments.
const BINARY_LINES: usize = 3_500;

/// Returns all violations of the rules, each with its advice. Fails if a file cannot be read, or if `cargo tree` fails.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for kind in Kind::ALL {
        findings.extend(check_registry(root, kind)?);
        findings.extend(check_entry_uses(root, kind)?);
    }
    findings.extend(check_assertion_groups(root)?);
    findings.extend(check_module_docs(root)?);
    findings.extend(check_architecture(root)?);
    findings.extend(check_floors(root)?);
    findings.extend(check_dependencies(root)?);
    findings.extend(check_features(root)?);
    findings.extend(check_binary_size(root)?);
    findings.extend(check_circles(root)?);
    Ok(findings)
}

/// Checks that the files of each crate have no circular dependencies.
fn check_circles(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for item in std::fs::read_dir(root.join("crates"))? {
        let folder = item?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let src = folder.join("src");
        for circle in circles::of_crate(&src, &sources(&src)?)? {
            let files = circle.join(", ");
            findings.push(format!(
                "{name}: these files need each other: {files}; move what they share into a file below them"
            ));
        }
    }
    findings.sort();
    Ok(findings)
}

/// Checks that every entry of a registry is complete: code, page, `mod` line, slice entry.
pub(crate) fn check_registry(root: &Path, kind: Kind) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for path in kind.files(root)? {
        let file = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        for Entry { module, missing } in registries::entries(&path)? {
            for piece in missing {
                findings.push(format!("{folder}/{module}: {}", advice(piece, &module, &file)));
            }
        }
    }
    Ok(findings)
}

/// Checks that no entry of a registry uses another entry.
fn check_entry_uses(root: &Path, kind: Kind) -> Result<Vec<String>> {
    let src = root.join("crates").join(kind.package()).join("src");
    entry_uses::check(root, kind, &src, &sources(&src)?)
}

/// Checks the folders of the assertions.
///
/// The source folder of the crate may contain only `lib.rs` and folders. Only the folders of groups may contain
/// assertions. `shared` must not use `core`, `core` must not use a group, and a group must not use another group.
fn check_assertion_groups(root: &Path) -> Result<Vec<String>> {
    let groups = Kind::Assertion.files(root)?;
    let mut findings = Vec::new();
    for item in std::fs::read_dir(root.join(ASSERTIONS))? {
        let path = item?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() && name != "lib.rs" {
            findings.push(format!(
                "{ASSERTIONS}/{name}: move it into `core`, into `shared`, or into the group that uses it"
            ));
        }
        if path.is_file() {
            continue;
        }
        let is_group = groups.contains(&path.join("mod.rs"));
        for file in sources(&path)? {
            let text = std::fs::read_to_string(&file)?;
            let file = file.strip_prefix(root).unwrap_or(&file).display();
            if !is_group && text.contains("static REGISTRATION: Registration") {
                findings.push(format!("{file}: an assertion belongs into a group"));
            }
            if let Some(other) = higher_folder(&name, &text) {
                findings.push(format!(
                    "{file}: `{name}` must not use `{other}`; move what both use into `core` or `shared`"
                ));
            }
        }
    }
    Ok(findings)
}

/// Returns the first folder that the code of a file in `folder` uses, but must not use.
fn higher_folder<'t>(folder: &str, text: &'t str) -> Option<&'t str> {
    let lower: &[&str] = match folder {
        "shared" => &[],
        "core" => &["shared"],
        _ => &["core", "shared"],
    };
    let used = text.split("crate::").skip(1).flat_map(|it| match it.strip_prefix('{') {
        Some(group) => paths_of(group),
        None => vec![it],
    });
    let folders = used.filter_map(|it| it.split_once("::").map(|it| it.0));
    let mut folders = folders.filter(|it| it.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    folders.find(|it| *it != folder && !lower.contains(it))
}

/// Returns the paths in a group of imports. `group` starts after the opening brace.
fn paths_of(group: &str) -> Vec<&str> {
    let (mut paths, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, it) in group.char_indices() {
        match it {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                paths.push(group[start..at].trim());
                start = at + 1;
                if it == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    paths
}

fn advice(missing: Piece, module: &str, file: &str) -> String {
    match missing {
        Piece::Registration => {
            "no `pub(crate) static REGISTRATION: Registration` in mod.rs: write it, or remove the folder".to_owned()
        }
        Piece::Page => {
            "no docs.md: write the page, with an example for each failure code".to_owned()
        }
        Piece::ModLine => format!("not compiled: add `mod {module};` to {file}"),
        Piece::SliceLine => {
            format!("not registered: add `&{module}::REGISTRATION,` to `REGISTRY` in {file}")
        }
    }
}

/// Checks that every source file begins with a module doc.
fn check_module_docs(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in rust_files(root)? {
        let text = std::fs::read_to_string(&file)?;
        let first = text.lines().find(|line| !line.is_empty() && !line.starts_with("#!["));
        if !first.is_some_and(|line| line.starts_with("//!")) {
            let file = file.strip_prefix(root).unwrap_or(&file);
            findings
                .push(format!("{}: say what the file is for: begin with `//! …`", file.display()));
        }
    }
    Ok(findings)
}

fn rust_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = sources(&root.join("crates"))?;
    files.extend(sources(&root.join("xtask"))?);
    Ok(files)
}

/// Returns the Rust files below a folder, except those in `target`, `fixtures` and `templates`.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for item in std::fs::read_dir(&folder)? {
            let path = item?.path();
            let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
            if path.is_dir() && name != "target" && name != "fixtures" && name != "templates" {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Checks that ARCHITECTURE.md lists exactly the crates of the workspace.
fn check_architecture(root: &Path) -> Result<Vec<String>> {
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    let named: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split('`').next())
        .filter(|name| name.starts_with("kindlm-") || *name == "kindlm" || *name == "xtask")
        .collect();
    let mut exist: BTreeSet<String> = std::fs::read_dir(root.join("crates"))?
        .filter_map(|item| item.ok()?.file_name().into_string().ok())
        .collect();
    exist.insert("xtask".to_owned());
    let mut findings = Vec::new();
    for name in exist.iter().filter(|name| !named.contains(name.as_str())) {
        findings.push(format!("ARCHITECTURE.md: add a row for `{name}` to the table of crates"));
    }
    for name in named.iter().filter(|name| !exist.contains(**name)) {
        findings.push(format!("ARCHITECTURE.md: there is no crate `{name}`: remove its row"));
    }
    Ok(findings)
}

/// Checks that crates depend only on crates of lower floors.
///
/// The floors are in the table of crates in ARCHITECTURE.md.
fn check_floors(root: &Path) -> Result<Vec<String>> {
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let floors: BTreeMap<&str, u32> = rows
        .filter_map(|(name, rest)| Some((name, rest.split(' ').next()?.parse().ok()?)))
        .collect();
    let mut findings = Vec::new();
    for (name, floor) in &floors {
        let manifest = root.join("crates").join(name).join("Cargo.toml");
        if !manifest.is_file() {
            // `check_architecture` reports the row.
            continue;
        }
        let manifest = std::fs::read_to_string(manifest)?;
        for needed in needed_crates(&manifest) {
            let Some(below) = floors.get(needed) else {
                findings.push(format!(
                    "ARCHITECTURE.md: give `{needed}` a floor, as `{name}` depends on it"
                ));
                continue;
            };
            if below >= floor {
                findings.push(format!(
                    "{name} (floor {floor}) depends on {needed} (floor {below}): move what it needs to a lower crate, or correct the floors in ARCHITECTURE.md"
                ));
            }
        }
    }
    Ok(findings)
}

/// Returns the crates of this workspace under `[dependencies]` of a manifest.
fn needed_crates(manifest: &str) -> impl Iterator<Item = &str> {
    let lines = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    lines
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| name.starts_with("kindlm"))
}

/// Checks the size of the binary's code.
///
/// Returns a message if the code exceeds the maximum. The binary must contain only the code for arguments, streams and
/// progress.
fn check_binary_size(root: &Path) -> Result<Option<String>> {
    let mut lines = 0;
    for file in sources(&root.join("crates/kindlm-cli/src"))? {
        lines += code_lines(&std::fs::read_to_string(&file)?);
    }
    Ok((lines > BINARY_LINES).then(|| {
        format!(
            "crates/kindlm-cli/src: {lines} lines of code, and at most {BINARY_LINES} are allowed: move code that needs \
             neither arguments nor a terminal to `kindlm-run`"
        )
    }))
}

/// Counts the lines that are neither blank nor comments.
fn code_lines(text: &str) -> usize {
    text.lines().map(str::trim).filter(|it| !it.is_empty() && !it.starts_with("//")).count()
}

/// Returns a line for each crate that a package needs, in the format of `cargo tree`.
///
/// `package` may be followed by more arguments, separated by spaces.
fn tree(root: &Path, package: &str, format: &str) -> Result<String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["tree", "--edges", "normal", "--prefix", "none", "--format", format, "-p"])
        .args(package.split(' '))
        .output()?;
    if !output.status.success() {
        bail!("`cargo tree -p {package}` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Checks that `kindlm-types` enables no feature of `serde_json` that changes how JSON is read.
///
/// Such a feature would apply to the whole program that uses `kindlm-types`.
fn check_features(root: &Path) -> Result<Vec<String>> {
    let tree = tree(root, "kindlm-types", "{lib} {f}")?;
    let features = tree.lines().find_map(|line| line.strip_prefix("serde_json ")).unwrap_or("");
    let changes =
        features.split(',').filter(|it| !["default", "std", "alloc", "raw_value"].contains(it));
    Ok(changes
        .map(|it| format!("kindlm-types must not switch on the feature `{it}` of `serde_json`"))
        .collect())
}

/// Checks that crates do not depend on forbidden crates.
fn check_dependencies(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for (package, forbidden) in FORBIDDEN {
        let name = package.split(' ').next().unwrap_or_default();
        let tree = tree(root, package, "{p}")?;
        let all: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        for found in forbidden.iter().filter(|name| all.contains(**name)) {
            findings.push(format!(
                "{package} must not depend on `{found}`: see `cargo tree -p {name} --invert {found}`"
            ));
        }
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_for_tests_do_not_count() {
        let manifest = "[package]\nname = \"kindlm-a\"\n\n[dependencies]\nkindlm-b.workspace = true\n\
            kindlm-c = { workspace = true }\nserde.workspace = true\n\n[dev-dependencies]\nkindlm-d.workspace = true\n";
        assert_eq!(needed_crates(manifest).collect::<Vec<_>>(), ["kindlm-b", "kindlm-c"]);
    }

    #[test]
    fn folders_of_assertions_use_only_lower_ones() {
        for (folder, text, expected) in [
            ("shared", "use crate::core::grade::Grade;", Some("core")),
            ("shared", "use crate::shared::glob;", None),
            ("core", "use crate::text::contains::it;", Some("text")),
            ("text", "use crate::core::grade::Grade;\nuse crate::shared::glob;", None),
            ("text", "let it = crate::format::xml::parse(text);", Some("format")),
            ("text", "use crate::Registration;\nuse crate::{Assertion, Evidence};", None),
            ("text", "use crate::{Assertion, format::xml};", Some("format")),
            ("text", "use crate::{core::{grade::Grade, a::B}, format::xml};", Some("format")),
            ("text", "use crate::{core::{grade::Grade, a::B}, shared::glob};", None),
        ] {
            assert_eq!(higher_folder(folder, text), expected, "{folder}: {text}");
        }
    }

    #[test]
    fn rows_without_a_crate_are_findings() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("crates")).unwrap();
        let page =
            "| `kindlm-gone` | 1 | a part | yes |\n| `xtask` | – | developer tasks | yes |\n";
        std::fs::write(root.path().join("ARCHITECTURE.md"), page).unwrap();
        let findings = check_architecture(root.path()).unwrap();
        assert_eq!(findings, ["ARCHITECTURE.md: there is no crate `kindlm-gone`: remove its row"]);
        assert_eq!(check_floors(root.path()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn blank_lines_and_comments_are_no_code() {
        for (text, expected) in [("", 0), ("//! A.\n\n  /// B\nfn a() {\n    // C\n}\n", 2)] {
            assert_eq!(code_lines(text), expected, "{text}");
        }
    }

    #[test]
    fn binary_that_is_too_large_is_a_finding() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("crates/kindlm-cli/src");
        std::fs::create_dir_all(&folder).unwrap();
        for (lines, has_finding) in [(BINARY_LINES, false), (BINARY_LINES + 1, true)] {
            std::fs::write(folder.join("main.rs"), "x\n".repeat(lines)).unwrap();
            assert_eq!(check_binary_size(root.path()).unwrap().is_some(), has_finding, "{lines}");
        }
    }
}
