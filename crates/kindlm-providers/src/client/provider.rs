//! The state of one provider: its connection, rate limiters and structured-output forms.

use kindlm_types::{Files, Problem, ProviderError, Reply, suggest};
use serde_json::Value;

use super::ClientOptions;
use super::forms::Forms;
use crate::StructuredOutput;
#[cfg(feature = "process")]
use crate::command::Config as Command;
use crate::echo::Config as Echo;
use crate::form::FormChoice;
#[cfg(feature = "mcp")]
use crate::mcp::McpClient;
use crate::scripted::{Config as Scripted, Script};
use crate::{Codec, Kind, Providers, Registration, TYPE, configured};
use kindlm_transport::ProviderSecurity;
use kindlm_transport::limit::{RateLimiter, RateLimiters};

/// A provider, with the state that its requests share.
pub(super) struct Provider {
    pub(super) via: Via,
    pub(super) limiters: RateLimiters,
    pub(super) forms: Forms,
    /// True if an agent may run behind the provider; see [`Meta`](crate::Meta).
    wraps_agent: bool,
}

/// The connection to a provider.
pub(super) enum Via {
    Http(Box<dyn Codec>),
    Scripted(Script),
    Echo(Echo),
    Script(Box<crate::script::Config>),
    #[cfg(feature = "mcp")]
    Mcp(Box<McpClient>),
    #[cfg(feature = "websocket")]
    WebSocket(Box<crate::websocket::WebSocket>),
    #[cfg(feature = "websocket")]
    Socket(Box<dyn crate::SocketCodec>),
    #[cfg(feature = "process")]
    Command(Command),
}

impl Provider {
    pub(super) fn new(
        (via, wraps_agent): (Via, bool),
        name: &str,
        options: &ClientOptions,
    ) -> Self {
        let limits = options.limits.iter();
        let limits = limits.filter(|((provider, _), _)| provider == name);
        Self {
            via,
            wraps_agent,
            forms: Forms::default(),
            limiters: RateLimiters::new(
                name,
                limits.map(|((_, it), limits)| (it.clone(), *limits)).collect(),
            ),
        }
    }

    /// Limits the coverage of a reply to the evidence that the provider guarantees. If no agent can run behind the
    /// provider, the reply keeps its whole coverage.
    pub(super) fn vouched(&self, reply: Reply) -> Reply {
        if self.wraps_agent { reply.of_wrapped_agent() } else { reply }
    }

    /// Returns the selection of the structured-output form of a model.
    pub(super) fn form(&self, model: &str) -> FormChoice {
        match &self.via {
            Via::Http(codec) => codec.form(model),
            // The websocket APIs do not accept a schema for the answer.
            #[cfg(feature = "websocket")]
            Via::Socket(_) => FormChoice::Fixed(StructuredOutput::None),
            _ => FormChoice::Fixed(StructuredOutput::Schema),
        }
    }

    /// Records the result of a call, which may open the circuit. The circuit never opens for scripted replies and local
    /// programs.
    pub(super) fn record_result<T>(
        &self,
        limiter: &RateLimiter,
        result: &Result<T, ProviderError>,
    ) {
        let is_remote = match &self.via {
            Via::Http(_) => true,
            #[cfg(feature = "mcp")]
            Via::Mcp(_) => true,
            #[cfg(feature = "websocket")]
            Via::WebSocket(_) | Via::Socket(_) => true,
            _ => false,
        };
        match result {
            _ if !is_remote => {}
            Ok(_) => self.limiters.answered(limiter),
            Err(err) => self.limiters.record_failure(limiter, err),
        }
    }
}

/// Sets up one provider of the config, or returns the problems of its configuration. The returned flag is true if an
/// agent may run behind the provider.
pub(super) fn connect(
    known: &Providers,
    name: &str,
    config: &Value,
    files: &dyn Files,
) -> Result<(Via, bool), Vec<Problem>> {
    let Some((registration, config)) = configured(known, name, config) else {
        let kind = config.get(TYPE).and_then(Value::as_str).unwrap_or(name);
        let help = suggest(kind, "providers", known.ids());
        return Err(vec![Problem::key("", format!("unknown provider `{kind}`")).with_help(help)]);
    };
    open(registration, &config, files)
}

/// Reads the TLS settings and the signing key of a provider. Only the provider `http` has such settings. Fails with the
/// problems of the certificate and key files.
pub(super) fn security_of(
    known: &Providers,
    name: &str,
    config: &Value,
    files: &dyn Files,
) -> Result<Option<ProviderSecurity>, Vec<Problem>> {
    match configured(known, name, config) {
        Some((registration, config)) if registration.meta.id == "http" => {
            crate::http::load_security(&config, files)
        }
        _ => Ok(None),
    }
}

pub(super) fn open(
    registration: &Registration,
    config: &Value,
    files: &dyn Files,
) -> Result<(Via, bool), Vec<Problem>> {
    let via = match registration.kind {
        Kind::Http(codec) => codec(config).map(Via::Http),
        #[cfg(feature = "websocket")]
        Kind::Socket(codec) => codec(config).map(Via::Socket),
        #[cfg(not(feature = "websocket"))]
        Kind::Socket(codec) => {
            codec(config)?;
            return Err(vec![not_in_this_build(registration.meta.id)]);
        }
        Kind::Special(check) => match registration.meta.id {
            "scripted" => Script::load(&Scripted::from_value(config)?, files).map(Via::Scripted),
            "echo" => Echo::from_value(config).map(Via::Echo),
            "script" => {
                crate::script::Config::from_value(config).map(|it| Via::Script(Box::new(it)))
            }
            #[cfg(feature = "process")]
            "command" => Command::from_value(config).map(Via::Command),
            #[cfg(feature = "mcp")]
            "mcp" => crate::mcp::Config::from_value(config)
                .map(|it| Via::Mcp(Box::new(McpClient::new(it)))),
            #[cfg(feature = "websocket")]
            "websocket" => crate::websocket::WebSocket::from_config(config)
                .map(|it| Via::WebSocket(Box::new(it))),
            id => {
                check(config)?;
                return Err(vec![not_in_this_build(id)]);
            }
        },
    };
    Ok((via?, registration.meta.wraps_agent))
}

/// Returns the problem of a provider that needs a feature which this build does not have.
fn not_in_this_build(id: &str) -> Problem {
    let help = "`cargo install --path crates/kindlm-cli --features full` builds one that has it";
    Problem::new("", format!("this build of KindLM is without `{id}`")).with_help(help)
}
