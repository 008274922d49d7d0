//! Compiled `expect` blocks, by their text: a million records with the same expectations compile them once.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use kindlm_assertions::Check;
use lru::LruCache;

/// The number of blocks that are remembered; a bound, so that memory use stays constant.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(2048).unwrap();

/// The result of compiling a block: its checks, or the problem of the block.
pub(super) type Compiled = Arc<Result<Vec<Check>, String>>;

/// The cached state of a block.
#[derive(Clone)]
enum Known {
    /// The compiled block, which does not depend on variables.
    Compiled(Compiled),
    /// The block has templates, so its result depends on the variables.
    ByVariables,
}

/// The cached results of a block.
pub(super) struct Made {
    pub(super) checks: Result<Vec<Check>, String>,
    /// True if it has templates.
    pub(super) by_variables: bool,
}

/// Compiled blocks, for any number of threads.
pub(super) struct Cache(Mutex<LruCache<String, Known>>);

impl Default for Cache {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl Cache {
    /// The compilation of the blocks; calls `compile` if it is not remembered. Calls `variables` only if a block has
    /// templates.
    pub(super) fn get(
        &self,
        expect: Option<&str>,
        assertions: Option<&str>,
        variables: impl FnOnce() -> String,
        compile: impl FnOnce() -> Made,
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
        let known = self.lock().get(key).cloned();
        match known {
            Some(Known::Compiled(compiled)) => compiled,
            Some(Known::ByVariables) => {
                let key = format!("{key}\0\0{}", variables());
                if let Some(Known::Compiled(compiled)) = self.lock().get(&key) {
                    return Arc::clone(compiled);
                }
                let compiled = Arc::new(compile().checks);
                self.lock().put(key, Known::Compiled(Arc::clone(&compiled)));
                compiled
            }
            None => {
                // Without the lock: two threads may compile the same block, none waits for another.
                let made = compile();
                let compiled = Arc::new(made.checks);
                if made.by_variables {
                    let by_value = format!("{key}\0\0{}", variables());
                    self.lock().put(by_value, Known::Compiled(Arc::clone(&compiled)));
                    self.lock().put(key.to_owned(), Known::ByVariables);
                } else {
                    self.lock().put(key.to_owned(), Known::Compiled(Arc::clone(&compiled)));
                }
                compiled
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LruCache<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
