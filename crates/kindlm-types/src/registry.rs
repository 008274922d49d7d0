//! Entries that configuration names by their ids.

use std::fmt;

/// An entry of a registry.
pub trait Registered: 'static {
    /// The id by which configuration names it.
    fn id(&self) -> &'static str;
}

/// Entries by their ids, in the order in which they are listed: those of a crate, and your own.
pub struct Registry<T: 'static>(Vec<&'static T>);

/// An entry whose id another one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is another entry with the id `{0}`")]
pub struct DuplicateId(pub &'static str);

impl<T: Registered> Registry<T> {
    /// The entries of a slice, which have different ids.
    pub fn new(entries: &[&'static T]) -> Self {
        Self(entries.to_vec())
    }

    /// Adds entries after those that are there.
    ///
    /// # Errors
    ///
    /// If one has the id of another.
    pub fn with(
        mut self,
        entries: impl IntoIterator<Item = &'static T>,
    ) -> Result<Self, DuplicateId> {
        for entry in entries {
            if self.find(entry.id()).is_some() {
                return Err(DuplicateId(entry.id()));
            }
            self.0.push(entry);
        }
        Ok(self)
    }

    /// The entry with this id.
    pub fn find(&self, id: &str) -> Option<&'static T> {
        self.iter().find(|it| it.id() == id)
    }

    /// Every entry, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'static T> + Clone + '_ {
        self.0.iter().copied()
    }

    /// Every id, in order.
    pub fn ids(&self) -> impl Iterator<Item = &'static str> + Clone + '_ {
        self.iter().map(Registered::id)
    }
}

impl<T> Clone for Registry<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Registered> fmt::Debug for Registry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}
