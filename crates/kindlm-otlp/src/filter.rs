//! The filter that selects the spans to judge.

use kindlm_types::{SpanFilter, ecma};

use crate::span::OtlpSpan;

/// A function that returns true if a span name matches the name pattern of the filter.
///
/// The function returns an error if the match cannot be decided.
pub type NameTest<'a> = &'a dyn Fn(&str) -> Result<bool, String>;

/// A span filter with its name matcher.
#[derive(Clone, Copy)]
pub struct Filter<'a> {
    settings: &'a SpanFilter,
    matches: Option<NameTest<'a>>,
}

impl<'a> Filter<'a> {
    /// Creates a filter. `matches` implements the name pattern; without it, every name passes.
    pub fn new(settings: &'a SpanFilter, matches: Option<NameTest<'a>>) -> Self {
        Self { settings, matches }
    }

    /// Returns true if the span meets all conditions of the filter.
    ///
    /// Attributes of the resource do not count. A span without a duration fails a minimum duration. Returns an error
    /// if the name pattern cannot decide.
    pub fn keeps(&self, span: &OtlpSpan) -> Result<bool, String> {
        let SpanFilter { attribute_match, min_duration_ms, .. } = self.settings;
        if let Some(matches) = self.matches
            && !matches(&span.name)?
        {
            return Ok(false);
        }
        let equal = |(key, wanted): (&String, &String)| {
            span.attributes.get(key).is_some_and(|it| ecma::text(it) == *wanted)
        };
        let long_enough = |least: f64| {
            #[expect(clippy::cast_precision_loss, reason = "durations are far below 2^52 ms")]
            span.duration_ms().is_some_and(|it| it as f64 >= least)
        };
        Ok(attribute_match.iter().all(equal) && min_duration_ms.is_none_or(long_enough))
    }
}
