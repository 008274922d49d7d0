//! A process that is killed during a write loses no execution that it reported as stored.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kindlm_store::journal::{Durability, Header, Journal, JournalError, JournalWriter};
use kindlm_types::{Execution, ExecutionResult};

const FOLDER: &str = "KINDLM_TEST_FOLDER";

/// Returns a result whose line has several pages of memory, so that the process can be killed between the writes of two
/// pages.
fn result(repeat: u32) -> ExecutionResult {
    let execution = Execution {
        case: "a".to_owned(),
        model: "m".to_owned(),
        repeat,
        output: "It is on its way. ".repeat(4_000),
        ..Execution::default()
    };
    ExecutionResult::new(execution, Vec::new())
}

fn begin_or_resume(folder: &Path) -> Result<(JournalWriter, u32), JournalError> {
    match Journal::open(folder) {
        Ok(journal) => {
            let (writer, index) = JournalWriter::resume(&journal, Durability::Flush)?;
            Ok((writer, u32::try_from(index.len()).unwrap()))
        }
        Err(JournalError::Missing { .. }) => {
            let header = Header::new("r", "0.1.0", "2026-11-20T14:09:12Z", "s");
            Ok((JournalWriter::create(folder, &header, Durability::Flush)?, 0))
        }
        Err(err) => Err(err),
    }
}

#[test]
#[ignore = "is started and killed by the test below"]
fn appends_until_it_is_killed() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let (writer, first) = begin_or_resume(&folder).unwrap();
    for repeat in first..first + 10_000 {
        writer.append(&result(repeat)).unwrap();
        println!("kept {repeat}");
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn a_killed_process_loses_no_stored_answer() {
    let folder = tempfile::tempdir().unwrap();
    let mut kept = 0;
    for round in 0..12_u32 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["killed::appends_until_it_is_killed", "--exact", "--ignored", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        // The process is killed at a different time in each round; in the first round, right after its start.
        let stop_after = (round * 7) % 23;
        let mut seen = 0;
        while seen < stop_after {
            let line = said.next().expect("it appends until it is killed").unwrap();
            seen += u32::from(line.starts_with("kept "));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let rest = said.map_while(Result::ok).filter(|it| it.starts_with("kept ")).count();
        kept += seen + u32::try_from(rest).unwrap();

        let Ok(journal) = Journal::open(folder.path()) else {
            assert_eq!(kept, 0, "there is a journal as soon as something is in it");
            continue;
        };
        let repeats: Vec<u32> =
            journal.entries().unwrap().map(|it| it.unwrap().result.execution.repeat).collect();
        let len = u32::try_from(repeats.len()).unwrap();
        assert_eq!(
            repeats,
            (0..len).collect::<Vec<_>>(),
            "nothing is lost, nothing is there twice"
        );
        // The process may be killed after it stored the last execution and before it reported it.
        assert!(len == kept || len == kept + 1, "{kept} were kept, {len} are there");
        kept = len;
    }
    assert!(kept > 50, "{kept}");
}
