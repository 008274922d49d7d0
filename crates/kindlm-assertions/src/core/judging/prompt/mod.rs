//! The prompt of a graded check: KindLM's own prompt, or a prompt of the user.

mod replaced;

use std::borrow::Cow;
use std::sync::Arc;

use kindlm_types::{Problem, ResponseFormat, Role, ecma};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::fence::Fenced;
use super::{Inquiry, digest};
use crate::shared::template::Env;
use crate::{Evidence, Setup};
use replaced::RubricPart;

/// A replacement for the prompt of the judge. `file://` and a path means the content of a file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RubricPrompt {
    /// The user message, or a list of messages as JSON.
    Text(#[schemars(length(min = 1))] String),
    /// The messages of a chat.
    Messages(#[schemars(length(min = 1))] Vec<RubricMessage>),
}

/// One message of a replacement prompt.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RubricMessage {
    /// The role of the message: `system` for instructions. Messages of other roles form the question.
    role: Role,
    /// A template that can use the variables of the test and those of the check.
    #[schemars(length(min = 1))]
    content: String,
}

/// The names by which prompts insert the judged texts.
const JUDGED: [&str; 8] = [
    "output",
    "outputs",
    "answer",
    "completion",
    "messages",
    "statements",
    "trajectory",
    "context",
];

/// The place for a replacement prompt, and the names that the prompt may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// The JSON pointer from the check.
    at: &'static str,
    /// The names of the variables that the check adds to the variables of the test.
    gives: &'static [&'static str],
}

impl Slot {
    /// Creates a slot at this pointer, with these names.
    pub(crate) const fn new(at: &'static str, gives: &'static [&'static str]) -> Self {
        Self { at, gives }
    }

    /// Creates the slot `rubricPrompt`, for checks with a single prompt.
    pub(crate) const fn rubric(gives: &'static [&'static str]) -> Self {
        Self::new("/rubricPrompt", gives)
    }
}

/// The prompt of a check: KindLM's own prompt, or the prompt that the user wrote instead.
#[derive(Clone, Debug)]
pub(crate) struct GradingPrompt {
    /// KindLM's instructions, which never vary, so that prompt caches hit.
    system: &'static str,
    slot: Slot,
    replaced: Option<Arc<Replaced>>,
    /// The digest of the prompt for reports. A different digest shows that the prompt changed.
    digest: String,
}

#[derive(Debug)]
struct Replaced {
    messages: Vec<RubricPart>,
    env: Env,
}

/// A question from KindLM's own prompt.
pub(crate) struct BuiltInQuestion {
    /// The question without the instructions.
    pub(crate) user: String,
    /// The mark of the fence in the question; `None` without fenced data.
    pub(crate) mark: Option<String>,
    /// The name of the answer's form, and its JSON Schema; `None` for an answer in free form.
    pub(crate) format: Option<(&'static str, Value)>,
}

impl BuiltInQuestion {
    /// Builds a question about fenced data, with a text before it.
    pub(crate) fn about(before: &str, data: Fenced, format: (&'static str, Value)) -> Self {
        let gap = if before.is_empty() { "" } else { "\n\n" };
        let user = format!("{before}{gap}{}", data.text);
        Self { user, mark: Some(data.mark), format: Some(format) }
    }
}

impl GradingPrompt {
    /// Builds the prompt from these instructions, or from the user's replacement.
    ///
    /// Pointers of problems start at the check.
    pub(crate) fn new(
        system: &'static str,
        replaced: Option<RubricPrompt>,
        slot: Slot,
        setup: &Setup<'_>,
    ) -> Result<Self, Vec<Problem>> {
        let Some(replaced) = replaced else {
            return Ok(Self { system, slot, replaced: None, digest: digest(&[system]) });
        };
        let under = |it: Problem| vec![it.under(slot.at)];
        let messages = replaced::messages(replaced, setup).map_err(under)?;
        let texts: Vec<&str> = messages.iter().map(|it| it.content.as_str()).collect();
        let digest = digest(&texts);
        let replaced = Some(Arc::new(Replaced { messages, env: Env::new(setup.env.clone()) }));
        Ok(Self { system, slot, replaced, digest })
    }

    /// Returns a problem for each message that needs an undefined name.
    ///
    /// `vars` has the variables of the test. Pointers of the problems start at the check.
    pub(crate) fn unknown(&self, vars: &Map<String, Value>) -> Vec<Problem> {
        let messages = self.replaced.iter().flat_map(|it| &it.messages);
        let known: Vec<&str> =
            self.slot.gives.iter().copied().chain(vars.keys().map(String::as_str)).collect();
        messages.filter_map(|it| it.unknown(&known)).map(|it| it.under(self.slot.at)).collect()
    }

    /// Returns a problem if the prompt does not show the judged text to the judge.
    ///
    /// The pointer of the problem starts at the check.
    pub(crate) fn blind(&self) -> Option<Problem> {
        let replaced = self.replaced.as_ref()?;
        let shows: Vec<&str> =
            self.slot.gives.iter().copied().filter(|it| JUDGED.contains(it)).collect();
        if shows.is_empty() || replaced.messages.iter().any(|it| it.uses_any(&shows)) {
            return None;
        }
        let names = shows.iter().map(|it| format!("`{{{{ {it} }}}}`")).collect::<Vec<_>>();
        let message = "this prompt contains nothing of the material to judge";
        let help = format!("insert it with {}", names.join(" or "));
        Some(Problem::new(self.slot.at, message).with_help(help))
    }

    /// Returns the instructions: KindLM's, or the messages of the user's prompt with their roles.
    pub(crate) fn text(&self) -> Cow<'static, str> {
        let Some(replaced) = &self.replaced else { return Cow::Borrowed(self.system) };
        let messages =
            replaced.messages.iter().map(|it| format!("{}: {}", it.role.as_str(), it.content));
        Cow::Owned(messages.collect::<Vec<_>>().join("\n\n"))
    }

    /// Returns the digest of the prompt.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Builds the question from KindLM's prompt, or from the user's template.
    ///
    /// The template can use the variables of the test and `vars`. Returns the error message if the template cannot be
    /// rendered.
    pub(crate) fn inquiry(
        &self,
        evidence: &Evidence<'_>,
        vars: &[(&str, Value)],
        max_tokens: u32,
        own: impl FnOnce() -> BuiltInQuestion,
    ) -> Result<Inquiry, String> {
        let Some(replaced) = &self.replaced else {
            let own = own();
            return Ok(Inquiry {
                model: None,
                system: Cow::Borrowed(self.system),
                user: own.user,
                images: Vec::new(),
                mark: own.mark,
                format: own.format.map(|(name, schema)| ResponseFormat::new(name, schema)),
                max_tokens,
                sample: 0,
                shared: 0,
                filled: Vec::new(),
            });
        };
        debug_assert!(vars.iter().map(|it| &it.0).eq(self.slot.gives), "{:?}", self.slot);
        let mut all = evidence.execution.vars.clone();
        all.extend(vars.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let variables = replaced.env.with(&all);
        let (mut system, mut user) = (Vec::new(), Vec::new());
        for message in &replaced.messages {
            let said = variables.render(&message.content)?;
            if message.role == Role::System { system.push(said) } else { user.push(said) }
        }
        Ok(Inquiry {
            model: None,
            system: Cow::Owned(system.join("\n\n")),
            user: user.join("\n\n"),
            images: Vec::new(),
            mark: None,
            // The user's prompt describes the form of the answer itself.
            format: None,
            max_tokens,
            sample: 0,
            shared: 0,
            filled: all.values().map(|it| crate::core::grade::text(it).into_owned()).collect(),
        })
    }
}

/// Returns the output as the value that templates get: a JSON object or list, else the text.
pub(crate) fn output_for_templates(output: &str) -> Value {
    match serde_json::from_str(output) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
        _ => Value::String(output.to_owned()),
    }
}

/// Returns a value as one line for labels, cut after `max` characters.
pub(crate) fn short(value: &Value, max: usize) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        value => ecma::stringify(value),
    };
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(max) {
        line.truncate(end);
        line.push('…');
    }
    line
}
