//! Codecs for the APIs of language models, and the transport that carries them.
//!
//! Each provider is a folder of its own; [`REGISTRY`] lists them. A [`Codec`] turns a
//! [`Prompt`](kindlm_types::Prompt) into an [`HttpRequest`] and an [`HttpResponse`] into a
//! [`Reply`](kindlm_types::Reply), and does no I/O; the `http` feature brings the transport.

mod codec;
mod registry;

pub use codec::{Codec, HeaderValue, HttpRequest, HttpResponse, Method};
pub use registry::{Kind, Meta, Registration};

// Every provider is one folder, one `mod` line and one line in the slice below.

/// Every provider, by id.
pub static REGISTRY: &[&Registration] = &[];

/// The provider with this id.
pub fn find(id: &str) -> Option<&'static Registration> {
    REGISTRY.iter().copied().find(|it| it.meta.id == id)
}
