//! `keywords`: words that must not appear in the output, and words of which one must appear.

use std::ops::Range;
use std::sync::Arc;

use kindlm_types::{
    AssertionResult, CheckedText, Class, FailureCode, Problem, ResultEvidence, Severity, Verdict,
    schema_of,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::core::needles::empty_texts;
use crate::core::recorded::{checked_text, written_texts};
use crate::core::result_evidence::{absent, found as places, occurrences_in_any_case};
use crate::shared::folded::Folded;
use crate::{
    Assertion, Build, Code, Evidence, ExpectPath, LooksAt, Meta, PassEvidence, Registration, Setup,
    StaysValid, Traits,
};

const ID: &str = "keywords";
const KEYWORD_DENIED: FailureCode = FailureCode::new("KEYWORD_DENIED");
const KEYWORD_MISSING: FailureCode = FailureCode::new("KEYWORD_MISSING");

pub(crate) static REGISTRATION: Registration = Registration {
    meta: Meta {
        id: ID,
        path: Some(ExpectPath { pointer: "/guardrails/keywords", list: false }),
        summary: "The output must contain no denied word, and at least one of the allowed words.",
        since: "0.1.0",
        class: Class::Deterministic,
        severity: Severity::Gate,
        codes: &[
            Code { code: KEYWORD_DENIED, summary: "The output contains a denied word." },
            Code {
                code: KEYWORD_MISSING,
                summary: "The output contains none of the allowed words.",
            },
        ],
        docs: include_str!("docs.md"),
    },
    schema: schema_of::<Config>,
    build: Build::Plain(build),
};

/// The words that the output must or must not contain, ignoring case.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// Texts that must not appear anywhere in the output.
    #[serde(default)]
    deny: Vec<String>,
    /// Texts of which at least one must appear in the output.
    #[serde(default)]
    allow: Vec<String>,
}

#[derive(Debug)]
struct Keywords {
    deny: Arc<[Keyword]>,
    allow: Arc<[Keyword]>,
}

#[derive(Debug)]
struct Keyword {
    written: String,
    plain: Plain,
}

impl Keyword {
    fn new(written: String) -> Self {
        Self { plain: Plain::new(&written), written }
    }

    /// Returns the places of the keyword in a text. Without a match in the text as written, the folded text is
    /// searched.
    fn ranges(&self, text: &str) -> Vec<(Range<usize>, String)> {
        let mut ranges = occurrences_in_any_case(text, &self.written);
        if let Some(folded) = Folded::new(text).filter(|_| ranges.is_empty()) {
            let found = occurrences_in_any_case(&folded.text, self.plain.folded());
            ranges = found.iter().map(|it| folded.place(it)).collect();
        }
        ranges.into_iter().map(|it| (it, self.written.clone())).collect()
    }

    fn is_in(&self, output: &Plain) -> bool {
        // A keyword of invisible characters is searched for as written.
        output.lower.contains(&self.plain.lower)
            || !self.plain.folded().is_empty() && output.folded().contains(self.plain.folded())
    }
}

/// A text in lower case, as written and folded.
#[derive(Debug)]
struct Plain {
    lower: String,
    /// The text with plain letters and without invisible characters.
    ///
    /// The value is `None` if this text is equal to `lower`.
    folded: Option<String>,
}

impl Plain {
    fn new(text: &str) -> Self {
        let folded = Folded::new(text).map(|it| it.text.to_lowercase());
        Self { lower: text.to_lowercase(), folded }
    }

    fn folded(&self) -> &str {
        self.folded.as_deref().unwrap_or(&self.lower)
    }
}

fn build(config: &Value, _: &Setup<'_>) -> Result<Arc<dyn Assertion>, Vec<Problem>> {
    let config =
        Config::deserialize(config).map_err(|err| vec![Problem::new("", err.to_string())])?;
    let empty = [("deny", &config.deny), ("allow", &config.allow)]
        .into_iter()
        .flat_map(|(key, words)| empty_texts(key, words))
        .collect::<Vec<_>>();
    if !empty.is_empty() {
        return Err(empty);
    }
    let keywords = |words: Vec<String>| words.into_iter().map(Keyword::new).collect();
    Ok(Arc::new(Keywords { deny: keywords(config.deny), allow: keywords(config.allow) }))
}

impl Assertion for Keywords {
    fn traits(&self) -> Traits {
        let (deny, allow) = (Arc::clone(&self.deny), Arc::clone(&self.allow));
        let of_pass = PassEvidence::new(move |evidence| {
            vec![evidence_of_pass(&evidence.execution.output, &deny, &allow)]
        });
        Traits {
            looks_at: if self.deny.is_empty() { LooksAt::Output } else { LooksAt::AllAnswers },
            stays_valid: StaysValid::Results(stays_valid),
            evidence_of_pass: Some(of_pass),
            ..Traits::OF_OUTPUT
        }
    }

    fn evaluate(&self, evidence: &Evidence<'_>) -> Vec<AssertionResult> {
        let written = written_texts(evidence.execution);
        let texts: Vec<Plain> = written.iter().map(|(_, text)| Plain::new(text)).collect();
        let found = |keyword: &Keyword| {
            let at = texts.iter().position(|it| keyword.is_in(it))?;
            let (turn, text) = written.get(at)?;
            let of = checked_text(evidence.execution, *turn, text);
            Some(denied(keyword, *turn).with_evidence(places(of, text, keyword.ranges(text))))
        };
        let mut results: Vec<AssertionResult> = self.deny.iter().filter_map(found).collect();
        if results.is_empty() && !self.deny.is_empty() {
            results.push(AssertionResult::pass(ID, "Keyword deny list"));
        }
        if !self.allow.is_empty() {
            results.push(self.allowed(&Plain::new(&evidence.execution.output)));
        }
        results
    }
}

/// Returns the places of the allowed keywords. Without allowed keywords, returns the denied keywords as absent.
fn evidence_of_pass(output: &str, deny: &[Keyword], allow: &[Keyword]) -> ResultEvidence {
    if allow.is_empty() {
        return absent(deny.iter().map(|it| it.written.as_str()));
    }
    places(CheckedText::Output, output, allow.iter().flat_map(|it| it.ranges(output)))
}

/// Returns true if a keyword was found, allowed or denied. More output cannot change such a result.
fn stays_valid(result: &AssertionResult) -> bool {
    (result.verdict == Verdict::Pass) == (result.label == ALLOWED)
}

const ALLOWED: &str = "Keyword allow list";

fn denied(keyword: &Keyword, turn: Option<&str>) -> AssertionResult {
    let word = &keyword.written;
    let place = turn.map(|it| format!(" in turn `{it}`")).unwrap_or_default();
    AssertionResult::fail(
        ID,
        format!("Keyword deny: \"{word}\""),
        KEYWORD_DENIED,
        format!("Output contains denied keyword \"{word}\"{place}"),
    )
}

impl Keywords {
    fn allowed(&self, output: &Plain) -> AssertionResult {
        if self.allow.iter().any(|it| it.is_in(output)) {
            return AssertionResult::pass(ID, ALLOWED);
        }
        let words: Vec<&str> = self.allow.iter().map(|it| it.written.as_str()).collect();
        let message = format!("Output must contain at least one of: {}", words.join(", "));
        AssertionResult::fail(ID, ALLOWED, KEYWORD_MISSING, message).with_evidence(absent(words))
    }
}
