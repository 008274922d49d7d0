//! A cache for the JSON of lists that often repeat.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// The list that was cached last, with its JSON.
///
/// The cases of a run mostly have the same checks, and most checks pass. About half of the JSON of a case then equals
/// the JSON of the previous case.
// perf: process, 15 % fewer instructions for an execution
#[derive(Debug)]
pub(super) struct Same<T> {
    last: Option<(Vec<T>, Box<RawValue>)>,
    /// The number of consecutive lists that differed from the cached list.
    others: u32,
}

impl<T> Default for Same<T> {
    fn default() -> Self {
        Self { last: None, others: 0 }
    }
}

/// After this number of consecutive cache misses, only every 32nd list is cached.
///
/// If all lists differ, caching them would be wasted work.
const OTHERS: u32 = 32;

impl<T: Clone + PartialEq> Same<T> {
    /// Returns the JSON of the list from the cache, or serializes the list and caches it.
    ///
    /// Returns `None` if many lists in a row differed; the caller then serializes the list. `written` returns the
    /// serializable form of the list. Equal lists must have equal JSON. Fails if the list cannot be serialized.
    pub(super) fn json<W: Serialize>(
        &mut self,
        list: &[T],
        written: impl FnOnce() -> W,
    ) -> serde_json::Result<Option<&RawValue>> {
        if self.last.as_ref().is_some_and(|(before, _)| before == list) {
            self.others = 0;
        } else {
            self.others = self.others.saturating_add(1);
            if self.others > OTHERS && !self.others.is_multiple_of(OTHERS) {
                return Ok(None);
            }
            self.last = Some((list.to_vec(), to_raw_value(&written())?));
        }
        Ok(self.last.as_ref().map(|(_, json)| &**json))
    }
}

/// JSON that is cached, or a value that is still to be serialized.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Json<'a, T> {
    Made(&'a RawValue),
    ToMake(T),
}

impl<'a, T> Json<'a, T> {
    pub(super) fn new(made: Option<&'a RawValue>, to_make: impl FnOnce() -> T) -> Self {
        made.map_or_else(|| Self::ToMake(to_make()), Self::Made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_are_reused_and_others_rarely_stored() {
        let mut same = Same::default();
        let mut json = |list: &[u32], written: &[u32]| {
            same.json(list, || written.to_vec()).unwrap().map(|it| it.get().to_owned())
        };
        assert_eq!(json(&[1], &[1]).as_deref(), Some("[1]"));
        // The cached JSON is used; the value [0] is not serialized.
        assert_eq!(json(&[1], &[0]).as_deref(), Some("[1]"));
        let kept: Vec<u32> = (10..110).filter(|it| json(&[*it], &[*it]).is_some()).collect();
        assert_eq!(kept, (10..42).chain([73, 105]).collect::<Vec<_>>());
        assert_eq!(json(&[105], &[0]).as_deref(), Some("[105]"));
        assert_eq!(json(&[3], &[3]).as_deref(), Some("[3]"));
    }
}
