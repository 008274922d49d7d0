//! Checks the documentation: suites load, commands run, links are valid, and the book lists all pages.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kindlm_config::load;
use kindlm_types::NoFiles;
use regex::Regex;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the pages of the book, relative to the folder `docs`.
fn pages() -> BTreeSet<PathBuf> {
    let docs = root().join("docs");
    let (mut open, mut pages) = (vec![docs.clone()], BTreeSet::new());
    while let Some(folder) = open.pop() {
        for item in fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                pages.insert(path.strip_prefix(&docs).unwrap().to_path_buf());
            }
        }
    }
    pages
}

/// Returns the fenced blocks of a page: language, words after it, text, line.
fn blocks(page: &Path) -> Vec<kindlm_testing::examples::Example> {
    kindlm_testing::examples::parse(&fs::read_to_string(root().join("docs").join(page)).unwrap())
}

#[test]
fn every_suite_on_a_page_loads_without_a_complaint() {
    let mut count = 0;
    for page in pages() {
        for suite in blocks(&page) {
            if suite.language != "yaml" || suite.info != "suite" {
                continue;
            }
            count += 1;
            let loaded = load("kindlm.yaml", suite.text.as_bytes(), &NoFiles, &|_| None);
            let said: Vec<String> =
                loaded.diagnostics.iter().map(|it| kindlm_config::render(it, false)).collect();
            let at = format!("docs/{}:{}", page.display(), suite.line);
            assert!(loaded.suite.is_some() && said.is_empty(), "{at}:\n{}", said.join("\n"));
        }
    }
    assert!(count >= 5, "found {count} suites");
}

/// Writes the files of a page for beginners, and runs its `console` blocks.
///
/// The name of a file follows the language of its block. The suite is validated, too.
#[test]
fn every_command_on_a_page_runs() {
    let mut count = 0;
    let is_for_beginners =
        |it: &PathBuf| ["start", "tutorials", "how-to"].iter().any(|folder| it.starts_with(folder));
    for page in pages().into_iter().filter(is_for_beginners) {
        let folder = tempfile::tempdir().unwrap();
        let suites = blocks(&page).into_iter().filter(|it| it.info == "kindlm.yaml");
        for file in blocks(&page).iter().filter(|it| it.info.contains('.')) {
            let path = folder.path().join(&file.info);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &file.text).unwrap();
        }
        let run = |args: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_kindlm"));
            command.args(args).current_dir(folder.path()).stdin(Stdio::null());
            command.env("OPENAI_API_KEY", "key").env("TMPDIR", folder.path().parent().unwrap());
            command.output().unwrap()
        };
        let commands: Vec<(usize, String)> = blocks(&page)
            .iter()
            .filter(|it| it.language == "console")
            .flat_map(|it| {
                let lines = it.text.lines().filter_map(|line| line.strip_prefix("$ kindlm "));
                lines.map(|line| (it.line, line.to_owned())).collect::<Vec<_>>()
            })
            .collect();
        let checked = suites.map(|it| (it.line, "validate".to_owned()));
        for (line, command) in checked.chain(commands) {
            count += 1;
            let args: Vec<&str> = command.split_whitespace().collect();
            let output = run(&args);
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            assert!(output.status.success(), "docs/{}:{line}: {command}\n{text}", page.display());
        }
    }
    assert!(count >= 8, "ran {count} commands");
}

/// Returns the anchor of a heading, as code hosts and the book generate it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(['`', '*'], "");
    let kept = kept.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
    kept.map(|it| if it == ' ' { '-' } else { it }).collect()
}

fn anchors(page: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(page).unwrap();
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut fenced = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !fenced) else { continue };
        let anchor = anchor(heading.trim_start_matches('#').trim());
        let count = seen.entry(anchor.clone()).or_default();
        anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

/// The start of the URLs of files in this repository.
const SOURCE: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");

#[test]
fn every_link_leads_somewhere() {
    let root = root();
    let link = Regex::new(r"\]\(([^()\s]+)\)").unwrap();
    let fence = Regex::new(r"(?s)```.*?```|`[^`\n]*`").unwrap();
    let mut files: Vec<PathBuf> = pages().iter().map(|it| root.join("docs").join(it)).collect();
    files.extend(
        ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(|it| root.join(it)),
    );
    let mut broken = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let prose = fence.replace_all(&text, "");
        for found in link.captures_iter(&prose) {
            let target = &found[1];
            let in_repository = target.strip_prefix(SOURCE);
            if (target.contains("://") && in_repository.is_none()) || target.starts_with("mailto:")
            {
                continue;
            }
            let (path, wanted) = target.split_once('#').unwrap_or((target, ""));
            let path = match in_repository {
                Some(_) => root.join(path.trim_start_matches(SOURCE)),
                None if path.is_empty() => file.clone(),
                None => file.parent().unwrap().join(path),
            };
            // The book contains only the files of `docs`, so its pages must link to other files by URL.
            let is_reached = in_repository.is_some()
                || !file.starts_with(root.join("docs"))
                || path
                    .canonicalize()
                    .is_ok_and(|it| it.starts_with(root.join("docs").canonicalize().unwrap()));
            let is_there = is_reached
                && path.exists()
                && (wanted.is_empty() || !path.is_file() || anchors(&path).contains(wanted));
            if !is_there {
                broken.push(format!("{}: {target}", file.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn the_book_names_every_page_once() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let link = Regex::new(r"\]\(([^()\s]+)\)").unwrap();
    let mut named: Vec<PathBuf> = link.captures_iter(&summary).map(|it| it[1].into()).collect();
    named.sort();
    let mut pages: Vec<PathBuf> = pages().into_iter().collect();
    pages.retain(|it| it != Path::new("SUMMARY.md"));
    pages.sort();
    assert_eq!(named, pages);
}
