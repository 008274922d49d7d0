//! Runs are kept, found again, and never half there.

use kindlm_store::{Runs, StoreError, write};

#[test]
fn keeps_runs_and_remembers_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::new(folder.path().join(".kindlm"));
    assert_eq!(runs.last().unwrap(), None);
    assert!(runs.list().unwrap().is_empty());

    runs.save("20261120-2", "two").unwrap();
    let path = runs.save("20261120-1", "one").unwrap();

    assert_eq!(path, folder.path().join(".kindlm/runs/20261120-1/report.json"));
    assert_eq!(runs.list().unwrap(), ["20261120-1", "20261120-2"]);
    assert_eq!(runs.last().unwrap().unwrap(), "20261120-1");
    assert_eq!(runs.load("20261120-2").unwrap(), "two");
}

#[test]
fn says_what_is_missing_or_misnamed() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::new(folder.path());
    assert!(matches!(runs.load("x"), Err(StoreError::NoSuchRun { .. })));
    for id in ["../x", "", "a/b"] {
        assert!(matches!(runs.load(id), Err(StoreError::BadName { .. })), "{id}");
    }
    std::fs::write(folder.path().join("last-run"), "../../etc\n").unwrap();
    assert!(matches!(runs.last(), Err(StoreError::BadName { .. })));
}

#[test]
fn a_folder_that_cannot_be_made_is_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(".kindlm"), "a file where the folder should be").unwrap();
    let err = Runs::new(folder.path().join(".kindlm")).save("a", "x").unwrap_err().to_string();
    assert!(err.starts_with("cannot make the folder `"), "{err}");
    assert!(err.contains(".kindlm/runs/a`: "), "{err}");
    assert!(!err.contains("os error"), "{err}");
}

#[test]
fn a_write_leaves_one_file_and_keeps_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/er/report.json");
    write(&path, b"one").unwrap();
    write(&path, b"two").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"two");
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn modes_links_and_devices_survive_a_write() {
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().join("real.json");
    std::fs::write(&real, "old").unwrap();
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.path().join("link.json");
    symlink("real.json", &link).unwrap();

    write(&link, b"new").unwrap();
    assert_eq!(std::fs::read_to_string(&real).unwrap(), "new");
    assert_eq!(std::fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());

    write(std::path::Path::new("/dev/null"), b"gone").unwrap();
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());

    let err = write(folder.path(), b"x").unwrap_err().to_string();
    assert!(err.contains("is a directory"), "{err}");
}
