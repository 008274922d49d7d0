//! Conversion of questions to frames, and of worker answers to script answers.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use kindlm_types::script::{
    ExportUse, ScriptAnswer, ScriptError, ScriptErrorKind, ScriptOutcome, ScriptQuestion,
    ScriptSource, ScriptValue,
};

use super::{Shared, error};
use crate::frame::{self, Call, CallCode, Ending, Stop, ToWorker, Usage};

/// Encodes a question as a frame. Fails if the arguments are too long for a frame.
pub(crate) fn call(
    shared: &Shared,
    id: u64,
    question: &ScriptQuestion,
    compile_only: bool,
) -> Result<Vec<u8>, ScriptError> {
    let permissions = &question.permissions;
    let mut env = BTreeMap::new();
    for name in &permissions.env {
        if let Some(value) = (shared.options.env)(name) {
            env.insert(name.clone(), value);
        }
    }
    let mut parts: Vec<&[u8]> = Vec::with_capacity(question.args.len() + 1);
    let what = match &question.source {
        ScriptSource::Body { params, code } => {
            parts.push(code.as_bytes());
            CallCode::Body { params: params.clone() }
        }
        ScriptSource::File { path, function } => {
            CallCode::File { path: path.clone(), function: function.clone(), usage: Usage::Call }
        }
        ScriptSource::Export { path, name, usage } => {
            let usage = match usage {
                ExportUse::Value => Usage::Value,
                ExportUse::Provider => Usage::Provider,
            };
            CallCode::File { path: path.clone(), function: name.clone(), usage }
        }
    };
    parts.extend(question.args.iter().map(|arg| arg.as_bytes()));
    let mut scope = DefaultHasher::new();
    permissions.read.hash(&mut scope);
    let timeout = question.timeout.unwrap_or(shared.options.timeout);
    let call = Call {
        id,
        what,
        compile_only,
        soft_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX >> 1),
        scope: scope.finish(),
        env,
        net: !permissions.net.is_empty(),
        read: !permissions.read.is_empty(),
    };
    frame::encode(&ToWorker::Call(call), &parts).map_err(|err| {
        error(ScriptErrorKind::Internal, format!("the arguments of the script: {err}"))
    })
}

/// Converts a worker's answer into the host's types. Fails if the script was stopped, its result nests too deeply, or
/// the answer is malformed.
pub(crate) fn parse_answer(
    ending: Ending,
    console: Vec<String>,
    part: &[u8],
    timeout: Duration,
) -> Result<ScriptAnswer, ScriptError> {
    let outcome = match ending {
        Ending::Undefined => ScriptOutcome::Returned(ScriptValue::Undefined),
        Ending::Number { text } => match text.parse() {
            Ok(number) => ScriptOutcome::Returned(ScriptValue::Number(number)),
            Err(_) => return Err(broken(&format!("`{text}` for a number"), console)),
        },
        Ending::Json => match json(part) {
            Ok(value) => ScriptOutcome::Returned(ScriptValue::Json(value)),
            Err(err) if err.to_string().starts_with("recursion limit") => {
                let message = "its result nests deeper than 127 objects and lists (about 60 levels of `componentResults`): return fewer levels, or several results side by side".to_owned();
                return Err(error(ScriptErrorKind::Memory, message).with_console(console));
            }
            Err(err) => {
                return Err(broken(&format!("a result that cannot be read: {err}"), console));
            }
        },
        Ending::Opaque { type_name, text } => {
            ScriptOutcome::Returned(ScriptValue::Opaque { type_name, text })
        }
        Ending::Threw { message, stack, thrown } => ScriptOutcome::Threw { message, stack, thrown },
        Ending::Stopped { why, message } => {
            let (kind, message) = match why {
                Stop::Timeout => return Err(late(timeout).with_console(console)),
                Stop::Memory => (ScriptErrorKind::Memory, message),
                Stop::NeverResolved => (ScriptErrorKind::NeverResolved, message),
                Stop::Exited => (ScriptErrorKind::Exited, message),
                Stop::Load => (ScriptErrorKind::Load, message),
                Stop::Internal => (ScriptErrorKind::Internal, message),
            };
            return Err(error(kind, message).with_console(console));
        }
    };
    Ok(ScriptAnswer::new(outcome).with_console(console))
}

/// Returns the error of a script that exceeded its timeout.
pub(crate) fn late(timeout: Duration) -> ScriptError {
    let message = format!(
        "it ran longer than {} s and was stopped: look for a loop that does not end, or give it more time",
        timeout.as_secs_f64()
    );
    error(ScriptErrorKind::Timeout, message)
}

fn broken(what: &str, console: Vec<String>) -> ScriptError {
    let message = format!("the worker of the script sent {what}");
    error(ScriptErrorKind::Internal, message).with_console(console)
}

/// Parses a result. A JavaScript string may hold a lone surrogate, which is not valid Unicode. The surrogate becomes
/// U+FFFD. Fails if the result is not JSON, or nests too deeply.
fn json(bytes: &[u8]) -> serde_json::Result<serde_json::Value> {
    match serde_json::from_slice(bytes) {
        Err(err) if bytes.windows(3).any(|it| it == b"\\ud") => {
            let text = String::from_utf8_lossy(bytes);
            serde_json::from_str(&without_lone_surrogates(&text)).map_err(|_| err)
        }
        result => result,
    }
}

fn without_lone_surrogates(json: &str) -> String {
    let escape = |at: &str| -> Option<u16> {
        let digits = at.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match (escape(rest), rest.get(6..).and_then(escape)) {
            (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => 12,
            (Some(0xD800..0xE000), _) => {
                out.push_str("\\ufffd");
                rest = &rest[6..];
                continue;
            }
            (Some(_), _) => 6,
            (None, _) => rest.len().min(2),
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn too_deep_nesting_has_a_plain_error() {
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        let read = |text: &str| {
            let second = std::time::Duration::from_secs(1);
            super::parse_answer(crate::frame::Ending::Json, Vec::new(), text.as_bytes(), second)
        };
        let err = read(&deep).unwrap_err();
        assert!(err.message.contains("nests deeper than 127"), "{err}");
        assert!(read(&deep[100..301]).is_ok());
    }

    #[test]
    fn halves_of_surrogate_pairs_become_replacement_characters() {
        for (json, expected) in [
            (r#""a\ud800b""#, "a\u{fffd}b"),
            (r#""\udc00\ud83d\ude00\ud800""#, "\u{fffd}😀\u{fffd}"),
            (r#""\\ud800\ud800""#, "\\ud800\u{fffd}"),
            (r#""\ud800\ud83d\ude00""#, "\u{fffd}😀"),
        ] {
            assert_eq!(super::json(json.as_bytes()).unwrap(), expected, "{json}");
        }
    }
}
