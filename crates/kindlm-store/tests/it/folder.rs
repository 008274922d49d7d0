//! A folder gives access only to the files inside it.

use std::fs;

use kindlm_store::{Folder, MAX_FILE_BYTES};
use kindlm_types::{FileError, Files};

fn suite() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("suite");
    fs::create_dir_all(root.join("cases/deep")).unwrap();
    fs::create_dir_all(root.join(".hidden")).unwrap();
    for (path, text) in [
        ("a.json", "{}"),
        ("cases/b.jsonl", "b"),
        ("cases/a.jsonl", "a"),
        ("cases/note.txt", "n"),
        ("cases/deep/c.jsonl", "c"),
        (".hidden/d.jsonl", "d"),
        ("../secret.txt", "secret"),
    ] {
        fs::write(root.join(path), text).unwrap();
    }
    folder
}

fn open(folder: &tempfile::TempDir) -> Folder {
    Folder::open(folder.path().join("suite")).unwrap()
}

#[test]
fn reads_files_inside_the_folder() {
    let folder = suite();
    for path in ["a.json", "./a.json", "cases/../a.json"] {
        assert_eq!(&*open(&folder).read_file(path).unwrap(), "{}", "{path}");
    }
}

#[test]
fn refuses_paths_outside_existing_or_not() {
    let folder = suite();
    let absolute = folder.path().join("secret.txt").to_str().unwrap().to_owned();
    for path in [
        "../secret.txt",
        "../nothing",
        &absolute,
        "/etc/passwd",
        "C:\\x",
        "\\\\srv\\x\\y",
        "cases/../../secret.txt",
    ] {
        let err = open(&folder).read_file(path).unwrap_err();
        assert_eq!(err, FileError::Outside { path: path.to_owned() });
        assert_eq!(
            open(&folder).glob(path).unwrap_err(),
            FileError::Outside { path: path.to_owned() }
        );
    }
    let outside = open(&folder).allow_outside(true);
    assert_eq!(&*outside.read_file("../secret.txt").unwrap(), "secret");
    assert_eq!(&*outside.read_file(&absolute).unwrap(), "secret");
    assert_eq!(outside.glob("../*.txt").unwrap(), ["../secret.txt"]);
}

#[cfg(unix)]
#[test]
fn follows_links_only_while_they_stay_inside() {
    use std::os::unix::fs::symlink;
    let folder = suite();
    let root = folder.path().join("suite");
    symlink("../secret.txt", root.join("out.txt")).unwrap();
    symlink("a.json", root.join("in.json")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    let files = open(&folder);
    assert_eq!(&*files.read_file("in.json").unwrap(), "{}");
    for path in ["out.txt", "up/secret.txt"] {
        assert!(matches!(files.read_file(path), Err(FileError::Outside { .. })), "{path}");
    }
    assert!(matches!(files.glob("up/*.txt"), Err(FileError::Outside { .. })));
    assert!(matches!(files.read_file("loop"), Err(FileError::Other { .. })));
    assert_eq!(&*files.clone().allow_outside(true).read_file("out.txt").unwrap(), "secret");
    // The folder itself may be a symbolic link.
    symlink("suite", folder.path().join("alias")).unwrap();
    assert_eq!(
        &*Folder::open(folder.path().join("alias")).unwrap().read_file("a.json").unwrap(),
        "{}"
    );
}

#[test]
fn reports_the_problem_of_a_file() {
    let folder = suite();
    let root = folder.path().join("suite");
    fs::write(root.join("latin.txt"), b"caf\xe9").unwrap();
    fs::write(root.join("bom.json"), "\u{feff}{}").unwrap();
    fs::File::create(root.join("huge.json")).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
    let files = open(&folder);
    let real = files.root().display().to_string();
    for (path, message) in [
        ("none.json", format!("`none.json` does not exist (looked in `{real}`)")),
        ("a.json/x", format!("`a.json/x` does not exist (looked in `{real}`)")),
        ("latin.txt", "`latin.txt` is not UTF-8 text: invalid byte at offset 3".to_owned()),
        (
            "huge.json",
            "`huge.json` has 67108865 bytes, more than the 67108864 that are allowed".to_owned(),
        ),
        ("cases", "cannot read `cases`: it is a folder".to_owned()),
        ("", "cannot read ``: the path is empty".to_owned()),
    ] {
        assert_eq!(files.read_file(path).unwrap_err().to_string(), message);
    }
    assert!(matches!(files.read_file("nul\0"), Err(FileError::Other { .. })));
    assert_eq!(&*files.read_file("bom.json").unwrap(), "{}");
}

#[cfg(unix)]
#[test]
fn never_waits_for_a_device() {
    let folder = suite();
    let files = open(&folder).allow_outside(true);
    assert!(matches!(files.read_file("/dev/zero"), Err(FileError::Other { .. })));
}

#[test]
fn globs_are_sorted_and_stay_within_a_path_part() {
    let folder = suite();
    for (pattern, expected) in [
        ("cases/*.jsonl", &["cases/a.jsonl", "cases/b.jsonl"][..]),
        ("cases/**/*.jsonl", &["cases/a.jsonl", "cases/b.jsonl", "cases/deep/c.jsonl"]),
        ("**/*.jsonl", &["cases/a.jsonl", "cases/b.jsonl", "cases/deep/c.jsonl"]),
        ("./cases/{a,b}.jsonl", &["./cases/a.jsonl", "./cases/b.jsonl"]),
        ("*", &["a.json"]),
        ("a.json", &["a.json"]),
        (".hidden/*", &[".hidden/d.jsonl"]),
        ("none/*.json", &[]),
        ("cases/**/dee[!x]c.jsonl", &[]),
        ("cases/[!b].jsonl", &["cases/a.jsonl"]),
        ("*.csv", &[]),
    ] {
        assert_eq!(open(&folder).glob(pattern).unwrap(), expected, "{pattern}");
    }
    assert!(matches!(open(&folder).glob("a[").unwrap_err(), FileError::Other { .. }));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(200))]
    #[test]
    fn no_path_reads_the_secret(path in "(\\.\\./|\\./|cases/|suite/|deep/|/|\\\\|C:){0,6}(secret.txt|a.json|)") {
        let folder = suite();
        if let Ok(text) = open(&folder).read_file(&path) {
            assert_ne!(&*text, "secret");
        }
    }
}
