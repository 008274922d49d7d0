//! Tests of scripts: correct results, and the limits of their permissions.
#![cfg(feature = "javascript")]

mod bodies;
mod builtins;
mod files;
mod hostile;
mod interpreters;
mod isolation;
mod leftovers;
mod support;
