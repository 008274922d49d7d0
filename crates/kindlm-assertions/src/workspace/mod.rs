//! The assertions about the workspace of an agent: its files, and commands in it.

mod command_succeeded;
mod diff_empty;
mod file_changed;
mod file_deleted;
mod file_matches;
mod in_diff;
mod no_failed_shell_commands;
mod tests;

use crate::Registration;

/// The assertions of this group, in the order of their evaluation.
pub(crate) static REGISTRY: &[&Registration] = &[
    &file_changed::REGISTRATION,
    &file_deleted::REGISTRATION,
    &diff_empty::REGISTRATION,
    &in_diff::REGISTRATION,
    &file_matches::REGISTRATION,
    &no_failed_shell_commands::REGISTRATION,
    &command_succeeded::REGISTRATION,
    &tests::REGISTRATION,
];
