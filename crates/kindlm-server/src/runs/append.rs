//! Adds a test case to the file of a suite.

use std::fs;
use std::path::Path;

use kindlm_run::SuiteFolder;
use serde_yaml::Value;

use super::{NotRead, RunService};

/// The text of the file of a suite before and after a test case was added.
pub(crate) struct Appended {
    pub(crate) old: String,
    pub(crate) new: String,
}

impl RunService {
    /// Adds a test case to the end of the list `tests` of a suite, and returns the texts of the file before and after.
    /// The other lines stay as they are.
    ///
    /// `item` is an item of a YAML list, which may begin with comments.
    ///
    /// # Errors
    ///
    /// Fails if:
    ///
    /// - there is no such suite
    /// - the suite has a case with this name
    /// - the file cannot be read or written, or the case cannot be added without other changes
    pub(crate) fn append_test(
        &self,
        suite: &str,
        name: &str,
        item: &str,
    ) -> Result<Appended, NotRead> {
        if !self.suites()?.iter().any(|it| it == suite) {
            return Err(NotRead::NoSuite(suite.to_owned()));
        }
        let path = SuiteFolder::new(self.world(), Path::new(suite)).path;
        // Without the lock, two requests could extend the same text, and one case would be lost.
        let _edits = self.lock_edits();
        let failed =
            |err: std::io::Error| NotRead::Failed(format!("cannot change `{suite}`: {err}"));
        let old = fs::read_to_string(&path).map_err(failed)?;
        if has_test(&old, name) {
            return Err(NotRead::HasCase(name.to_owned()));
        }
        let new = insert_item(&old, item).filter(|it| only_adds(&old, it, item));
        let new = new.ok_or_else(|| {
            NotRead::NotAppended(format!(
                "`{suite}`: the case cannot be added without changing the rest of the file; add it by hand"
            ))
        })?;
        // The file is replaced as a whole, so that a run never reads a part of it.
        kindlm_store::write(&path, new.as_bytes())
            .map_err(|err| NotRead::Failed(format!("cannot change `{suite}`: {err}")))?;
        Ok(Appended { old, new })
    }
}

fn has_test(suite: &str, name: &str) -> bool {
    let suite: Option<Value> = serde_yaml::from_str(suite).ok();
    let tests = suite.as_ref().and_then(|it| it.get("tests")?.as_sequence());
    tests.into_iter().flatten().any(|it| it.get("name").and_then(Value::as_str) == Some(name))
}

/// Inserts an item after the last item of the YAML block list `tests`. Returns `None` if `tests` is no block list.
fn insert_item(suite: &str, item: &str) -> Option<String> {
    let lines: Vec<&str> = suite.lines().collect();
    let is_blank = |line: &str| {
        let text = line.trim_start();
        text.is_empty() || text.starts_with('#')
    };
    let start = 1 + lines.iter().position(|it| it.strip_prefix("tests:").is_some_and(is_blank))?;
    let first = lines[start..].iter().find(|it| !is_blank(it))?;
    let indent = first.len() - first.trim_start().len();
    if !first.trim_start().starts_with("- ") {
        return None;
    }
    let is_inside = |line: &str| line.starts_with([' ', '-']);
    let end = lines[start..].iter().position(|it| !is_blank(it) && !is_inside(it));
    let mut end = end.map_or(lines.len(), |it| start + it);
    while is_blank(lines[end - 1]) {
        end -= 1;
    }
    let margin = " ".repeat(indent);
    let size = suite.split_inclusive('\n').take(end).map(str::len).sum::<usize>();
    let (before, after) = suite.split_at(size);
    // The new lines end like the line before them.
    let last = before.split_inclusive('\n').rfind(|it| it.ends_with('\n'));
    let line_end = if last.is_some_and(|it| it.ends_with("\r\n")) { "\r\n" } else { "\n" };
    let mut text = before.to_owned();
    if !before.ends_with('\n') {
        text.push_str(line_end);
    }
    for line in item.trim_end().lines() {
        if !line.is_empty() {
            text.push_str(&margin);
            text.push_str(line);
        }
        text.push_str(line_end);
    }
    text.push_str(after);
    Some(text)
}

/// Returns true if the new text differs from the old text only by the item at the end of `tests`.
fn only_adds(old: &str, new: &str, item: &str) -> bool {
    let parse = |text: &str| serde_yaml::from_str::<Value>(text).ok();
    let (Some(mut old), Some(new), Some(Value::Sequence(item))) =
        (parse(old), parse(new), parse(item))
    else {
        return false;
    };
    let Some(tests) = old.get_mut("tests").and_then(Value::as_sequence_mut) else { return false };
    tests.extend(item);
    old == new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_is_added_after_the_last_test() {
        let item = "# Sample\n- name: new\n  vars:\n    text: |-\n      a\n\n      b\n";
        for (old, new) in [
            (
                "tests:\n  - { name: a }\n\n# Gates\ngates: {}\n",
                "tests:\n  - { name: a }\n  # Sample\n  - name: new\n    vars:\n      text: |-\n        a\n\n        b\n\n# Gates\ngates: {}\n",
            ),
            (
                "tests: # all\n- name: a\n  expect: {}",
                "tests: # all\n- name: a\n  expect: {}\n# Sample\n- name: new\n  vars:\n    text: |-\n      a\n\n      b\n",
            ),
        ] {
            let found = insert_item(old, item).unwrap();
            assert_eq!(found, new);
            assert!(only_adds(old, &found, item));
            assert!(has_test(&found, "new") && !has_test(old, "new"));
        }
        for (old, new) in [
            (
                "a: 1\r\ntests:\n- name: a\nb: 2\r\n",
                "a: 1\r\ntests:\n- name: a\n- name: b\nb: 2\r\n",
            ),
            ("a: 1\ntests:\r\n- name: a\r\nb: 2", "a: 1\ntests:\r\n- name: a\r\n- name: b\r\nb: 2"),
            ("tests:\r\n- name: a", "tests:\r\n- name: a\r\n- name: b\r\n"),
        ] {
            assert_eq!(insert_item(old, "- name: b\n").as_deref(), Some(new));
        }
        for other in
            ["tests: [{ name: a }]\n", "tests: file://t.yaml\n", "a: 1\n", "tests:\n  file: a\n"]
        {
            assert_eq!(insert_item(other, item), None, "{other}");
        }
        assert!(!only_adds("tests:\n- a\n", "tests:\n- a\n", item));
    }
}
