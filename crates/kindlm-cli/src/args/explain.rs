//! The arguments of `kindlm assertions` and `kindlm explain`.

use clap::Args;

use super::Format;

/// Lists the assertions
#[derive(Debug, Args)]
pub(crate) struct AssertionsArgs {
    /// The output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// Explains an assertion, a gate, a provider, a reporter, a failure code or a key of `kindlm.yaml`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  kindlm explain tool-calls\n  kindlm explain TOOL_CALL_MISSING\n  kindlm explain passRateMin\n  kindlm explain defaults.repeat\n  kindlm explain providers"
)]
pub(crate) struct ExplainArgs {
    /// An id, a failure code or a key (`defaults.repeat`, `tests[].expect`); or `assertions`, `gates`, `providers`,
    /// `reporters` or `codes` for a list
    pub(crate) topic: Option<String>,
}
