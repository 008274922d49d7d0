//! Expands each test to several tests.
//!
//! There is one test per combination of variables, prompt and provider group. There are more tests if programs give
//! different results for the models.

use std::collections::HashSet;
use std::rc::Rc;

use kindlm_source::{Kind, Node, Span};
use serde_json::Value;

use super::Translator;
use super::asserts::KnownKeys;
use super::build::{list, map, text, texts, unique};
use super::dynamic::{Made, ProgramModel};
use super::prompts::{Prompt, Prompts};
use super::provider_groups::Group;
use super::test_settings::TestSettings;
use super::vars::Vars;

/// The provider groups of a test, with the indexes of the models to use.
pub(super) type Groups = Vec<(Rc<Group>, Vec<usize>)>;

/// The parts of one expanded test.
struct Case<'a> {
    span: Span,
    name: String,
    said: &'a TestSettings,
    prompt: &'a Prompt,
    group: &'a Group,
    /// The indexes of the group's models that the test uses.
    models: Vec<usize>,
    /// The name of the comparison group. It consists of the number of the test and the number of the variable
    /// combination.
    compare: String,
    /// The conversation of the test; `None` if its prompt does not use earlier tests.
    history: Option<String>,
}

/// A part of a case: the models that get the same prompt, variables and checks.
struct Part {
    made: Made,
    models: Vec<Node>,
    /// The group of a model with the settings of a prompt; `None` for the group of the case.
    group: Option<Rc<Group>>,
}

impl Translator<'_> {
    /// Returns the group of a model with the settings of a prompt, which override those of its provider.
    ///
    /// Adds the model if it is new. Returns `None` after an error, which is reported.
    fn configured(
        &mut self,
        group: &Group,
        place: usize,
        prompt: &str,
        config: &Value,
    ) -> Option<Rc<Group>> {
        let model = group.models.get(place).and_then(Node::text).unwrap_or_default();
        let entry = group.entry_with(place, &format!("{model} · {prompt}"), config)?;
        self.extra_group(&entry)
    }

    /// Translates all tests of a config.
    pub(super) fn tests(&mut self, root: &Node, prompts: &Prompts) -> Node {
        let written = self.written(root);
        let groups: Vec<Groups> = written.iter().map(|(_, said)| self.groups_of(said)).collect();
        self.note_stored(&written, &groups, prompts);
        self.reads_chats = groups
            .iter()
            .flatten()
            .any(|(group, models)| models.iter().any(|place| group.reads_chats(*place)));
        let mut names = HashSet::new();
        let mut nodes = Vec::new();
        for (number, ((span, mut said), groups)) in written.into_iter().zip(&groups).enumerate() {
            said.graders = self.with_default_graders(&said.asserts, &said.graders);
            self.cases(span, (number + 1, &said, groups), prompts, &mut names, &mut nodes);
            let stores = said.stores.as_ref().and_then(Node::text).map(str::to_owned);
            self.stored_before.extend(stores.filter(|it| self.stored.contains(it)));
        }
        let span = root.get("tests").map_or(root.span, |it| it.span);
        list(span, nodes)
    }

    fn cases(
        &mut self,
        span: Span,
        (number, said, groups): (usize, &TestSettings, &Groups),
        prompts: &Prompts,
        names: &mut HashSet<String>,
        nodes: &mut Vec<Node>,
    ) {
        let vars = self.transformed(said);
        let combinations = self.combinations(&vars, said.expand.unwrap_or(true));
        let several = combinations.len() > 1;
        let description = said.description.clone().unwrap_or_else(|| format!("Test {number}"));
        let count = nodes.len();
        self.check_filters(span, said, prompts, groups);
        for (index, vars) in combinations.iter().enumerate() {
            let vars = self.with_each_other(vars);
            let vars = self.with_stored_names(span, vars);
            for (group, models) in groups {
                for prompt in meant(said, prompts, group) {
                    let mut name = description.clone();
                    if several {
                        name = format!("{name}, variant {}", index + 1);
                    }
                    if prompts.len() > 1 {
                        name = format!("{name} · {}", prompt.name);
                    }
                    let models = models.clone();
                    let compare = format!("{number}.{}", index + 1);
                    let history = self.history(span, said, prompt, group);
                    let case = Case { span, name, said, prompt, group, models, compare, history };
                    self.case(&case, &vars, names, nodes);
                }
            }
        }
        if nodes.len() == count && self.diagnostics.is_empty() && !combinations.is_empty() {
            let help = "its `prompts` and `providers`, and the `prompts` of its providers, exclude every combination";
            self.error(span, "this test has no model to send to", Some(help));
        }
    }

    /// Returns the provider groups of a test, with the indexes of the models to use.
    ///
    /// Returns no groups after an error.
    fn groups_of(&mut self, said: &TestSettings) -> Groups {
        if let Some(node) = &said.provider
            && node.text().is_none_or(|it| self.providers.find(it).is_none())
        {
            let Some(group) = self.extra_group(node) else { return Vec::new() };
            let all = (0..group.models.len()).collect();
            return vec![(group, all)];
        }
        let wanted = said.providers.as_ref().or(said.provider.as_ref()).map(texts);
        let groups = self.providers.groups();
        let groups = groups.iter().map(|group| {
            let is_wanted = |place: &usize| {
                wanted.as_ref().is_none_or(|it| it.iter().any(|it| group.has(*place, it)))
            };
            let models = (0..group.models.len()).filter(is_wanted).collect();
            (Rc::clone(group), models)
        });
        groups.filter(|(_, models): &(_, Vec<usize>)| !models.is_empty()).collect()
    }

    /// Reports unknown names in the filters `prompts` and `providers` of a test.
    fn check_filters(
        &mut self,
        span: Span,
        said: &TestSettings,
        prompts: &Prompts,
        groups: &Groups,
    ) {
        let mut unknown = Vec::new();
        let wanted = |node: &Option<Node>| node.as_ref().map(texts).unwrap_or_default();
        for name in wanted(&said.prompts) {
            if !prompts.iter().any(|it| it.is_called(&name)) {
                unknown.push((said.prompts.as_ref(), "prompt", name));
            }
        }
        for name in wanted(&said.providers) {
            let is_known = |(group, models): &(Rc<Group>, Vec<usize>)| {
                models.iter().any(|place| group.has(*place, &name))
            };
            if !groups.iter().any(is_known) {
                unknown.push((said.providers.as_ref(), "provider", name));
            }
        }
        for (node, what, name) in unknown {
            let span = node.map_or(span, |it| it.span);
            let help = format!("use its label or its id, as written under `{what}s`");
            self.error(span, format!("there is no {what} `{name}`"), Some(&help));
        }
    }

    fn case(
        &mut self,
        case: &Case<'_>,
        vars: &Vars,
        names: &mut HashSet<String>,
        nodes: &mut Vec<Node>,
    ) {
        let Case { span, said, prompt, group, .. } = *case;
        let mut parts: Vec<Part> = Vec::new();
        if group.runs_agents && group.takes_inputs {
            self.check_inputs(span, &prompt.text);
        }
        let fixed = (!self.is_dynamic(said, vars, prompt))
            .then(|| self.embraced(span, prompt, &said.prefix, &said.suffix));
        for place in &case.models {
            let Some(model) = group.models.get(*place) else { continue };
            let mut made = if let Some(prompt) = &fixed {
                Made {
                    prompt: prompt.clone(),
                    config: case.prompt.config.clone(),
                    ..Made::default()
                }
            } else {
                let label = model.text().unwrap_or_default();
                let asked = ProgramModel { label, id: group.written(*place) };
                let Some(made) = self.made(span, said, vars, prompt, &asked) else { return };
                made
            };
            let given = if fixed.is_some() { vars } else { &made.vars };
            let Some(with_parts) = self.with_parts(span, &made.prompt, prompt, given) else {
                return;
            };
            let Some(with_stored) = self.with_stored(span, &with_parts, prompt, given) else {
                return;
            };
            made.prompt = with_stored;
            if !group.reads_chats(*place) {
                made.prompt = self.in_text_form(&made.prompt, prompt);
            }
            if let Some(config) = made.config.take() {
                let Some(own) = self.configured(group, *place, &prompt.name, &config) else {
                    return;
                };
                parts.push(Part { made, models: own.models.clone(), group: Some(own) });
                continue;
            }
            match parts.iter_mut().find(|it| it.group.is_none() && it.made.is_like(&made)) {
                Some(part) => part.models.push(model.clone()),
                None => parts.push(Part { made, models: vec![model.clone()], group: None }),
            }
        }
        if fixed.is_some() {
            for Part { made, .. } in &mut parts {
                made.vars.clone_from(vars);
                made.asserts.clone_from(&said.asserts);
            }
        }
        let several = parts.len() > 1;
        for part in parts {
            let mut name = case.name.clone();
            if several && let Some(model) = part.models.first().and_then(Node::text) {
                name = format!("{name} · {model}");
            }
            let name = unique(&name, |it| names.contains(it));
            names.insert(name.clone());
            nodes.push(node(case, &name, part, &mut self.keys));
        }
    }
}

fn node(case: &Case<'_>, name: &str, part: Part, keys: &mut KnownKeys) -> Node {
    let Case { span, said, .. } = *case;
    let Part { made, models, group } = part;
    let group = group.as_deref().unwrap_or(case.group);
    let vars = Node { span, used_at: None, kind: Kind::Mapping(Rc::new(made.vars)) };
    let expect = map(span, [("assert", list(span, said.checks(&made.asserts, keys)))]);
    let compares = made.asserts.iter().any(compares);
    let mut entries = vec![
        ("name", text(span, name)),
        ("prompt", text(span, &made.prompt)),
        (if group.runs_agents { "agent" } else { "models" }, list(span, models)),
        ("vars", vars),
        ("expect", expect),
    ];
    // promptfoo compares the outputs of all prompts and providers of a test. In the suite, each combination of a prompt
    // and a provider group is a test, so these tests share a comparison group.
    if compares {
        entries.push(("compare", text(span, &case.compare)));
    }
    if let Some(history) = &case.history {
        entries.push(("history", text(span, history)));
    }
    if let Some(name) = said.stores.clone().filter(|_| case.history.is_some()) {
        entries.push(("storeOutputAs", name));
    }
    // A scoring function gets the threshold as an argument and decides itself.
    if let (Some(threshold), None) = (&said.threshold, &said.scoring) {
        entries.push(("threshold", threshold.clone()));
    }
    if let Some(form) = group.call_form {
        entries.push(("callsAsOutput", text(span, form)));
    }
    // The transforms of the provider run first. Each transform gets the result of the transform before it.
    let transforms = [&group.callbacks, &group.transform, &said.transform];
    let transforms: Vec<Node> = transforms.into_iter().flatten().cloned().collect();
    match &transforms[..] {
        [] => {}
        [only] => entries.push(("transform", only.clone())),
        [.., last] => entries.push(("transform", list(last.span, transforms.clone()))),
    }
    if let Some(options) = said.written_options.as_ref().filter(|_| said.has_own_options) {
        entries.push(("options", options.clone()));
    }
    if let Some(output) = &said.output {
        entries.push(("output", output.clone()));
    }
    if let Some(metadata) = &said.metadata {
        entries.push(("metadata", metadata.clone()));
    }
    if let Some(tools) = &group.tools {
        entries.push(("tools", tools.clone()));
    }
    if group.calls || group.tools.is_some() {
        entries.push(("answerTools", Node { span, used_at: None, kind: Kind::Bool(false) }));
    }
    map(span, entries)
}

/// True if an assertion compares outputs.
fn compares(node: &Node) -> bool {
    let kind = node.get("type").and_then(Node::text).unwrap_or_default();
    super::asserts::compares(kind.strip_prefix("not-").unwrap_or(kind))
}

/// Returns the prompts that both the test and the provider group use.
fn meant<'p>(said: &TestSettings, prompts: &'p Prompts, group: &Group) -> Vec<&'p Prompt> {
    let filter = said.prompts.as_ref().map(texts);
    let is_meant = |prompt: &&Prompt| {
        let by = |names: &Option<Vec<String>>| {
            names.as_ref().is_none_or(|names| names.iter().any(|it| prompt.is_called(it)))
        };
        by(&filter) && by(&group.prompts)
    };
    prompts.iter().filter(is_meant).collect()
}
