//! Removal of the reasoning in replies.
//!
//! Some models write their reasoning into the reply. A verdict in the reasoning is only tentative, so it is not the
//! answer.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use serde::de::IgnoredAny;

/// The marks around reasoning. A mark with a `close` group ends the reasoning.
///
/// The alternatives are, in order: tags (`DeepSeek`, Qwen, Seed, prompts that ask for a scratchpad), Mistral, Kimi,
/// and Cohere together with models trained on `OpenThoughts`.
static MARKS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?i)<\s*(?<close>/)?\s*(?:seed:)?",
        r"(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis)(?:\s[^<>]*)?>",
        r"|\[(?<close2>/)?THINK\]",
        r"|◁(?<close3>/)?think▷",
        r"|<\|(?:START_THINKING|begin_of_thought|(?<close4>END_THINKING|end_of_thought))\|>",
    ))
    .ok()
});

/// The mark of a channel in the harmony format of OpenAI's open-weight models.
const CHANNEL: &str = "<|channel|>";
/// The mark before the text of a channel.
const MESSAGE: &str = "<|message|>";
/// The marks after the text of a channel.
const ENDS: [&str; 4] = ["<|end|>", "<|return|>", "<|call|>", "<|start|>"];
/// The channel names that remain when a server has removed the special tokens.
const BARE: (&str, &str) = ("analysis", "assistantfinal");

/// Returns the reply without its reasoning. The error describes the reply, such as `its reasoning does not end`.
///
/// If a closing mark has no opening mark, the reply starts with reasoning, because many chat templates write the
/// opening mark themselves. Fails if the reasoning does not end, or if the reply has no other text.
pub(super) fn without_thoughts(reply: &str) -> Result<Cow<'_, str>, String> {
    if is_json(reply) {
        return Ok(Cow::Borrowed(reply));
    }
    let reply = final_channel(reply)?;
    let Some(marks) = &*MARKS else { return Ok(reply) };
    let (mut kept, mut at, mut is_open, mut found) = (String::new(), 0, false, false);
    for mark in marks.captures_iter(&reply) {
        let Some(place) = mark.get(0) else { continue };
        let closes =
            ["close", "close2", "close3", "close4"].iter().any(|it| mark.name(it).is_some());
        found = true;
        match (is_open, closes) {
            (false, false) => kept.push_str(&reply[at..place.start()]),
            (false, true) => kept.clear(),
            (true, _) => {}
        }
        is_open = !closes;
        at = place.end();
        if closes && is_json(&reply[at..]) {
            break;
        }
    }
    if !found {
        return Ok(reply);
    }
    if is_open {
        return Err("its reasoning does not end".to_owned());
    }
    kept.push_str(&reply[at..]);
    if kept.trim().is_empty() {
        return Err("it holds reasoning and no answer".to_owned());
    }
    Ok(Cow::Owned(kept))
}

/// Returns true if a text is one JSON value, fenced or not.
///
/// The marks in such a text are parts of JSON strings, not marks around reasoning.
fn is_json(text: &str) -> bool {
    let text = text.trim();
    let fenced = text.strip_prefix("```").and_then(|it| it.strip_suffix("```"));
    let text = fenced.map_or(text, |it| it.strip_prefix("json").unwrap_or(it));
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Returns the text before the first channel and in the `final` channels. A reply without channels stays unchanged.
///
/// If a server has removed the special tokens, the reply starts with the name `analysis`, and the answer is the text
/// after the last `assistantfinal`.
///
/// Fails if the reply has channels, and no text remains.
fn final_channel(reply: &str) -> Result<Cow<'_, str>, String> {
    if let Some((before, rest)) = reply.split_once(CHANNEL) {
        let before = ENDS.iter().fold(before, |text, end| text.split(end).next().unwrap_or(text));
        let mut kept = before.to_owned();
        for channel in rest.split(CHANNEL) {
            let Some((name, text)) = channel.split_once(MESSAGE) else { continue };
            if name.trim().starts_with("final") {
                let text =
                    ENDS.iter().fold(text, |text, end| text.split(end).next().unwrap_or(text));
                kept.push_str(text);
            }
        }
        if kept.trim().is_empty() {
            return Err("it has no `final` channel".to_owned());
        }
        return Ok(Cow::Owned(kept));
    }
    let (begin, end) = BARE;
    match reply.rsplit_once(end) {
        Some((before, answer)) if before.trim_start().starts_with(begin) => {
            Ok(Cow::Borrowed(answer))
        }
        _ => Ok(Cow::Borrowed(reply)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_of_every_family_is_removed() {
        for (reply, expected) in [
            ("no reasoning {\"score\":1}", Ok("no reasoning {\"score\":1}")),
            ("<think>\n{\"score\":0} or {\n</think>\n{\"score\":1}", Ok("\n{\"score\":1}")),
            ("a {\"score\":1}\n</think>\nRude.", Ok("\nRude.")),
            ("Sure.\n<think>{\"score\":1}</think> b", Ok("Sure.\n b")),
            ("<think>a</think>b<think>c</think>d", Ok("bd")),
            ("<think>a<think>b</think>c</think>d", Ok("d")),
            ("<thinking>a</thinking>b", Ok("b")),
            ("<THINK >a</ Think>b", Ok("b")),
            ("<reasoning effort=\"low\">a</reasoning>b", Ok("b")),
            ("<seed:think>a</seed:think>b", Ok("b")),
            ("[THINK]a[/THINK]b", Ok("b")),
            ("◁think▷a◁/think▷b", Ok("b")),
            ("<|START_THINKING|>a<|END_THINKING|>b", Ok("b")),
            ("<|begin_of_thought|>a<|end_of_thought|>b", Ok("b")),
            (
                "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>",
                Ok("b"),
            ),
            ("<|channel|>final <|constrain|>json<|message|>b", Ok("b")),
            (
                "{\"score\":0}<|channel|>final<|message|>{\"score\":1}",
                Ok("{\"score\":0}{\"score\":1}"),
            ),
            (
                "analysisThe user asks {\"score\":1}.assistantfinal{\"score\":0}",
                Ok("{\"score\":0}"),
            ),
            // Marks inside the texts of a JSON reply stay.
            (
                r#"{"score":1,"reasoning":"it writes </think>"}"#,
                Ok(r#"{"score":1,"reasoning":"it writes </think>"}"#),
            ),
            (
                "```json\n{\"score\":1,\"reasoning\":\"it writes </think>\"}\n```\n",
                Ok("```json\n{\"score\":1,\"reasoning\":\"it writes </think>\"}\n```\n"),
            ),
            (
                "<think>a</think>```{\"score\":1,\"reasoning\":\"it writes <think>\"}```",
                Ok("```{\"score\":1,\"reasoning\":\"it writes <think>\"}```"),
            ),
            ("<think>{\"score\":1}", Err("its reasoning does not end")),
            ("{\"score\":1} <think>hm", Err("its reasoning does not end")),
            ("<think>{\"score\":1}</think> \n", Err("it holds reasoning and no answer")),
            ("{\"score\":1}</think>", Err("it holds reasoning and no answer")),
            ("<|channel|>analysis<|message|>{\"score\":1}", Err("it has no `final` channel")),
            ("<|channel|>analysis {\"score\":1}", Err("it has no `final` channel")),
        ] {
            let kept = without_thoughts(reply);
            assert_eq!(kept.as_deref().map_err(String::as_str), expected, "{reply}");
        }
    }
}
