//! The settings for receiving and reading traces of a running agent.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::DeclaredEvidence;

/// The settings for receiving and reading traces of a running agent.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSettings {
    /// The port that spans are received on; 0 is any that is free.
    pub port: u16,
    /// The longest wait for spans, and for the command that sends them.
    pub timeout: Duration,
    /// The attributes of a span for each kind of data.
    pub mapping: SpanMapping,
    /// Which spans count.
    pub filter: SpanFilter,
    /// Which evidence of the spans the suite declares complete.
    pub evidence: DeclaredEvidence,
}

/// The original's: port 4318, as everyone's for OTLP/HTTP, and half a minute.
impl Default for TraceSettings {
    fn default() -> Self {
        Self {
            port: 4318,
            timeout: Duration::from_secs(30),
            mapping: SpanMapping::default(),
            filter: SpanFilter::default(),
            evidence: DeclaredEvidence::default(),
        }
    }
}

/// The attributes of a span for each kind of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanMapping {
    /// The text of the answer.
    pub output_text_attr: String,
    /// The model that answered.
    pub model_attr: String,
    /// The vendor.
    pub system_attr: String,
    /// Tokens of the input.
    pub input_tokens_attr: String,
    /// Tokens of the output.
    pub output_tokens_attr: String,
}

impl Default for SpanMapping {
    fn default() -> Self {
        Self {
            output_text_attr: "gen_ai.completion.0.content".to_owned(),
            model_attr: "gen_ai.response.model".to_owned(),
            system_attr: "gen_ai.system".to_owned(),
            input_tokens_attr: "gen_ai.usage.input_tokens".to_owned(),
            output_tokens_attr: "gen_ai.usage.output_tokens".to_owned(),
        }
    }
}

/// Which spans count: those for which all of it holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpanFilter {
    /// A regular expression in JavaScript's syntax, found anywhere in the span's name.
    pub name_pattern: Option<String>,
    /// Attributes of the span that must have these values.
    pub attribute_match: BTreeMap<String, String>,
    /// The shortest duration that counts, in milliseconds.
    pub min_duration_ms: Option<f64>,
}
