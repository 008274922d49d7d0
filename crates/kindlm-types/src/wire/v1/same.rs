//! JSON of what is mostly the same as the last time.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// The list that was written last, and how. The cases of a run mostly have the same checks, and most of those pass: then
/// the half of what is written of a case is what was written of the one before.
#[derive(Debug)]
pub(super) struct Same<T>(Option<(Vec<T>, Box<RawValue>)>);

impl<T> Default for Same<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Clone + PartialEq> Same<T> {
    /// The JSON of a list; `written` looks like it.
    ///
    /// Lists that are equal must be written in the same way.
    pub(super) fn json<W: Serialize>(
        &mut self,
        list: &[T],
        written: impl FnOnce() -> W,
    ) -> serde_json::Result<&RawValue> {
        let pair = match self.0.take().filter(|(before, _)| before == list) {
            Some(pair) => pair,
            None => (list.to_vec(), to_raw_value(&written())?),
        };
        Ok(&self.0.insert(pair).1)
    }
}

/// JSON that is at hand, or is yet to be made.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Json<'a, T> {
    Made(&'a RawValue),
    ToMake(T),
}
