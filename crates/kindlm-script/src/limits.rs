//! The resource limits of scripts.

use std::time::Duration;

/// The memory of the engine, in bytes: 128 MiB.
pub const MEMORY: usize = 128 << 20;
/// The memory of a worker process in addition to the engine's memory, in bytes: 512 MiB, for messages and copies of
/// texts.
pub const PROCESS: usize = 512 << 20;
/// The stack of the engine, in bytes: 1 MiB.
pub const STACK: usize = 1 << 20;
/// The maximum size of a result, in bytes of JSON: 16 MiB.
pub const RESULT: usize = 16 << 20;
/// The maximum size of the text of a thrown error, in bytes: 64 KiB. Longer texts are cut.
pub const THROWN: usize = 64 << 10;
/// The maximum size of a file, and of a response body, in bytes: 32 MiB.
pub const CONTENT: usize = 32 << 20;
/// The default timeout of a call: 5 seconds.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// The time between the timeout of a call and the kill of its process: 250 ms. The engine normally stops the call in
/// this time, but it cannot interrupt some long library operations.
pub const GRACE: Duration = Duration::from_millis(250);
