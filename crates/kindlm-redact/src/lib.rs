//! Detects and masks secrets in everything that KindLM shows, sends back or stores.
//!
//! [`Secrets`] finds known values, such as values of environment variables and headers. Each value is found in upper
//! and lower case, in hexadecimal, in Base64, percent-encoded, and with JSON or HTML escape sequences.
//!
//! [`Secrets`] also finds text that looks like a secret: keys of known services, and pairs such as `password=…`.
//!
//! ```
//! use kindlm_redact::Secrets;
//!
//! let secrets = Secrets::new(["hunter2-hunter2"]);
//! assert_eq!(secrets.redact("Bearer hunter2-hunter2!").unwrap(), "Bearer [redacted]!");
//! assert_eq!(secrets.redact("%68unter2%2Dhunter2").unwrap(), "[redacted]");
//! assert_eq!(secrets.redact("YTpodW50ZXIyLWh1bnRlcjI=").unwrap(), "[redacted]"); // a:hunter2-hunter2
//! assert_eq!(secrets.redact("nothing here"), None);
//! ```

mod decode;
mod known;
mod learned;
mod look;
mod names;
mod secrets;

pub use learned::LearnedSecrets;
pub use look::{looks_like_key, mask_keys};
pub use names::{
    is_certain_secret, is_secret_header, is_secret_setting, is_secret_variable, is_telling_name,
};
pub use secrets::Secrets;

/// The text that replaces a secret.
pub const REDACTED: &str = "[redacted]";

/// The minimum length of a secret in bytes. Shorter values would match ordinary words.
pub const SHORTEST: usize = 6;
