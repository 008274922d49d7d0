//! The blocks `trace` and `upload`. `upload` has no effect yet, but its keys are checked.

use std::collections::BTreeMap;
use std::time::Duration;

use kindlm_types as types;
use schemars::JsonSchema;
use serde::Deserialize;

/// The settings of `kindlm trace`, which checks the traces of a running agent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct TraceBlock {
    /// The local port that receives spans. Default: 4318.
    #[schemars(range(min = 1, max = 65535))]
    pub(crate) port: u16,
    /// The time limit for spans and for the command that sends them, in milliseconds. Default: 30000.
    #[schemars(range(min = 1))]
    pub(crate) timeout_ms: u64,
    /// The names of the span attributes that contain the evidence.
    pub(crate) span_mapping: SpanMapping,
    /// The filter for spans. If absent, all spans count.
    pub(crate) span_filter: Option<SpanFilter>,
    /// The kinds of evidence that you declare complete, because the spans do not show it. Reports mark them as
    /// declared.
    pub(crate) evidence: Option<types::DeclaredEvidence>,
}

impl Default for TraceBlock {
    fn default() -> Self {
        Self {
            port: 4318,
            timeout_ms: 30_000,
            span_mapping: SpanMapping::default(),
            span_filter: None,
            evidence: None,
        }
    }
}

impl TraceBlock {
    /// Converts the block to the settings of the trace reader.
    pub(crate) fn settings(self) -> types::TraceSettings {
        let filter = self.span_filter.unwrap_or_default();
        let SpanMapping {
            output_text_attr,
            model_attr,
            system_attr,
            input_tokens_attr,
            output_tokens_attr,
        } = self.span_mapping;
        types::TraceSettings {
            port: self.port,
            timeout: Duration::from_millis(self.timeout_ms),
            mapping: types::SpanMapping {
                output_text_attr,
                model_attr,
                system_attr,
                input_tokens_attr,
                output_tokens_attr,
            },
            filter: types::SpanFilter {
                name_pattern: filter.name_pattern,
                attribute_match: filter.attribute_match,
                min_duration_ms: filter.min_duration_ms,
            },
            evidence: self.evidence.unwrap_or_default(),
        }
    }
}

/// The names of the span attributes that contain the evidence.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(clippy::struct_field_names, reason = "the keys of the file")]
pub(crate) struct SpanMapping {
    /// The attribute with the text of the answer. Default: `gen_ai.completion.0.content`.
    pub(crate) output_text_attr: String,
    /// The attribute with the name of the model. Default: `gen_ai.response.model`.
    pub(crate) model_attr: String,
    /// The attribute with the name of the vendor. Default: `gen_ai.system`.
    pub(crate) system_attr: String,
    /// The attribute with the number of input tokens. Default: `gen_ai.usage.input_tokens`.
    pub(crate) input_tokens_attr: String,
    /// The attribute with the number of output tokens. Default: `gen_ai.usage.output_tokens`.
    pub(crate) output_tokens_attr: String,
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

/// The conditions that a span must meet to count.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct SpanFilter {
    /// A regular expression that the span's name must match.
    pub(crate) name_pattern: Option<String>,
    /// Attributes that the span must have, with their values.
    pub(crate) attribute_match: BTreeMap<String, String>,
    /// The shortest duration of a span that counts, in milliseconds.
    #[schemars(range(min = 0.0))]
    pub(crate) min_duration_ms: Option<f64>,
}

/// The settings for uploading results. Uploading does not exist yet.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct UploadBlock {
    /// True to upload results. It has no effect yet.
    pub(crate) enabled: bool,
    /// The address of the service.
    #[schemars(url)]
    pub(crate) api_url: Option<String>,
    /// True to upload artifacts together with the results.
    pub(crate) include_artifacts: Option<bool>,
    /// Regular expressions for text to redact.
    pub(crate) redact_patterns: Vec<String>,
}
