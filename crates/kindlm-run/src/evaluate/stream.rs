//! Reads a stream of records in blocks, evaluates them on several threads, and writes the results in order.
//!
//! Memory use is bounded, because every queue is bounded. A result is written as soon as possible, so a program can
//! read it before it sends the next record.

use std::io::{self, Read, Write};
use std::mem;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use kindlm_engine::Control;
use kindlm_types::ExitStatus;

use super::judge::NoJudge;
use super::{Evaluator, Kept, Malformed};
use crate::Failure;
use crate::failure::Outcome;

/// The number of bytes per read.
const BLOCK: usize = 64 * 1024;

/// The maximum number of bytes in a line.
const LONGEST: usize = 64 << 20;

/// A group of lines for a worker, and the channel for their results.
struct Job {
    work: Work,
    /// The number of the first line, from 1.
    first: u64,
    done: SyncSender<Done>,
}

enum Work {
    /// Complete lines without earlier results.
    Lines(Vec<u8>),
    /// A line and its earlier result.
    Known(Vec<u8>, Vec<u8>),
    /// A line that exceeds [`LONGEST`]. `was_known` is true if the line has an earlier result.
    TooLong { was_known: bool },
}

/// The results of a job, in the order of the lines.
struct Done {
    text: Vec<u8>,
    status: ExitStatus,
    /// The error of the first record that lacks a judge model; `None` without such a record.
    no_judge: Option<NoJudge>,
}

/// Evaluates every line of `input` and writes the results to `output`, in order.
///
/// Returns the worst exit status of all records.
///
/// Fails if the input has no record, if the input cannot be read, or if the results cannot be written. Also fails if a
/// check needs a judge model and no judge model is configured.
pub(super) fn run(
    evaluator: &Evaluator<'_>,
    input: &mut (dyn Read + Send),
    output: &mut (dyn Write + Send),
    kept: Option<Kept>,
    workers: usize,
) -> Outcome {
    let (jobs, todo) = sync_channel::<Job>(workers * 2);
    let (queue, results) = sync_channel::<Receiver<Done>>(workers * 4);
    let todo = Mutex::new(todo);
    let mut rest = None;
    let status = thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| work(evaluator, &todo));
        }
        let to = &mut *output;
        let writer = scope.spawn(move || write_all(to, &results, &evaluator.control));
        let one_by_one = evaluator.may_wait() || kept.is_some();
        let control = &evaluator.control;
        let mut feed = Feed { jobs, queue, next: 1, one_by_one, kept, control };
        let read = feed.all(input, LONGEST);
        rest = feed.kept.take();
        drop(feed);
        let written = writer.join().unwrap_or_else(|_| Err(io::Error::other("the writer stopped")));
        let status = match written {
            Ok(status) => status?,
            Err(err) => {
                Failure::of_stdout(Err(err))?;
                None
            }
        };
        read.map_err(|err| Failure {
            status: status.unwrap_or(ExitStatus::Success).or(ExitStatus::Internal),
            ..Failure::internal(format!(
                "cannot read the records: {}",
                kindlm_store::describe_io_error(&err)
            ))
        })?;
        status.ok_or_else(super::no_record)
    })?;
    if let Some(rest) = rest {
        Failure::of_stdout(evaluator.keep_rest(rest, output))?;
    }
    Ok(status)
}

fn work(evaluator: &Evaluator<'_>, todo: &Mutex<Receiver<Job>>) {
    loop {
        let (job, is_stopped) = {
            let todo = todo.lock().unwrap_or_else(PoisonError::into_inner);
            let job = todo.recv();
            // Read the stop flag under the lock. All jobs after the first stopped job are stopped too, so the results
            // have no gap.
            (job, evaluator.control.reason().is_some())
        };
        let Ok(job) = job else { return };
        let mut done = Done { text: Vec::new(), status: ExitStatus::Success, no_judge: None };
        let record = |line: &[u8], number: u64, done: &mut Done| match evaluator.record(
            line,
            number,
            &mut done.text,
        ) {
            Ok(status) => done.status = done.status.or(status),
            Err(no_judge) => {
                evaluator.control.stop("there is no judge");
                done.no_judge = Some(no_judge);
            }
        };
        match job.work {
            // After a stop, no record is evaluated, but earlier results are still written in order.
            Work::Known(_, kept) if is_stopped => {
                done.status = evaluator.take_over(&kept, job.first);
                done.text = kept;
            }
            Work::Lines(_) | Work::TooLong { was_known: false } if is_stopped => {}
            Work::Lines(lines) => {
                for (line, number) in lines.split(|&it| it == b'\n').zip(job.first..) {
                    // Some programs write a byte order mark at the start of a UTF-8 file.
                    let mark = if number == 1 { &b"\xef\xbb\xbf"[..] } else { b"" };
                    let line = line.strip_prefix(mark).unwrap_or(line);
                    if !line.iter().all(u8::is_ascii_whitespace) {
                        record(line, number, &mut done);
                    }
                    if done.no_judge.is_some() {
                        break;
                    }
                }
            }
            Work::Known(line, kept) => {
                match evaluator.keep(&line, &kept, job.first, &mut done.text) {
                    Some(status) => done.status = status,
                    None => record(&line, job.first, &mut done),
                }
            }
            Work::TooLong { .. } => {
                let error = format!("the line is longer than {} MiB", LONGEST >> 20);
                let malformed = Malformed { id: None, error };
                done.status = evaluator.refuse(malformed, job.first, &mut done.text);
            }
        }
        // The receiver is closed if the stream has ended. The results are not needed then.
        let _ = job.done.send(done);
    }
}

/// Writes all results in order, and returns the worst exit status.
///
/// Returns `None` if there was no result.
///
/// If the output is a pipe that its reader has closed, `control` stops the evaluation. Records that are already being
/// evaluated are still counted, so that the exit status covers all evaluated records.
fn write_all(
    output: &mut (dyn Write + Send),
    results: &Receiver<Receiver<Done>>,
    control: &Control,
) -> io::Result<Result<Option<ExitStatus>, NoJudge>> {
    let mut status = None;
    let mut is_read = true;
    let mut to = |text: Option<&[u8]>| -> io::Result<()> {
        if !is_read {
            return Ok(());
        }
        let written = match text {
            Some(text) => output.write_all(text),
            None => output.flush(),
        };
        match written {
            Err(err) if err.kind() == io::ErrorKind::BrokenPipe => {
                is_read = false;
                control.stop("the reader of the results has closed its end");
                Ok(())
            }
            written => written,
        }
    };
    loop {
        let next = match results.try_recv() {
            Ok(next) => next,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {
                // The program that sends records may wait for this result before it sends more.
                to(None)?;
                let Ok(next) = results.recv() else { break };
                next
            }
        };
        let done = match next.try_recv() {
            Err(TryRecvError::Empty) => {
                // The next result is not ready. Flush now, so that paid results are not lost if the process ends.
                to(None)?;
                next.recv().ok()
            }
            done => done.ok(),
        };
        let done = done.ok_or_else(|| io::Error::other("a worker stopped"))?;
        if !done.text.is_empty() {
            status = Some(status.map_or(done.status, |it: ExitStatus| it.or(done.status)));
            to(Some(&done.text))?;
        }
        if let Some(no_judge) = done.no_judge {
            to(None)?;
            return Ok(Err(no_judge));
        }
    }
    to(None)?;
    Ok(Ok(status))
}

/// The reader that cuts the input into jobs.
struct Feed<'a> {
    jobs: SyncSender<Job>,
    queue: SyncSender<Receiver<Done>>,
    /// The number of the next line, from 1.
    next: u64,
    /// True if each line is a separate job.
    ///
    /// Several lines can then wait for a judge at once.
    one_by_one: bool,
    /// The earlier results, in the order of the records; `None` without earlier results.
    kept: Option<Kept>,
    /// The control that stops the evaluation.
    control: &'a Control,
}

impl Feed<'_> {
    /// Reads to the end of the input.
    ///
    /// Reading ends earlier after a stop, or if the receiver of the results is closed.
    fn all(&mut self, input: &mut dyn Read, longest: usize) -> io::Result<()> {
        // The start of an incomplete line.
        let mut pending = Vec::new();
        let mut skipping = false;
        loop {
            let before = pending.len();
            pending.resize(before + BLOCK, 0);
            let count = match input.read(&mut pending[before..]) {
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {
                    pending.truncate(before);
                    continue;
                }
                read => read?,
            };
            pending.truncate(before + count);
            if count == 0 {
                break;
            }
            if skipping {
                let Some(end) = pending.iter().position(|&it| it == b'\n') else {
                    pending.clear();
                    continue;
                };
                pending.drain(..=end);
                skipping = false;
            }
            let seen = before.min(pending.len());
            let wanted = match pending[seen..].iter().rposition(|&it| it == b'\n') {
                Some(end) => {
                    let rest = pending.split_off(seen + end + 1);
                    self.lines(mem::replace(&mut pending, rest))
                }
                None if pending.len() > longest => {
                    skipping = true;
                    pending.clear();
                    // The earlier results are in the order of the lines, so skip the result of this line too.
                    let was_known = self.kept.as_mut().is_some_and(|it| it.next_line().is_some());
                    self.send(Work::TooLong { was_known }, 1)
                }
                None => true,
            };
            if !wanted {
                return Ok(());
            }
        }
        // After a stop, `pending` may be an incomplete line, so it is not evaluated.
        if !pending.is_empty() && self.control.reason().is_none() {
            self.lines(pending);
        }
        Ok(())
    }

    /// Sends complete lines.
    ///
    /// Returns false after a stop, or if the receiver of the results is closed.
    fn lines(&mut self, block: Vec<u8>) -> bool {
        if self.one_by_one {
            return block.split_inclusive(|&it| it == b'\n').all(|line| {
                // Check for a stop before taking the earlier result, because a taken result would be lost.
                if self.control.reason().is_some() {
                    return false;
                }
                let work = self.known(line).unwrap_or_else(|| Work::Lines(line.to_vec()));
                self.send(work, 1)
            });
        }
        if self.control.reason().is_some() {
            return false;
        }
        let count = block.split_inclusive(|&it| it == b'\n').count() as u64;
        self.send(Work::Lines(block), count)
    }

    /// Returns the line with its earlier result.
    ///
    /// Returns `None` if the line is blank or has no earlier result.
    fn known(&mut self, line: &[u8]) -> Option<Work> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let kept = self.kept.as_mut()?.next_line()?;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        Some(Work::Known(line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).to_vec(), kept))
    }

    fn send(&mut self, work: Work, count: u64) -> bool {
        let first = self.next;
        self.next += count;
        let (done, receiver) = sync_channel(1);
        self.queue.send(receiver).is_ok() && self.jobs.send(Job { work, first, done }).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns a few bytes per read, like a slow pipe.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            let (now, later) = self.0.split_at(count);
            buffer[..count].copy_from_slice(now);
            self.0 = later;
            Ok(count)
        }
    }

    /// Returns every line with its number, as the workers receive them.
    fn fed(input: &[u8], at_once: usize, one_by_one: bool) -> Vec<(u64, String)> {
        let (jobs, todo) = sync_channel(10_000);
        let (queue, _results) = sync_channel(10_000);
        let control = &Control::default();
        let mut feed = Feed { jobs, queue, next: 1, one_by_one, kept: None, control };
        feed.all(&mut Drip(input, at_once), 10).unwrap();
        drop(feed);
        let mut lines = Vec::new();
        for job in todo {
            match job.work {
                Work::Known(..) => unreachable!("nothing was kept"),
                Work::TooLong { .. } => lines.push((job.first, "too long".to_owned())),
                Work::Lines(block) => {
                    assert!(!one_by_one || block.split_inclusive(|&it| it == b'\n').count() == 1);
                    for (line, number) in block.split(|&it| it == b'\n').zip(job.first..) {
                        if !line.is_empty() {
                            lines.push((number, String::from_utf8(line.to_vec()).unwrap()));
                        }
                    }
                }
            }
        }
        lines
    }

    #[test]
    fn every_line_keeps_its_number_however_the_bytes_come() {
        for (input, expected) in [
            ("", &[][..]),
            ("a", &[(1, "a")]),
            ("a\nb\n", &[(1, "a"), (2, "b")]),
            ("\n\na\n\nb", &[(3, "a"), (5, "b")]),
            ("a\n0123456789\nb\n", &[(1, "a"), (2, "0123456789"), (3, "b")]),
        ] {
            for at_once in [1, 2, 3, 7, 1000] {
                for one_by_one in [false, true] {
                    let lines = fed(input.as_bytes(), at_once, one_by_one);
                    let lines: Vec<_> = lines.iter().map(|(n, it)| (*n, it.as_str())).collect();
                    assert_eq!(lines, expected, "{input:?} {at_once} at once");
                }
            }
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_one_is_not() {
        let long = "x".repeat(50);
        let input = format!("a\n{long}\nb\n{long}");
        for at_once in [1, 5, 11] {
            let lines = fed(input.as_bytes(), at_once, false);
            let lines: Vec<_> = lines.iter().map(|(n, it)| (*n, it.as_str())).collect();
            assert_eq!(lines, [(1, "a"), (2, "too long"), (3, "b"), (4, "too long")]);
        }
    }
}
