//! Compiled `expect` blocks, by their text: a million records with the same expectations compile them once.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use kindlm_assertions::Check;
use lru::LruCache;

/// How many blocks are remembered; a bound, so that memory stays flat.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(2048).unwrap();

/// What a block comes to: its checks, or what is wrong with it.
type Compiled = Arc<Result<Vec<Check>, String>>;

/// Compiled blocks, for any number of threads.
pub(super) struct Cache(Mutex<LruCache<String, Compiled>>);

impl Default for Cache {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl Cache {
    /// What the blocks come to; `compile` is called if nobody remembers.
    pub(super) fn get(
        &self,
        expect: Option<&str>,
        assertions: Option<&str>,
        compile: impl FnOnce() -> Result<Vec<Check>, String>,
    ) -> Compiled {
        let joined;
        let key = match (expect, assertions) {
            (None, None) => return Arc::new(Ok(Vec::new())),
            (Some(expect), None) => expect,
            (expect, Some(assertions)) => {
                joined = format!("{}\0{assertions}", expect.unwrap_or_default());
                &joined
            }
        };
        if let Some(known) = self.lock().get(key) {
            return Arc::clone(known);
        }
        // Without the lock: two threads may compile the same block, none waits for another.
        let compiled = Arc::new(compile());
        self.lock().put(key.to_owned(), Arc::clone(&compiled));
        compiled
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LruCache<String, Compiled>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
