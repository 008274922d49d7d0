//! The state of one rendering, and the limits of its size.

use std::collections::HashMap;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value as Jinja};

/// The largest total size of all results of a rendering, in bytes.
pub(crate) const MOST: u64 = 50_000_000;
/// The largest size of a single result, in bytes.
const LARGEST: u64 = 10_000_000;

/// The size that counts for each value in addition to its text, in bytes.
pub(crate) const ITEM: u64 = 16;

/// The deepest nesting of lists and objects.
const DEEPEST: usize = 200;

/// A variable or key that a template uses and that has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missing {
    /// The name as in the template, such as `user.nmae`.
    pub name: String,
    /// The existing name that is probably meant, in the same notation; `None` without a similar name.
    pub near: Option<String>,
    /// True if the value exists and is `null`.
    pub is_null: bool,
}

/// The state of one rendering.
///
/// The state has the total size of the results, the missing values and the shared variables.
#[derive(Debug, Default)]
pub(crate) struct RenderState {
    made: u64,
    missing: Vec<Missing>,
    /// The values of the shared variables. A shared variable is set before a loop and changed in the loop.
    pub(crate) set: HashMap<String, Jinja>,
}

impl RenderState {
    /// Returns the missing values of a rendering, without duplicates.
    pub(crate) fn missing_in(state: &State<'_, '_>) -> Vec<Missing> {
        state.get_extension::<Self>().map(|it| it.missing.clone()).unwrap_or_default()
    }

    pub(crate) fn note(&mut self, missing: &Missing) {
        // Report a missing value once, and do not report its keys.
        let comes_of = |it: &Missing| {
            let rest = missing.name.strip_prefix(it.name.as_str());
            rest.is_some_and(|it| !it.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
        };
        if !self.missing.iter().any(comes_of) {
            self.missing.push(missing.clone());
        }
    }

    /// Adds to the total size of the results. Returns an error if the total exceeds the limit.
    pub(crate) fn count(&mut self, size: u64) -> Result<(), Error> {
        self.made = self.made.saturating_add(size);
        if self.made > MOST {
            return Err(refused("it makes more than 50,000,000 characters in all"));
        }
        Ok(())
    }
}

pub(crate) fn render_state<'s>(state: &'s mut State<'_, '_>) -> &'s mut RenderState {
    state.get_or_insert_extension_with(RenderState::default)
}

pub(crate) fn refused(message: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.to_owned())
}

/// Adds a printed text to the total size of the results. Returns an error if the total exceeds the limit.
pub(crate) fn count_printed(state: &mut State<'_, '_>, text: &str) -> Result<(), Error> {
    render_state(state).count(text.len() as u64)
}

/// Counts the size of a result and returns the result. Returns an error if the size exceeds a limit.
pub(crate) fn made(state: &mut State<'_, '_>, value: Jinja) -> Result<Jinja, Error> {
    let size = size(&value, LARGEST, 0)?;
    render_state(state).count(size)?;
    Ok(value)
}

/// Returns the size of a value. A value that occurs several times counts each time.
///
/// Returns an error if the size exceeds `most`, or if the value is nested too deeply.
pub(crate) fn size(value: &Jinja, most: u64, depth: usize) -> Result<u64, Error> {
    if depth > DEEPEST {
        return Err(refused("it makes a value that is nested more than 200 levels deep"));
    }
    let mut sum = ITEM;
    let mut add = |part: u64| {
        sum = sum.saturating_add(part);
        if sum <= most {
            return Ok(sum);
        }
        Err(refused(if most > LARGEST {
            "it uses a value of more than 50,000,000 characters"
        } else {
            "it makes a value of more than 10,000,000 characters"
        }))
    };
    match value.kind() {
        ValueKind::String => add(value.as_str().map_or(0, str::len) as u64),
        ValueKind::Seq | ValueKind::Iterable => {
            for item in value.try_iter()? {
                add(size(&item, most, depth + 1)?)?;
            }
            add(0)
        }
        ValueKind::Map => {
            for key in value.try_iter()? {
                add(size(&key, most, depth + 1)?)?;
                add(size(&value.get_item(&key)?, most, depth + 1)?)?;
            }
            add(0)
        }
        _ => Ok(sum),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_too_large_name_their_limit() {
        // The items share one text, so this list takes little memory. Each item counts in full.
        let text = Jinja::from("x".repeat(1_000_000));
        let list = |items: usize| Jinja::from(vec![text.clone(); items]);
        for (items, most, expected) in [
            (9, LARGEST, None),
            (11, LARGEST, Some("makes a value of more than 10,000,000 characters")),
            (11, MOST, None),
            (51, MOST, Some("uses a value of more than 50,000,000 characters")),
        ] {
            let error = size(&list(items), most, 0).err().map(|it| it.to_string());
            let is_as_expected = match expected {
                Some(part) => error.as_ref().is_some_and(|it| it.contains(part)),
                None => error.is_none(),
            };
            assert!(is_as_expected, "{items} of at most {most}: {error:?}");
        }
    }
}
