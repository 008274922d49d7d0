//! Tests that depend on programs: prompt functions, programs that compute variables, `transformVars`, and custom
//! filters.

use kindlm_source::{Kind, Node, Span};
use serde_json::{Map, Value, json};

use super::Translator;
use super::build::unique;
use super::files::{extension, is_script, path};
use super::prompts::Prompt;
use super::test_settings::TestSettings;
use super::vars::{Vars, values, without_last_break};

/// The parts of a test for one model, after the programs of the test have run.
#[derive(Clone, Debug, Default)]
pub(super) struct Made {
    pub(super) vars: Vars,
    /// The name of the prompt.
    pub(super) prompt: String,
    pub(super) asserts: Vec<Node>,
    /// The settings of the prompt, which override those of the provider.
    pub(super) config: Option<Value>,
}

/// The model, in the form that programs get as an argument.
pub(super) struct ProgramModel<'a> {
    /// The id of the model in the suite, which promptfoo calls its label.
    pub(super) label: &'a str,
    /// The id of the provider in the promptfoo config.
    pub(super) id: &'a str,
}

impl Made {
    /// True if both tests have equal variables, prompts and assertions. Their settings may differ.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let vars = |it: &Self| Value::Object(values(&it.vars));
        let asserts = |it: &Self| it.asserts.iter().map(Node::to_json).collect::<Value>();
        self.prompt == other.prompt && vars(self) == vars(other) && asserts(self) == asserts(other)
    }
}

/// Returns the path of the program that computes a variable.
///
/// Returns `None` for a plain value.
pub(super) fn program_of(value: &Node) -> Option<&str> {
    value.text().and_then(path).filter(|it| is_script(&extension(it)))
}

impl Translator<'_> {
    /// True if a program determines a part of this test.
    pub(super) fn is_dynamic(&self, said: &TestSettings, vars: &Vars, prompt: &Prompt) -> bool {
        prompt.program.is_some()
            || vars.iter().any(|(_, it)| program_of(it).is_some())
            || self.filters.as_ref().is_some_and(|own| {
                own.are_within(&prompt.node) || said.asserts.iter().any(|it| own.are_within(it))
            })
    }

    /// Runs the programs of a test for one model. Returns `None` after an error, which is reported.
    pub(super) fn made(
        &mut self,
        span: Span,
        said: &TestSettings,
        vars: &Vars,
        prompt: &Prompt,
        model: &ProgramModel<'_>,
    ) -> Option<Made> {
        // Without a label, promptfoo passes an empty label.
        let label = if model.label == model.id { "" } else { model.label };
        let provider = json!({"id": model.id, "label": label});
        let vars = self.computed(vars, prompt, &provider)?;
        let (prompt, config) = if prompt.program.is_some() {
            self.prompted(span, said, &vars, prompt, &provider)?
        } else {
            (self.rendered(span, said, &vars, prompt)?, prompt.config.clone())
        };
        let asserts = said.asserts.iter().map(|it| self.filtered_within(it, &vars));
        let asserts = asserts.collect::<Option<Vec<_>>>()?;
        Some(Made { vars, prompt, asserts, config })
    }

    /// Returns the variables, with the results of programs in place of their paths.
    ///
    /// Returns `None` after an error, which is reported.
    fn computed(&mut self, vars: &Vars, prompt: &Prompt, provider: &Value) -> Option<Vars> {
        let given = Value::Object(values(vars));
        let mut computed = Vars::with_capacity(vars.len());
        for (key, value) in vars {
            let Some(file) = program_of(value) else {
                computed.push((key.clone(), value.clone()));
                continue;
            };
            let program = self.program(value.span, file, Some("get_var"))?;
            let mut args = vec![json!(*key.name), json!(prompt.text), given.clone()];
            if !program.is_python() {
                args.push(provider.clone());
            }
            let answer = self.call(value.span, &program, "the program of a variable", &args)?;
            let Some(output) = answer.get("output") else {
                let why = match answer.get("error").and_then(Value::as_str) {
                    Some(error) => format!("the program of the variable `{}`: {error}", key.name),
                    None => {
                        format!("the program of the variable `{}` returned no `output`", key.name)
                    }
                };
                let help = "it must return an object with the value under `output`";
                self.error(value.span, why, Some(help));
                return None;
            };
            let output = without_last_break(Node::at(value.span, output));
            computed.push((key.clone(), output));
        }
        Some(computed)
    }

    /// Calls a prompt function, adds the resulting prompt, and returns its name and settings.
    ///
    /// Returns `None` after an error, which is reported at the prompt.
    fn prompted(
        &mut self,
        span: Span,
        said: &TestSettings,
        vars: &Vars,
        prompt: &Prompt,
        provider: &Value,
    ) -> Option<(String, Option<Value>)> {
        let program = prompt.program.as_ref()?;
        let given = self.with_data(vars)?;
        let config = prompt.config.clone().unwrap_or_else(|| json!({}));
        let context = json!({"vars": given, "provider": provider, "config": config});
        let place = prompt.node.span;
        let what = if program.is_command() { "the command" } else { "the prompt function" };
        let answer = self.call(place, program, what, &[context])?;
        let returned = answer.get("config").filter(|_| answer.get("prompt").is_some());
        let config = merged_config(prompt.config.as_ref(), returned);
        let text = match answer.get("prompt").unwrap_or(&answer) {
            Value::String(text) => format!("{}{text}{}", said.prefix, said.suffix),
            Value::Array(_) | Value::Object(_)
                if said.prefix.is_empty() && said.suffix.is_empty() =>
            {
                answer.get("prompt").unwrap_or(&answer).to_string()
            }
            Value::Array(_) | Value::Object(_) => {
                let help = "write it into the message of the chat";
                self.unsupported(span, "`prefix` or `suffix` of a chat", Some(help));
                return None;
            }
            _ => {
                let message = "a prompt function must return a text, or a chat";
                self.error(place, message, None);
                return None;
            }
        };
        if text.is_empty() {
            let verb = if program.is_command() { "printed nothing" } else { "returned no text" };
            let message = format!("{what} `{}` {verb}, so the prompt is empty", prompt.text);
            self.report_broken(place, program, message);
            return None;
        }
        if !self.is_made_without_history(place, &text) {
            return None;
        }
        let node = self.template(place, &text)?;
        Some((self.add_made(&prompt.name, node), config))
    }

    /// Returns the name of the prompt for a test, and adds the prompt if it is new.
    ///
    /// A template with custom filters is rendered now, because the suite cannot call them. Returns `None` after an
    /// error, which is reported.
    fn rendered(
        &mut self,
        span: Span,
        said: &TestSettings,
        vars: &Vars,
        prompt: &Prompt,
    ) -> Option<String> {
        let is_own = self.filters.as_ref().is_some_and(|own| own.are_within(&prompt.node));
        if !is_own {
            return Some(self.embraced(span, prompt, &said.prefix, &said.suffix));
        }
        let node = match prompt.node.get("user").and_then(Node::text) {
            Some(user) => {
                let user = format!("{}{user}{}", said.prefix, said.suffix);
                let user = super::build::text(prompt.node.span, &user);
                super::build::with(&prompt.node, "user", user)
            }
            None => prompt.node.clone(),
        };
        let node = self.filtered_within(&node, vars)?;
        Some(self.add_made(&prompt.name, node))
    }

    /// Adds a prompt from a program or a rendered template, and returns its name.
    ///
    /// Equal prompts share one name.
    pub(super) fn add_made(&mut self, name: &str, node: Node) -> String {
        let json = node.to_json().to_string();
        if let Some(name) = self.made.by_content.get(&json) {
            return name.clone();
        }
        let name = unique(name, |it| self.made.prompts.iter().any(|(known, _)| known == it));
        self.made.by_content.insert(json, name.clone());
        self.made.prompts.push((name.clone(), node));
        name
    }

    /// Returns the variables after `transformVars`, which adds or overrides variables.
    ///
    /// After an error, which is reported, the variables are unchanged.
    pub(super) fn transformed(&mut self, said: &TestSettings) -> Vars {
        let Some(transform) = &said.transform_vars else { return said.vars.clone() };
        let Some(text) = transform.text() else {
            self.error(transform.span, "expected code, or the file of a script", None);
            return said.vars.clone();
        };
        let args = [Value::Object(values(&said.vars)), json!({"vars": {}, "prompt": {}})];
        let made = if path(text).is_some() {
            let Some(program) = self.program(transform.span, text, Some("get_transform")) else {
                return said.vars.clone();
            };
            self.call(transform.span, &program, "`transformVars`", &args)
        } else {
            match super::programs::evaluate(&self.runner(), text, &["vars", "context"], &args) {
                Ok(made) => Some(made),
                Err(why) => {
                    let message = format!("`transformVars` failed: {why}");
                    self.error(transform.span, message, None);
                    None
                }
            }
        };
        match made {
            Some(Value::Object(made)) => {
                let made = Node::at(transform.span, &Value::Object(made));
                super::vars::merged(&said.vars, made.entries())
            }
            Some(_) => {
                let message = "`transformVars` must return an object of variables";
                self.error(
                    transform.span,
                    message,
                    Some("such as `({ ...vars, name: vars.name.trim() })`"),
                );
                said.vars.clone()
            }
            None => said.vars.clone(),
        }
    }
}

/// Merges the settings of a prompt function. The returned settings override the function's own settings.
///
/// Returns `None` without settings.
fn merged_config(own: Option<&Value>, returned: Option<&Value>) -> Option<Value> {
    let mut merged = Map::new();
    for config in [own, returned].into_iter().flatten().filter_map(Value::as_object) {
        merged.extend(config.clone());
    }
    (!merged.is_empty()).then_some(Value::Object(merged))
}

/// The prompts that were made by programs or rendered with custom filters.
#[derive(Debug, Default)]
pub(super) struct MadePrompts {
    pub(super) prompts: Vec<(String, Node)>,
    by_content: std::collections::HashMap<String, String>,
}

/// True if a node is a list.
pub(super) fn is_list(node: &Node) -> bool {
    matches!(node.kind, Kind::List(_))
}
