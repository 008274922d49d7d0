//! A pool of workers of one runtime, with its queue.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kindlm_types::script::{
    ScriptAnswer, ScriptError, ScriptErrorKind, ScriptQuestion, ScriptRuntime,
};
use tokio::sync::{Notify, oneshot};

use super::job::Job;
use super::process::Worker;
use super::{Shared, error};

/// The maximum number of calls that a worker gets at once.
const BATCH: usize = 16;

#[derive(Debug)]
pub(crate) struct Pool {
    runtime: ScriptRuntime,
    size: usize,
    shared: Arc<Shared>,
    queue: Mutex<Queue>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// The number of worker tasks, and of those that are idle.
    workers: usize,
    idle: usize,
    closed: bool,
}

impl Pool {
    pub(crate) fn new(runtime: ScriptRuntime, size: usize, shared: Arc<Shared>) -> Self {
        Self { runtime, size, shared, queue: Mutex::default(), arrived: Notify::new() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Every statement leaves the queue in a valid state, so a poisoned lock is safe to use.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all workers after their current jobs, and discards waiting jobs.
    pub(crate) fn close(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        queue.jobs.clear();
        drop(queue);
        self.arrived.notify_waiters();
    }

    pub(crate) async fn run(
        self: &Arc<Self>,
        question: ScriptQuestion,
        compile_only: bool,
    ) -> Result<ScriptAnswer, ScriptError> {
        let (answer, answered) = oneshot::channel();
        let grow = {
            let mut queue = self.queue();
            queue.jobs.push_back(Job { question, compile_only, answer });
            let grow = queue.idle < queue.jobs.len() && queue.workers < self.size;
            queue.workers += usize::from(grow);
            grow
        };
        if grow {
            let task = Task(Arc::clone(self));
            tokio::spawn(task.serve());
        }
        self.arrived.notify_one();
        let lost = "the host was closed while a script ran";
        answered.await.unwrap_or_else(|_| Err(error(ScriptErrorKind::Internal, lost)))
    }

    /// Takes the next jobs: a fair share of the queue, which saves wake-ups.
    fn take(&self) -> Vec<Job> {
        let mut queue = self.queue();
        let share = queue.jobs.len().div_ceil(self.size).min(BATCH);
        queue.jobs.drain(..share).collect()
    }

    async fn next(&self) -> Option<Vec<Job>> {
        self.queue().idle += 1;
        let idle = Idle(self);
        loop {
            // Registered before the check, so that no arrival in between is missed.
            let arrived = self.arrived.notified();
            let jobs = self.take();
            if !jobs.is_empty() {
                drop(idle);
                return Some(jobs);
            }
            if self.queue().closed {
                return None;
            }
            arrived.await;
        }
    }

    /// Returns unstarted jobs to the queue.
    fn give_back(&self, jobs: Vec<Job>) {
        let mut queue = self.queue();
        for job in jobs.into_iter().rev() {
            queue.jobs.push_front(job);
        }
        drop(queue);
        self.arrived.notify_one();
    }
}

/// Counts a task as idle until it is dropped.
struct Idle<'a>(&'a Pool);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.queue().idle -= 1;
    }
}

/// The task that owns a worker. Its drop always reduces the worker count.
struct Task(Arc<Pool>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.queue().workers -= 1;
    }
}

impl Task {
    async fn serve(self) {
        let pool = &self.0;
        let mut worker: Option<Worker> = None;
        while let Some(mut jobs) = pool.next().await {
            if worker.as_ref().is_none_or(Worker::is_done) {
                worker = match Worker::start(pool.runtime, &pool.shared).await {
                    Ok(worker) => Some(worker),
                    Err(err) => {
                        // Only one job gets the error; the remaining jobs start another attempt.
                        let rest = jobs.split_off(1);
                        for job in jobs {
                            // The receiver may have been dropped.
                            let _ = job.answer.send(Err(err.clone()));
                        }
                        if !rest.is_empty() {
                            pool.give_back(rest);
                        }
                        continue;
                    }
                };
            }
            if let Some(running) = &mut worker {
                let rest = running.serve(jobs).await;
                if running.is_done()
                    && let Some(done) = worker.take()
                {
                    done.end().await;
                }
                if !rest.is_empty() {
                    pool.give_back(rest);
                }
            }
        }
        if let Some(worker) = worker {
            worker.end().await;
        }
    }
}
