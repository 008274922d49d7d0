//! The settings for receiving and reading traces of a running agent.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::DeclaredEvidence;

/// The settings for receiving and reading traces of a running agent.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSettings {
    /// The port that receives spans; 0 selects any free port.
    pub port: u16,
    /// The maximum time to wait for spans, and for the command that sends them.
    pub timeout: Duration,
    /// The names of the span attributes that contain the evidence.
    pub mapping: SpanMapping,
    /// The filter that selects spans.
    pub filter: SpanFilter,
    /// The kinds of evidence that the suite declares complete in the spans.
    pub evidence: DeclaredEvidence,
}

/// The defaults of the original KindLM: port 4318, the standard for OTLP/HTTP, and 30 seconds.
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

/// The names of the span attributes that contain the evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanMapping {
    /// The attribute with the text of the answer.
    pub output_text_attr: String,
    /// The attribute with the model that answered.
    pub model_attr: String,
    /// The attribute with the vendor.
    pub system_attr: String,
    /// The attribute with the number of input tokens.
    pub input_tokens_attr: String,
    /// The attribute with the number of output tokens.
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

/// A filter that selects spans. A span must meet all conditions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpanFilter {
    /// A regular expression in JavaScript's syntax that must match a part of the span's name; `None` allows any name.
    pub name_pattern: Option<String>,
    /// The attributes that the span must have, with their values.
    pub attribute_match: BTreeMap<String, String>,
    /// The minimum duration of the span, in milliseconds; `None` for no minimum.
    pub min_duration_ms: Option<f64>,
}
