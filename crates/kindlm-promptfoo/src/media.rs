//! Texts in which a line is an image, a sound or a video.
//!
//! promptfoo inserts the data of a media file into the text, and its Google providers send lines with this data as
//! parts. Here these lines become parts for every provider.

use kindlm_source::{Node, Span};
use kindlm_types::media_type_of;

use super::Translator;
use super::build::{list, map, text};
use super::files::path;
use super::prompts::Prompt;
use super::vars::{Vars, is_media};

/// A piece of a prompt: a text, or the key of a part and the name of its variable.
#[derive(Debug, PartialEq, Eq)]
enum Piece<'t> {
    Text(String),
    Media(&'static str, &'t str),
}

impl Translator<'_> {
    /// Adds a version of a prompt in which each line that only inserts a file is a message part. Returns the name of
    /// this version.
    ///
    /// `name` is the name of `prompt`, or of a prompt made from it. If no line is only a file, the name is returned
    /// unchanged. Returns `None` for a file inside a line of text, which is reported as an error.
    pub(super) fn with_parts(
        &mut self,
        span: Span,
        name: &str,
        prompt: &Prompt,
        vars: &Vars,
    ) -> Option<String> {
        let files: Vec<(&str, &'static str)> =
            vars.iter().filter_map(|(key, it)| Some((&*key.name, part_key(it)?))).collect();
        if files.is_empty() {
            return Some(name.to_owned());
        }
        let mut made = self.embraced.iter().chain(&self.made.prompts);
        let node = made.find(|(it, _)| it == name).map_or(&prompt.node, |(_, node)| node);
        let node = node.clone();
        let language = node.get("template").and_then(Node::text).unwrap_or_default();
        let Some(written) = node.get("user").and_then(Node::text) else {
            return Some(name.to_owned());
        };
        let is_text = language == "jinja" || (language == "chat" && !looks_like_chat(written));
        let pieces = if is_text { pieces(written, &files) } else { Vec::new() };
        let has_media = pieces.iter().any(|it| matches!(it, Piece::Media(..)));
        let is_inside = |it: &Piece<'_>| match it {
            Piece::Text(text) => files.iter().any(|(file, _)| uses(text, file)),
            Piece::Media(..) => false,
        };
        let is_json = language == "json" && files.iter().any(|(file, _)| uses(written, file));
        let has_tags = has_media && written.contains("{%");
        if is_json || has_tags || pieces.iter().any(is_inside) {
            let help = "write the prompt as a chat, with the file in a part, or put the variable on a line of its own";
            self.unsupported(span, "a file that is not text inside of a text", Some(help));
            return None;
        }
        if !has_media {
            return Some(name.to_owned());
        }
        let parts = pieces.iter().map(|it| match it {
            Piece::Text(said) => map(span, [("text", text(span, said))]),
            Piece::Media(key, name) => {
                map(span, [(*key, text(span, &format!("{{{{ {name} }}}}")))])
            }
        });
        let message = map(span, [("role", text(span, "user")), ("content", list(span, parts))]);
        let messages = list(span, [message]);
        let node = map(span, [("template", text(span, "jinja")), ("messages", messages)]);
        Some(self.add_made(name, node))
    }
}

/// Returns the key of the part for a variable that names an image, a sound or a video; `None` for other variables.
fn part_key(value: &Node) -> Option<&'static str> {
    let file = value.text().and_then(path).filter(|it| is_media(it))?;
    Some(match media_type_of(file)?.split('/').next() {
        Some("image") => "image",
        Some("audio") => "audio",
        _ => "file",
    })
}

/// True if a template begins like a list of messages.
fn looks_like_chat(written: &str) -> bool {
    let begin = written.trim_start();
    begin.starts_with('[') || begin.starts_with("- role:")
}

/// Splits a template at the lines that only insert a file. Empty texts are left out.
fn pieces<'t>(written: &str, files: &[(&'t str, &'static str)]) -> Vec<Piece<'t>> {
    let mut pieces = Vec::new();
    let mut block: Vec<&str> = Vec::new();
    let said = |block: &mut Vec<&str>| {
        let text = std::mem::take(block).join("\n");
        (!text.is_empty()).then_some(Piece::Text(text))
    };
    for line in written.split('\n') {
        let inner = line.trim().strip_prefix("{{").and_then(|it| it.strip_suffix("}}"));
        let found = inner.and_then(|it| files.iter().find(|(name, _)| *name == it.trim()));
        match found {
            Some((name, key)) => {
                pieces.extend(said(&mut block));
                pieces.push(Piece::Media(key, name));
            }
            None => block.push(line),
        }
    }
    pieces.extend(said(&mut block));
    pieces
}

/// True if a template uses a variable in braces.
pub(super) fn uses(template: &str, name: &str) -> bool {
    let inside = template.split("{{").skip(1).filter_map(|it| it.split("}}").next());
    let is_name = |it: char| it.is_alphanumeric() || it == '_';
    inside.flat_map(|it| it.split(|c: char| !is_name(c))).any(|word| word == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_only_a_file_is_a_part() {
        let files = [("photo", "image"), ("song", "audio")];
        let said = |it: &str| Piece::Text(it.to_owned());
        for (written, expected) in [
            (
                "Look:\n{{photo}}\n\nWhat?",
                vec![said("Look:"), Piece::Media("image", "photo"), said("\nWhat?")],
            ),
            (" {{ song }} ", vec![Piece::Media("audio", "song")]),
            ("Look: {{photo}}", vec![said("Look: {{photo}}")]),
            ("{{other}}", vec![said("{{other}}")]),
        ] {
            assert_eq!(pieces(written, &files), expected, "{written}");
        }
    }

    #[test]
    fn finds_variables_in_braces() {
        for (template, expected) in [
            ("a {{ photo }}", true),
            ("{{ photo | upper }}", true),
            ("photo {{ photos }}", false),
            ("photo", false),
        ] {
            assert_eq!(uses(template, "photo"), expected, "{template}");
        }
    }
}
