//! Workspaces: the folders in which agents work.
//!
//! [`Folders`] gives each execution a workspace: a separate copy of a folder of the suite. After the agent has
//! finished, the workspace reports the changes, and the results of commands and tests ([`reports`]).
//!
//! KindLM's own file access never leaves the workspace, even if the agent creates links that lead out of it.
//!
//! ```
//! use kindlm_types::workspace::{TestFormat, TestStatus};
//!
//! let tap = "TAP version 13\n1..2\nok 1 - adds\nnot ok 2 - divides\n";
//! let tests = kindlm_workspace::reports::parse_tests(TestFormat::Tap, tap, "/work", |_| false).unwrap();
//! assert_eq!((tests[1].name.as_str(), tests[1].status), ("divides", TestStatus::Failed));
//! ```

mod changes;
mod copy;
mod finish;
mod folders;
mod inside;
mod isolation;
mod open;
mod options;
pub mod reports;
mod start;
mod tree;
mod work;

pub use folders::Folders;
pub use options::FoldersOptions;
