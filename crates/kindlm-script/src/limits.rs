//! The limits of a script's resources.

use std::time::Duration;

/// Memory of the engine, in bytes.
pub const MEMORY: usize = 128 << 20;
/// Memory of a worker's process beside the engine's, in bytes: messages on their way, copies of texts.
pub const PROCESS: usize = 512 << 20;
/// Stack of the engine, in bytes.
pub const STACK: usize = 1 << 20;
/// Longest result, as bytes of JSON.
pub const RESULT: usize = 16 << 20;
/// Longest text of an error that a script throws, in bytes; the rest is cut.
pub const THROWN: usize = 64 << 10;
/// Largest file that is read, and largest body of a response, in bytes.
pub const CONTENT: usize = 32 << 20;
/// Time of a call that does not say otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// Time after the end of a call's time until its process is killed. Until then the engine stops by itself, if it
/// can; some operations of its library do not look up while they work.
pub const GRACE: Duration = Duration::from_millis(250);
