//! The named detectors. Each detector has a regular expression to search for, and a rule that rejects look-alikes.
//!
//! The rules and test vectors follow the public specifications of the identifiers and Microsoft Presidio's recognizers.
//! Some identifiers have no checksum. Without separators, such a number counts only shortly after a related word.

use std::net::{Ipv4Addr, Ipv6Addr};

use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;

use super::checksums::{digits, luhn, weighted_sum};
use crate::shared::pattern::PatternError;

/// A built-in detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum DetectorName {
    /// Payment card numbers, 12 to 19 digits, verified with the Luhn checksum.
    CreditCard,
    /// International bank account numbers (mod 97 and the country's structure).
    Iban,
    /// US social security numbers; nine digits in a row only next to words such as `SSN`.
    UsSsn,
    /// US individual taxpayer numbers; nine digits in a row only next to words such as `ITIN`.
    UsItin,
    /// US national provider identifiers, verified with the Luhn checksum.
    UsNpi,
    /// US bank routing numbers, verified with their checksum.
    AbaRouting,
    /// UK NHS numbers, verified with mod 11.
    UkNhs,
    /// Canadian social insurance numbers, verified with the Luhn checksum.
    CaSin,
    /// E-mail addresses.
    Email,
    /// Telephone numbers: international, or North American with separators.
    Phone,
    /// IPv4 and IPv6 addresses.
    IpAddress,
}

/// A match of a detector's regular expression, with the text around it.
struct Candidate<'a> {
    text: &'a str,
    /// The whole text before the candidate.
    before: &'a str,
    /// The whole text after the candidate.
    after: &'a str,
}

/// The rule that returns true if a candidate is an identifier, and false for a look-alike.
type Accepts = fn(&Candidate<'_>) -> bool;

struct Spec {
    /// The id: the name in configurations.
    id: &'static str,
    /// The name in results.
    name: &'static str,
    verified_by: &'static str,
    form: &'static str,
    accepts: fn(&Candidate<'_>) -> bool,
}

/// A compiled detector.
#[derive(Debug)]
pub(super) struct Detector {
    id: &'static str,
    name: &'static str,
    verified_by: &'static str,
    form: Regex,
    accepts: fn(&Candidate<'_>) -> bool,
}

impl DetectorName {
    /// All detectors.
    pub(super) const ALL: [Self; 11] = [
        Self::CreditCard,
        Self::Iban,
        Self::UsSsn,
        Self::UsItin,
        Self::UsNpi,
        Self::AbaRouting,
        Self::UkNhs,
        Self::CaSin,
        Self::Email,
        Self::Phone,
        Self::IpAddress,
    ];

    fn spec(self) -> Spec {
        let (id, name, verified_by, form, accepts): (_, _, _, _, Accepts) = match self {
            Self::CreditCard => ("credit-card", "card number", "luhn", CARD, is_card),
            Self::Iban => ("iban", "IBAN", "mod 97 and country", IBAN, is_iban),
            Self::UsSsn => ("us-ssn", "US social security number", "structure", SSN, is_ssn),
            Self::UsItin => ("us-itin", "US taxpayer number", "structure", ITIN, is_itin),
            Self::UsNpi => ("us-npi", "US provider number", "luhn", NPI, is_npi),
            Self::AbaRouting => {
                ("aba-routing", "US bank routing number", "weights 3-7-1", ABA, is_aba)
            }
            Self::UkNhs => ("uk-nhs", "UK NHS number", "mod 11", NHS, is_nhs),
            Self::CaSin => ("ca-sin", "Canadian social insurance number", "luhn", SIN, is_sin),
            Self::Email => ("email", "e-mail address", "structure", EMAIL, is_email),
            Self::Phone => ("phone", "phone number", "structure", PHONE, is_phone),
            Self::IpAddress => ("ip-address", "IP address", "parsing", IP, is_ip),
        };
        Spec { id, name, verified_by, form, accepts }
    }
}

// `(?-u:\b)`: a Unicode `\b` makes the engine more than a hundred times slower on text that is not ASCII.
const CARD: &str = r"(?-u:\b)[13456][0-9]{3}(?:[0-9]{8,15}|(?:[ -][0-9]{2,7}){2,4})(?-u:\b)";
const IBAN: &str = r"(?-u:\b)[A-Za-z]{2}[0-9]{2}(?:[ -]?[A-Za-z0-9]){11,30}(?-u:\b)";
const SSN: &str = r"(?-u:\b)[0-9]{3}[- .]?[0-9]{2}[- .]?[0-9]{4}(?-u:\b)";
const ITIN: &str = r"(?-u:\b)9[0-9]{2}[- ]?[0-9]{2}[- ]?[0-9]{4}(?-u:\b)";
const NPI: &str = r"(?-u:\b)[12][0-9]{9}(?-u:\b)";
const ABA: &str = r"(?-u:\b)[0-9]{4}-?[0-9]{4}-?[0-9](?-u:\b)";
const NHS: &str = r"(?-u:\b)[0-9]{3}[- ]?[0-9]{3}[- ]?[0-9]{4}(?-u:\b)";
const SIN: &str = r"(?-u:\b)[1-79][0-9]{2}[- ]?[0-9]{3}[- ]?[0-9]{3}(?-u:\b)";
// RFC 5321, 4.5.3.1 allows at most 64 characters before the `@`. Without this limit, the search would read a long word
// again from each of its letters.
const EMAIL: &str = concat!(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}",
    r"@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+",
    r"(?:[Xx][Nn]--[A-Za-z0-9-]{1,58}[A-Za-z0-9]|[A-Za-z]{2,63})(?-u:\b)",
);
const PHONE: &str = concat!(
    r"\+[1-9](?:[ ./()-]{0,2}[0-9]){7,14}(?-u:\b)",
    r"|(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[ .-])[2-9][0-9]{2}[ .-][0-9]{4}(?-u:\b)",
);
const IP: &str = concat!(
    r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?-u:\b)",
    r"|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,8}(?:\.[0-9]{1,3}){0,3}",
);

/// The highest length, in bytes, of a match that is also tried without its last groups.
const LONGEST_GROUPED: usize = 64;

impl Detector {
    pub(super) fn new(name: DetectorName) -> Result<Self, PatternError> {
        let Spec { id, name, verified_by, form, accepts } = name.spec();
        let form = Regex::new(form).map_err(|err| PatternError::Unusable {
            source_text: form.to_owned(),
            reason: err.to_string(),
        })?;
        Ok(Self { id, name, verified_by, form, accepts })
    }

    /// Returns the id: the name in configurations and metadata.
    pub(super) fn id(&self) -> &'static str {
        self.id
    }

    /// Returns the name in results, such as `e-mail address`.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the name of the rule that rejects look-alikes.
    pub(super) fn verified_by(&self) -> &'static str {
        self.verified_by
    }

    /// Calls `on_hit` with each accepted match, from left to right, without overlaps.
    pub(super) fn find<'t>(&self, text: &'t str, mut on_hit: impl FnMut(&'t str)) {
        let mut at = 0;
        while let Some(found) = self.form.find_at(text, at) {
            if let Some(end) = self.accepted_end(text, found.start(), found.end()) {
                on_hit(&text[found.start()..end]);
                at = end;
            } else {
                // A match may begin further right.
                let width = text[found.start()..].chars().next().map_or(1, char::len_utf8);
                at = found.start() + width;
            }
        }
    }

    /// Returns the end of the accepted candidate, whole or without its last groups.
    ///
    /// The regular expression may have matched a part of the next word or number too. Returns `None` if no part is
    /// accepted.
    fn accepted_end(&self, text: &str, start: usize, end: usize) -> Option<usize> {
        let grouped = if end - start > LONGEST_GROUPED { "" } else { &text[start..end] };
        let separators = grouped.rmatch_indices([' ', '-']);
        std::iter::once(end).chain(separators.map(|(index, _)| start + index)).find(|&end| {
            let shorter = &text[start..end];
            self.form.find(shorter).is_some_and(|it| it.range() == (0..shorter.len()))
                && (self.accepts)(&Candidate {
                    text: shorter,
                    before: &text[..start],
                    after: &text[end..],
                })
        })
    }
}

impl Candidate<'_> {
    /// Returns the separators of the candidate, in order: all characters except ASCII letters and digits.
    fn separators(&self) -> impl Iterator<Item = char> {
        self.text.chars().filter(|c| !c.is_ascii_alphanumeric())
    }

    fn has_one_kind_of_separator(&self) -> bool {
        let mut separators = self.separators();
        separators.next().is_none_or(|first| separators.all(|it| it == first))
    }

    /// Returns true if one of the words is in the 60 bytes before the candidate.
    ///
    /// The words are in lower case.
    fn follows_a_word_of(&self, words: &[&str]) -> bool {
        let start = self.before.floor_char_boundary(self.before.len().saturating_sub(60));
        let near = self.before[start..].to_lowercase();
        words.iter().any(|word| near.contains(word))
    }

    /// Returns true if the candidate is a part of a longer number such as `1.2.3.4.5`.
    fn is_part_of_a_number(&self) -> bool {
        let ends_with_digit = |text: &str| text.ends_with(|c: char| c.is_ascii_digit());
        let starts_with_digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        self.before.strip_suffix('.').is_some_and(ends_with_digit)
            || self.after.strip_prefix('.').is_some_and(starts_with_digit)
    }

    /// Returns true if letters, digits or a character of `more` touch the candidate.
    fn is_inside_a_word(&self, more: &[char]) -> bool {
        let joins = |c: char| c.is_alphanumeric() || more.contains(&c);
        self.before.ends_with(joins) || self.after.starts_with(joins)
    }
}

fn all_same(digits: &[u8]) -> bool {
    digits.windows(2).all(|pair| pair[0] == pair[1])
}

fn is_card(candidate: &Candidate<'_>) -> bool {
    let digits = digits(candidate.text);
    let is_issued = !matches!(digits[..], [5, 6..=9, ..]);
    // A time in milliseconds since 1970 looks like a 13-digit card number.
    let is_time = digits.len() == 13 && digits[0] == 1;
    (12..=19).contains(&digits.len())
        && is_issued
        && !is_time
        && candidate.has_one_kind_of_separator()
        && !candidate.is_part_of_a_number()
        && luhn(&digits)
}

fn is_iban(candidate: &Candidate<'_>) -> bool {
    let compact: String = candidate.text.chars().filter(char::is_ascii_alphanumeric).collect();
    compact.to_ascii_uppercase().parse::<iban::Iban>().is_ok()
}

fn is_ssn(candidate: &Candidate<'_>) -> bool {
    let separators = candidate.separators().count();
    let digits = digits(candidate.text);
    let number = digits.iter().fold(0u32, |number, &digit| number * 10 + u32::from(digit));
    let (area, group, serial) = (number / 1_000_000, number / 10_000 % 100, number % 10_000);
    let is_issued = !matches!(area, 0 | 666 | 900..) && group != 0 && serial != 0;
    // These numbers are from specimen cards and advertisements, or they are obvious inventions.
    let is_specimen = matches!(number, 78_051_120 | 123_456_789 | 987_654_320..=987_654_329);
    let has_form = separators == 2 && candidate.has_one_kind_of_separator()
        || separators == 0 && candidate.follows_a_word_of(&["ssn", "social security", "soc sec"]);
    has_form && is_issued && !is_specimen && !all_same(&digits)
}

fn is_itin(candidate: &Candidate<'_>) -> bool {
    let digits = digits(candidate.text);
    let group = digits[3] * 10 + digits[4];
    let separators = candidate.separators().count();
    let has_form = separators == 2 && candidate.has_one_kind_of_separator()
        || separators == 0 && candidate.follows_a_word_of(&["itin", "taxpayer", "tax id"]);
    has_form && matches!(group, 50..=65 | 70..=88 | 90..=92 | 94..=99)
}

fn is_npi(candidate: &Candidate<'_>) -> bool {
    let mut digits = digits(candidate.text);
    let has_identical_body = all_same(&digits[1..]);
    digits.splice(0..0, [8, 0, 8, 4, 0]);
    !has_identical_body && !candidate.is_part_of_a_number() && luhn(&digits)
}

fn is_aba(candidate: &Candidate<'_>) -> bool {
    let digits = digits(candidate.text);
    !matches!(candidate.separators().count(), 1)
        && matches!(digits[0], 0..=3 | 6..=8)
        && !all_same(&digits)
        && !candidate.is_part_of_a_number()
        && weighted_sum(&digits, &[3, 7, 1]).is_multiple_of(10)
}

fn is_nhs(candidate: &Candidate<'_>) -> bool {
    let digits = digits(candidate.text);
    matches!(candidate.separators().count(), 0 | 2)
        && candidate.has_one_kind_of_separator()
        && !all_same(&digits)
        && !candidate.is_part_of_a_number()
        && weighted_sum(&digits, &[10, 9, 8, 7, 6, 5, 4, 3, 2, 1]).is_multiple_of(11)
}

fn is_sin(candidate: &Candidate<'_>) -> bool {
    let digits = digits(candidate.text);
    matches!(candidate.separators().count(), 0 | 2)
        && candidate.has_one_kind_of_separator()
        && !candidate.is_part_of_a_number()
        && luhn(&digits)
}

fn is_email(candidate: &Candidate<'_>) -> bool {
    let local = candidate.text.split('@').next().unwrap_or_default();
    let has_dots_between_words = local.split('.').all(|word| !word.is_empty());
    // RFC 5321, 4.5.3.1 allows at most 254 characters in total.
    has_dots_between_words
        && candidate.text.len() <= 254
        && !candidate.before.ends_with(|c: char| c.is_alphanumeric())
        && !candidate.after.starts_with(['@', '-', '_'])
}

fn is_phone(candidate: &Candidate<'_>) -> bool {
    !candidate.is_inside_a_word(&['+', '_']) && !candidate.is_part_of_a_number()
}

fn is_ip(candidate: &Candidate<'_>) -> bool {
    let text = candidate.text;
    if !text.contains(':') {
        return text.parse::<Ipv4Addr>().is_ok()
            && !candidate.is_inside_a_word(&['_'])
            && !candidate.is_part_of_a_number();
    }
    // `::` alone and paths of code such as `a::b` are not addresses.
    text.bytes().any(|byte| byte.is_ascii_digit())
        && text.parse::<Ipv6Addr>().is_ok()
        && !candidate.is_inside_a_word(&[':', '_'])
}
