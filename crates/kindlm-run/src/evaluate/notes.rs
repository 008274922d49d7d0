//! Warnings about records that can still be evaluated, shown once at the end.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use serde_json::Value;

use super::line::KEYS;

/// The maximum number of records that a warning names. Further records are only counted.
const NAMED: usize = 5;

/// The maximum number of stored keys, which bounds the memory.
const REMEMBERED: usize = 1000;

/// The collected notes, for any number of threads.
#[derive(Default)]
pub(super) struct Notes {
    unchecked: Mutex<Unchecked>,
    /// The unknown keys, each with the most similar known key; `None` if no known key is similar.
    keys: RwLock<HashMap<String, Option<&'static str>>>,
    /// The warnings about unknown keys that resemble a known key.
    key_warnings: Mutex<BTreeSet<String>>,
    /// The number of earlier results whose record has a different id now.
    other_ids: AtomicU64,
    /// The number of earlier results whose record, rules or judges have changed.
    changed: AtomicU64,
    /// The number of earlier results that are still valid.
    kept: AtomicU64,
    /// The number of earlier results that are left after the last record.
    without_record: AtomicU64,
}

/// The records in which nothing was checked.
#[derive(Default)]
struct Unchecked {
    count: u64,
    /// The ids of the first few records, by line; `None` for a record without an id.
    first: BTreeMap<u64, Option<String>>,
}

impl Notes {
    /// Counts a record in which nothing was checked.
    pub(super) fn unchecked(&self, line: u64, id: Option<&Value>) {
        let mut unchecked = self.unchecked.lock().unwrap_or_else(PoisonError::into_inner);
        unchecked.count += 1;
        unchecked.first.insert(line, id.map(ToString::to_string));
        if unchecked.first.len() > NAMED {
            unchecked.first.pop_last();
        }
    }

    /// Counts an earlier result whose record has a different id now.
    pub(super) fn other_id(&self) {
        self.other_ids.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an earlier result whose record, rules or judges have changed.
    pub(super) fn changed(&self) {
        self.changed.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an earlier result that is still valid.
    pub(super) fn kept(&self) {
        self.kept.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of earlier results that are still valid.
    pub(super) fn count_kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    /// Counts an earlier result that is left after the last record.
    pub(super) fn without_record(&self) {
        self.without_record.fetch_add(1, Ordering::Relaxed);
    }

    /// Stores unknown keys, with a warning for each key that resembles a known key.
    pub(super) fn keys(&self, keys: &[Cow<'_, str>]) {
        for key in keys {
            let known = self.keys.read().unwrap_or_else(PoisonError::into_inner);
            if known.contains_key(key.as_ref()) || known.len() >= REMEMBERED {
                continue;
            }
            drop(known);
            let meant = meant(key);
            let mut known = self.keys.write().unwrap_or_else(PoisonError::into_inner);
            known.insert(key.to_string(), meant);
            drop(known);
            if let Some(meant) = meant {
                let warning = format!("unknown key `{key}`: did you mean `{meant}`?");
                self.key_warnings.lock().unwrap_or_else(PoisonError::into_inner).insert(warning);
            }
        }
    }

    /// Returns the known key that is most similar to an unknown key.
    ///
    /// Returns `None` if no key is similar.
    pub(super) fn meant(&self, key: &str) -> Option<&'static str> {
        let known = self.keys.read().unwrap_or_else(PoisonError::into_inner).get(key).copied();
        known.unwrap_or_else(|| meant(key))
    }

    /// Returns all warnings, in an order that does not depend on the threads.
    pub(super) fn warnings(&self) -> Vec<String> {
        let key_warnings = self.key_warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let unchecked = self.unchecked.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.left_over();
        key_warnings.iter().cloned().chain(unchecked.warning()).chain(left).collect()
    }

    /// Returns the warnings about earlier results that do not match their records.
    fn left_over(&self) -> impl Iterator<Item = String> {
        let count = |it: &AtomicU64, words: &str| match it.load(Ordering::Relaxed) {
            0 => None,
            count => Some(format!("{count} of the earlier results {words}")),
        };
        let others = "were of records with another id, and were evaluated again: `--resume` needs the same records \
            in the same order";
        let without =
            "have no record in this stream: they stay at the end of the file, and are not counted";
        let changed = "were evaluated again, because their records, checks or judges had changed";
        let others = count(&self.other_ids, others).into_iter();
        others.chain(count(&self.changed, changed)).chain(count(&self.without_record, without))
    }
}

impl Unchecked {
    fn warning(&self) -> Option<String> {
        let named = self.first.iter().map(|(line, id)| match id {
            Some(id) => format!("line {line} (id {id})"),
            None => format!("line {line}"),
        });
        let mut places: Vec<String> = named.collect();
        let more = self.count.saturating_sub(places.len() as u64);
        if more > 0 {
            places.push(format!("{more} more"));
        }
        (self.count > 0).then(|| {
            format!("nothing was checked in {}: write checks in `expect` or `assertions`, or change `when`", places.join(", "))
        })
    }
}

/// Returns the known key that is most similar to `key`; `None` if no known key is similar.
///
/// Short keys such as `id` are left out, because too many words resemble them.
fn meant(key: &str) -> Option<&'static str> {
    kindlm_types::nearest(key, KEYS.into_iter().filter(|it| it.len() > 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_differ_from_unrelated_keys() {
        for (key, expected) in [
            ("expekt", Some("expect")),
            ("tool_call", Some("tool_calls")),
            ("agent_outputt", Some("agent_output")),
            ("Expect", Some("expect")),
            ("origin", None),
            ("results", None),
            ("uid", None),
            ("kind", None),
        ] {
            assert_eq!(meant(key), expected, "{key}");
        }
    }

    #[test]
    fn every_key_is_reported_once_with_its_first_records() {
        let notes = Notes::default();
        for line in (1..=9).rev() {
            notes.keys(&["expekt".into(), "origin".into()]);
            notes.unchecked(line, (line == 2).then(|| Value::from("b")).as_ref());
        }
        assert_eq!(
            notes.warnings(),
            [
                "unknown key `expekt`: did you mean `expect`?",
                "nothing was checked in line 1, line 2 (id \"b\"), line 3, line 4, line 5, 4 more: write checks in \
                 `expect` or `assertions`, or change `when`",
            ]
        );
        assert_eq!(Notes::default().warnings(), Vec::<String>::new());
    }
}
