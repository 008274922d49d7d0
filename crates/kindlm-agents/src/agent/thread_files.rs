//! Finds the files in which Codex stores its threads. The files are `$CODEX_HOME/sessions/YYYY/MM/DD/rollout-….jsonl`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::rollout::{Files, ThreadFile};
use super::text;

/// The maximum size of all files of a conversation together: 64 MiB.
const MAX_BYTES: u64 = 64 << 20;

/// The number of days that are searched, from the newest. A thread may begin before midnight and end after midnight.
const DAYS: usize = 2;

/// Loads the files of a thread and of its subagents. Fails with the reason if the thread's file is missing, a loaded
/// file cannot be read, or the files together exceed 64 MiB. Other files with an unreadable first line are ignored.
pub(super) fn load_files(home: &Path, thread: &str) -> Result<Files, String> {
    let newest = newest_days(&home.join("sessions"));
    let mut others = Vec::new();
    let mut own = None;
    for path in newest.iter().flat_map(|it| files(it)) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !name.starts_with("rollout-") {
            continue;
        }
        if name.ends_with(&format!("-{thread}")) {
            own = Some(path);
        } else {
            others.push(path);
        }
    }
    let own = own.ok_or("Codex's `CODEX_HOME` has no file of this thread")?;
    let mut room = MAX_BYTES;
    let mut found = vec![ThreadFile { thread: thread.to_owned(), lines: lines(&own, &mut room)? }];
    let mut threads = BTreeSet::from([thread.to_owned()]);
    let first_lines: Vec<(PathBuf, Head)> =
        others.into_iter().filter_map(|path| head(&path).map(|it| (path, it))).collect();
    // A subagent may start further subagents.
    loop {
        let next = first_lines.iter().find(|(_, it)| {
            !threads.contains(&it.thread)
                && it.parent.as_ref().is_some_and(|id| threads.contains(id))
        });
        let Some((path, head)) = next else { return Ok(found) };
        threads.insert(head.thread.clone());
        found.push(ThreadFile { thread: head.thread.clone(), lines: lines(path, &mut room)? });
    }
}

/// The thread and its parent, as the first line of a file reports them.
struct Head {
    thread: String,
    parent: Option<String>,
}

/// Opens a regular file without blocking; fails for any other file. The agent can write to this folder, and a named
/// pipe there would block forever.
fn open(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::other("it is not a regular file"))
}

fn head(path: &Path) -> Option<Head> {
    let mut line = String::new();
    BufReader::new(open(path).ok()?.take(1 << 20)).read_line(&mut line).ok()?;
    let line: Value = serde_json::from_str(&line).ok()?;
    let meta = line.get("payload")?;
    let parent = [
        meta.get("parent_thread_id"),
        meta.pointer("/source/subagent/thread_spawn/parent_thread_id"),
    ];
    let parent = parent.into_iter().flatten().find_map(Value::as_str).map(str::to_owned);
    Some(Head { thread: text(meta, "id").to_owned(), parent })
}

fn lines(path: &Path, room: &mut u64) -> Result<Vec<String>, String> {
    let failed =
        |why: &dyn std::fmt::Display| format!("the file of a thread cannot be read: {why}");
    let mut bytes = Vec::new();
    let file = open(path).map_err(|err| failed(&err))?;
    let count = file.take(*room + 1).read_to_end(&mut bytes).map_err(|err| failed(&err))?;
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    *room = room.checked_sub(count).ok_or_else(|| failed(&"it is larger than 64 MiB"))?;
    let content = String::from_utf8(bytes).map_err(|_| failed(&"it is not UTF-8"))?;
    Ok(content.lines().filter(|it| !it.trim().is_empty()).map(str::to_owned).collect())
}

/// Returns the folders of the newest days, newest first, such as `2026/11/23`.
fn newest_days(sessions: &Path) -> Vec<PathBuf> {
    let mut days = Vec::new();
    for year in sorted(sessions) {
        for month in sorted(&year) {
            days.extend(sorted(&month));
            if days.len() >= DAYS {
                days.truncate(DAYS);
                return days;
            }
        }
    }
    days
}

/// Returns the entries of a folder in descending order.
fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut paths = files(folder);
    paths.sort_by(|one, other| other.cmp(one));
    paths
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let items = fs::read_dir(folder).into_iter().flatten();
    items.filter_map(|it| Some(it.ok()?.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(home: &Path, day: &str, thread: &str, meta: &str, more: &str) {
        let folder = home.join("sessions").join(day);
        fs::create_dir_all(&folder).unwrap();
        let line = format!(
            "{{\"type\":\"session_meta\",\"payload\":{{\"id\":\"{thread}\"{meta}}}}}\n{more}"
        );
        fs::write(folder.join(format!("rollout-{}-{thread}.jsonl", day.replace('/', "-"))), line)
            .unwrap();
    }

    #[test]
    fn a_thread_is_found_with_its_subagents() {
        let home = tempfile::tempdir().unwrap();
        let of = |parent: &str| format!(r#","parent_thread_id":"{parent}""#);
        let older = r#","source":{"subagent":{"thread_spawn":{"parent_thread_id":"child"}}}"#;
        write(home.path(), "2026/11/22", "main", "", "{}\n\n{}");
        write(home.path(), "2026/11/23", "grandchild", older, "");
        write(home.path(), "2026/11/23", "child", &of("main"), "");
        write(home.path(), "2026/11/23", "stranger", &of("another"), "");
        let files = load_files(home.path(), "main").unwrap();
        let found: Vec<(&str, usize)> =
            files.iter().map(|it| (it.thread.as_str(), it.lines.len())).collect();
        assert_eq!(found, [("main", 3), ("child", 1), ("grandchild", 1)]);
    }

    #[cfg(unix)]
    #[test]
    fn named_pipes_do_not_block_reading() {
        let home = tempfile::tempdir().unwrap();
        write(home.path(), "2026/11/23", "main", "", "");
        let pipe = |thread: &str| {
            let path = home.path().join(format!("sessions/2026/11/23/rollout-{thread}.jsonl"));
            assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
        };
        pipe("x");
        assert_eq!(load_files(home.path(), "main").unwrap().len(), 1);
        pipe("own");
        let why = load_files(home.path(), "own").unwrap_err();
        assert!(why.contains("it is not a regular file"), "{why}");
    }

    #[test]
    fn missing_thread_files_give_no_evidence() {
        let home = tempfile::tempdir().unwrap();
        assert!(load_files(home.path(), "main").unwrap_err().contains("has no file"));
        write(home.path(), "2026/11/20", "main", "", "");
        write(home.path(), "2026/11/22", "one", "", "");
        write(home.path(), "2026/11/23", "two", "", "");
        assert!(
            load_files(home.path(), "main").is_err(),
            "the file is older than the searched days"
        );
        assert!(load_files(home.path(), "..").is_err());
    }
}
