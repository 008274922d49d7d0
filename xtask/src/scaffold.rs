//! Creates the folder of a new registry entry, and adds its `mod` line and its line in `REGISTRY`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::registries::Kind;

/// The files of a new entry, with placeholders such as `{{id}}`.
struct Template {
    code: &'static str,
    page: &'static str,
    /// The paths and contents of the other files.
    extra: &'static [(&'static str, &'static str)],
    /// The content of the entry's file in `tests/it`; `None` if the tests of the crate cover every entry.
    test: Option<&'static str>,
}

fn template(kind: Kind) -> Template {
    match kind {
        Kind::Assertion => Template {
            code: include_str!("../templates/assertion/mod.rs.txt"),
            page: include_str!("../templates/assertion/docs.md"),
            extra: &[],
            test: None,
        },
        Kind::Gate => Template {
            code: include_str!("../templates/gate/mod.rs.txt"),
            page: include_str!("../templates/gate/docs.md"),
            extra: &[],
            test: None,
        },
        Kind::Provider => Template {
            code: include_str!("../templates/provider/mod.rs.txt"),
            page: include_str!("../templates/provider/docs.md"),
            extra: &[
                ("exchanges/text.json", include_str!("../templates/provider/text.json")),
                ("exchanges/tool-call.json", include_str!("../templates/provider/tool-call.json")),
                (
                    "exchanges/structured.json",
                    include_str!("../templates/provider/structured.json"),
                ),
                ("exchanges/refusal.json", include_str!("../templates/provider/refusal.json")),
                (
                    "exchanges/error-auth.json",
                    include_str!("../templates/provider/error-auth.json"),
                ),
            ],
            test: None,
        },
        Kind::Reporter => Template {
            code: include_str!("../templates/reporter/mod.rs.txt"),
            page: include_str!("../templates/reporter/docs.md"),
            extra: &[],
            test: Some(include_str!("../templates/reporter/test.rs.txt")),
        },
    }
}

/// Creates the files and lines of a new entry. Fails if the name is invalid, if the entry exists, or if a disk
/// operation fails.
///
/// Returns a line for each file that was created or changed, and a line with the next step.
pub(crate) fn new(root: &Path, kind: Kind, name: &str) -> Result<Vec<String>> {
    let (file, id) = place(root, kind, name)?;
    let names = Names::new(id, kind)?;
    let folder = file.parent().context("a file has a folder")?.join(&names.module);
    if folder.exists() {
        bail!("{} exists already", folder.display());
    }
    let source = std::fs::read_to_string(&file)?;
    let source = add_lines(&source, &names.module, kind)?;

    let template = template(kind);
    let pages = [("mod.rs", template.code), ("docs.md", template.page)];
    let mut made: Vec<(PathBuf, &str)> =
        pages.iter().chain(template.extra).map(|(name, text)| (folder.join(name), *text)).collect();
    let mut changed = vec![(file, source, "a `mod` line and a line of `REGISTRY`")];
    if let Some(text) = template.test {
        let tests = root.join("crates").join(kind.package()).join("tests/it");
        let (test, main) = (tests.join(format!("{}.rs", names.module)), tests.join("main.rs"));
        if test.exists() {
            bail!("{} exists already", test.display());
        }
        let source = std::fs::read_to_string(&main)?;
        let mut lines: Vec<String> = source.lines().map(str::to_owned).collect();
        let end = lines.len();
        add_mod(&mut lines, &names.module, end);
        made.push((test, text));
        changed.push((main, lines.join("\n") + "\n", "a `mod` line"));
    }
    let mut lines = write(root, &names, &made, &changed)?;
    let parts = match template.test {
        Some(_) => "the logic, the page and the test",
        None => "the logic and the page",
    };
    lines.push(format!(
        "next: write {parts}, then `cargo xtask bless {id} && cargo test -p {}`",
        kind.package()
    ));
    Ok(lines)
}

/// Writes the made files (path and template) and the changed files (path, text and change). Returns a line for each.
fn write(
    root: &Path,
    names: &Names,
    made: &[(PathBuf, &str)],
    changed: &[(PathBuf, String, &str)],
) -> Result<Vec<String>> {
    let show = |path: &Path| path.strip_prefix(root).unwrap_or(path).display().to_string();
    let mut lines = Vec::new();
    for (path, text) in made {
        std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        std::fs::write(path, names.fill(text))?;
        lines.push(format!("made {}", show(path)));
    }
    for (path, text, change) in changed {
        std::fs::write(path, text)?;
        lines.push(format!("changed {}: {change}", show(path)));
    }
    Ok(lines)
}

/// Returns the file of the registry, and the id.
///
/// The name of an assertion begins with its group: `text/word-count`. Fails without a group, or with an unknown group.
fn place<'n>(root: &Path, kind: Kind, name: &'n str) -> Result<(PathBuf, &'n str)> {
    let files = kind.files(root)?;
    if kind != Kind::Assertion {
        return Ok((files.into_iter().next().context("a registry has a file")?, name));
    }
    let groups: Vec<String> = files
        .iter()
        .filter_map(|it| Some(it.parent()?.file_name()?.to_str()?.to_owned()))
        .collect();
    let (group, id) = name.split_once('/').with_context(|| {
        format!("`{name}`: add its group, such as `text/{name}`; groups: {}", groups.join(", "))
    })?;
    let at = groups.iter().position(|it| it == group).with_context(|| {
        format!("there is no group `{group}` of assertions; groups: {}", groups.join(", "))
    })?;
    Ok((files[at].clone(), id))
}

/// The spellings of one name.
struct Names {
    /// The id for users: `word-count`, or `wordCountMax` for a gate.
    id: String,
    /// The module name: `word_count`.
    module: String,
    /// The type name: `WordCount`.
    type_name: String,
    /// The prefix of failure codes and constants: `WORD_COUNT`.
    code: String,
}

impl Names {
    fn new(id: &str, kind: Kind) -> Result<Self> {
        let camel = kind == Kind::Gate;
        let allowed = |c: char| {
            c.is_ascii_lowercase()
                || c.is_ascii_digit()
                || if camel { c.is_ascii_uppercase() } else { c == '-' }
        };
        let begins = id.starts_with(|c: char| c.is_ascii_lowercase());
        if !begins || !id.chars().all(allowed) || id.ends_with('-') || id.contains("--") {
            let example =
                if camel { "camelCase like `tokensMax`" } else { "kebab-case like `word-count`" };
            bail!("`{id}` is not a good name: the ids of {kind:?}s are {example}");
        }
        let module = kind.module(id);
        let type_name =
            module.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
        Ok(Self { id: id.to_owned(), code: module.to_uppercase(), module, type_name })
    }

    /// Replaces the placeholders of a template. The version is the version of the workspace, which is the next release.
    fn fill(&self, template: &str) -> String {
        template
            .replace("{{id}}", &self.id)
            .replace("{{module}}", &self.module)
            .replace("{{Type}}", &self.type_name)
            .replace("{{CODE}}", &self.code)
            .replace("{{version}}", env!("CARGO_PKG_VERSION"))
    }
}

/// Returns the name of the module that a `mod` line declares; `None` for another line.
fn module_of(line: &str) -> Option<&str> {
    let line =
        line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
    line.strip_prefix("mod ")?.strip_suffix(';')
}

/// Adds `mod x;` in alphabetical order, and `&x::REGISTRATION` to the slice.
///
/// The order of assertions and gates matters, so new entries are added at the end of the slice. The slices of providers
/// and reporters are sorted.
fn add_lines(source: &str, module: &str, kind: Kind) -> Result<String> {
    let mut lines: Vec<String> = source.lines().map(str::to_owned).collect();
    let registry = lines
        .iter()
        .position(|line| line.contains("static REGISTRY"))
        .context("the registry's file has no `static REGISTRY`")?;
    add_mod(&mut lines, module, registry);

    let text = lines.join("\n") + "\n";
    let start = text.find("static REGISTRY").context("no `static REGISTRY`")?;
    let equals = start + text[start..].find('=').context("no `=` after `REGISTRY`")?;
    let open = equals + text[equals..].find("&[").context("no `&[` after `REGISTRY`")? + 2;
    let close = open + text[open..].find("];").context("no `];` after `REGISTRY`")?;
    let mut entries: Vec<String> = text[open..close]
        .split(',')
        .map(|entry| entry.trim().to_owned())
        .filter(|entry| !entry.is_empty())
        .collect();
    entries.push(format!("&{module}::REGISTRATION"));
    if matches!(kind, Kind::Provider | Kind::Reporter) {
        entries.sort();
    }
    let list = entries.join(",\n    ");
    Ok(format!("{}\n    {list},\n{}", &text[..open], &text[close..]))
}

/// Adds `mod x;` in alphabetical order to the last block of `mod` lines above the line with the index `end`.
fn add_mod(lines: &mut Vec<String>, module: &str, end: usize) {
    // Attributes and comments belong to the line below them.
    let is_above = |line: &String| line.starts_with("#[") || line.starts_with("//");
    let start_of =
        |line: usize| line - lines[..line].iter().rev().take_while(|it| is_above(it)).count();
    // The entries are in the last block. Other modules may be in earlier blocks.
    let place = match lines[..end].iter().rposition(|line| module_of(line).is_some()) {
        None => start_of(end),
        Some(last) => {
            let in_block = |line: &String| module_of(line).is_some() || is_above(line);
            let first =
                last + 1 - lines[..=last].iter().rev().take_while(|it| in_block(it)).count();
            // A comment at the beginning belongs to the whole block.
            let comments = lines[first..].iter().take_while(|it| it.starts_with("//")).count();
            let first = first + comments;
            // rustfmt sorts by the name, even if some lines begin with `pub`.
            (first..=last)
                .find(|&at| module_of(&lines[at]).is_some_and(|it| it > module))
                .map_or(last + 1, |at| start_of(at).max(first))
        }
    };
    lines.insert(place, format!("mod {module};"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_form_for_modules_types_and_codes() {
        let names = Names::new("word-count", Kind::Assertion).unwrap();
        assert_eq!((names.module.as_str(), names.type_name.as_str()), ("word_count", "WordCount"));
        assert_eq!(names.code, "WORD_COUNT");
        let names = Names::new("tokensMax", Kind::Gate).unwrap();
        assert_eq!((names.module.as_str(), names.type_name.as_str()), ("tokens_max", "TokensMax"));
    }

    #[test]
    fn fills_every_placeholder_and_the_version() {
        let version = format!("since: \"{}\",", env!("CARGO_PKG_VERSION"));
        for kind in Kind::ALL {
            let names = Names::new("words", kind).unwrap();
            let Template { code, page, extra, test } = template(kind);
            let code = names.fill(code);
            assert!(code.contains(&version), "{kind:?}: {code}");
            let others = extra.iter().map(|it| it.1).chain(test).map(|it| names.fill(it));
            for text in [code, names.fill(page)].into_iter().chain(others) {
                assert!(!text.contains("{{"), "{kind:?}: {text}");
            }
        }
    }

    #[test]
    fn refuses_names_that_are_no_ids() {
        for (name, kind) in [
            ("WordCount", Kind::Assertion),
            ("word_count", Kind::Assertion),
            ("-x", Kind::Provider),
            ("x-", Kind::Reporter),
            ("a--b", Kind::Reporter),
            ("", Kind::Assertion),
            ("tokens-max", Kind::Gate),
        ] {
            assert!(Names::new(name, kind).is_err(), "{name}");
        }
    }

    #[test]
    fn adds_both_lines_in_their_places() {
        let source = "//! Doc.\n\nmod alpha;\nmod gamma;\n\npub static REGISTRY: &[&Registration] =\n    &[&gamma::REGISTRATION, &alpha::REGISTRATION];\n";
        let appended = add_lines(source, "beta", Kind::Assertion).unwrap();
        assert_eq!(
            appended,
            "//! Doc.\n\nmod alpha;\nmod beta;\nmod gamma;\n\npub static REGISTRY: &[&Registration] =\n    &[\n    &gamma::REGISTRATION,\n    &alpha::REGISTRATION,\n    &beta::REGISTRATION,\n];\n"
        );
        let gated = source.replace("mod alpha;", "#[cfg(unix)]\nmod alpha;");
        let first = add_lines(&gated, "able", Kind::Provider).unwrap();
        assert!(first.contains("\nmod able;\n#[cfg(unix)]\nmod alpha;\n"), "{first}");
        let public = source.replace("mod gamma;", "pub mod gamma;");
        let last = add_lines(&public, "zeta", Kind::Provider).unwrap();
        assert!(last.contains("pub mod gamma;\nmod zeta;\n"), "{last}");
        let blocks = source.replace("mod alpha;", "mod omega;\n\nmod alpha;");
        let second = add_lines(&blocks, "beta", Kind::Gate).unwrap();
        assert!(second.contains("mod omega;\n\nmod alpha;\nmod beta;\n"), "{second}");
        let headed = source.replace("mod alpha;", "// Entries.\nmod alpha;");
        let below = add_lines(&headed, "able", Kind::Reporter).unwrap();
        assert!(below.contains("// Entries.\nmod able;\nmod alpha;\n"), "{below}");
        let sorted = add_lines(source, "zeta", Kind::Reporter).unwrap();
        assert!(sorted.contains("mod gamma;\nmod zeta;\n"), "{sorted}");
        assert!(
            sorted.contains("    &alpha::REGISTRATION,\n    &gamma::REGISTRATION,\n    &zeta::"),
            "{sorted}"
        );
    }
}
