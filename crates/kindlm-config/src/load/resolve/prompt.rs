//! Prompts: their templates and their rules.

use std::collections::HashMap;
use std::sync::Arc;

use kindlm_engine::Digest;
use kindlm_source::{Code, Diagnostic, Key, Kind, Node, Piece, Source, Span, locate, read_yaml};
use kindlm_template::Fault;
use kindlm_types::{AssertionSetInfo, MediaKind, MemberPart, PromptInfo, RawPart, Role, pointer};
use serde_json::Value;

use super::Resolved;
use super::sets::{Rules, set_info};
use crate::load::FILE;
use crate::schema::SHAPES;
use crate::template::{Form, Template, place_of};
use crate::written::{ContentEntry, Language, PartEntry, PromptEntry, Speaker};

/// The messages of a prompt, as templates for the variables of a test.
#[derive(Debug, Default)]
pub(in crate::load) struct Opening {
    /// The prompt's name. `None` for a test of an agent without a prompt.
    pub(in crate::load) name: Option<Arc<str>>,
    pub(in crate::load) parts: Box<[(Role, ContentForm)]>,
    /// True if the prompt is written as `messages`.
    pub(in crate::load) is_chat: bool,
    /// True for a prompt with `template: chat`, whose rendered text may be a list of messages.
    pub(in crate::load) reads_chat: bool,
}

/// The content of a message, as templates.
#[derive(Debug)]
pub(in crate::load) enum ContentForm {
    Text(Form),
    Parts(Box<[(PartKind, Form)]>),
}

/// The kind of a part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::load) enum PartKind {
    Text,
    Media(MediaKind),
    /// JSON that is sent unchanged, in the form that a provider's API expects.
    Raw,
}

impl Opening {
    /// Returns true if a variable that names an image or sound is replaced by the data of that file.
    pub(in crate::load) fn inserts_data(&self) -> bool {
        let is_raw = |(_, content): &(Role, ContentForm)| match content {
            ContentForm::Text(_) => false,
            ContentForm::Parts(parts) => parts.iter().any(|(kind, _)| *kind == PartKind::Raw),
        };
        self.reads_chat || self.parts.iter().any(is_raw)
    }

    /// Returns the number of bytes of the templates.
    pub(in crate::load) fn size(&self) -> usize {
        self.parts.iter().map(|(_, content)| content.size()).sum()
    }
}

impl ContentForm {
    fn size(&self) -> usize {
        match self {
            Self::Text(form) => form.size(),
            Self::Parts(parts) => parts.iter().map(|(_, form)| form.size()).sum(),
        }
    }

    /// Adds the content of the form to a digest.
    pub(in crate::load) fn digest(&self, digest: Digest) -> Digest {
        match self {
            Self::Text(form) => form.digest(digest),
            Self::Parts(parts) => {
                let digest = digest.text("parts").number(parts.len() as u64);
                let add = |digest: Digest, (kind, form): &(PartKind, Form)| {
                    form.digest(digest.text(&format!("{kind:?}")))
                };
                parts.iter().fold(digest, add)
            }
        }
    }
}

/// All prompts by name, with `None` for a prompt with errors. The names are in the order of the file.
#[derive(Debug, Default)]
pub(in crate::load) struct Prompts {
    names: Vec<String>,
    by_name: HashMap<String, Option<Prompt>>,
    /// The value of [`Prompts::lack_is_reported`].
    lack_is_reported: bool,
}

/// A prompt without errors.
#[derive(Debug)]
pub(in crate::load) struct Prompt {
    pub(in crate::load) parts: Vec<PromptPart>,
    /// The messages with their environment variables filled in.
    pub(in crate::load) opening: Arc<Opening>,
    /// The rules for every answer to this prompt.
    pub(in crate::load) rules: Arc<Rules>,
    /// The weighted mean score at which an execution passes; `None` without a threshold.
    pub(in crate::load) threshold: Option<f64>,
}

/// The text of a message of a prompt, or one part of a message.
#[derive(Debug)]
pub(in crate::load) struct PromptPart {
    pub(in crate::load) kind: PartKind,
    pub(in crate::load) template: Template,
    /// The place of the text in its file.
    pub(in crate::load) source: Arc<Source>,
    pub(in crate::load) span: Span,
}

impl Prompts {
    /// True if a prompt has this name, even if the prompt has errors.
    pub(in crate::load) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns the prompt of a name, or `None` if the prompt does not exist or has errors.
    pub(in crate::load) fn get(&self, name: &str) -> Option<&Prompt> {
        self.by_name.get(name).and_then(Option::as_ref)
    }

    pub(in crate::load) fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    /// True if the file has no prompts, and already has an error.
    ///
    /// The shape check has then reported the missing prompts, so references to prompts need no further error. In suites
    /// with agents, commands or transcripts, prompts are optional: each reference to a prompt is an error.
    pub(in crate::load) fn lack_is_reported(&self) -> bool {
        self.lack_is_reported
    }

    /// Returns the name of the only prompt, or `None` if the number of prompts is not 1.
    pub(in crate::load) fn only(&self) -> Option<&str> {
        if let [name] = self.names.as_slice() { Some(name) } else { None }
    }
}

impl Resolved<'_> {
    pub(in crate::load) fn prompts(&mut self, piece: Piece<'_>) -> Prompts {
        let mut prompts = Prompts::default();
        for (key, node) in piece.root.get("prompts").map_or(&[][..], Node::entries) {
            if self.sink.is_full {
                break;
            }
            let at = format!("/prompts/{}", pointer::segment(&key.name));
            let prompt = self.prompt(piece, &at, node);
            prompts.names.push(key.name.to_string());
            prompts.by_name.insert(key.name.to_string(), prompt);
        }
        prompts.lack_is_reported = prompts.names.is_empty() && !self.sink.errors.is_empty();
        prompts
    }

    fn prompt(&mut self, piece: Piece<'_>, at: &str, node: &Node) -> Option<Prompt> {
        let node = &self.prompt_with_files(piece, at, node)?;
        let value = node.to_json();
        let problems = SHAPES.prompt.problems(&value);
        let is_broken = !problems.is_empty();
        self.sink.report(piece, at, problems);
        self.check_zero_limits(piece, at, &value, "tests with this prompt");
        let own = value.get("assertions").and_then(Value::as_array).cloned().unwrap_or_default();
        let checks = self.rule_checks(piece, &format!("{at}/assertions"), &own, 0);
        self.note_conditions(piece, &format!("{at}/assertions"), &own);
        if !own.is_empty() {
            let name = format!("prompts.{}", name_of(at));
            self.note_ids(piece, &format!("{at}/assertions"), &name, &own);
            self.suite.info.assertion_sets.push(AssertionSetInfo { name, ..set_info(&own) });
        }
        let own = if own.is_empty() { Value::Null } else { Value::Array(own) };
        let files = self.files_named(&own).into();
        let own = Arc::new(Rules { value: own, checks: checks.into(), files });
        let rules = self.with_sets(piece, at, &value, &own);
        if is_broken {
            return None;
        }
        let entry: PromptEntry = self.sink.parse_value(piece, at, value)?;
        let language = entry.template.unwrap_or(self.defaults.template);
        let threshold = entry.threshold;
        let assertion_sets = entry.assertion_sets.clone();
        if language == Language::Chat {
            self.check_chat(piece, at, node)?;
        }
        let messages = self.messages(piece, at, node, entry)?;
        let first = Digest::default().text(&format!("{language:?}"));
        let digest = messages.iter().fold(first, |digest, message| message.digest(digest));
        let opening = Opening {
            name: Some(name_of(at).into()),
            is_chat: node.get("messages").is_some(),
            reads_chat: language == Language::Chat,
            ..Opening::default()
        };
        let (parts, opening, digest) =
            self.opening(piece.source, language, messages, opening, digest)?;
        self.suite.info.prompts.push(PromptInfo {
            name: name_of(at),
            digest: digest.finish().to_string(),
            assertion_sets,
        });
        Some(Prompt { parts, opening: Arc::new(opening), rules, threshold })
    }

    /// Returns a prompt with the contents of the files that it names. A prompt that is only a text is the user message,
    /// or names the file of the prompt.
    ///
    /// Returns `None` if a file cannot be read, which is reported. Translated prompts name no files.
    fn prompt_with_files(&mut self, piece: Piece<'_>, at: &str, node: &Node) -> Option<Node> {
        if self.around.is_translated {
            return Some(node.clone());
        }
        if let Some(text) = node.text() {
            let (key, content) = match file_of(text) {
                Some(path) => self.prompt_of_file(piece, at, path)?,
                None => ("user", node.clone()),
            };
            let entries = vec![(Key::new(key, node.span), content)];
            return Some(Node { kind: Kind::Mapping(entries.into()), ..node.clone() });
        }
        let mut entries: Vec<(Key, Node)> = Vec::new();
        for (key, value) in node.entries() {
            let name = &*key.name;
            let at = format!("{at}/{}", pointer::segment(name));
            let content = match (name, value.text().and_then(file_of)) {
                ("system" | "user" | "assistant", Some(path)) => {
                    self.content_of(piece, &at, value.span, path)?
                }
                _ => value.clone(),
            };
            entries.push((key.clone(), content));
        }
        let is_mapping = matches!(node.kind, Kind::Mapping(_));
        Some(if is_mapping {
            Node { kind: Kind::Mapping(entries.into()), ..node.clone() }
        } else {
            node.clone()
        })
    }

    /// Returns the text of a file, without white space at its end. Returns `None` after an error, which is reported.
    fn content_of(&mut self, piece: Piece<'_>, at: &str, span: Span, path: &str) -> Option<Node> {
        match self.around.files.read_file(path) {
            Ok(text) => {
                let text = text.trim_start_matches('\u{feff}').trim_end();
                Some(Node { span, used_at: None, kind: Kind::Text(text.into()) })
            }
            Err(err) => {
                self.sink.report_file(piece, at, &err);
                None
            }
        }
    }

    /// Returns the content of a file as a key of a prompt and its value. A list in a JSON or YAML file becomes
    /// `messages`. All other content becomes `user`.
    ///
    /// Returns `None` after an error, which is reported.
    fn prompt_of_file(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        path: &str,
    ) -> Option<(&'static str, Node)> {
        let span = locate(piece.source, piece.root, at, MemberPart::Value).span;
        let content = self.content_of(piece, at, span, path)?;
        if ![".json", ".yaml", ".yml"].iter().any(|it| path.ends_with(it)) {
            return Some(("user", content));
        }
        let text = content.text().unwrap_or_default();
        let source = Arc::new(self.around.source.beside(path, text));
        let tree = read_yaml(&source, 0..text.len());
        // A text of the language `chat` is a list only after it is rendered.
        let is_list = text.trim_start().starts_with(['[', '-']);
        if is_list && !tree.diagnostics.is_empty() && self.defaults.template != Language::Chat {
            tree.diagnostics.into_iter().for_each(|it| self.sink.push(it));
            return None;
        }
        let root = tree.root.filter(|it| matches!(it.kind, Kind::List(_)));
        Some(match root {
            Some(messages) => ("messages", Node::at(span, &messages.to_json())),
            None => ("user", content),
        })
    }

    /// Parses the messages of a prompt. Reads its images, sounds and files whose references contain no variables.
    ///
    /// Adds the digests of these files to `digest`. Returns `None` after an error, which is reported.
    fn opening(
        &mut self,
        source: &Arc<Source>,
        language: Language,
        messages: Vec<WrittenMessage>,
        opening: Opening,
        mut digest: Digest,
    ) -> Option<(Vec<PromptPart>, Opening, Digest)> {
        let mut parts = Vec::with_capacity(messages.len());
        let mut forms = Vec::with_capacity(messages.len());
        let mut is_broken = false;
        for WrittenMessage { role, parts: written, is_text } in messages {
            let mut of_message = Vec::with_capacity(written.len());
            for WrittenPart { kind, span, text } in written {
                if kind == PartKind::Text {
                    self.check_no_file(source, span, &text);
                }
                let read = match (kind, language) {
                    (PartKind::Raw, Language::Plain) => Template::json(&text).map(Template::strict),
                    (PartKind::Raw, _) | (_, Language::Json) => Template::json(&text),
                    (_, Language::Plain) => Template::parse(&text),
                    (_, Language::Jinja | Language::Chat) => Template::jinja(&text),
                };
                let template = match read {
                    Ok(template) => template,
                    Err(fault) => {
                        self.sink.push(faulty(&fault, &text, source, span));
                        return None;
                    }
                };
                if let PartKind::Media(media) = kind
                    && template.is_fixed()
                {
                    match self.media.load(self.around.files, media, &text) {
                        Ok(media) => {
                            let sum = media.sha256.or(media.url).unwrap_or_default();
                            digest = digest.text(&sum);
                        }
                        Err(err) => {
                            let (message, help) = err.in_words();
                            let at = source.first_line(span);
                            let diagnostic = Diagnostic::error(Code::FILE, message, source, at);
                            self.sink.push(diagnostic.with_help(help));
                            is_broken = true;
                        }
                    }
                }
                // Only the quoting of a command line can fail. These texts are not quoted, so `form` succeeds.
                of_message.push((kind, template.form(self.around.env, None).ok()?));
                parts.push(PromptPart { kind, template, source: Arc::clone(source), span });
            }
            let content = match of_message.pop() {
                Some((_, form)) if is_text => ContentForm::Text(form),
                last => ContentForm::Parts(of_message.into_iter().chain(last).collect()),
            };
            forms.push((role, content));
        }
        (!is_broken).then(|| (parts, Opening { parts: forms.into(), ..opening }, digest))
    }

    /// Reports keys beside `user` in a prompt with `template: chat`. Returns `None` after an error.
    fn check_chat(&mut self, piece: Piece<'_>, at: &str, node: &Node) -> Option<()> {
        let other = |it: &&str| node.get(it).is_some();
        let Some(key) = ["system", "assistant", "messages"].into_iter().find(other) else {
            return Some(());
        };
        let message = format!("a prompt with `template: chat` has no `{key}`");
        let at = format!("{at}/{key}");
        let diagnostic = piece
            .error(Code::INVALID_VALUE, &at, MemberPart::Key, message)
            .with_help("write the list of messages as the text of `user`");
        self.sink.push(diagnostic);
        None
    }

    /// Reports a text that is only a `file://` path.
    ///
    /// The model would get the path itself. In a translated config this is a warning, because promptfoo also sends the
    /// path.
    pub(in crate::load) fn check_no_file(&mut self, source: &Arc<Source>, span: Span, text: &str) {
        let path = text.trim();
        if !path.starts_with(FILE) || path.contains(char::is_whitespace) {
            return;
        }
        let (code, message) = if self.around.is_translated {
            (Code::NO_EFFECT, format!("`{path}` is sent unchanged"))
        } else {
            (
                Code::INVALID_VALUE,
                format!(
                    "`{path}` is not read: only `system`, `user` and `assistant` of a prompt may name a file"
                ),
            )
        };
        let diagnostic = Diagnostic::error(code, message, source, source.first_line(span))
            .with_help("write the text itself: `user: |`, and below it the text, indented");
        self.sink.push(if self.around.is_translated {
            diagnostic.into_warning()
        } else {
            diagnostic
        });
    }

    /// Returns the messages of a prompt with the places of their texts.
    ///
    /// Returns `None` after reporting a missing `user`, keys beside `messages` or a misplaced part.
    fn messages(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        node: &Node,
        entry: PromptEntry,
    ) -> Option<Vec<WrittenMessage>> {
        let spare = ["system", "user", "assistant"].into_iter().find(|it| node.get(it).is_some());
        let Some(messages) = entry.messages else {
            let Some(user) = entry.user else {
                let diagnostic = piece
                    .error(Code::MISSING_KEY, at, MemberPart::Value, "`user` is required")
                    .with_label("missing here")
                    .with_path(&format!("{at}/user"))
                    .with_help(
                        "`user`: the message of the user; or `messages`, the whole conversation",
                    );
                self.sink.push(diagnostic);
                return None;
            };
            let texts = [
                (Role::System, "system", entry.system),
                (Role::User, "user", Some(user)),
                (Role::Assistant, "assistant", entry.assistant),
            ];
            let texts = texts.into_iter();
            let message = |(role, key, text): (Role, &str, Option<String>)| {
                Some(WrittenMessage::text(role, node.get(key)?.span, text?))
            };
            return Some(texts.filter_map(message).collect());
        };
        if let Some(spare) = spare {
            let message = format!("a prompt has either `messages` or `{spare}`, not both");
            let at = format!("{at}/{spare}");
            let diagnostic = piece
                .error(Code::INVALID_VALUE, &at, MemberPart::Key, message)
                .with_help("put it into `messages` too");
            self.sink.push(diagnostic);
            return None;
        }
        let places = node.get("messages").map_or(&[][..], Node::items);
        let mut read = Vec::with_capacity(messages.len());
        for (index, (message, place)) in messages.into_iter().zip(places).enumerate() {
            let role = match message.role {
                Speaker::System => Role::System,
                Speaker::User => Role::User,
                Speaker::Assistant => Role::Assistant,
            };
            let content = place.get("content").unwrap_or(place);
            let at = format!("{at}/messages/{index}/content");
            read.push(match message.content {
                ContentEntry::Text(text) => WrittenMessage::text(role, content.span, text),
                ContentEntry::Parts(parts) => {
                    let parts = parts.into_iter().zip(content.items()).map(part);
                    let parts: Vec<WrittenPart> = parts.collect();
                    self.check_role(piece, &at, role, &parts)?;
                    WrittenMessage { role, parts, is_text: false }
                }
            });
        }
        Some(read)
    }

    /// Reports a part that is not text, unless the message has the role `user`. Returns `None` after an error.
    fn check_role(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        role: Role,
        parts: &[WrittenPart],
    ) -> Option<()> {
        let has_other = |it: &WrittenPart| match it.kind {
            PartKind::Text => false,
            PartKind::Media(_) => true,
            PartKind::Raw => {
                let raw = serde_json::from_str::<Value>(&it.text).map(RawPart::from);
                raw.is_ok_and(|it| it.text().is_none())
            }
        };
        let Some(index) = parts.iter().position(has_other).filter(|_| role != Role::User) else {
            return Some(());
        };
        let message = format!("a message of the {} has only text", role.as_str());
        let at = format!("{at}/{index}");
        let diagnostic = piece.error(Code::INVALID_VALUE, &at, MemberPart::Value, message);
        self.sink.push(diagnostic.with_help("move this part into a message with `role: user`"));
        None
    }
}

/// Returns the path of a text that is only `file://` and a path.
fn file_of(text: &str) -> Option<&str> {
    let path = text.trim().strip_prefix(FILE)?;
    (!path.is_empty() && !path.contains(char::is_whitespace)).then_some(path)
}

/// A message of a prompt as it is written.
struct WrittenMessage {
    role: Role,
    parts: Vec<WrittenPart>,
    /// True if the content is a text, and not a list of parts.
    is_text: bool,
}

/// A text or a part of a message as it is written.
struct WrittenPart {
    kind: PartKind,
    span: Span,
    text: String,
}

impl WrittenMessage {
    fn text(role: Role, span: Span, text: String) -> Self {
        Self { role, parts: vec![WrittenPart { kind: PartKind::Text, span, text }], is_text: true }
    }

    /// Adds the message to the digest of its prompt.
    fn digest(&self, digest: Digest) -> Digest {
        let digest = digest.text(&format!("{:?}", self.role));
        let add = |digest: Digest, part: &WrittenPart| {
            // Without parts, the digest is the same as in versions that had only texts.
            let digest =
                if self.is_text { digest } else { digest.text(&format!("{:?}", part.kind)) };
            digest.text(&part.text)
        };
        self.parts.iter().fold(digest, add)
    }
}

/// Returns a part with the place of its value. The check of the prompt's shape ensures that it has exactly one key.
fn part((entry, place): (PartEntry, &Node)) -> WrittenPart {
    let PartEntry { text, image, audio, file, raw } = entry;
    let span = place.entries().first().map_or(place.span, |(_, value)| value.span);
    let media = [(MediaKind::Image, image), (MediaKind::Audio, audio), (MediaKind::File, file)];
    let media = media.into_iter().find_map(|(kind, it)| Some((PartKind::Media(kind), it?)));
    let raw = raw.map(|it| (PartKind::Raw, Value::Object(it).to_string()));
    let (kind, text) = media.or(raw).unwrap_or_else(|| (PartKind::Text, text.unwrap_or_default()));
    WrittenPart { kind, span, text }
}

/// Makes the error for a template that cannot be read.
///
/// If the position is known, the error points into the text.
pub(in crate::load) fn faulty(
    fault: &Fault,
    text: &str,
    source: &Arc<Source>,
    span: Span,
) -> Diagnostic {
    let place = fault.range.clone().and_then(|range| place_of(text, &range, source, span));
    let line = fault.line.filter(|_| place.is_none());
    let line = line.map(|it| format!(" (line {it} of the text)")).unwrap_or_default();
    let message = format!("the template cannot be read: {}{line}", fault.message);
    let span = place.unwrap_or_else(|| source.first_line(span));
    let diagnostic = Diagnostic::error(Code::SYNTAX, message, source, span);
    diagnostic.with_help(match &fault.help {
        Some(help) => help.as_str(),
        None => "it is Jinja; `{% raw %}…{% endraw %}` keeps a text unchanged",
    })
}

/// Returns the name of the prompt at a pointer.
fn name_of(at: &str) -> String {
    pointer::key(at.rsplit('/').next().unwrap_or_default())
}
