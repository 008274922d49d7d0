//! Checks outputs over HTTP.
//!
//! [`app`] makes the routes, and [`serve`] serves them. The senders of records are not trusted: see
//! [`kindlm_run::evaluate::service`].

mod local;
mod openapi;
pub mod problem;
mod routes;
mod serving;
pub mod store;

pub use routes::{App, app};
pub use serving::{ListenError, listen, serve};
