//! Checks the documentation pages.
//!
//! Suites load, commands run, links have targets, and the book lists every page.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use kindlm_config::load;
use kindlm_testing::examples::{self, Example};
use kindlm_types::NoFiles;
use regex::Regex;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the Markdown files in a folder and its subfolders.
fn markdown(folder: &Path) -> BTreeSet<PathBuf> {
    let (mut open, mut files) = (vec![folder.to_owned()], BTreeSet::new());
    while let Some(folder) = open.pop() {
        for item in fs::read_dir(folder).unwrap() {
            let path = item.unwrap().path();
            if path.is_dir() {
                // The packages of browser tests have pages of their own.
                if !path.ends_with("node_modules") {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|it| it == "md") {
                files.insert(path);
            }
        }
    }
    files
}

/// Returns the pages of the book, relative to the folder `docs`.
fn pages() -> BTreeSet<PathBuf> {
    let docs = root().join("docs");
    markdown(&docs).iter().map(|it| it.strip_prefix(&docs).unwrap().to_owned()).collect()
}

/// Returns all documents for people: the book, the pages in the crates, and the pages at the root.
fn documents() -> BTreeSet<PathBuf> {
    let root = root();
    let mut files = markdown(&root.join("docs"));
    files.extend(markdown(&root.join("crates")));
    files.extend(
        ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(|it| root.join(it)),
    );
    files
}

/// Returns the fenced blocks of a page. Each has its language, the text after the language, its content and its line.
fn blocks(page: &Path) -> Vec<Example> {
    examples::parse(&fs::read_to_string(root().join("docs").join(page)).unwrap())
}

/// The folder in the quickstart with a model whose answers are sometimes wrong.
const VARYING: &str = "varying/";

/// A temporary folder with the files that a page shows. The name of a file follows the language of its block.
struct Folder(tempfile::TempDir);

impl Folder {
    fn from_examples(files: &[Example]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for file in files.iter().filter(|it| it.info.contains('.')) {
            let path = folder.path().join(&file.info);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &file.text).unwrap();
        }
        // Copy the folder `VARYING` of the quickstart if a command of the page uses it.
        let shows = |it: &Example| it.language == "console" && it.text.contains(VARYING);
        if files.iter().any(shows) {
            let source = root().join("fixtures/quickstart").join(VARYING);
            fs::create_dir_all(folder.path().join(VARYING)).unwrap();
            for item in fs::read_dir(source).unwrap() {
                let path = item.unwrap().path();
                let name = path.file_name().unwrap();
                fs::copy(&path, folder.path().join(VARYING).join(name)).unwrap();
            }
        }
        Self(folder)
    }

    /// Runs a shell command line in which `kindlm` is this program.
    fn run(&self, line: &str) -> Output {
        let programs = Path::new(env!("CARGO_BIN_EXE_kindlm")).parent().unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(self.0.path()).stdin(Stdio::null());
        shell.env("PATH", path).env("OPENAI_API_KEY", "key").env_remove("COLUMNS");
        shell.env("TMPDIR", self.0.path().parent().unwrap());
        shell.output().unwrap()
    }
}

fn both(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

#[test]
fn every_suite_on_a_page_loads_without_a_complaint() {
    let mut count = 0;
    let readme = PathBuf::from("../README.md");
    for page in pages().into_iter().chain([readme]) {
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

/// The suite that completes examples of a part of a suite. A key of the example replaces the same key of this suite.
const AROUND: &str = "
kindlm: 1
project: shop
suite: { name: support }
providers: { openai: { apiKeyEnv: OPENAI_API_KEY } }
models: [{ id: agent, provider: openai, model: gpt-4o }]
prompts: { support: { user: Hello } }
tests: [{ name: answers, prompt: support, expect: { output: { contains: [a] } } }]
";

/// Inserts a part of a suite into the complete suite.
///
/// A list becomes checks of the test. If a part has a key of a test, all its keys go into the test, otherwise to the
/// top level.
fn whole(part: &str) -> serde_yaml::Value {
    use serde_yaml::Value;
    let mut suite: Value = serde_yaml::from_str(AROUND).unwrap();
    let part: Value = serde_yaml::from_str(part).unwrap();
    let test = &mut suite["tests"][0];
    match part {
        Value::Sequence(_) => test["expect"]["assert"] = part,
        Value::Mapping(keys) => {
            let of_a_test = ["expect", "repeat", "conversation", "workspace", "command"];
            let is_test = keys.keys().any(|key| of_a_test.iter().any(|it| key == *it));
            let place = if is_test { test } else { &mut suite };
            for (key, value) in keys {
                place[key] = value;
            }
        }
        other => panic!("a part of a suite is a list or a map: {other:?}"),
    }
    suite
}

#[test]
fn every_part_of_a_suite_on_a_page_is_valid() {
    let (mut count, mut wrong) = (0, Vec::new());
    for page in pages() {
        let blocks = blocks(&page);
        let folder = Folder::from_examples(&blocks);
        // The folders that the examples of workspaces use.
        for name in ["shop", "hidden"] {
            fs::create_dir_all(folder.0.path().join(name)).unwrap();
            fs::write(folder.0.path().join(name).join("file"), "").unwrap();
        }
        for part in blocks.iter().filter(|it| it.language == "yaml" && it.info.is_empty()) {
            count += 1;
            let suite = serde_yaml::to_string(&whole(&part.text)).unwrap();
            fs::write(folder.0.path().join("part.yaml"), suite).unwrap();
            let output = folder.run("kindlm validate -c part.yaml");
            if !output.status.success() {
                wrong.push(format!("docs/{}:{}:\n{}", page.display(), part.line, both(&output)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 10, "found {count} parts of suites");
}

/// A command of a `console` block.
struct Shown {
    line: String,
    /// The printed lines below the command; empty if the page does not show them.
    prints: Vec<String>,
}

fn commands(console: &Example) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    for line in console.text.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(line), _) => commands.push(Shown { line: line.to_owned(), prints: Vec::new() }),
            (None, Some(command)) => command.prints.push(line.to_owned()),
            (None, None) => panic!("a console block begins with `$ `: {line}"),
        }
    }
    commands
}

/// Replaces times and ids of runs by placeholders.
///
/// Also collapses spaces that align columns.
fn steady(line: &str) -> String {
    const FORMS: [(&str, &str); 3] = [
        (r"\b\d{8}-\d{6}-\d{3}-[0-9a-f]{4}\b", "RUN"),
        (r"\b\d{4}-\d{2}-\d{2}T[0-9:.]+Z", "TIME"),
        (r"\b[0-9.]+ (ms|s)\b", "TIME"),
    ];
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    FORMS.iter().fold(line, |line, (form, name)| {
        Regex::new(form).unwrap().replace_all(&line, *name).into_owned()
    })
}

/// Returns true if a page shows what a command printed. A line `…` stands for any lines.
fn is_shown(shown: &[String], printed: &str) -> bool {
    let shown: Vec<String> = shown.iter().map(|it| steady(it)).collect();
    let printed: Vec<String> = printed.trim_end().lines().map(steady).collect();
    let parts: Vec<&[String]> = shown.split(|it| it == "…").collect();
    let Some((first, later)) = parts.split_first() else { return printed.is_empty() };
    let Some(mut rest) = printed.strip_prefix(*first) else { return false };
    let Some((last, middle)) = later.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(start) = (0..=rest.len()).find(|it| rest[*it..].starts_with(part)) else {
            return false;
        };
        rest = &rest[start + part.len()..];
    }
    rest.ends_with(last)
}

/// The page whose files are used for pages without a suite.
const FIRST_SUITE: &str = "start/first-suite.md";

/// Runs the `console` blocks of a page in a folder with its files, and compares their output.
///
/// `console exit=1` sets an expected exit code other than 0.
#[test]
fn every_console_block_prints_its_output() {
    let (mut count, mut wrong) = (0, Vec::new());
    for page in pages() {
        let blocks = blocks(&page);
        let has_suite =
            blocks.iter().any(|it| Path::new(&it.info).extension().is_some_and(|it| it == "yaml"));
        let first_suite = if has_suite { Vec::new() } else { self::blocks(FIRST_SUITE.as_ref()) };
        let folder = Folder::from_examples(&[first_suite, blocks.clone()].concat());
        for console in blocks.iter().filter(|it| it.language == "console") {
            let code: i32 = console.info.strip_prefix("exit=").map_or(0, |it| it.parse().unwrap());
            for command in commands(console) {
                count += 1;
                let output = folder.run(&command.line);
                let printed =
                    if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
                let holds = output.status.code() == Some(code)
                    && (command.prints.is_empty()
                        || is_shown(&command.prints, &String::from_utf8_lossy(printed)));
                if !holds {
                    let at = format!("docs/{}:{}", page.display(), console.line);
                    let status = output.status;
                    wrong.push(format!("{at}: $ {}\n{status}\n{}", command.line, both(&output)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(count >= 20, "ran {count} commands");
}

#[test]
fn dots_stand_for_lines_and_only_for_lines() {
    let cases = [
        ("a\nb", "a\nb", true),
        ("a", "a\nb", false),
        ("a\n…", "a\nb", true),
        ("…\nb", "a\nb", true),
        ("…\na", "a\nb", false),
        ("a\n…\nc\n…\nd", "a\nb\nc\nd", true),
        ("a\n…\nd\n…\nc", "a\nb\nc\nd", false),
        ("took   3 ms", "took 12 ms", true),
    ];
    for (shown, printed, expected) in cases {
        let lines: Vec<String> = shown.lines().map(str::to_owned).collect();
        assert_eq!(is_shown(&lines, printed), expected, "{shown:?} {printed:?}");
    }
}

/// Options of other programs that pages name, each with its page.
const OF_OTHERS: [(&str, &str); 29] = [
    ("docs/agents.md", "--append-system-prompt"),
    ("docs/agents.md", "--ephemeral"),
    ("docs/agents.md", "--json-schema"),
    ("docs/agents.md", "--max-turns"),
    ("docs/agents.md", "--output-schema"),
    ("docs/promptfoo.md", "--filter-failing"),
    ("docs/promptfoo.md", "--filter-pattern"),
    ("docs/promptfoo.md", "--filter-providers"),
    ("docs/promptfoo.md", "--no-cache"),
    ("docs/promptfoo.md", "--repeat"),
    ("docs/scaling.md", "--keep-days"),
    ("docs/scaling.md", "--lease"),
    ("docs/scaling.md", "--workers"),
    ("docs/server.md", "--alert-email"),
    ("docs/server.md", "--alert-from"),
    ("docs/server.md", "--alert-reference"),
    ("docs/server.md", "--alert-slack"),
    ("docs/server.md", "--alert-webhook"),
    ("docs/server.md", "--database"),
    ("docs/server.md", "--embed-origin"),
    ("docs/server.md", "--keep-days"),
    ("docs/server.md", "--lease"),
    ("docs/server.md", "--listen"),
    ("docs/server.md", "--public-url"),
    ("docs/server.md", "--redact-pii"),
    ("docs/server.md", "--smtp-url"),
    ("docs/server.md", "--suites"),
    ("docs/server.md", "--trace-delay"),
    ("docs/server.md", "--workers"),
];

/// Returns the options of each command, according to the generated command-line reference.
fn options() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(root().join("docs/reference/cli.md")).unwrap();
    let option = Regex::new(r"^ +(?:(-[a-zA-Z]), )?(--[a-z-]+)").unwrap();
    let mut options: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut command = String::from("kindlm");
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("##") {
            heading.trim_matches(['#', '`', ' ']).clone_into(&mut command);
        }
        let names = options.entry(command.clone()).or_default();
        if let Some(found) = option.captures(line) {
            names.extend([1, 2].iter().filter_map(|it| Some(found.get(*it)?.as_str().to_owned())));
        }
    }
    options
}

/// Returns the words of a command up to the next shell operator. Quoted texts are replaced by `…`.
fn split_words(command: &str) -> Vec<String> {
    let quoted = Regex::new(r#""[^"]*"|'[^']*'"#).unwrap();
    let bare = quoted.replace_all(command, "…");
    let end = bare.find([';', '|', '&', '#', ')', '>']).unwrap_or(bare.len());
    bare[..end].split_whitespace().map(str::to_owned).collect()
}

#[test]
fn every_command_and_option_on_a_page_exists() {
    let options = options();
    let fence = Regex::new(r"(?s)```.*?```").unwrap();
    let span = Regex::new(r"`([^`\n]+)`").unwrap();
    let called = Regex::new(r"(?m)(?:^|[\s(])kindlm ([a-z<-][^\n]*)").unwrap();
    let is_option = Regex::new(r"^--?[a-zA-Z][a-z-]*$").unwrap();
    let (mut wrong, mut of_others) = (Vec::new(), BTreeSet::new());
    for page in documents().into_iter().filter(|it| !it.ends_with("reference/cli.md")) {
        let text = fs::read_to_string(&page).unwrap();
        let page = page.strip_prefix(root()).unwrap().display().to_string();
        let prose = fence.replace_all(&text, "");
        let spans = span.captures_iter(&prose).map(|it| it[1].to_owned());
        let fenced = fence.find_iter(&text).map(|it| it.as_str().to_owned());
        for code in spans.chain(fenced) {
            let bare = code.split([' ', '=']).next().unwrap_or_default();
            if bare.starts_with("--")
                && is_option.is_match(bare)
                && !options.values().any(|it| it.contains(bare))
            {
                match OF_OTHERS.iter().find(|it| **it == (page.as_str(), bare)) {
                    Some(known) => _ = of_others.insert(*known),
                    None => wrong.push(format!("{page}: no command has the option `{bare}`")),
                }
            }
            for call in called.captures_iter(&code) {
                let words = split_words(&call[1]);
                let bare: Vec<&str> = words.iter().map(String::as_str).collect();
                let (one, two) = (bare.first().unwrap_or(&""), bare.get(1).unwrap_or(&""));
                let names = [format!("kindlm {one} {two}"), format!("kindlm {one}")];
                let Some(name) = names.iter().find(|it| options.contains_key(*it)) else {
                    if !one.starts_with(['-', '<']) {
                        wrong.push(format!("{page}: there is no command `kindlm {}`", &call[1]));
                    }
                    continue;
                };
                for option in bare.iter().filter_map(|it| it.split('=').next()) {
                    if is_option.is_match(option) && !options[name].contains(option) {
                        wrong.push(format!("{page}: `{name}` has no option `{option}`"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(
        of_others,
        BTreeSet::from(OF_OTHERS),
        "options of other programs that no page names"
    );
}

/// Returns the anchor of a heading, in the format of code hosts and the book.
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

/// The prefix of the URL of a file in this repository.
const SOURCE: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");

#[test]
fn every_link_leads_somewhere() {
    let root = root();
    let link = Regex::new(r"\]\(([^()\s]+)\)").unwrap();
    let fence = Regex::new(r"(?s)```.*?```|`[^`\n]*`").unwrap();
    let mut broken = Vec::new();
    for file in documents() {
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
            // The book contains only the files of `docs`, so its pages must refer to other files by URL.
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
