//! A stream of records: read in blocks, evaluated on several threads, written in order.
//!
//! Memory stays flat, because every queue is bounded; and nothing waits for a block to fill: what has arrived
//! is evaluated and written, so that the stream can be a dialogue.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use kindlm_types::ExitStatus;

use super::Evaluator;
use crate::Failure;
use crate::failure::Outcome;

/// How much is read at once.
const BLOCK: usize = 64 * 1024;

/// The longest line that is looked at.
const LONGEST: usize = 64 << 20;

/// Lines to evaluate, and where their results go.
struct Job {
    /// Whole lines.
    lines: Vec<u8>,
    /// The number of the first one, from 1.
    first: u64,
    done: SyncSender<Done>,
}

/// The results of a job, in order.
struct Done {
    text: Vec<u8>,
    status: ExitStatus,
}

/// Evaluates every line of `input` and writes the results to `output`, in order.
pub(crate) fn run(
    evaluator: &Evaluator<'_>,
    input: &mut (dyn Read + Send),
    output: &mut (dyn Write + Send),
    workers: usize,
) -> Outcome {
    let (jobs, todo) = sync_channel::<Job>(workers * 2);
    let (queue, results) = sync_channel::<Receiver<Done>>(workers * 4);
    let todo = Mutex::new(todo);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| work(evaluator, &todo));
        }
        let writer = scope.spawn(move || write_all(output, &results));
        let read = read_all(evaluator, input, &jobs, &queue);
        drop((jobs, queue));
        let written = writer.join().unwrap_or_else(|_| Err(io::Error::other("the writer stopped")));
        let status = written.map_err(|err| Failure::stdout(&err))?;
        read.map_err(|err| Failure {
            status: status.or(ExitStatus::Internal),
            ..Failure::internal(format!("cannot read the records: {err}"))
        })?;
        Ok(status)
    })
}

fn work(evaluator: &Evaluator<'_>, todo: &Mutex<Receiver<Job>>) {
    loop {
        let job = todo.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        let mut done = Done { text: Vec::new(), status: ExitStatus::Success };
        for (line, number) in job.lines.split(|&it| it == b'\n').zip(job.first..) {
            if !line.iter().all(u8::is_ascii_whitespace) {
                let status = evaluator.record(line, number, &mut done.text);
                done.status = done.status.or(status);
            }
        }
        // If nobody waits for it any more, the stream has ended.
        let _ = job.done.send(done);
    }
}

fn write_all(
    output: &mut (dyn Write + Send),
    results: &Receiver<Receiver<Done>>,
) -> io::Result<ExitStatus> {
    let mut status = ExitStatus::Success;
    loop {
        let next = match results.try_recv() {
            Ok(next) => next,
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {
                // Somebody may be waiting for the answer before sending more.
                output.flush()?;
                let Ok(next) = results.recv() else { break };
                next
            }
        };
        let done = next.recv().map_err(|_| io::Error::other("a worker stopped"))?;
        status = status.or(done.status);
        output.write_all(&done.text)?;
    }
    output.flush()?;
    Ok(status)
}

/// Cuts the input into blocks of whole lines. Ends early when nobody wants the results any more.
fn read_all(
    evaluator: &Evaluator<'_>,
    input: &mut (dyn Read + Send),
    jobs: &SyncSender<Job>,
    queue: &SyncSender<Receiver<Done>>,
) -> io::Result<()> {
    let one_by_one = evaluator.may_wait();
    let mut next = 1_u64;
    let mut send = |lines: Vec<u8>| {
        let first = next;
        next += lines.split_inclusive(|&it| it == b'\n').count() as u64;
        let (done, receiver) = sync_channel(1);
        queue.send(receiver).is_ok() && jobs.send(Job { lines, first, done }).is_ok()
    };
    // Lines that wait for a judge go to workers one by one, so that they wait side by side.
    let mut send = |block: Vec<u8>| {
        if one_by_one {
            block.split_inclusive(|&it| it == b'\n').all(|line| send(line.to_vec()))
        } else {
            send(block)
        }
    };
    let mut pending = Vec::new();
    let mut skip_mark = true;
    loop {
        let before = pending.len();
        pending.resize(before + BLOCK, 0);
        let count = match input.read(&mut pending[before..]) {
            Err(err) if err.kind() == io::ErrorKind::Interrupted => 0,
            Err(err) => return Err(err),
            Ok(0) => {
                pending.truncate(before);
                break;
            }
            Ok(count) => count,
        };
        pending.truncate(before + count);
        if skip_mark && pending.len() >= 3 {
            skip_mark = false;
            if pending.starts_with(b"\xef\xbb\xbf") {
                pending.drain(..3);
            }
        }
        if let Some(end) = pending[before.min(pending.len())..].iter().rposition(|&it| it == b'\n')
        {
            let rest = pending.split_off(before.min(pending.len()) + end + 1);
            if !send(std::mem::replace(&mut pending, rest)) {
                return Ok(());
            }
        } else if pending.len() > LONGEST {
            return Err(io::Error::other(format!("a line is longer than {} MiB", LONGEST >> 20)));
        }
    }
    if !pending.is_empty() {
        send(pending);
    }
    Ok(())
}
