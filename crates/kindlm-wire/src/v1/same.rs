//! JSON of lists that are mostly the same as the last time.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// The list that was written last, and its JSON. The cases of a run mostly have the same checks, and most of those
/// pass. Then half of the JSON of a case is the same as that of the one before.
#[derive(Debug)]
pub(super) struct Same<T> {
    last: Option<(Vec<T>, Box<RawValue>)>,
    /// The number of consecutive lists that differed.
    others: u32,
}

impl<T> Default for Same<T> {
    fn default() -> Self {
        Self { last: None, others: 0 }
    }
}

/// After this many other lists in a row only one of as many is stored: where no two are the same, storing costs as
/// much as writing.
const OTHERS: u32 = 32;

impl<T: Clone + PartialEq> Same<T> {
    /// The JSON of a list, if it is at hand or is worth being stored; `written` looks like it.
    ///
    /// Lists that are equal must be written in the same way.
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

/// JSON that is at hand, or is yet to be made.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Json<'a, T> {
    Made(&'a RawValue),
    ToMake(T),
}

impl<'a, T> Json<'a, T> {
    pub(super) fn of(made: Option<&'a RawValue>, to_make: impl FnOnce() -> T) -> Self {
        made.map_or_else(|| Self::ToMake(to_make()), Self::Made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_same_is_at_hand_and_what_is_not_is_seldom_kept() {
        let mut same = Same::default();
        let mut json = |list: &[u32], written: &[u32]| {
            same.json(list, || written.to_vec()).unwrap().map(|it| it.get().to_owned())
        };
        assert_eq!(json(&[1], &[1]).as_deref(), Some("[1]"));
        // It is not made again.
        assert_eq!(json(&[1], &[0]).as_deref(), Some("[1]"));
        let kept: Vec<u32> = (10..110).filter(|it| json(&[*it], &[*it]).is_some()).collect();
        assert_eq!(kept, (10..42).chain([73, 105]).collect::<Vec<_>>());
        assert_eq!(json(&[105], &[0]).as_deref(), Some("[105]"));
        assert_eq!(json(&[3], &[3]).as_deref(), Some("[3]"));
    }
}
