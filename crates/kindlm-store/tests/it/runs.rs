//! Tests for storing and finding runs.

use kindlm_store::{ReportError, Runs, StoreError, write};
use kindlm_types::Report;
use kindlm_wire::mutation::MutationReport;
use kindlm_wire::v1::{self, RunHead};

#[test]
fn keeps_runs_in_the_order_in_which_they_are_saved() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::new(folder.path().join(".kindlm"));
    assert!(runs.list().unwrap().is_empty());

    runs.save("20261120-2", "two").unwrap();
    let path = runs.save("20261120-1", "one").unwrap();

    assert_eq!(path, folder.path().join(".kindlm/runs/20261120-1/report.json"));
    assert_eq!(runs.list().unwrap(), ["20261120-2", "20261120-1"]);
    assert_eq!(runs.load("20261120-2").unwrap(), "two");
    // A new report of a run does not make the run newer, but resuming the run does.
    runs.save("20261120-2", "three").unwrap();
    assert_eq!(runs.list().unwrap(), ["20261120-2", "20261120-1"]);
    runs.begin("20261120-2").unwrap();
    assert_eq!(runs.list().unwrap(), ["20261120-1", "20261120-2"]);
}

#[test]
fn the_newest_run_does_not_depend_on_the_clock() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::new(folder.path());
    // These runs are not in the order file, for example because they were copied from another machine.
    for id in ["20260101-b", "20260101-a"] {
        let path = runs.path(id).unwrap();
        write(&path, b"{}").unwrap();
    }
    for id in ["20311120-future", "19700101-past", "20261120-now"] {
        runs.begin(id).unwrap();
        write(&runs.path(id).unwrap(), b"{}").unwrap();
    }
    runs.begin("20261121-never-there").unwrap();
    let all = ["20260101-a", "20260101-b", "20311120-future", "19700101-past", "20261120-now"];
    assert_eq!(runs.list().unwrap(), all);
    assert_eq!(runs.all().unwrap(), all.map(|it| (it.to_owned(), true)));
    // An incomplete line does not damage other lines of the order file.
    let order = folder.path().join("runs/order");
    let text = std::fs::read_to_string(&order).unwrap() + "20311120-fut";
    std::fs::write(&order, text).unwrap();
    runs.begin("20260101-a").unwrap();
    assert_eq!(runs.list().unwrap().last().unwrap(), "20260101-a");
}

#[test]
fn reports_missing_and_misnamed_files() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::new(folder.path());
    assert!(matches!(runs.load("x"), Err(StoreError::NoSuchRun { .. })));
    for id in ["../x", "", "a/b"] {
        assert!(matches!(runs.load(id), Err(StoreError::BadName { .. })), "{id}");
    }
    assert!(matches!(runs.begin("../x"), Err(StoreError::BadName { .. })));
}

#[test]
fn a_folder_that_cannot_be_made_is_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(".kindlm"), "a file where the folder should be").unwrap();
    let err = Runs::new(folder.path().join(".kindlm")).save("a", "x").unwrap_err().to_string();
    assert!(err.starts_with("cannot make the folder `"), "{err}");
    assert!(err.contains(".kindlm/runs`: "), "{err}");
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

#[test]
fn a_run_is_found_by_the_beginning_of_its_id() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::new(folder.path());
    for id in ["20261120-1", "20261120-12", "20261121-1"] {
        runs.save(id, "{}").unwrap();
    }
    for (given, expected) in
        [("20261120-1", "20261120-1"), ("20261121", "20261121-1"), ("2027", "2027")]
    {
        assert_eq!(runs.complete_id(given).unwrap(), expected);
    }
    assert_eq!(
        runs.complete_id("20261120").unwrap_err().to_string(),
        "`20261120` is the beginning of 2 run ids: `20261120-12`, `20261120-1`"
    );
    assert!(runs.complete_id("2026").unwrap_err().to_string().contains("of 3 run ids"));
}

#[test]
fn removes_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::new(folder.path());
    for id in ["a", "b"] {
        runs.save(id, "{}").unwrap();
    }
    runs.remove("a").unwrap();
    assert_eq!(runs.list().unwrap(), ["b"]);
    assert!(matches!(runs.remove("../b"), Err(StoreError::BadName { .. })));
}

#[test]
fn a_new_state_folder_ignores_its_runs() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join(".kindlm");
    Runs::new(&state).begin("a").unwrap();
    let ignored = std::fs::read_to_string(state.join(".gitignore")).unwrap();
    assert!(ignored.ends_with("\n/runs/\n"), "{ignored}");
    // The user may remove the ignore file, so only the first run writes it.
    std::fs::remove_file(state.join(".gitignore")).unwrap();
    Runs::new(&state).begin("b").unwrap();
    assert!(!state.join(".gitignore").exists());
}

#[test]
fn heads_are_stored_and_made_again_with_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::new(folder.path());
    let mut report = kindlm_testing::sample_report();
    let id = report.run.id.clone();
    let json = |report: &Report| {
        let mut json = Vec::new();
        v1::write_compact(report, &mut json).unwrap();
        String::from_utf8(json).unwrap()
    };
    let path = runs.save(&id, &json(&report)).unwrap().with_file_name(Runs::HEAD);
    assert!(!path.exists());
    let head = runs.head(&id).unwrap();
    assert_eq!(head, RunHead::from_report(&report));
    let size = path.metadata().unwrap().len();
    assert!((500..4_000).contains(&size), "{size} bytes");

    // The stored totals are used. Damaged totals are computed again from the report, which is damaged here, too.
    std::fs::write(runs.path(&id).unwrap(), "not read").unwrap();
    assert_eq!(runs.head(&id).unwrap(), head);
    std::fs::write(&path, "{").unwrap();
    assert!(runs.head(&id).is_err());

    // A new report of the run has new totals.
    runs.save(&id, &json(&report)).unwrap();
    runs.save_head(&head).unwrap();
    report.cases.truncate(1);
    runs.save(&id, &json(&report)).unwrap();
    assert_eq!(runs.head(&id).unwrap().totals.cases, 1);
    assert!(matches!(runs.head("other"), Err(ReportError::Store(StoreError::NoSuchRun { .. }))));
}

/// Returns a mutation result without mutants.
fn mutation(run: &str) -> MutationReport {
    let mut report = MutationReport::new(run, "s");
    report.score = Some(0.5);
    report
}

#[test]
fn failed_save_keeps_the_mutation_result() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::new(folder.path());
    let path = runs.save("a", "{}").unwrap();
    let result = mutation("a");
    Runs::save_mutation(&path, &result).unwrap();
    // The report becomes a folder while it is written, so the new report cannot replace it.
    let failed = runs.save_with("a", |_| {
        std::fs::remove_file(&path)?;
        std::fs::create_dir(&path)
    });
    assert!(failed.is_err());
    assert_eq!(Runs::mutation(&path, "a").unwrap(), Some(result));
    // A new report of the run has no mutation result yet.
    std::fs::remove_dir(&path).unwrap();
    runs.save("a", "{}").unwrap();
    assert_eq!(Runs::mutation(&path, "a").unwrap(), None);
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn mutation_result_of_another_version_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::new(folder.path());
    let path = runs.save("a", "{}").unwrap();
    for (text, is_error) in
        [(r#"{"schemaVersion":2,"run":"a"}"#, false), (r#"{"schemaVersion":1,"run":"a"}"#, true)]
    {
        std::fs::write(path.with_file_name(Runs::MUTATION), text).unwrap();
        let found = Runs::mutation(&path, "a");
        assert_eq!(found.is_err(), is_error, "{text}");
        assert!(found.ok().flatten().is_none(), "{text}");
    }
}
