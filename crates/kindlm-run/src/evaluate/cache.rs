//! Caches compiled `expect` blocks. Many records share a block, which is compiled once.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use kindlm_assertions::Check;
use lru::LruCache;

/// The maximum number of cached blocks, which bounds the memory.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(2048).unwrap();

/// The result of compiling a block, shared by all records with this block.
pub(super) type Compiled = Arc<CompiledRules>;

/// The result of compiling a block.
pub(super) struct CompiledRules {
    /// The checks, or an error message.
    pub(super) checks: Result<Vec<Check>, String>,
    /// The rendered templates of the block; empty without templates, or if results cannot be resumed.
    pub(super) rendered: String,
}

/// The cache entry of a block.
#[derive(Clone)]
enum CachedBlock {
    /// The result of the compilation. The block has no templates, or the key of the entry contains the variables.
    Compiled(Compiled),
    /// The block has templates, so its result depends on the variables.
    ///
    /// The result is cached under a key with the variables.
    ByVariables,
}

/// The result of one compilation.
pub(super) struct Made {
    pub(super) compiled: CompiledRules,
    /// True if the block has templates.
    pub(super) by_variables: bool,
}

/// The cache of compiled blocks, for any number of threads.
// perf: docs/benchmarks.md, 33 % fewer instructions for records with the same expectations
pub(super) struct Cache(Mutex<LruCache<String, CachedBlock>>);

impl Default for Cache {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl Cache {
    /// Returns the compiled block from the cache, or calls `compile`.
    ///
    /// The key consists of `expect` and `assertions`.
    ///
    /// `variables` is only called if a block has templates.
    pub(super) fn get(
        &self,
        expect: Option<&str>,
        assertions: Option<&str>,
        variables: impl FnOnce() -> String,
        compile: impl FnOnce() -> Made,
    ) -> Compiled {
        let joined;
        let key = match (expect, assertions) {
            (None, None) => {
                return Arc::new(CompiledRules { checks: Ok(Vec::new()), rendered: String::new() });
            }
            (Some(expect), None) => expect,
            (expect, Some(assertions)) => {
                joined = format!("{}\0{assertions}", expect.unwrap_or_default());
                &joined
            }
        };
        let known = self.lock().get(key).cloned();
        match known {
            Some(CachedBlock::Compiled(compiled)) => compiled,
            Some(CachedBlock::ByVariables) => {
                let key = format!("{key}\0\0{}", variables());
                if let Some(CachedBlock::Compiled(compiled)) = self.lock().get(&key) {
                    return Arc::clone(compiled);
                }
                let compiled = Arc::new(compile().compiled);
                self.lock().put(key, CachedBlock::Compiled(Arc::clone(&compiled)));
                compiled
            }
            None => {
                // Compile without the lock, so that other threads do not wait. Two threads may compile the same block.
                let made = compile();
                let compiled = Arc::new(made.compiled);
                if made.by_variables {
                    let by_value = format!("{key}\0\0{}", variables());
                    self.lock().put(by_value, CachedBlock::Compiled(Arc::clone(&compiled)));
                    self.lock().put(key.to_owned(), CachedBlock::ByVariables);
                } else {
                    self.lock().put(key.to_owned(), CachedBlock::Compiled(Arc::clone(&compiled)));
                }
                compiled
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LruCache<String, CachedBlock>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a block that cannot be compiled. Its error message contains the arguments.
    fn compile(expect: Option<&str>, assertions: Option<&str>, variables: &str) -> Made {
        let by_variables = [expect, assertions].into_iter().flatten().any(|it| it.contains("{{"));
        let seen = if by_variables { variables } else { "" };
        let checks = Err(format!("{expect:?} {assertions:?} {seen}"));
        let compiled = CompiledRules { checks, rendered: seen.to_owned() };
        Made { compiled, by_variables }
    }

    #[test]
    fn a_cached_block_is_the_block_as_it_would_be_compiled() {
        let cache = Cache::default();
        let more_than_are_remembered = 0..REMEMBERED.get() + 10;
        let blocks: Vec<String> = more_than_are_remembered
            .map(|it| if it % 3 == 0 { format!("{it} {{{{ x }}}}") } else { it.to_string() })
            .collect();
        let mut compiled = 0;
        for _ in 0..2 {
            for block in &blocks {
                for (expect, assertions) in [
                    (Some(block.as_str()), None),
                    (None, Some(block.as_str())),
                    (Some("{}"), Some(block)),
                ] {
                    for variables in ["a", "b", "a"] {
                        let cached = cache.get(
                            expect,
                            assertions,
                            || variables.to_owned(),
                            || {
                                compiled += 1;
                                compile(expect, assertions, variables)
                            },
                        );
                        let plain = compile(expect, assertions, variables).compiled;
                        let error = |it: &CompiledRules| it.checks.as_ref().unwrap_err().clone();
                        assert_eq!(error(&cached), error(&plain));
                        assert_eq!(cached.rendered, plain.rendered);
                    }
                }
            }
        }
        let asked = 2 * 3 * 3 * blocks.len();
        assert!(compiled <= asked / 2, "{compiled} of {asked}");
    }
}
