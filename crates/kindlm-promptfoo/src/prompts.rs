//! Prompts: texts, files, chats and prompt functions.

use std::sync::Arc;

use kindlm_source::{Kind, Node, Span, rows};
use kindlm_types::{ContentPart, Message};
use serde_json::Value;

use super::Translator;
use super::build::{list, map, text, unique};
use super::chat::{UnreadableChat, messages};
use super::files::{extension, is_script, path};
use super::programs::Program;

/// The line that separates prompts in a text file.
const SEPARATOR: &str = "---";

/// A text with one of these extensions may be a path without `file://`. Other texts are never read as a path.
const PATHS: [&str; 13] =
    ["txt", "md", "j2", "json", "jsonl", "yaml", "yml", "js", "mjs", "cjs", "ts", "py", "csv"];

/// The extensions of programs that are run as a command, and print a prompt.
const COMMANDS: [&str; 8] = ["sh", "bash", "exe", "bat", "cmd", "ps1", "rb", "pl"];

/// The beginnings of prompts that promptfoo gets from a store of prompts.
const STORES: [&str; 3] = ["langfuse://", "portkey://", "helicone://"];

/// The prompts of a config, in order.
#[derive(Default)]
pub(super) struct Prompts(Vec<Prompt>);

pub(super) struct Prompt {
    /// The name in the suite, from the label in promptfoo.
    pub(super) name: String,
    /// The names that filters may use: the label, the id, the file and the text.
    aliases: Vec<String>,
    /// The translated prompt; null for a prompt function.
    pub(super) node: Node,
    /// The text of the prompt, or the path of the prompt function.
    pub(super) text: String,
    /// The prompt function, which makes the prompt for each test and model.
    pub(super) program: Option<Program>,
    /// The settings that override those of the provider. A prompt function gets them too.
    pub(super) config: Option<Value>,
}

impl Prompt {
    /// Returns the prompt in the form that the functions of `extensions` get.
    pub(super) fn for_hooks(&self) -> Value {
        let mut prompt = serde_json::json!({"raw": self.text, "label": self.name});
        if let Some(config) = &self.config {
            prompt["config"] = config.clone();
        }
        prompt
    }

    /// True if a filter selects this prompt, by one of its names or as a group.
    pub(super) fn is_called(&self, name: &str) -> bool {
        // The filter `group` also selects `group:one`.
        let within = format!("{name}:");
        if self.aliases.iter().any(|it| it.starts_with(&within)) {
            return true;
        }
        let group = name.strip_suffix(":*").or_else(|| name.strip_suffix('*'));
        self.aliases.iter().any(|it| it == name || group.is_some_and(|group| it.starts_with(group)))
    }
}

impl Prompts {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Prompt> {
        self.0.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (String, Node)> + '_ {
        let written = self.0.iter().filter(|it| it.program.is_none());
        written.map(|it| (it.name.clone(), it.node.clone()))
    }

    /// Adds a prompt that a program makes. `path` is its path or its command line.
    fn add_program(&mut self, span: Span, path: &str, program: Program, about: &About) {
        let node = super::build::node(span, Kind::Null);
        let label = about.label.as_deref().unwrap_or(path);
        let aliases = [about.label.as_deref(), about.id.as_deref(), Some(path)];
        let aliases = aliases.into_iter().flatten().map(str::to_owned).collect();
        let (text, config) = (path.to_owned(), about.config.clone());
        self.add(label, aliases, New { node, text, program: Some(program), config });
    }

    fn add(&mut self, label: &str, aliases: Vec<String>, made: New) {
        let label = label.split('\n').next().unwrap_or_default().trim();
        let label: String = label.chars().take(80).collect();
        let label = if label.is_empty() { "prompt".to_owned() } else { label };
        let name = unique(&label, |it| self.0.iter().any(|prompt| prompt.name == it));
        let New { node, text, program, config } = made;
        self.0.push(Prompt { name, aliases, node, text, program, config });
    }
}

/// A new prompt without its names.
struct New {
    node: Node,
    text: String,
    program: Option<Program>,
    config: Option<Value>,
}

/// The keys of a prompt other than its text.
#[derive(Clone, Default)]
struct About {
    label: Option<String>,
    id: Option<String>,
    config: Option<Value>,
}

impl Translator<'_> {
    pub(super) fn prompts(&mut self, root: &Node) -> Prompts {
        let mut prompts = Prompts::default();
        let Some(node) = root.get("prompts") else {
            // Without `prompts`, promptfoo uses the variable `prompt`.
            self.add(&mut prompts, root.span, "{{prompt}}", &About::default(), None);
            return prompts;
        };
        match &node.kind {
            Kind::Text(_) => self.prompt(&mut prompts, node),
            Kind::List(items) => items.iter().for_each(|it| self.prompt(&mut prompts, it)),
            Kind::Mapping(entries) => {
                for (key, label) in entries.iter() {
                    let label = label.text().map(str::to_owned);
                    let about = About { label, ..About::default() };
                    self.prompt_text(&mut prompts, key.span, &key.name, &about);
                }
            }
            _ => self.error(node.span, "expected prompts: a list of texts or files", None),
        }
        prompts
    }

    fn prompt(&mut self, prompts: &mut Prompts, node: &Node) {
        if let Some(text) = node.text() {
            self.prompt_text(prompts, node.span, text, &About::default());
            return;
        }
        let text_at = |key| node.get(key).and_then(Node::text).map(str::to_owned);
        let config = node.get("config").map(Node::to_json).filter(Value::is_object);
        let about = About { label: text_at("label"), id: text_at("id"), config };
        for (key, value) in node.entries() {
            match &*key.name {
                "raw" | "label" | "id" | "display" => {}
                "config" if matches!(value.kind, Kind::Mapping(_) | Kind::Null) => {}
                "config" => self.error(value.span, "expected settings of the provider", None),
                _ => self.ignored_key(key, "a prompt", &["raw", "label", "id", "config"]),
            }
        }
        match (node.get("raw"), node.get("id")) {
            (Some(raw), _) => match raw.text() {
                Some(text) => self.prompt_text(prompts, raw.span, text, &about),
                None => self.error(raw.span, "expected the text of a prompt", None),
            },
            (None, Some(id)) => {
                let text = id.text().unwrap_or_default().to_owned();
                self.prompt_text(prompts, id.span, &text, &about);
            }
            (None, None) => {
                let help = if node.get("messages").is_some() {
                    "promptfoo reads no `messages` here: write them as JSON into a file, and name it: `id: file://chat.json`"
                } else {
                    "write its text, `file://` and a path, or an object with `raw` and `label`"
                };
                self.error(node.span, "this prompt has neither `raw` nor `id`", Some(help));
            }
        }
    }

    /// Adds a prompt with a prefix and suffix to the suite, and returns its name.
    ///
    /// Without a prefix and a suffix, returns the name of the original prompt. For an unsupported chat, reports an
    /// error and returns the name of the original prompt too.
    pub(super) fn embraced(
        &mut self,
        span: Span,
        prompt: &Prompt,
        prefix: &str,
        suffix: &str,
    ) -> String {
        if prefix.is_empty() && suffix.is_empty() {
            return prompt.name.clone();
        }
        let name = format!("{prefix}{}{suffix}", prompt.name);
        if self.embraced.iter().any(|(it, _)| *it == name) {
            return name;
        }
        let Some(user) = prompt.node.get("user").and_then(Node::text) else {
            let help = "write it into the message of the chat";
            self.unsupported(span, "`prefix` or `suffix` of a chat", Some(help));
            return prompt.name.clone();
        };
        let user = format!("{prefix}{user}{suffix}");
        let language = if may_be_chat(&user) { "chat" } else { "jinja" };
        let entry = [("template", text(span, language)), ("user", text(span, &user))];
        self.embraced.push((name.clone(), map(span, entry)));
        name
    }

    /// Returns the name of a prompt for models that get a text, and adds this prompt to the suite.
    ///
    /// `name` is the name of `prompt`, or of a prompt made from it. The name is returned unchanged if the prompt cannot
    /// be a chat, or if no model under test reads chats.
    pub(super) fn in_text_form(&mut self, name: &str, prompt: &Prompt) -> String {
        let mut made = self.embraced.iter().chain(&self.made.prompts);
        let node = made.find(|(it, _)| it == name).map_or(&prompt.node, |(_, node)| node);
        if !self.reads_chats || !is_chat(node) {
            return name.to_owned();
        }
        let node = as_text(node.clone());
        let name = format!("{name} · text");
        if !self.embraced.iter().any(|(it, _)| *it == name) {
            self.embraced.push((name.clone(), node));
        }
        name
    }

    /// Adds a prompt from its text, or the prompts of the files if the text is a path.
    fn prompt_text(&mut self, prompts: &mut Prompts, span: Span, written: &str, about: &About) {
        let ending = extension(written);
        let looks_like_path = !written.contains(['\n', ' '])
            && (PATHS.contains(&&*ending) || COMMANDS.contains(&&*ending))
            && !written.contains("{{");
        if let Some(line) = written.strip_prefix("exec:") {
            let line = line.trim();
            let is_blank = |it: char| it.is_whitespace() || matches!(it, '"' | '\'');
            if line.chars().all(is_blank) {
                self.error(span, "the command is missing", Some("write it as `exec:./prompt.sh`"));
            } else {
                prompts.add_program(span, line, Program::command(line), about);
            }
            return;
        }
        if written.starts_with("package:") {
            let help = "write it in JavaScript or Python: `file://prompt.js`";
            return self.unsupported(span, "a prompt of an npm package", Some(help));
        }
        let file = match path(written) {
            Some(file) => Some(file),
            // promptfoo never uses a text that looks like a path as a prompt, so a missing file is an error.
            None => looks_like_path.then_some(written),
        };
        let Some(file) = file else { return self.add(prompts, span, written, about, None) };
        for file in self.paths(span, file) {
            self.file(prompts, span, &file, about);
        }
    }

    fn file(&mut self, prompts: &mut Prompts, span: Span, path: &str, about: &About) {
        let extension = extension(path);
        if COMMANDS.contains(&&*extension) {
            if !self.exists(span, path) {
                return;
            }
            return prompts.add_program(span, path, Program::command(path), about);
        }
        if is_script(&extension) {
            let Some(program) = self.program_or_file(span, path, None) else { return };
            return prompts.add_program(span, path, program, about);
        }
        let Some(content) = self.content(span, path) else { return };
        match extension.as_str() {
            "jsonl" => {
                for line in content.lines().filter(|it| !it.trim().is_empty()) {
                    self.add(prompts, span, line, about, Some(path));
                }
            }
            "yaml" | "yml" => {
                let Some(value) = self.parse(span, path, &content) else { return };
                let text = match value {
                    Value::String(text) => text,
                    value => value.to_string(),
                };
                self.add(prompts, span, &text, about, Some(path));
            }
            "txt" => {
                let about = &self.without_config(span, about, path);
                for part in parts(&content) {
                    self.add(prompts, span, &part, about, Some(path));
                }
            }
            "csv" => self.prompt_table(prompts, (span, path), &content, about),
            "md" => {
                let about = &self.without_config(span, about, path);
                self.add(prompts, span, &content, about, Some(path));
            }
            "j2" => self.add(prompts, span, &content, about, Some(path)),
            _ => self.add(prompts, span, content.trim_end(), about, Some(path)),
        }
    }

    /// Removes the `config` of a prompt in a file of text or Markdown, with a warning. promptfoo ignores this
    /// `config` too.
    fn without_config(&mut self, span: Span, about: &About, path: &str) -> About {
        if about.config.is_some() {
            let message =
                format!("`config` has no effect on the prompts of `{path}`, as in promptfoo");
            self.warn(span, message, Some("write the text as `raw`"));
        }
        About { config: None, ..about.clone() }
    }

    /// Adds the prompts of a CSV file. The column `prompt` has the prompts, and the column `label` their labels. In a
    /// file without a comma, each line is a prompt.
    fn prompt_table(
        &mut self,
        prompts: &mut Prompts,
        (span, path): (Span, &str),
        content: &str,
        about: &About,
    ) {
        if !content.contains(',') {
            let lines = content.lines().map(str::trim).filter(|it| !it.is_empty());
            let is_header =
                |(at, it): &(usize, &str)| *at == 0 && it.eq_ignore_ascii_case("prompt");
            for (_, line) in lines.enumerate().filter(|it| !is_header(it)) {
                self.add(prompts, span, line, about, Some(path));
            }
            return;
        }
        let source = Arc::new(self.source.beside(path, content));
        let mut records: Vec<Vec<String>> = Vec::new();
        for read in rows(&source, b',') {
            match read {
                Ok(record) => {
                    records.push(record.cells().map(|it| it.trim().to_owned()).collect());
                }
                Err(problem) => return self.diagnostics.push(*problem),
            }
        }
        let headers = records.first().cloned().unwrap_or_default();
        let column = |name: &str| headers.iter().position(|it| it == name);
        let Some(prompt) = column("prompt") else {
            let help = "the first line names the columns: `prompt` and, if wanted, `label`";
            let message = format!("`{path}` has no column `prompt`");
            return self.error(span, message, Some(help));
        };
        let label = column("label");
        for record in records.iter().skip(1) {
            let cell =
                |at: Option<usize>| at.and_then(|it| record.get(it)).filter(|it| !it.is_empty());
            let Some(written) = cell(Some(prompt)) else { continue };
            let label = cell(label).cloned().or_else(|| about.label.clone());
            let about =
                About { label: Some(label.unwrap_or_else(|| written.clone())), ..about.clone() };
            self.add(prompts, span, written, &about, Some(path));
        }
    }

    fn add(
        &mut self,
        prompts: &mut Prompts,
        span: Span,
        written: &str,
        about: &About,
        file: Option<&str>,
    ) {
        let Some(node) = self.template(span, written) else { return };
        let label = about.label.as_deref().or(file).unwrap_or(written);
        let aliases = [about.label.as_deref(), about.id.as_deref(), file, Some(written)];
        let aliases = aliases.into_iter().flatten().map(str::to_owned).collect();
        let config = about.config.clone();
        let new = New { node, text: written.to_owned(), program: None, config };
        prompts.add(label, aliases, new);
    }

    /// Translates the text of a prompt. Returns `None` after an error, which is reported.
    ///
    /// A JSON or YAML list of messages becomes a chat. Other text becomes the user message.
    pub(super) fn template(&mut self, span: Span, written: &str) -> Option<Node> {
        let written = &*self.with_env(written);
        if let Some(store) = STORES.iter().find(|it| written.starts_with(**it)) {
            let help = "save the prompt beside the config, and name that: `file://prompt.txt`";
            self.unsupported(span, &format!("a prompt from `{store}`"), Some(help));
            return None;
        }
        let Some(messages) = literal_chat(written) else {
            let language = match written {
                it if is_json(it) => "json",
                it if may_be_chat(it) => "chat",
                _ => "jinja",
            };
            let entry = [("template", text(span, language)), ("user", text(span, written))];
            return Some(map(span, entry));
        };
        let messages = match messages {
            Ok(messages) => messages,
            Err(UnreadableChat { why, help }) => {
                self.error(span, why, Some(help));
                return None;
            }
        };
        let nodes = messages.iter().map(|it| {
            let role = text(span, it.role.as_str());
            map(span, [("role", role), ("content", content(span, it))])
        });
        Some(map(span, [("template", text(span, "jinja")), ("messages", list(span, nodes))]))
    }
}

/// Returns the content of a message: its text, or its parts.
fn content(span: Span, message: &Message) -> Node {
    if message.parts.is_empty() {
        return text(span, &message.content);
    }
    let part = |part: &ContentPart| match part {
        ContentPart::Raw(raw) => map(span, [("raw", Node::at(span, raw.value()))]),
        part => map(span, [("text", text(span, &part.label()))]),
    };
    list(span, message.parts.iter().map(part))
}

/// Returns the prompts of a text file. A line of three dashes separates them.
fn parts(content: &str) -> Vec<String> {
    let lines: Vec<&str> = content.lines().collect();
    let parts = lines.split(|it| it.trim() == SEPARATOR).map(|it| it.join("\n").trim().to_owned());
    parts.filter(|it| !it.is_empty()).collect()
}

/// Converts a prompt for models that get a text, so that its text is never read as a list of messages. A prompt that
/// cannot be a list of messages stays unchanged.
pub(super) fn as_text(prompt: Node) -> Node {
    if !is_chat(&prompt) {
        return prompt;
    }
    let user = prompt.get("user").cloned().into_iter().map(|it| ("user", it));
    map(prompt.span, [("template", text(prompt.span, "jinja"))].into_iter().chain(user))
}

/// True if the rendered text of a prompt may be a list of messages.
fn is_chat(prompt: &Node) -> bool {
    prompt.get("template").and_then(Node::text) == Some("chat")
}

/// True if a text is a JSON object or list.
///
/// promptfoo renders the texts inside of the JSON, so that the JSON stays valid.
fn is_json(written: &str) -> bool {
    written.trim_start().starts_with(['{', '[']) && serde_json::from_str::<Value>(written).is_ok()
}

/// True if a template can be a chat after its variables are filled in.
///
/// Such a template begins like a list of messages, or with a variable, a tag or a comment.
fn may_be_chat(written: &str) -> bool {
    let begin = written.trim_start();
    let is_template = kindlm_template::is_template(written);
    is_template && ["[", "- role:", "{{", "{%", "{#"].iter().any(|it| begin.starts_with(it))
}

/// Parses a chat from a JSON or YAML list of messages. Returns `None` for other text, such as a template of a chat.
fn literal_chat(written: &str) -> Option<Result<Vec<Message>, UnreadableChat>> {
    let trimmed = written.trim();
    let value = if trimmed.starts_with('[') {
        serde_json::from_str(trimmed).ok()?
    } else if trimmed.starts_with('{') {
        super::chat::of_cohere(&serde_json::from_str(trimmed).ok()?)?
    } else if trimmed.starts_with("- role:") {
        serde_yaml::from_str(trimmed).ok()?
    } else {
        return None;
    };
    messages(&value)
}
