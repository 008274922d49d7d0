//! Integration tests of the providers.

mod codecs;
mod transport;
