//! The response store: the stored answers of models, for later runs.
//!
//! [`Recorded`] wraps any [`Models`](kindlm_types::Models). The [`Mode`] decides when requests are sent. Each stored
//! answer has a readable file, `.kindlm/responses/ab/<digest>.json`:
//!
//! ```json
//! {
//!   "schemaVersion": 1,
//!   "request": {
//!     "messages": [{ "content": "Where is order 7?", "role": "user" }],
//!     "model": "gpt-4o",
//!     "params": { "temperature": 0 },
//!     "provider": "openai",
//!     "sample": 1
//!   },
//!   "response": {
//!     "text": "On its way.",
//!     "usage": { "inputTokens": 12, "outputTokens": 4, "totalTokens": 16 },
//!     "finishReason": "stop",
//!     "model": "gpt-4o-2024-08-06",
//!     "latencyMs": 812.5
//!   }
//! }
//! ```
//!
//! The digest is the SHA-256 digest of the request with sorted keys and masked secrets. The ids of tool calls are
//! replaced by `call_1`, `call_2` and so on, because providers generate new ids for each answer. `sample` distinguishes
//! repeats; the request of the first repeat has no `sample`.
//!
//! A file has no HTTP headers, and no time unless the caller sets a time. If a new answer differs only in its time or
//! latency, the file is not rewritten, so that git shows real changes only.
//!
//! Several processes may share a folder without locks, because files are replaced atomically.
//!
//! ```
//! use std::time::Duration;
//!
//! use kindlm_store::responses::{Mode, Recorded, Responses};
//! use kindlm_types::{Models, Prompt, ProviderErrorKind, Unlimited};
//! # use kindlm_types::{AttemptBudget, BoxFuture, Embedding, ProviderError, Reply, Usage};
//! # struct Model;
//! # impl Models for Model {
//! #     fn complete<'a>(&'a self, _: &'a str, _: &'a Prompt, _: Duration, _: &'a dyn AttemptBudget) -> BoxFuture<'a, Result<Reply, ProviderError>> {
//! #         Box::pin(std::future::ready(Ok(Reply::text("On its way."))))
//! #     }
//! #     fn embed<'a>(&'a self, _: &'a str, _: &'a str, _: &'a str, _: Duration) -> BoxFuture<'a, Result<Embedding, ProviderError>> {
//! #         Box::pin(std::future::ready(Ok(Embedding::new([0.5], Usage::default()))))
//! #     }
//! #     fn has_answer(&self, _: &str, _: &Prompt) -> bool { false }
//! #     fn limits_calls(&self) -> bool { false }
//! # }
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let folder = tempfile::tempdir()?;
//! let prompt: Prompt = serde_json::from_str(
//!     r#"{ "model": "gpt-4o", "messages": [{ "role": "user", "content": "Where is order 7?" }] }"#,
//! )?;
//! let minute = Duration::from_secs(60);
//!
//! let first = Recorded::new(&Model, Responses::new(folder.path(), Mode::Cache));
//! assert!(!first.complete("openai", &prompt, minute, &Unlimited).await?.cached);
//! let later = Recorded::new(&Model, Responses::new(folder.path(), Mode::Replay));
//! assert!(later.complete("openai", &prompt, minute, &Unlimited).await?.cached);
//!
//! let again = Prompt { sample: 1, ..prompt };
//! let err = later.complete("openai", &again, minute, &Unlimited).await.unwrap_err();
//! assert_eq!(err.kind, ProviderErrorKind::NotRecorded);
//! assert!(err.message.contains("differs in /sample: recorded 0, asked 1"), "{err}");
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod differences;
mod nearest;
mod recorded;
mod recording;
mod request;
mod sketch;
mod store;

pub use recorded::Recorded;
pub use store::{Mode, ModeError, Responses, Tally};
