//! The form in which traits return futures.

use std::pin::Pin;

/// A boxed future, so that a trait with `async` work can be a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
