//! The [`SocketCodec`] trait: an exchange of messages with a vendor's API over a websocket.

use std::fmt;
use std::time::Duration;

use kindlm_types::{Prompt, ProviderError, Reply, ToolCall};
use serde_json::Value;

use crate::HttpRequest;

/// The encoder and decoder for one vendor's API over a websocket.
pub trait SocketCodec: fmt::Debug + Send + Sync {
    /// Encodes a prompt as the beginning of an exchange. Fails if the API cannot express the prompt.
    fn open<'c>(&'c self, prompt: &'c Prompt) -> Result<Opening<'c>, ProviderError>;

    /// Returns the script that answers tool calls during the exchange: a function body of `name` and `args`. Without a
    /// script, which is the default, an answer ends with its calls.
    fn answer_script(&self) -> Option<&str> {
        None
    }

    /// Returns the maximum pause before a message of the server; `None` for the limit of the transport.
    fn idle_timeout(&self) -> Option<Duration> {
        None
    }

    /// Returns the provider's id, for error messages.
    fn provider(&self) -> &'static str;
}

/// The beginning of an exchange over a websocket.
#[non_exhaustive]
pub struct Opening<'c> {
    /// The request for the handshake. Its body is sent as the first message.
    pub request: HttpRequest,
    /// The messages that are sent directly after the first message, without waiting for an answer.
    pub messages: Vec<Value>,
    /// The reader of the server's messages.
    pub exchange: Box<dyn SocketExchange + Send + 'c>,
}

impl<'c> Opening<'c> {
    /// Creates the beginning of an exchange, with the messages that follow the first message.
    pub fn new(
        request: HttpRequest,
        messages: Vec<Value>,
        exchange: Box<dyn SocketExchange + Send + 'c>,
    ) -> Self {
        Self { request, messages, exchange }
    }
}

impl fmt::Debug for Opening<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Opening");
        shown.field("request", &self.request).field("messages", &self.messages);
        shown.finish_non_exhaustive()
    }
}

/// The state of an exchange over a websocket.
pub trait SocketExchange {
    /// Reads a message of the server, and returns the next step. Fails if the message is an error, or malformed.
    fn receive(&mut self, message: &Value) -> Result<Step, ProviderError>;

    /// Encodes the responses of tool calls as messages. Each call has its response.
    fn respond(&mut self, calls: Vec<ToolCall>) -> Vec<Value>;
}

/// The step after a message of the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Send these messages, and wait for the next message of the server. The list may be empty.
    Send(Vec<Value>),
    /// Answer these tool calls with the [script](SocketCodec::answer_script), and go on.
    Answer(Vec<ToolCall>),
    /// The answer is complete.
    Done(Box<Reply>),
}

impl Step {
    /// Waits for the next message of the server.
    pub const WAIT: Self = Self::Send(Vec::new());
}
