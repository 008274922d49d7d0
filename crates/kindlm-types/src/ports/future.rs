//! The type of the futures that traits return.

use std::pin::Pin;

/// A boxed future, which keeps traits with asynchronous methods usable as trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
