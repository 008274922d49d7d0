//! Compilation of the entries of `assert` lists.

use std::sync::Arc;

use kindlm_types::{Problem, ProblemKind, Severity};
use serde_json::{Map, Value};

use super::judges::Judges;
use super::reference::Whole;
use super::value::{FILE, fill_in, rendered, resolve};
use super::{Compiler, EXAMPLES, LIST, NOT, config_of, name, normalise_numbers, unknown_type};
use crate::core::assertion::RegisteredAssertion;
use crate::core::on::Selector;
use crate::core::scripting::{Transform, View};
use crate::shared::template::{Variables, is_template};
use crate::{Build, Check, EntryOptions, Options, Registration};

/// The key that selects the value that an entry judges.
const ON: &str = "on";

/// The keys whose values are patterns, in checks of tool calls.
const OF_CALLS: [&str; 4] = ["input", "output", "before", "after"];

/// The key that names the tool of a call in a list.
const TOOL: &str = "tool";

/// The key with the main configuration of most entries of `assert` lists.
const VALUE: &str = "value";

impl<'a> Compiler<'a> {
    /// Compiles a list of entries. An entry with a problem other than a warning is left out.
    pub(super) fn entries(&mut self, value: &Value, at: &str) -> Vec<Check> {
        let Value::Array(items) = value else {
            let message = format!("expected a list, found {}", name(value));
            let help = "every check is one item of a list, even if there is only one";
            self.problems.push(Problem::new(at, message).with_help(help));
            return Vec::new();
        };
        let read = |(index, item)| self.entry(item, &format!("{at}/{index}"));
        items.iter().enumerate().filter_map(read).collect()
    }

    /// Compiles one entry, merged with the template that it refers to.
    ///
    /// Returns `None` if a problem prevents the check. The problem is reported.
    fn entry(&mut self, item: &Value, at: &str) -> Option<Check> {
        let Value::Object(written) = item else {
            let message = format!("expected an object, found {}", name(item));
            let help = "an entry is an object with the assertion's id in `type`, such as `{ type: latency, maxMs: 500 }`";
            self.problems.push(Problem::new(at, message).with_help(help));
            return None;
        };
        let whole = match Whole::merge_template(written, self.setup) {
            Ok(whole) => whole,
            Err(problem) => {
                self.problems.push(problem.under(at));
                return None;
            }
        };
        let before = self.problems.len();
        let check = self.check(&whole.map, at);
        for problem in self.problems.iter_mut().skip(before) {
            let inside = problem.pointer.strip_prefix(at).unwrap_or_default().to_owned();
            let placed = whole.place(Problem { pointer: inside, ..problem.clone() });
            *problem = placed.under(at);
        }
        check
    }

    /// Builds the check of an entry; `None` if a problem prevents the check.
    fn check(&mut self, entry: &Map<String, Value>, at: &str) -> Option<Check> {
        let (known, negate) = self.which(entry, at)?;
        let registration = known.registration;
        let mut value = normalise_numbers(Value::Object(entry.clone()));
        let mut problems = known.shape(true).problems(&value);
        for problem in problems.iter_mut().filter(|it| it.pointer == "/flags") {
            if registration.meta.id == "regex" {
                let help = "a pattern has no flags: write `[Aa]` for either case, or check with `icontains`";
                problem.help = Some(help.to_owned());
            }
        }
        if !problems.is_empty() {
            self.report(problems, at);
            return None;
        }
        let written = self.templates(&value);
        let map = value.as_object_mut()?;
        if map.contains_key("threshold") && map.contains_key("atLeast") {
            let problem =
                Problem::key(format!("{at}/atLeast"), "`atLeast` is another name of `threshold`")
                    .with_help("keep one of the two");
            self.problems.push(problem);
            return None;
        }
        let is_at_least = map.contains_key("atLeast");
        let before = self.faults();
        let first_problem = self.problems.len();
        let options = self.options(map, registration, negate, at);
        let least = options.threshold.filter(|it| !(0.0..=1.0).contains(it));
        let views = self.views(map, at);
        let unread = self.faults();
        let rendered = self.value(registration, map, at);
        if self.faults() > unread {
            // A value that could not be read would only cause follow-up problems.
            return None;
        }
        self.calls(map, at);
        self.render_outer(registration.build, &mut value, at);
        let own = EntryOptions { negate, threshold: options.threshold };
        let built = self.build(registration, &mut value, options, at);
        let written = written.map(|it| self.written(registration, it, &value, own));
        self.merge_problems(first_problem);
        // Report a threshold outside of 0 to 1 only if the check was built and compares a score. `atLeast` is always
        // compared with a score.
        let is_score = |it: &Check| is_at_least || !it.traits.measures;
        if let Some(least) = least.filter(|_| built.as_ref().is_some_and(is_score)) {
            let key = if is_at_least { "atLeast" } else { "threshold" };
            let least = kindlm_types::ecma::number(least);
            let message = format!("`{key}` is {least}, and a score is from 0 to 1");
            let help = if is_at_least && built.as_ref().is_some_and(|it| it.traits.measures) {
                "write a number from 0 to 1; compare results of scripts and measures with a `threshold`"
            } else {
                "write the least score that passes: 0.8, for example"
            };
            self.problems.push(Problem::new(format!("{at}/{key}"), message).with_help(help));
        }
        let check = built.filter(|_| self.faults() == before)?;
        if entry.contains_key(ON) && !check.traits.looks_at.takes_on() {
            let id = registration.meta.id;
            let message = format!("`{id}` checks the whole execution, not a value");
            let help = "remove `on`; `includes`, `equals`, `matches`, `satisfies` and other checks of \
                        values take it";
            self.problems.push(Problem::key(format!("{at}/{ON}"), message).with_help(help));
            return None;
        }
        if check.options.require && check.compares() {
            let message =
                "a check that compares outputs runs after all executions, so it cannot stop one";
            let problem =
                Problem::key(format!("{at}/require"), message).with_help("remove `require`");
            self.problems.push(problem);
            return None;
        }
        let rendered = rendered.filter(|_| !check.traits.hides_value);
        Some(Check { views, rendered, written, is_negated: negate, ..check })
    }

    /// Removes problems that are only a consequence of a missing variable at the same place.
    ///
    /// `from` is the index of the first problem to check. If the check could not be built because of the variable, the
    /// missing variable becomes an error.
    fn merge_problems(&mut self, from: usize) {
        let new = self.problems.split_off(from.min(self.problems.len()));
        let is_missing = |it: &Problem| matches!(it.kind, ProblemKind::MissingVariable { .. });
        let follows = |it: &Problem| {
            !is_missing(it)
                && new.iter().any(|other| is_missing(other) && other.pointer == it.pointer)
        };
        let (following, kept): (Vec<&Problem>, Vec<&Problem>) =
            new.iter().partition(|it| follows(it));
        self.problems.extend(kept.into_iter().map(|it| {
            let decides = is_missing(it)
                && following
                    .iter()
                    .any(|other| other.pointer == it.pointer && !other.kind.is_warning());
            if decides { it.clone().with_kind(ProblemKind::InvalidValue) } else { it.clone() }
        }));
    }

    /// Removes `on` and `transform` from the entry, and returns them as views.
    ///
    /// `on` selects a value, and then the script of `transform` changes this value.
    fn views(&mut self, map: &mut Map<String, Value>, at: &str) -> Vec<View> {
        let mut views = Vec::new();
        for key in [ON, "transform"] {
            let written = map.shift_remove(key);
            let Some(written) = written.as_ref().and_then(Value::as_str) else { continue };
            let read = match key {
                ON => Selector::new(written).map(View::On),
                _ => Transform::new(written, self.setup).map(|it| View::Script(Arc::new(it))),
            };
            match read {
                Ok(view) => views.push(view),
                Err(problem) => self.problems.push(problem.under(&format!("{at}/{key}"))),
            }
        }
        views
    }

    /// Returns the assertion that the entry's `type` names, and true if `type` has the prefix `not-`.
    ///
    /// A missing or unknown `type` is reported, and the result is `None`.
    fn which(
        &mut self,
        entry: &Map<String, Value>,
        at: &str,
    ) -> Option<(&'a RegisteredAssertion, bool)> {
        let registry = &self.setup.registry;
        let find = |id: &str| registry.entry(id);
        let problem = match entry.get("type") {
            Some(Value::String(id)) => {
                // An assertion whose own id begins with `not-` takes precedence.
                let known = find(id)
                    .map(|known| (known, false))
                    .or_else(|| id.strip_prefix(NOT).and_then(find).map(|known| (known, true)));
                if known.is_some() {
                    return known;
                }
                unknown_type(registry, id).under(at)
            }
            Some(other) => Problem::new(
                format!("{at}/type"),
                format!("expected the id of an assertion, found {}", name(other)),
            )
            .with_help(EXAMPLES),
            None => Problem::new(at, "`type` is required")
                .with_kind(ProblemKind::MissingKey { key: "type".to_owned() })
                .with_help(format!("`type` is the id of an assertion, {EXAMPLES}")),
        };
        self.problems.push(problem);
        None
    }

    /// Returns the variables of the test and the environment, for templates.
    pub(super) fn variables(&self) -> &Variables {
        self.variables.get_or_init(|| Variables::new(self.vars, &self.setup.env))
    }

    /// Removes the options from an entry and returns them; the assertion's keys remain.
    fn options(
        &mut self,
        map: &mut Map<String, Value>,
        registration: &Registration,
        negate: bool,
        at: &str,
    ) -> Options {
        map.shift_remove("type");
        let severity = registration.meta.severity;
        let mut options = Options { severity, negate, ..Options::default() };
        let mut text = |key: &str| map.shift_remove(key)?.as_str().map(str::to_owned);
        options.metric = text("metric");
        options.label = text("label");
        options.skip = text("skip");
        let severity = text("severity");
        options.require = map.shift_remove("require") == Some(Value::Bool(true));
        options.severity = match severity.as_deref() {
            Some("soft") => Severity::Soft,
            Some(_) => Severity::Gate,
            // `require` implies a gate.
            None if options.require => Severity::Gate,
            None => options.severity,
        };
        if options.require && options.severity == Severity::Soft {
            let message = "a required check must hold, so it cannot be `soft`";
            let problem = Problem::key(format!("{at}/require"), message)
                .with_help("remove `require`, or `severity: soft`");
            self.problems.push(problem);
        }
        if options.require && self.in_set {
            let message = "a check in a set cannot be required: the set counts as one";
            let problem = Problem::key(format!("{at}/require"), message)
                .with_help("write `require: true` beside `type: assert-set`");
            self.problems.push(problem);
        }
        let mut number = |key: &str| map.shift_remove(key)?.as_f64();
        options.threshold = number("threshold").or_else(|| number("atLeast"));
        options.weight = number("weight").unwrap_or(options.weight);
        // An `assert-set` of weight 0 can fail.
        if options.require && options.weight == 0.0 && !map.contains_key("assert") {
            let message = "a required check must hold, but a check of weight 0 cannot fail";
            let problem = Problem::key(format!("{at}/require"), message)
                .with_help("remove `require`, or `weight: 0`");
            self.problems.push(problem);
        }
        if let Some(metric) = options.metric.as_deref().filter(|it| is_template(it)) {
            self.report_missing(&Value::from(metric), &format!("{at}/metric"));
            match rendered(metric, self.variables()) {
                Ok(metric) => options.metric = Some(metric).filter(|it| !it.is_empty()),
                Err(problem) => self.problems.push(problem.under(&format!("{at}/metric"))),
            }
        }
        options
    }

    /// Replaces `value` by the content of its file, or by the rendered template.
    ///
    /// Returns the new value if it has changed. The value of a `Plain`, `Judged` or `Set` assertion stays as written.
    fn value(
        &mut self,
        registration: &Registration,
        map: &mut Map<String, Value>,
        at: &str,
    ) -> Option<Value> {
        let takes_scripts = match registration.build {
            Build::EntryOptions(_) | Build::Graded(_) => false,
            Build::Script(_) => true,
            Build::Plain(_) | Build::Judged(_) | Build::Set(_) => return None,
        };
        let value = map.get_mut(VALUE)?;
        // Only texts are rendered; file references are not.
        let is_rendered = |it: &&Value| it.as_str().is_some_and(|it| !it.starts_with(FILE));
        if is_rendered(&&*value) {
            self.report_missing(value, &format!("{at}/{VALUE}"));
        }
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            if is_rendered(&item) {
                self.report_missing(item, &format!("{at}/{VALUE}/{index}"));
            }
        }
        match resolve(value, takes_scripts, self.setup, || self.variables()) {
            Ok(Some(new)) if new != *value => {
                *value = new;
                Some(value.clone())
            }
            Ok(_) => None,
            Err(problem) => {
                self.problems.push(problem.under(&format!("{at}/{VALUE}")));
                None
            }
        }
    }

    /// Renders every template in the patterns for tool calls.
    fn calls(&mut self, map: &mut Map<String, Value>, at: &str) {
        for (key, value) in map.iter_mut() {
            let place = format!("{at}/{key}");
            let is_call = |it: &Value| it.get(TOOL).is_some();
            match &*value {
                value if OF_CALLS.contains(&key.as_str()) => self.report_missing(value, &place),
                Value::Array(items) if key == VALUE => {
                    for (index, item) in items.iter().enumerate().filter(|(_, it)| is_call(it)) {
                        self.report_missing(item, &format!("{place}/{index}"));
                    }
                }
                _ => {}
            }
            let filled = match value {
                value if OF_CALLS.contains(&key.as_str()) => {
                    fill_in(value, &place, self.variables())
                }
                Value::Array(items) if key == VALUE => {
                    let calls = items.iter_mut().enumerate().filter(|(_, it)| is_call(it));
                    let mut filled = calls
                        .map(|(at, it)| fill_in(it, &format!("{place}/{at}"), self.variables()));
                    filled.find(Result::is_err).unwrap_or(Ok(()))
                }
                _ => continue,
            };
            self.problems.extend(filled.err());
        }
    }

    fn build(
        &mut self,
        registration: &'static Registration,
        value: &mut Value,
        mut options: Options,
        at: &str,
    ) -> Option<Check> {
        let Judges { panel, is_left_open: mut leaves_judge_open, judging } =
            self.panel(registration, value, at)?;
        let mut own = || EntryOptions {
            negate: std::mem::take(&mut options.negate),
            threshold: options.threshold.take(),
        };
        let built = match registration.build {
            Build::Plain(build) | Build::Judged(build) => build(value, self.setup),
            Build::EntryOptions(build) | Build::Script(build) | Build::Graded(build) => {
                build(value, own(), self.setup)
            }
            Build::Set(build) => {
                let list = value.as_object_mut().and_then(|it| it.shift_remove(LIST));
                let within = std::mem::replace(&mut self.in_set, true);
                let checks = self.entries(&list.unwrap_or_default(), &format!("{at}/{LIST}"));
                self.in_set = within;
                leaves_judge_open = checks.iter().any(|it| it.leaves_judge_open);
                build(value, checks, own(), self.setup)
            }
        };
        match built {
            Ok(assertion) => {
                let check = Check::new(&registration.meta, panel.judging(assertion));
                let instructions = check.traits.instructions.as_ref();
                let unknown = instructions.map(|it| it.unknown(self.vars)).unwrap_or_default();
                self.report(unknown, at);
                if self.setup.tells_missing {
                    // Skip each place that already has a problem. For example, a missing variable causes an empty text
                    // there.
                    let mut idle = check.traits.no_effect.clone();
                    let is_told = |at: &str| self.problems.iter().any(|it| it.pointer == at);
                    idle.retain(|it| !is_told(&format!("{at}{}", it.pointer)));
                    self.report(idle, at);
                }
                let check =
                    Check { options, at: at.to_owned(), judging, leaves_judge_open, ..check };
                Some(Check { config: config_of(&check, value), ..check })
            }
            Err(problems) => {
                self.report(problems, at);
                None
            }
        }
    }
}
