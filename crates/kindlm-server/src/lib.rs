//! The server of KindLM: checks outputs, runs suites, and evaluates samples of agents in production, all over HTTP.
//!
//! [`app`] makes the routes, and [`serve`] serves them. The senders of records are not trusted: see
//! [`kindlm_run::evaluate::service`].

mod access;
mod alerts;
mod app;
mod case;
mod connections;
mod delivery;
mod email;
mod embed_origin;
mod ewma;
mod local;
mod metrics;
mod monitor;
mod openapi;
mod pages;
pub mod problem;
mod progress;
mod records;
mod routes;
mod runs;
mod serving;
pub mod store;
mod traces;
mod wake;

pub use alerts::{Alerts, REFERENCE};
pub use app::{App, LEASE, TRACE_DELAY, WORKERS};
pub use delivery::{AlertUrl, Destination, NotAnAddress, deliver};
pub use email::{Email, EmailError};
pub use embed_origin::{EmbedOrigin, NotAnOrigin};
pub use monitor::monitor;
pub use routes::app;
pub use runs::RunService;
pub use serving::{ListenError, listen, serve};
