//! A preprocessor of `mdbook`: adds the page of each assertion, gate, provider and reporter to the book.
//!
//! The pages are the `docs.md` files beside the code. In the repository, the reference pages link to these files on
//! GitHub. In the book, these links lead to pages of the book.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// The prefix of links from a page to files in other folders of the repository.
const REPOSITORY: &str = "https://github.com/kindlm/kindlm/blob/main/";

/// The chapters that list the entries of a registry.
const LISTS: [&str; 4] = [
    "reference/assertions.md",
    "reference/gates.md",
    "reference/providers.md",
    "reference/reporters.md",
];

/// The path of each page in the book, by the path of its `docs.md` in the repository. The separator is `/`.
type Pages = BTreeMap<String, String>;

/// Reads the book from `mdbook`, and returns it with the added pages, as JSON.
///
/// # Errors
///
/// Fails if the input is not in the format of `mdbook`, or if a listed page does not exist.
pub(crate) fn run(root: &Path, mut input: impl Read) -> Result<String> {
    let mut text = String::new();
    input.read_to_string(&mut text)?;
    let mut parts: Vec<Value> = serde_json::from_str(&text).context("the input of `mdbook`")?;
    let mut book = parts.pop().context("`mdbook` gives the context and the book")?;
    let mut pages = Pages::new();
    each_chapter(&mut book, &mut |chapter| {
        if let Some(list) = list_of(chapter) {
            pages.extend(entries(&content(chapter)).map(|it| (it.clone(), page_of(list, &it))));
        }
        Ok(())
    })?;
    each_chapter(&mut book, &mut |chapter| {
        if let Some(list) = list_of(chapter) {
            add_pages(root, chapter, list)?;
        }
        Ok(())
    })?;
    each_chapter(&mut book, &mut |chapter| {
        let Some(path) = chapter["path"].as_str().map(str::to_owned) else { return Ok(()) };
        let source =
            pages.iter().find(|(_, page)| **page == path).map(|(source, _)| source.clone());
        let source = source.unwrap_or_else(|| format!("docs/{path}"));
        chapter["content"] = json!(with_links(&content(chapter), &source, &path, &pages));
        Ok(())
    })?;
    Ok(book.to_string())
}

/// Calls a function for each chapter, and for the chapters below it.
fn each_chapter(node: &mut Value, visit: &mut dyn FnMut(&mut Value) -> Result<()>) -> Result<()> {
    // Since mdbook 0.5, `sections` is named `items`.
    for key in ["items", "sections", "sub_items"] {
        for item in node.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(chapter) = item.get_mut("Chapter") {
                visit(chapter)?;
                each_chapter(chapter, visit)?;
            }
        }
    }
    Ok(())
}

fn content(chapter: &Value) -> String {
    chapter["content"].as_str().unwrap_or_default().to_owned()
}

/// Returns the path of a chapter that lists a registry; `None` for any other chapter.
fn list_of(chapter: &Value) -> Option<&'static str> {
    LISTS.into_iter().find(|it| chapter["path"] == **it)
}

/// Returns the paths of the `docs.md` files that a list links to.
fn entries(list: &str) -> impl Iterator<Item = String> {
    let links = list.split("](").skip(1).filter_map(|it| it.strip_prefix(REPOSITORY));
    let paths = links.filter_map(|it| it.split(')').next()).filter(|it| it.ends_with("/docs.md"));
    paths.map(str::to_owned)
}

/// Returns the path of a page in the book, such as `reference/assertions/is-json.md` for `…/is_json/docs.md`.
fn page_of(list: &str, source: &str) -> String {
    let folder = source.trim_end_matches("/docs.md").rsplit('/').next().unwrap_or_default();
    format!("{}/{}.md", list.trim_end_matches(".md"), folder.replace('_', "-"))
}

/// Adds the pages of a list as chapters below the chapter of the list.
fn add_pages(root: &Path, chapter: &mut Value, list: &str) -> Result<()> {
    let (name, mut parents) = (chapter["name"].clone(), chapter["parent_names"].clone());
    if let Some(names) = parents.as_array_mut() {
        names.push(name);
    }
    let number: Vec<Value> = chapter["number"].as_array().cloned().unwrap_or_default();
    let mut added = Vec::new();
    for source in entries(&content(chapter)) {
        let text = std::fs::read_to_string(root.join(&source)).with_context(|| source.clone())?;
        let title = text.lines().find_map(|it| it.strip_prefix("# ")).unwrap_or(&source).to_owned();
        let page = page_of(list, &source);
        let own: Vec<Value> = number.iter().cloned().chain([json!(added.len() + 1)]).collect();
        added.push(json!({"Chapter": {
            "name": title.trim_matches('`'),
            "content": text,
            "number": if number.is_empty() { Value::Null } else { json!(own) },
            "sub_items": [],
            "path": page,
            "source_path": page,
            "parent_names": parents,
        }}));
    }
    chapter["sub_items"] = json!(added);
    Ok(())
}

/// Rewrites the links of the page from `source`, so that the links work in the book.
fn with_links(text: &str, source: &str, page: &str, pages: &Pages) -> String {
    let mut parts = text.split("](");
    let mut rewritten = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        rewritten.push_str("](");
        let Some((target, rest)) = part.split_once(')') else {
            rewritten.push_str(part);
            continue;
        };
        rewritten.push_str(&link(target, source, page, pages));
        rewritten.push(')');
        rewritten.push_str(rest);
    }
    rewritten
}

fn link(target: &str, source: &str, page: &str, pages: &Pages) -> String {
    let (file, anchor) = target.find('#').map_or((target, ""), |at| target.split_at(at));
    let path = match file.strip_prefix(REPOSITORY) {
        Some(path) => path.to_owned(),
        None if file.contains("://") || file.is_empty() => return target.to_owned(),
        None => normal(&Path::new(source).with_file_name("").join(file)),
    };
    let in_book = pages.get(&path).map(String::as_str).or_else(|| path.strip_prefix("docs/"));
    match in_book {
        Some(to) => format!("{}{to}{anchor}", "../".repeat(page.matches('/').count())),
        None => format!("{REPOSITORY}{path}{anchor}"),
    }
}

/// Returns a path without `.` and `..`, with `/` as the separator.
fn normal(path: &Path) -> String {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                parts.pop();
            }
            Component::CurDir => {}
            part => parts.push(part),
        }
    }
    parts.to_string_lossy().replace('\\', "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_entries_are_added_and_linked() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("crates/a/src/format/is_json");
        std::fs::create_dir_all(&folder).unwrap();
        let text = "# is-json\n\nSee [on](../../../../../docs/checks.md#on), [it](docs.md), [code](mod.rs).\n";
        std::fs::write(folder.join("docs.md"), text).unwrap();
        let list = format!("| [`is-json`]({REPOSITORY}crates/a/src/format/is_json/docs.md) | x |");
        let other =
            format!("[it]({REPOSITORY}crates/a/src/format/is_json/docs.md#options), [b](b.md)");
        let chapter = |name: &str, path: &str, content: &str| {
            json!({"Chapter": {"name": name, "content": content, "number": [1], "sub_items": [], "path": path,
                "source_path": path, "parent_names": []}})
        };
        let book = json!({"items": [
            chapter("Assertions", LISTS[0], &list),
            "Separator",
            chapter("Suites", "suites.md", &other),
        ]});
        let input = json!([{"renderer": "html"}, book]).to_string();
        let book: Value =
            serde_json::from_str(&run(root.path(), input.as_bytes()).unwrap()).unwrap();
        let list = &book["items"][0]["Chapter"];
        assert_eq!(list["content"], "| [`is-json`](../reference/assertions/is-json.md) | x |");
        let page = &list["sub_items"][0]["Chapter"];
        assert_eq!(page["path"], "reference/assertions/is-json.md");
        assert_eq!(page["number"], json!([1, 1]));
        assert_eq!(
            page["content"],
            format!(
                "# is-json\n\nSee [on](../../checks.md#on), [it](../../reference/assertions/is-json.md), \
                 [code]({REPOSITORY}crates/a/src/format/is_json/mod.rs).\n"
            )
        );
        assert_eq!(
            book["items"][2]["Chapter"]["content"],
            "[it](reference/assertions/is-json.md#options), [b](b.md)"
        );
    }

    #[test]
    fn every_entry_has_a_page() {
        let root = crate::root();
        for list in LISTS {
            let text = std::fs::read_to_string(root.join("docs").join(list)).unwrap();
            let sources: Vec<String> = entries(&text).collect();
            assert!(!sources.is_empty(), "{list}");
            for source in sources {
                assert!(root.join(&source).is_file(), "{source}");
            }
        }
    }
}
