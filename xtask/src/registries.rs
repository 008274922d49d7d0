//! The paths of the registries, and the format of their entries in the source.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The registries of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// Checks of one execution.
    Assertion,
    /// Thresholds over a whole run.
    Gate,
    /// Codecs for the APIs of vendors.
    Provider,
    /// Renderers of the report.
    Reporter,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Assertion, Self::Gate, Self::Provider, Self::Reporter];

    /// Returns the files that hold the `mod` lines and the `REGISTRY` slice of a registry.
    ///
    /// The folders of the entries are next to these files. Assertions have one file for each group. Fails if the folder
    /// of the assertions cannot be read.
    pub(crate) fn files(self, root: &Path) -> Result<Vec<PathBuf>> {
        let one = match self {
            Self::Assertion => return assertion_groups(root),
            Self::Gate => "crates/kindlm-engine/src/gates/mod.rs",
            Self::Provider => "crates/kindlm-providers/src/lib.rs",
            Self::Reporter => "crates/kindlm-reporters/src/lib.rs",
        };
        Ok(vec![root.join(one)])
    }

    /// Returns the name of an entry's folder and module.
    ///
    /// `word-count` becomes `word_count`, and `judge:closedQA` becomes `judge_closedqa`. The gate `wordCountMax`
    /// becomes `word_count_max`.
    pub(crate) fn module(self, id: &str) -> String {
        let mut module = String::new();
        for c in id.chars() {
            if matches!(c, '-' | ':') {
                module.push('_');
            } else {
                if self == Self::Gate && c.is_ascii_uppercase() {
                    module.push('_');
                }
                module.push(c.to_ascii_lowercase());
            }
        }
        module
    }

    /// Returns the crate that contains the registry.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Assertion => "kindlm-assertions",
            Self::Gate => "kindlm-engine",
            Self::Provider => "kindlm-providers",
            Self::Reporter => "kindlm-reporters",
        }
    }
}

/// Returns the `mod.rs` files of the assertion groups. Each of these files contains a slice.
fn assertion_groups(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for item in std::fs::read_dir(root.join(ASSERTIONS))? {
        let file = item?.path().join("mod.rs");
        let source = std::fs::read_to_string(&file).unwrap_or_default();
        if slice_of(&source).is_some() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// The source folder of the assertions.
pub(crate) const ASSERTIONS: &str = "crates/kindlm-assertions/src";

/// A required part of a registry entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// `REGISTRATION` in `mod.rs`.
    Registration,
    /// `docs.md`.
    Page,
    /// The `mod` line.
    ModLine,
    /// The entry in the slice.
    SliceLine,
}

/// A folder of a registry entry, with the parts that the entry lacks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) module: String,
    pub(crate) missing: Vec<Piece>,
}

/// Returns the complete and incomplete entries in the folders next to a registry's file. Fails if the file has no
/// registry, or if the disk cannot be read.
pub(crate) fn entries(file: &Path) -> Result<Vec<Entry>> {
    let source =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let slice = slice(&source, file)?;
    let folder = file.parent().context("a file has a folder")?;
    let mut entries = Vec::new();
    for item in std::fs::read_dir(folder)? {
        let path = item?.path();
        let Some(module) = path.file_name().and_then(|it| it.to_str()).map(str::to_owned) else {
            continue;
        };
        if !path.is_dir() {
            continue;
        }
        let code = std::fs::read_to_string(path.join("mod.rs")).unwrap_or_default();
        let has_page = path.join("docs.md").is_file();
        let registers = code.contains("static REGISTRATION: Registration");
        // A folder without a registration and without a page is an ordinary module.
        if !registers && !has_page && !code.is_empty() {
            continue;
        }
        let declared = source.lines().any(|line| {
            let line = line.trim().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
            line == format!("mod {module};")
        });
        let listed = slice.contains(&format!("&{module}::REGISTRATION"));
        let missing = [
            (registers, Piece::Registration),
            (has_page, Piece::Page),
            (declared, Piece::ModLine),
            (listed, Piece::SliceLine),
        ];
        let missing =
            missing.into_iter().filter(|(there, _)| !there).map(|(_, piece)| piece).collect();
        entries.push(Entry { module, missing });
    }
    entries.sort_by(|a, b| a.module.cmp(&b.module));
    Ok(entries)
}

/// Returns the modules that the registry slice of a file lists. Fails if the file has no registry.
pub(crate) fn listed(file: &Path) -> Result<Vec<String>> {
    let source =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let entries = slice(&source, file)?.split('&').filter_map(|it| it.split_once("::REGISTRATION"));
    Ok(entries.map(|(module, _)| module.to_owned()).collect())
}

/// Returns the crate whose registry has an entry with this id.
///
/// Fails if no registry has such an entry.
pub(crate) fn package_of(root: &Path, id: &str) -> Result<&'static str> {
    for kind in Kind::ALL {
        let module = kind.module(id);
        for file in kind.files(root)? {
            if entries(&file)?.iter().any(|it| it.module == module) {
                return Ok(kind.package());
            }
        }
    }
    bail!("no assertion, gate, provider or reporter is called `{id}`")
}

/// Returns the text between the brackets of the registry's slice. Fails if the source has no such slice.
fn slice<'s>(source: &'s str, file: &Path) -> Result<&'s str> {
    slice_of(source).with_context(|| {
        format!("{} has no `static REGISTRY: &[&Registration] = &[…];`", file.display())
    })
}

/// Returns the text between the brackets of the registry's slice; `None` if the source has no such slice.
fn slice_of(source: &str) -> Option<&str> {
    let start = source.find("static REGISTRY: &[&Registration]")?;
    let open = start + source[start..].find("&[")? + 2;
    // The first `&[` may belong to the type; the slice begins after the `=`.
    let equals = start + source[start..].find('=')?;
    let open = if open < equals { equals + source[equals..].find("&[")? + 2 } else { open };
    let close = open + source[open..].find("];")?;
    Some(&source[open..close])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_slice_and_not_its_type() {
        let source =
            "pub static REGISTRY: &[&Registration] = &[&a::REGISTRATION, &b::REGISTRATION];";
        assert_eq!(slice_of(source), Some("&a::REGISTRATION, &b::REGISTRATION"));
        assert_eq!(slice_of("fn nothing() {}"), None);
    }
}
