//! Secret values that become known while KindLM runs.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::known::KnownSecrets;

/// The maximum number of values. A server that runs for weeks must not search for every expired key.
const MOST: usize = 256;

/// Secret values that become known after the start, such as keys that a command prints. Clones share the values.
///
/// ```
/// use kindlm_redact::{LearnedSecrets, Secrets};
///
/// let learned = LearnedSecrets::default();
/// let secrets = Secrets::default().with_learned(&learned);
/// assert_eq!(secrets.redact("the key is hunter2-hunter2"), None);
/// learned.add("hunter2-hunter2");
/// assert_eq!(secrets.redact("the key is hunter2-hunter2").unwrap(), "the key is [redacted]");
/// ```
#[derive(Clone, Default)]
pub struct LearnedSecrets(Arc<RwLock<Values>>);

#[derive(Default)]
struct Values {
    /// The values, the newest last.
    newest: VecDeque<String>,
    known: KnownSecrets,
}

impl LearnedSecrets {
    /// Adds a value to this set and to all its clones. Only the last 256 values are kept.
    pub fn add(&self, value: &str) {
        let mut values = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if values.newest.iter().any(|it| it == value) {
            return;
        }
        values.newest.push_back(value.to_owned());
        if values.newest.len() > MOST {
            values.newest.pop_front();
            let mut known = KnownSecrets::default();
            values.newest.iter().for_each(|it| known.add(it));
            values.known = known;
        } else {
            values.known.add(value);
        }
    }

    /// Calls a function with the current values.
    pub(crate) fn with_known<T>(&self, read: impl FnOnce(&KnownSecrets) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner).known)
    }
}

impl fmt::Debug for LearnedSecrets {
    /// Shows no value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LearnedSecrets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Secrets;

    #[test]
    fn later_values_are_masked_in_all_clones() {
        let learned = LearnedSecrets::default();
        let before = Secrets::new(["hunter2-hunter2"]).with_learned(&learned);
        let mut extended = Secrets::default();
        extended.extend(&before);
        for secrets in [&before, &before.clone(), &extended] {
            assert_eq!(secrets.redact("a token-of-today"), None);
        }
        learned.clone().add("token-of-today");
        learned.add("12345678");
        for secrets in [&before, &before.clone(), &extended] {
            assert_eq!(
                secrets.redact("hunter2-hunter2 token-of-today").unwrap(),
                "[redacted] [redacted]"
            );
            let mut value = json!({"n": 12_345_678, "m": 1});
            assert!(secrets.redact_value(&mut value));
            assert_eq!(value, json!({"n": "[redacted]", "m": 1}));
        }
        assert!(!format!("{learned:?} {before:?}").contains("token"));
    }

    #[test]
    fn the_oldest_values_are_forgotten() {
        let learned = LearnedSecrets::default();
        let secrets = Secrets::default().with_learned(&learned);
        for number in 0..=MOST {
            learned.add(&format!("token-number-{number}!"));
            learned.add(&format!("token-number-{number}!"));
        }
        assert_eq!(secrets.redact("token-number-0!"), None);
        assert_eq!(secrets.redact("token-number-1!").unwrap(), "[redacted]");
        assert_eq!(secrets.redact(&format!("token-number-{MOST}!")).unwrap(), "[redacted]");
    }
}
