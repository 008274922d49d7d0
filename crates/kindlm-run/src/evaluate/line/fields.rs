//! Reads the keys of a record, and refuses duplicate keys. The values of `expect` and `assertions` stay JSON text.

use std::borrow::Cow;
use std::{fmt, mem};

use kindlm_providers::transcript;
use serde::Deserialize;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::problem::{TWICE, unreadable};
use super::{KEYS, Line};

/// Reads the entries of an object into a [`Line`].
pub(super) struct Fields<'l, 'a> {
    pub(super) line: &'l mut Line<'a>,
    pub(super) at: &'l mut Option<&'static str>,
}

/// A text that is copied only if it has escape sequences.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Visitor<'a> for Fields<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { line, at } = self;
        let mut seen = [false; KEYS.len()];
        while let Some(Text(key)) = map.next_key::<Text<'a>>()? {
            let Some(index) = KEYS.iter().position(|it| *it == key) else {
                map.next_value::<IgnoredAny>()?;
                line.others.push(key);
                continue;
            };
            *at = Some(KEYS[index]);
            if mem::replace(&mut seen[index], true) {
                return Err(A::Error::custom(TWICE));
            }
            match KEYS[index] {
                "id" => line.id = Some(map.next_value()?),
                "agent_input" => line.agent_input = Some(map.next_value()?),
                "agent_output" => line.agent_output = map.next_value()?,
                "transcript" => {
                    let value: Option<Value> = map.next_value()?;
                    let read = value.as_ref().map(transcript::parse_transcript).transpose();
                    line.transcript =
                        read.map_err(|it| A::Error::custom(unreadable(&it)))?.map(Box::new);
                }
                "assertions" => line.assertions = map.next_value()?,
                "tool_calls" => line.tool_calls = map.next_value()?,
                "events" => line.events = map.next_value()?,
                "complete_for" => line.complete_for = map.next_value()?,
                "incomplete" => line.incomplete = map.next_value()?,
                "baseline" => line.baseline = map.next_value::<Option<Text<'a>>>()?.map(|it| it.0),
                "vars" => line.vars = map.next_value()?,
                "usage" => line.usage = map.next_value()?,
                "latency_ms" => line.latency_ms = map.next_value()?,
                "first_token_ms" => line.first_token_ms = map.next_value()?,
                "cost_usd" => line.cost_usd = map.next_value()?,
                "finish_reason" => line.finish_reason = map.next_value()?,
                "log_probs" => line.log_probs = map.next_value()?,
                "metadata" => line.metadata = map.next_value()?,
                "provider_response" => line.provider_response = map.next_value()?,
                "trace" => line.trace = map.next_value()?,
                "workspace" => line.workspace = map.next_value()?,
                "tools" => line.tools = map.next_value()?,
                "expect" => line.expect = map.next_value()?,
                _ => line.threshold = map.next_value()?,
            }
            *at = None;
        }
        Ok(())
    }
}
