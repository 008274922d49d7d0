//! Stores finished executions in the journal, and loads the executions of an earlier process.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kindlm_engine::{ReadRecord, Record, RecordError};
use kindlm_store::journal::{CaseSummaries, EntryLocation, Index, Journal, JournalWriter, Reader};
use kindlm_types::{CaseResult, ExecutionResult};

use crate::Failure;
use crate::secrets::Secrets;

/// The interval of disk syncs. A crash of the machine loses at most the executions of this interval; a crash of the
/// process loses none.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// The journal of the run that is resumed.
pub(super) struct EarlierRun {
    pub(super) journal: Journal,
    pub(super) index: Index,
    /// True if no execution is needed anymore.
    pub(super) is_complete: bool,
}

/// The executions of a run in its journal.
pub(crate) struct Kept {
    shared: Arc<Shared>,
    past: Option<EarlierRun>,
    secrets: Secrets,
    reader: Reader,
    /// The locations of executions in the journal, by position in the plan; `None` for an execution that is not stored.
    places: Mutex<Vec<Option<EntryLocation>>>,
    /// The case summaries; `None` if they could not be stored.
    heads: Mutex<Option<CaseSummaries>>,
    syncing: Option<(Sender<()>, JoinHandle<()>)>,
}

/// The state shared with the thread that syncs to the disk.
struct Shared {
    writer: JournalWriter,
    /// True if appended data may not be on the disk yet.
    dirty: AtomicBool,
    /// The first error of a sync; `None` without an error.
    failure: Mutex<Option<RecordError>>,
}

impl Kept {
    /// Creates the store of a run's executions. `past` is the journal of a resumed run.
    pub(super) fn new(
        writer: JournalWriter,
        past: Option<EarlierRun>,
        secrets: Secrets,
    ) -> Result<Self, Failure> {
        let reader = writer.reader().map_err(|err| Failure::internal(err.to_string()))?;
        // The header is written, but not synced to the disk yet.
        let (dirty, failure) = (AtomicBool::new(true), Mutex::default());
        let shared = Arc::new(Shared { writer, dirty, failure });
        let (stop, stopped) = mpsc::channel();
        let of_thread = Arc::clone(&shared);
        let sync = move || {
            while stopped.recv_timeout(SYNC_EVERY) == Err(RecvTimeoutError::Timeout) {
                of_thread.sync();
            }
        };
        let thread = thread::Builder::new().name("journal".to_owned()).spawn(sync);
        let thread = thread.map_err(|err| Failure::internal(format!("cannot start: {err}")))?;
        let (places, syncing) = (Mutex::default(), Some((stop, thread)));
        let heads =
            Mutex::new(shared.writer.path().parent().and_then(|it| CaseSummaries::new(it).ok()));
        Ok(Self { shared, past, secrets, reader, places, heads, syncing })
    }

    /// Returns true if an earlier process has done all executions that are needed.
    pub(crate) fn was_complete(&self) -> bool {
        self.past.as_ref().is_some_and(|it| it.is_complete)
    }

    /// Syncs all data to the disk, and returns the error of a failed sync; `None` after success.
    ///
    /// Also stops the thread that syncs.
    pub(crate) fn finish(&mut self) -> Option<RecordError> {
        if let Some((stop, thread)) = self.syncing.take() {
            drop(stop);
            // The thread does not panic. If it did panic, the sync below replaces the syncs of the thread.
            let _ = thread.join();
        }
        self.shared.sync();
        self.shared.failed()
    }

    fn note(&self, at: usize, place: Option<EntryLocation>) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() <= at {
            places.resize(at + 1, None);
        }
        if let Some(slot) = places.get_mut(at) {
            *slot = place;
        }
    }

    fn place(&self, at: usize) -> Result<EntryLocation, RecordError> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.get(at).copied().flatten();
        place.ok_or_else(|| RecordError(format!("the journal has no execution {at}")))
    }

    /// Runs `with` on the case summaries. If `with` fails, the case summaries are dropped and the run continues.
    /// Returns `None` after such a failure, and without case summaries.
    fn with_heads<T>(&self, with: impl FnOnce(&mut CaseSummaries) -> io::Result<T>) -> Option<T> {
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        let done = with(heads.as_mut()?);
        if done.is_err() {
            *heads = None;
        }
        done.ok()
    }
}

impl Shared {
    fn sync(&self) {
        if !self.dirty.swap(false, Ordering::AcqRel) {
            return;
        }
        if let Err(err) = self.writer.sync() {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| RecordError(err.to_string()));
        }
    }

    fn failed(&self) -> Option<RecordError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Record for Kept {
    fn recall(
        &self,
        at: usize,
        case: &str,
        model: &str,
        repeat: u32,
    ) -> Result<Option<ExecutionResult>, RecordError> {
        let Some(EarlierRun { journal, index, .. }) = &self.past else { return Ok(None) };
        let Some(place) = index.get(case, model, repeat) else { return Ok(None) };
        let read = journal.read_execution(place).map_err(|err| RecordError(err.to_string()));
        let kept = match &read {
            Ok(result) => place.is_done() || result.is_unjudged(),
            Err(_) => place.is_done(),
        };
        self.note(at, kept.then_some(place));
        read.map(|result| kept.then_some(result))
    }

    fn spent_before(&self, case: &str, model: &str, repeat: u32) -> Result<f64, RecordError> {
        let Some(EarlierRun { journal, index, .. }) = &self.past else { return Ok(0.0) };
        let place = index.get(case, model, repeat).filter(|it| !it.is_done());
        let Some(place) = place else { return Ok(0.0) };
        let it = journal.read_execution(place).map_err(|err| RecordError(err.to_string()))?;
        if it.is_unjudged() {
            // The execution is loaded and judged again; its cost is counted then.
            return Ok(0.0);
        }
        let judges = it.judge_cost_usd.unwrap_or_default();
        Ok(it.execution.spent_at_least().unwrap_or_default() + judges)
    }

    fn keep(&self, finished: &mut [(usize, ExecutionResult)]) -> Result<(), RecordError> {
        for (_, result) in &mut *finished {
            self.secrets.redact_execution(result);
        }
        let places = self.shared.writer.append_all(finished.iter().map(|(_, result)| result));
        let places = places.map_err(|err| RecordError(err.to_string()))?;
        for ((at, _), place) in finished.iter().zip(places) {
            self.note(*at, place);
        }
        self.shared.dirty.store(true, Ordering::Release);
        Ok(())
    }

    fn failure(&self) -> Option<RecordError> {
        self.shared.failed()
    }

    fn case_finished(&self, position: usize, case: &CaseResult) {
        // A resumed run stores no case summaries. It loads all results from the journal again, because an earlier
        // process may have masked fewer secrets.
        if self.past.is_none() {
            self.with_heads(|heads| heads.keep(position, case));
        }
    }
}

impl ReadRecord for Kept {
    fn read_execution(&self, at: usize) -> Result<ExecutionResult, RecordError> {
        let read = self.reader.read_execution(self.place(at)?);
        let mut result = read.map_err(|err| RecordError(err.to_string()))?;
        if self.past.is_some() {
            // Mask secrets again, because an earlier process may have masked fewer secrets.
            self.secrets.redact_execution(&mut result);
        }
        Ok(result)
    }

    fn written(&self, position: usize, units: Range<usize>) -> Result<Option<String>, RecordError> {
        let Some(head) = self.with_heads(|heads| heads.read_summary(position)).flatten() else {
            return Ok(None);
        };
        let executions = units.map(|at| {
            self.reader.text(self.place(at)?).map_err(|err| RecordError(err.to_string()))
        });
        Ok(Some(head.around(&executions.collect::<Result<Vec<_>, _>>()?)))
    }

    fn clean(&self, result: &mut ExecutionResult) {
        self.secrets.redact_execution(result);
    }
}
