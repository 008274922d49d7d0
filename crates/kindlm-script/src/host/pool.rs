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
    /// The number of worker tasks, idle or busy.
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
        #[cfg(not(feature = "javascript"))]
        crate::missing::check(self.runtime)?;
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

    /// Waits for the next job, and removes it from the queue. Returns `None` if the pool is closed and the queue is
    /// empty.
    async fn next(&self) -> Option<Job> {
        self.queue().idle += 1;
        let idle = Idle(self);
        loop {
            // The task registers for notifications before it checks the queue, so that it misses no job.
            let arrived = self.arrived.notified();
            let (job, closed) = {
                let mut queue = self.queue();
                (queue.jobs.pop_front(), queue.closed)
            };
            if job.is_some() || closed {
                drop(idle);
                return job;
            }
            arrived.await;
        }
    }
}

/// A marker that counts a task as idle until it is dropped.
struct Idle<'a>(&'a Pool);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.queue().idle -= 1;
    }
}

/// The task that owns a worker. Dropping the task always reduces the worker count.
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
        while let Some(job) = pool.next().await {
            let mut running = match worker.take() {
                Some(worker) => worker,
                None => match Worker::start(pool.runtime, &pool.shared).await {
                    Ok(worker) => worker,
                    Err(err) => {
                        // This job gets the error, and the next job starts a new worker. The send only fails if the
                        // caller no longer waits.
                        let _ = job.answer.send(Err(err));
                        continue;
                    }
                },
            };
            running.serve(job).await;
            if running.is_done() {
                running.end().await;
            } else {
                worker = Some(running);
            }
        }
        if let Some(worker) = worker {
            worker.end().await;
        }
    }
}
