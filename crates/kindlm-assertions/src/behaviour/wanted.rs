//! What a value must look like: partial objects, whole lists, and patterns for texts.

use kindlm_types::{Problem, ecma};
use serde_json::Value;

use crate::compare::equal;
use crate::grade::text;
use crate::pattern::{Pattern, SearchError};

const REGEX: &str = "$regex";

/// What a value must look like.
///
/// Objects may have more keys than are wanted, lists must have equal length, and `{$regex: …}` is a pattern for the
/// text at its place: a value that is no text is taken as JSON, and no other key is looked at.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Equal(Value),
    Matching(Pattern),
    Object(Vec<(String, Wanted)>),
    List(Vec<Wanted>),
}

impl Wanted {
    /// As it is written at a place.
    pub(crate) fn new(written: &Value, at: &str) -> Result<Self, Vec<Problem>> {
        match written {
            Value::Object(map) if map.contains_key(REGEX) => {
                let (Some(Value::String(pattern)), 1) = (map.get(REGEX), map.len()) else {
                    let message = format!("`{REGEX}` is a text, and stands alone");
                    let help = format!("write `{{ {REGEX}: \"^[0-9]+$\" }}`");
                    return Err(vec![Problem::new(at, message).with_help(help)]);
                };
                let problem =
                    |err: crate::pattern::PatternError| vec![err.problem(format!("{at}/{REGEX}"))];
                Pattern::compile(pattern).map(Self::Matching).map_err(problem)
            }
            Value::Object(map) => {
                let wanted = map.iter().map(|(key, value)| {
                    let key_at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                    Ok((key.clone(), Self::new(value, &key_at)?))
                });
                Ok(Self::Object(wanted.collect::<Result<_, Vec<Problem>>>()?))
            }
            Value::Array(items) => {
                let wanted = items.iter().enumerate();
                let wanted = wanted.map(|(index, it)| Self::new(it, &format!("{at}/{index}")));
                Ok(Self::List(wanted.collect::<Result<_, _>>()?))
            }
            value => Ok(Self::Equal(value.clone())),
        }
    }

    /// Where a value differs first, and how; `None` if it is as it must be.
    pub(crate) fn difference(&self, actual: &Value) -> Result<Option<String>, SearchError> {
        self.differs("", Some(actual))
    }

    fn differs(&self, at: &str, actual: Option<&Value>) -> Result<Option<String>, SearchError> {
        let Some(actual) = actual else {
            return Ok(Some(format!("{}: expected {}, found nothing", place(at), self.words())));
        };
        let differs = match (self, actual) {
            (Self::Object(wanted), Value::Object(map)) => {
                for (key, wanted) in wanted {
                    let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                    if let Some(difference) = wanted.differs(&at, map.get(key))? {
                        return Ok(Some(difference));
                    }
                }
                return Ok(None);
            }
            (Self::List(wanted), Value::Array(items)) if wanted.len() == items.len() => {
                for (index, (wanted, item)) in wanted.iter().zip(items).enumerate() {
                    if let Some(difference) =
                        wanted.differs(&format!("{at}[{index}]"), Some(item))?
                    {
                        return Ok(Some(difference));
                    }
                }
                return Ok(None);
            }
            (Self::Equal(wanted), actual) => !equal(wanted, actual),
            (Self::Matching(pattern), actual) => !pattern.is_match(&text(actual))?,
            (Self::Object(_) | Self::List(_), _) => true,
        };
        let found = shortened(&ecma::stringify(actual));
        Ok(differs.then(|| format!("{}: expected {}, found {found}", place(at), self.words())))
    }

    /// What is wanted, in words.
    fn words(&self) -> String {
        match self {
            Self::Equal(value) => shortened(&ecma::stringify(value)),
            Self::Matching(pattern) => format!("a match of /{}/", pattern.as_str()),
            Self::Object(_) => "an object".to_owned(),
            Self::List(items) => format!("a list of {}", items.len()),
        }
    }
}

fn place(at: &str) -> &str {
    if at.is_empty() { "the value" } else { at }
}

/// As much of a text as a line of a report should have.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 120;
    let shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() { format!("{shown}…") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_match_partially_lists_as_a_whole_and_patterns_at_their_place() {
        for (wanted, actual, difference) in [
            (json!({"a": {"b": 1}}), json!({"a": {"b": 1.0, "c": 2}, "d": 3}), None),
            (json!({"a": {"b": 1}}), json!({"a": {"b": 2}}), Some("a.b: expected 1, found 2")),
            (json!({"a": 1}), json!({}), Some("a: expected 1, found nothing")),
            (
                json!({"a": [1, {"b": 2}]}),
                json!({"a": [1, {"b": 3}]}),
                Some("a[1].b: expected 2, found 3"),
            ),
            (json!({"a": [1]}), json!({"a": [1, 2]}), Some("a: expected a list of 1, found [1,2]")),
            (json!({"a": {"$regex": "^x"}}), json!({"a": "xyz"}), None),
            // A pattern sees its own key, and neither its neighbours nor the whole.
            (
                json!({"city": {"$regex": "\"unit\":\"c\""}}),
                json!({"city": "Brooklyn", "unit": "c"}),
                Some("city: expected a match of /\"unit\":\"c\"/, found \"Brooklyn\""),
            ),
            (
                json!({"a": {"$regex": "NOPE"}}),
                json!({"b": "NOPE"}),
                Some("a: expected a match of /NOPE/, found nothing"),
            ),
            (json!({"a": {"$regex": "^\\[1,"}}), json!({"a": [1, 2]}), None),
            (json!({"$regex": "^4"}), json!(42), None),
            (json!({}), json!("text"), Some("the value: expected an object, found \"text\"")),
            (json!(null), json!(null), None),
        ] {
            let found = Wanted::new(&wanted, "/input").unwrap().difference(&actual).unwrap();
            assert_eq!(found.as_deref(), difference, "{wanted} of {actual}");
        }
    }

    #[test]
    fn a_pattern_that_cannot_be_one_is_a_problem_at_its_place() {
        for (wanted, at) in [
            (json!({"a/b": [{"$regex": "("}]}), "/input/a~1b/0/$regex"),
            (json!({"a": {"$regex": 1}}), "/input/a"),
            (json!({"a": {"$regex": "x", "b": 1}}), "/input/a"),
        ] {
            assert_eq!(Wanted::new(&wanted, "/input").unwrap_err()[0].pointer, at, "{wanted}");
        }
    }
}
