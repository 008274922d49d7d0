//! The block of `kindlm trace`, and the block whose feature is not built yet: it is checked, so that a file stays valid.

use std::collections::BTreeMap;
use std::time::Duration;

use kindlm_types as types;
use schemars::JsonSchema;
use serde::Deserialize;

/// The settings for traces of a running agent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct TraceBlock {
    /// The port that spans are received on.
    #[schemars(range(min = 1, max = 65535))]
    pub(crate) port: u16,
    /// The time limit for spans, and for the command that sends them, in milliseconds.
    #[schemars(range(min = 1))]
    pub(crate) timeout_ms: u64,
    /// Which attributes of a span hold what.
    pub(crate) span_mapping: SpanMapping,
    /// Which spans count.
    pub(crate) span_filter: Option<SpanFilter>,
    /// Which evidence of the spans is complete, where they do not show it. Reports show that it was declared.
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
    /// The meaning.
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

/// Which attributes of a span hold what.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(clippy::struct_field_names, reason = "the keys of the file")]
pub(crate) struct SpanMapping {
    /// The text of the answer.
    pub(crate) output_text_attr: String,
    /// The model that answered.
    pub(crate) model_attr: String,
    /// The vendor.
    pub(crate) system_attr: String,
    /// Tokens of the input.
    pub(crate) input_tokens_attr: String,
    /// Tokens of the output.
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

/// Which spans count.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct SpanFilter {
    /// A regular expression that the span's name must match.
    pub(crate) name_pattern: Option<String>,
    /// Attributes that must have these values.
    pub(crate) attribute_match: BTreeMap<String, String>,
    /// The shortest duration that counts, in milliseconds.
    #[schemars(range(min = 0.0))]
    pub(crate) min_duration_ms: Option<f64>,
}

/// The destination of an upload of results.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct UploadBlock {
    /// True if results are uploaded. Uploading is not part of the product yet.
    pub(crate) enabled: bool,
    /// The address of the service.
    #[schemars(url)]
    pub(crate) api_url: Option<String>,
    /// True to upload artifacts with the results.
    pub(crate) include_artifacts: Option<bool>,
    /// Regular expressions of what is blacked out.
    pub(crate) redact_patterns: Vec<String>,
}
