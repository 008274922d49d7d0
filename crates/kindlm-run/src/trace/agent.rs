//! The environment variables of an agent's command, and the errors of the command.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use kindlm_types::{CommandOutput, ProviderError, ProviderErrorKind};

use super::MODEL;

/// The provider name in the error of a failed command.
const COMMAND: &str = "command";

/// Returns the variables that make OpenTelemetry SDKs send spans to this address.
///
/// <https://opentelemetry.io/docs/specs/otel/protocol/exporter/>
pub(super) fn env(address: SocketAddr) -> Vec<(String, String)> {
    let base = format!("http://{}", reachable(address));
    [
        ("OTEL_TRACES_EXPORTER", "otlp".to_owned()),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", base.clone()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf".to_owned()),
        // The variables for traces take precedence over the general variables, so override the user's values too.
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("{base}/v1/traces")),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf".to_owned()),
        ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", format!("{base}/v1/logs")),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", format!("{base}/v1/metrics")),
        ("OTEL_TRACES_SAMPLER", "always_on".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

/// Returns an address that local programs can use to reach the server.
///
/// If the server listens on all interfaces, this is the loopback address.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Returns the error of a command that did not start or crashed; `None` for any other command.
///
/// Without this error, the missing actions of the agent would look like good behavior.
///
/// An exit code that the program chose itself is a result, not a crash.
pub(super) fn crash(output: &CommandOutput) -> Option<ProviderError> {
    let what = CommandOutput::broken_off(output.exit_code)?;
    Some(error(with_stderr(what, &output.stderr)))
}

/// Creates the error of a failed command, which reports show as a provider error.
pub(super) fn error(message: String) -> ProviderError {
    ProviderError::new(ProviderErrorKind::Command, COMMAND, message)
}

/// Creates the error of missing spans, for traces without a failed command.
pub(super) fn missing(message: String) -> ProviderError {
    ProviderError::new(ProviderErrorKind::Command, MODEL, message)
}

/// Adds the first 500 characters of the command's stderr to the message.
pub(super) fn with_stderr(message: String, stderr: &str) -> String {
    let said: String = stderr.trim().chars().take(500).collect();
    if said.is_empty() { message } else { format!("{message}; it wrote to stderr: {said}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_sent_to_where_they_can_go() {
        for (address, expected) in [
            ("127.0.0.1:4318", "http://127.0.0.1:4318"),
            ("0.0.0.0:9", "http://127.0.0.1:9"),
            ("[::]:9", "http://[::1]:9"),
            ("10.1.2.3:9", "http://10.1.2.3:9"),
        ] {
            let env = env(address.parse().unwrap());
            let value = |name: &str| env.iter().find(|(it, _)| it == name).unwrap().1.clone();
            assert_eq!(value("OTEL_EXPORTER_OTLP_ENDPOINT"), expected);
            assert_eq!(
                value("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
                format!("{expected}/v1/traces")
            );
        }
    }
}
