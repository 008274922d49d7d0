//! Code that providers share, so that no provider depends on another provider.

pub(crate) mod address;
pub(crate) mod answer;
pub(crate) mod anthropic;
pub(crate) mod chat;
pub(crate) mod code;
pub(crate) mod content;
pub(crate) mod failure;
pub(crate) mod gemini;
pub(crate) mod jinja;
#[cfg(feature = "http")]
pub(crate) mod media;
pub(crate) mod openai;
pub(crate) mod part;
pub(crate) mod placeholder;
pub(crate) mod prompt;
#[cfg(feature = "http")]
pub(crate) mod script_reply;
#[cfg(feature = "http")]
pub(crate) mod scripts;
pub(crate) mod settings;
pub(crate) mod stream;
pub(crate) mod strict;
pub(crate) mod text;
