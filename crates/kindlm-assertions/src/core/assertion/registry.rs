//! The registry of assertions that a configuration may name.

use std::fmt;
use std::sync::OnceLock;

use kindlm_schema::Shape;

use crate::Registration;

/// The assertions that a configuration may name.
///
/// The registry can contain [the assertions of this crate](Registry::built_in) and your own assertions. Pass the registry to
/// [`Setup::with_registry`](crate::Setup::with_registry); `examples/own_assertion.rs` is a complete example.
#[derive(Debug, Default)]
pub struct Registry {
    entries: Vec<RegisteredAssertion>,
}

/// A group of related assertions.
#[derive(Debug)]
#[non_exhaustive]
pub struct Group {
    /// The name of the group's folder, such as `text`.
    pub name: &'static str,
    /// The subject of the assertions in the group, in a few words.
    pub summary: &'static str,
    /// The assertions, in the order in which an `expect` block evaluates them.
    pub assertions: &'static [&'static Registration],
}

/// A registered assertion with its compiled schemas.
#[derive(Debug)]
pub(crate) struct RegisteredAssertion {
    pub(crate) registration: &'static Registration,
    pub(crate) shapes: Shapes,
}

/// The compiled schemas of an assertion's configuration.
///
/// `nested` is for the assertion's own key in `expect`, and `listed` is for an entry of the `assert` list. Each schema
/// is compiled at its first use.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    pub(crate) nested: OnceLock<Shape>,
    pub(crate) listed: OnceLock<Shape>,
}

/// The error for an assertion whose id or place in `expect` is already taken. The error holds the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicateAssertion(pub &'static str);

impl fmt::Display for DuplicateAssertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is another assertion with the id or the path of `{}`", self.0)
    }
}

impl std::error::Error for DuplicateAssertion {}

impl Registry {
    /// Adds assertions after the existing assertions.
    ///
    /// # Errors
    ///
    /// Fails if an id, or a place in an `expect` block, is already taken.
    pub fn with(
        mut self,
        registrations: impl IntoIterator<Item = &'static Registration>,
    ) -> Result<Self, DuplicateAssertion> {
        for registration in registrations {
            let (id, path) = (registration.meta.id, registration.meta.path.map(|it| it.pointer));
            let is_taken = self.iter().any(|other| {
                other.meta.id == id
                    || path.is_some_and(|path| other.meta.path.is_some_and(|it| it.pointer == path))
            });
            if is_taken {
                return Err(DuplicateAssertion(id));
            }
            self.entries.push(RegisteredAssertion { registration, shapes: Shapes::default() });
        }
        Ok(self)
    }

    /// Returns all assertions, in the order in which an `expect` block evaluates them.
    pub fn iter(&self) -> impl Iterator<Item = &'static Registration> + Clone + '_ {
        self.entries.iter().map(|it| it.registration)
    }

    /// Returns the assertion with this id; `None` if the id is unknown.
    pub fn find(&self, id: &str) -> Option<&'static Registration> {
        self.iter().find(|it| it.meta.id == id)
    }

    /// Returns the number of assertions.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the assertion with this id and its compiled schemas; `None` if the id is unknown.
    pub(crate) fn entry(&self, id: &str) -> Option<&RegisteredAssertion> {
        self.entries.iter().find(|it| it.registration.meta.id == id)
    }

    pub(crate) fn get(&self, rank: usize) -> Option<&RegisteredAssertion> {
        self.entries.get(rank)
    }
}
