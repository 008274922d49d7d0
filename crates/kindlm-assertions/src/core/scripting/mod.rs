//! The shared parts of user scripts: their runtimes, their arguments, and their names.

mod body;
mod compiled;
mod context;
pub(crate) mod grading;
pub(crate) mod interpreted;
mod predicate;
mod said;
mod settings;
mod source;
mod transform;
mod view;

pub(crate) use body::body;
pub(crate) use compiled::compiled;
pub(crate) use context::{context, output};
pub(crate) use predicate::{NoVerdict, Predicate};
pub(crate) use said::{label, told};
pub use settings::{ScriptSettings, ScriptsBlock};
pub(crate) use source::{JAVASCRIPT, script_file};
pub use transform::Transform;
pub use view::View;
pub(crate) use view::{Seen, see};
