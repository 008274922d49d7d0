//! The shared parts of user scripts: their files, runtimes, arguments and results.

mod body;
mod compiled;
mod context;
pub(crate) mod grading;
pub(crate) mod interpreted;
mod notes;
mod predicate;
mod settings;
mod source;
mod transform;
mod view;

pub(crate) use body::body;
pub(crate) use compiled::compiled;
pub(crate) use context::{context, output};
pub(crate) use notes::{label, with_console};
pub(crate) use predicate::{NoVerdict, Predicate};
pub use settings::{ScriptSettings, ScriptsBlock};
pub(crate) use source::{JAVASCRIPT, script_file};
pub use transform::Transform;
pub use view::View;
pub(crate) use view::{Viewed, see};
