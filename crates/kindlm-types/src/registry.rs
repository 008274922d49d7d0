//! Registries, whose entries the configuration names by id.

use std::fmt;

/// An entry of a registry.
pub trait Registered: 'static {
    /// Returns the id that names the entry in the configuration.
    fn id(&self) -> &'static str;
}

/// An ordered list of entries with unique ids: the built-in entries, and the caller's entries.
pub struct Registry<T: 'static>(Vec<&'static T>);

/// The error for an entry whose id is already taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is another entry with the id `{0}`")]
pub struct DuplicateId(pub &'static str);

impl<T: Registered> Registry<T> {
    /// Creates a registry from entries, whose ids must be unique. The ids are not checked.
    pub fn new(entries: &[&'static T]) -> Self {
        Self(entries.to_vec())
    }

    /// Adds entries at the end.
    ///
    /// # Errors
    ///
    /// Fails if the id of an entry is already taken.
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

    /// Returns the entry with this id; `None` if there is no such entry.
    pub fn find(&self, id: &str) -> Option<&'static T> {
        self.iter().find(|it| it.id() == id)
    }

    /// Returns all entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'static T> + Clone + '_ {
        self.0.iter().copied()
    }

    /// Returns all ids, in order.
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
