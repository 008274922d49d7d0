//! Token counts.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Tokens as the provider counted them.
///
/// In JSON, a count that was not reported is absent. If no count was reported, the input, output and total are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The tokens of the prompt, including cached ones.
    pub input_tokens: u64,
    /// The tokens of the answer.
    pub output_tokens: u64,
    /// The total. It may exceed input plus output, because some providers also count reasoning.
    pub total_tokens: u64,
    /// The part of the input tokens that was read from the provider's prompt cache; `None` if it was not reported.
    pub cached_input_tokens: Option<u64>,
    /// The part of the input tokens that was written to the provider's prompt cache; `None` if it was not reported.
    pub cache_write_tokens: Option<u64>,
    /// True if some tokens are not counted: those of the prompt, of the answer, or of one of several answers.
    pub partial: bool,
    /// True if at least one answer reports only a total, so that its input and output tokens are unknown.
    pub total_only: bool,
}

impl Usage {
    /// Builds a usage from the counts of a source.
    ///
    /// `None` is a count that the source does not report, which differs from 0 tokens.
    ///
    /// ```
    /// use kindlm_types::Usage;
    ///
    /// assert!(Usage::counted(Some(12), Some(0), None, None).is_whole());
    /// assert!(!Usage::counted(Some(12), None, None, None).is_whole());
    /// ```
    pub fn counted(
        input: Option<u64>,
        output: Option<u64>,
        total: Option<u64>,
        cached_input: impl Into<Option<u64>>,
    ) -> Self {
        let (input, output) = match (input, output, total) {
            // The missing part is the total minus the known part, if the total exceeds the known part.
            (Some(part), None, Some(sum)) if sum > part => (Some(part), Some(sum - part)),
            (None, Some(part), Some(sum)) if sum > part => (Some(sum - part), Some(part)),
            (input, output, _) => (input, output),
        };
        let (input_tokens, output_tokens) = (input.unwrap_or(0), output.unwrap_or(0));
        let counted = Self {
            input_tokens,
            output_tokens,
            total_tokens: total.unwrap_or_else(|| input_tokens.saturating_add(output_tokens)),
            cached_input_tokens: cached_input.into(),
            ..Self::default()
        }
        .without_lone_zero();
        let total_only = input.is_none() && output.is_none() && counted.total_tokens > 0;
        // If no token is reported, the usage is unknown, not partial.
        let is_half = (input.is_none() || output.is_none()) && counted != Self::default();
        Self { partial: is_half && !total_only, total_only, ..counted }
    }

    /// Sets the part of the input tokens that was written to the provider's prompt cache.
    #[must_use]
    pub fn with_cache_writes(self, tokens: Option<u64>) -> Self {
        Self { cache_write_tokens: tokens, ..self }.without_lone_zero()
    }

    /// Returns the usage minus a part of it. No count falls below 0.
    #[must_use]
    pub fn without(self, part: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(part.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(part.output_tokens),
            total_tokens: self.total_tokens.saturating_sub(part.total_tokens),
            cached_input_tokens: self
                .cached_input_tokens
                .map(|it| it.saturating_sub(part.cached_input_tokens.unwrap_or(0))),
            cache_write_tokens: self
                .cache_write_tokens
                .map(|it| it.saturating_sub(part.cache_write_tokens.unwrap_or(0))),
            ..self
        }
        .without_lone_zero()
    }

    /// Removes both cache counts if every count is 0 or absent.
    ///
    /// A cache count of 0 without any other count means that the source did not count tokens.
    fn without_lone_zero(self) -> Self {
        let counts = self.input_tokens > 0
            || self.output_tokens > 0
            || self.total_tokens > 0
            || self.cached_input_tokens.is_some_and(|it| it > 0)
            || self.cache_write_tokens.is_some_and(|it| it > 0);
        if counts {
            self
        } else {
            Self { cached_input_tokens: None, cache_write_tokens: None, ..self }
        }
    }

    /// Returns true if no token was reported. A report of 0 tokens counts as no report.
    pub fn is_unreported(&self) -> bool {
        *self == Self::default()
    }

    /// Returns an error message if input plus output exceeds the total.
    ///
    /// Returns `None` if the counts do not contradict each other.
    pub fn contradiction(&self) -> Option<String> {
        let parts = self.input_tokens.saturating_add(self.output_tokens);
        (self.total_tokens < parts).then(|| {
            format!("the total is {} tokens, and the parts are {parts}", self.total_tokens)
        })
    }

    /// Returns true if tokens were reported, and no tokens are known to be missing.
    pub fn is_whole(&self) -> bool {
        *self != Self::default() && !self.partial
    }

    /// Returns true if the tokens of the prompt and of the answer are known.
    ///
    /// If both are 0, they count as unknown.
    pub fn has_parts(&self) -> bool {
        let any = self.input_tokens > 0 || self.output_tokens > 0;
        any && !self.partial && !self.total_only
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        let (is_first, is_nothing) = (self.is_unreported(), other.is_unreported());
        let sum = |own: Option<u64>, more: Option<u64>| match (is_first, is_nothing) {
            (true, _) => more,
            (false, true) => own,
            (false, false) => own.zip(more).map(|(a, b)| a.saturating_add(b)),
        };
        self.cached_input_tokens = sum(self.cached_input_tokens, other.cached_input_tokens);
        self.cache_write_tokens = sum(self.cache_write_tokens, other.cache_write_tokens);
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.total_tokens = self.total_tokens.saturating_add(other.total_tokens);
        self.partial |= other.partial;
        self.total_only |= other.total_only;
    }
}

/// The sum of the tokens of several answers. It is partial if some answers were counted and others were not.
///
/// ```
/// use kindlm_types::{Usage, UsageSum};
///
/// let counted = Usage::counted(Some(12), Some(3), None, None);
/// let mut sum = UsageSum::default();
/// sum.add(Usage::default());
/// assert_eq!(sum.total(), Usage::default(), "nothing was counted that could be taken for all");
/// sum.add(counted);
/// assert_eq!(sum.total(), Usage { partial: true, ..counted });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageSum {
    counted: Usage,
    lacks_some: bool,
    any: bool,
}

impl UsageSum {
    /// Adds the tokens of one answer. A usage without tokens is an answer that was not counted.
    pub fn add(&mut self, usage: Usage) {
        self.any = true;
        self.lacks_some |= usage == Usage::default();
        self.counted += usage;
    }

    /// Adds another sum.
    pub fn extend(&mut self, other: Self) {
        self.any |= other.any;
        self.lacks_some |= other.lacks_some;
        self.counted += other.counted;
    }

    /// Returns true if no answer was added.
    pub fn is_empty(&self) -> bool {
        !self.any
    }

    /// Returns true if some answers were counted, and others were not.
    pub fn lacks_some(&self) -> bool {
        self.lacks_some && self.counted != Usage::default()
    }

    /// Returns the sum. It is partial if an answer is partial, or if some answers were counted and others were not.
    pub fn total(&self) -> Usage {
        Usage { partial: self.counted.partial || self.lacks_some(), ..self.counted }
    }
}

/// The sum starts from an earlier sum. A usage without tokens counts as no answer.
impl From<Usage> for UsageSum {
    fn from(counted: Usage) -> Self {
        Self { counted, lacks_some: false, any: counted != Usage::default() }
    }
}

/// The serialized form of a usage: a count that was not reported is absent.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Reported {
    /// The tokens of the prompt, including cached ones; absent if they were not reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    input_tokens: Option<u64>,
    /// The tokens of the answer; absent if they were not reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    output_tokens: Option<u64>,
    /// The total. It may exceed input plus output, because some providers also count reasoning.
    total_tokens: u64,
    /// The part of the input tokens that was read from the provider's prompt cache; absent if it was not reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    cached_input_tokens: Option<u64>,
    /// The part of the input tokens that was written to the provider's prompt cache; absent if it was not reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    cache_write_tokens: Option<u64>,
    /// True if some tokens are not counted: those of the prompt, of the answer, or of one of several answers.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    partial: bool,
    /// True if at least one answer reports only a total, so that its input and output tokens are unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    total_only: bool,
}

impl JsonSchema for Usage {
    fn schema_name() -> Cow<'static, str> {
        "Usage".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Reported::json_schema(generator);
        schema.insert("description".to_owned(), "Tokens as the provider counted them.".into());
        schema
    }
}

impl Serialize for Usage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { total_tokens, cached_input_tokens, cache_write_tokens, .. } = *self;
        let Self { partial, total_only, .. } = *self;
        let has_all = !partial && !total_only;
        let reported = |count: u64| Some(count).filter(|it| has_all || *it > 0);
        let (input_tokens, output_tokens) =
            (reported(self.input_tokens), reported(self.output_tokens));
        Reported {
            input_tokens,
            output_tokens,
            total_tokens,
            cached_input_tokens,
            cache_write_tokens,
            partial,
            total_only,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Usage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// The deserialized form of a usage: a count that is absent was not reported.
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct ReportedUsage {
            input_tokens: Option<u64>,
            output_tokens: Option<u64>,
            total_tokens: Option<u64>,
            cached_input_tokens: Option<u64>,
            cache_write_tokens: Option<u64>,
            #[serde(default)]
            partial: bool,
            #[serde(default)]
            total_only: bool,
        }
        let told = ReportedUsage::deserialize(deserializer)?;
        let (input, output, total) = (told.input_tokens, told.output_tokens, told.total_tokens);
        if !told.partial && !told.total_only {
            let counted = Self::counted(input, output, total, told.cached_input_tokens);
            return Ok(counted.with_cache_writes(told.cache_write_tokens));
        }
        // In a sum that lacks counts, a missing part is not the total minus the other part.
        let (input_tokens, output_tokens) = (input.unwrap_or(0), output.unwrap_or(0));
        Ok(Self {
            input_tokens,
            output_tokens,
            total_tokens: total.unwrap_or_else(|| input_tokens.saturating_add(output_tokens)),
            cached_input_tokens: told.cached_input_tokens,
            cache_write_tokens: told.cache_write_tokens,
            partial: told.partial,
            total_only: told.total_only,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Usage {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn absent_counts_are_unknown_and_zero_is_counted() {
        for (json, is_whole, has_parts) in [
            (r#"{"inputTokens":5,"outputTokens":2}"#, true, true),
            (r#"{"inputTokens":5,"outputTokens":0}"#, true, true),
            (r#"{"inputTokens":5}"#, false, false),
            (r#"{"outputTokens":5,"inputTokens":null}"#, false, false),
            (r#"{"inputTokens":5,"totalTokens":5}"#, false, false),
            (r#"{"inputTokens":5,"totalTokens":9}"#, true, true),
            (r#"{"outputTokens":5,"totalTokens":9}"#, true, true),
            (r#"{"totalTokens":9}"#, true, false),
            ("{}", false, false),
            (r#"{"inputTokens":0,"outputTokens":0}"#, false, false),
        ] {
            let usage = parse(json);
            assert_eq!((usage.is_whole(), usage.has_parts()), (is_whole, has_parts), "{json}");
            let again = serde_json::to_string(&usage).unwrap();
            assert_eq!(parse(&again), usage, "{again}");
        }
    }

    #[test]
    fn written_cache_tokens_are_counted_alone() {
        let usage = Usage::default().with_cache_writes(Some(7));
        assert_eq!(usage.cache_write_tokens, Some(7));
        let usage = Usage::default().with_cache_writes(Some(0));
        assert_eq!(usage, Usage::default(), "a lone 0 was not counted");
    }

    #[test]
    fn a_count_that_was_not_reported_is_absent() {
        for (json, written) in [
            (
                r#"{"inputTokens":5,"outputTokens":2}"#,
                r#"{"inputTokens":5,"outputTokens":2,"totalTokens":7}"#,
            ),
            (
                r#"{"inputTokens":5,"outputTokens":0,"cachedInputTokens":0}"#,
                r#"{"inputTokens":5,"outputTokens":0,"totalTokens":5,"cachedInputTokens":0}"#,
            ),
            (r#"{"inputTokens":5}"#, r#"{"inputTokens":5,"totalTokens":5,"partial":true}"#),
            (r#"{"totalTokens":9}"#, r#"{"totalTokens":9,"totalOnly":true}"#),
        ] {
            let usage = parse(json);
            assert_eq!(serde_json::to_string(&usage).unwrap(), written);
            assert_eq!(parse(written), usage, "{written}");
        }
        assert!(
            parse(r#"{"inputTokens":0,"outputTokens":0,"cachedInputTokens":0}"#).is_unreported()
        );
    }

    #[test]
    fn cached_tokens_are_summed_where_each_answer_reports_them() {
        let (cached, silent) = (
            parse(r#"{"inputTokens":5,"outputTokens":2,"cachedInputTokens":3}"#),
            parse(r#"{"inputTokens":5,"outputTokens":2}"#),
        );
        for (answers, expected) in [
            (vec![cached, cached], Some(6)),
            (vec![cached, silent], None),
            (vec![Usage::default(), cached], Some(3)),
        ] {
            let mut sum = UsageSum::default();
            for it in answers {
                sum.add(it);
            }
            assert_eq!(sum.total().cached_input_tokens, expected);
        }
    }

    #[test]
    fn a_sum_with_a_part_that_was_not_counted_is_not_whole() {
        let mut sum = parse(r#"{"inputTokens":5,"outputTokens":2}"#);
        sum += parse(r#"{"inputTokens":5}"#);
        assert!(!sum.is_whole());
        assert_eq!(sum.without(sum), Usage { partial: true, ..Usage::default() });
    }

    #[test]
    fn combined_sums_keep_uncounted_parts() {
        let counted = Usage::counted(Some(12), Some(3), None, None);
        let mut uncounted = UsageSum::default();
        uncounted.add(Usage::default());
        for (mut sum, partial) in [
            (UsageSum::default(), false),
            (UsageSum::from(Usage::default()), false),
            (uncounted, true),
        ] {
            sum.extend(counted.into());
            assert_eq!(sum.total(), Usage { partial, ..counted });
        }
        assert_eq!(
            Usage { total_tokens: 14, ..counted }.contradiction().unwrap(),
            "the total is 14 tokens, and the parts are 15"
        );
        assert_eq!(Usage { total_tokens: 20, ..counted }.contradiction(), None);
    }
}
