//! Scripts run as their authors wrote them, and cannot do what they may not.

mod bodies;
mod builtins;
mod files;
mod hostile;
mod interpreters;
mod isolation;
mod support;
