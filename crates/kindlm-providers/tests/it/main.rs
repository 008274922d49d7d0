//! Integration tests of the providers.

// The futures of the websocket client are nested deeper than the default limit.
#![recursion_limit = "256"]

mod codecs;
mod transport;
