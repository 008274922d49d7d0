//! The digest of the data that a result depends on. An earlier result is reused only if the digest is unchanged.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use kindlm_assertions::Setup;
use kindlm_config::Programs;
use kindlm_engine::Suite;
use kindlm_store::{Digest, Folder};
use kindlm_template::{Variables, each_template};
use kindlm_types::{FileError, FileTree, Files, TreeLimits};
use serde_json::{Map, Value, json};

use crate::Env;
use crate::responses::decided_by;

/// The files that checks name. Each file that was read has a digest, which covers its imports.
pub(super) struct Referred<'a> {
    files: &'a Folder,
    programs: Programs<'a>,
    digests: Mutex<BTreeMap<String, Digest>>,
}

impl<'a> Referred<'a> {
    /// Creates the set; no file is read yet.
    pub(super) fn new(files: &'a Folder) -> Self {
        Self { files, programs: Programs::new(files), digests: Mutex::default() }
    }

    fn with_imports(&self, path: &str, text: &str) -> Digest {
        let mut all = text.to_owned();
        for (path, digest) in &*self.programs.named_in(&json!({"file": path})) {
            all.extend(["\n", path, " ", &digest.to_string()]);
        }
        Digest::from_content(all)
    }

    /// Returns the paths and digests of the files that occur in the texts, one line for each file. Files that were not
    /// read are left out.
    fn named_in(&self, texts: &[&str]) -> String {
        let digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        let named = digests.iter().filter(|(path, _)| texts.iter().any(|it| names(it, path)));
        named.map(|(path, digest)| [path, " ", &digest.to_string(), "\n"].concat()).collect()
    }
}

impl Files for Referred<'_> {
    fn read_file(&self, path: &str) -> Result<Arc<str>, FileError> {
        let text = self.files.read_file(path)?;
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if !digests.contains_key(path) {
            digests.insert(path.to_owned(), self.with_imports(path, &text));
        }
        Ok(text)
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, FileError> {
        self.files.glob(pattern)
    }

    fn tree(&self, path: &str, limits: TreeLimits) -> Result<FileTree, FileError> {
        self.files.tree(path, limits)
    }
}

/// True if a JSON text contains a path.
///
/// The path follows a `"` or a `/`, and stands before a `"` or a `:`.
fn names(text: &str, path: &str) -> bool {
    text.match_indices(path).any(|(at, _)| {
        let before = text.get(..at).and_then(|it| it.chars().next_back());
        let behind = text.get(at + path.len()..).and_then(|it| it.chars().next());
        matches!(before, Some('"' | '/')) && matches!(behind, Some('"' | ':'))
    })
}

/// The settings that the results of all records depend on.
pub(super) struct Basis<'a> {
    files: &'a Referred<'a>,
    /// The models, the judges, and the settings of the suite, as text.
    setup: String,
    env: Env,
}

impl<'a> Basis<'a> {
    /// Creates the basis for records whose checks may ask these models.
    ///
    /// `judge` is the id of the model for checks that name no judge.
    ///
    /// Base URLs and API keys are left out, because they do not change an answer.
    pub(super) fn new(
        files: &'a Referred<'a>,
        models: &[kindlm_engine::Model],
        judge: Option<&str>,
    ) -> Self {
        let models: Vec<Value> = models
            .iter()
            .map(|it| json!([it.id, it.provider, it.name, format!("{:?}", it.params)]))
            .collect();
        let setup = json!([models, judge]).to_string();
        Self { files, setup, env: Arc::new(|_: &str| None) }
    }

    /// Adds the settings of a suite that affect the results.
    ///
    /// The settings are the judge settings, named checks, scripts, provider settings and the threshold.
    #[must_use]
    pub(super) fn with_suite(mut self, suite: &Suite) -> Self {
        let scripts = format!("{:?}", suite.scripts);
        let more = json!([suite.judging, suite.assertion_templates, scripts]);
        self.setup.push_str(&more.to_string());
        let variables = self.variables_of(suite.assertion_templates.values());
        self.setup.push_str(&variables);
        let programs = Programs::new(self.files.files);
        let providers = suite.providers.iter();
        for decides in providers.filter_map(|(name, it)| decided_by(name, it, &programs)) {
            self.setup.push_str(&decides.to_string());
        }
        if let Some(threshold) = suite.defaults.threshold {
            self.setup.push_str(&threshold.to_string());
        }
        self
    }

    /// Adds the environment variables that the suite permits to templates and scripts. Variables that only the `scripts`
    /// block of a check permits are read with `env`.
    ///
    /// The values may be secrets, so only their digest is added.
    #[must_use]
    pub(super) fn with_variables(mut self, permitted: &Map<String, Value>, env: &Env) -> Self {
        self.env = Arc::clone(env);
        if !permitted.is_empty() {
            let digest = Digest::from_content(json!(permitted).to_string());
            self.setup.push_str(&digest.to_string());
        }
        self
    }

    /// Returns the digest of the variables that the `scripts` blocks of these checks permit; empty without variables.
    fn variables_of<'v>(&self, checks: impl IntoIterator<Item = &'v Value>) -> String {
        let mut names = BTreeSet::new();
        checks.into_iter().for_each(|it| permitted_names(it, &mut names));
        if names.is_empty() {
            return String::new();
        }
        let values: Map<String, Value> =
            names.into_iter().map(|it| (it.to_owned(), (self.env)(it).into())).collect();
        Digest::from_content(json!(values).to_string()).to_string()
    }

    /// Returns the digest of one record. `rules` are the texts of `expect` and `assertions`. Compile them first,
    /// because compiling reads the files that they name. `rendered` is the result of [`render_rules`].
    pub(super) fn digest(&self, record: &[u8], rules: [Option<&str>; 2], rendered: &str) -> String {
        let [expect, assertions] = rules.map(|it| without_escapes(it.unwrap_or_default()));
        let with_scripts =
            [&expect, &assertions].into_iter().filter(|it| it.contains("\"scripts\""));
        let with_scripts: Vec<Value> =
            with_scripts.filter_map(|it| serde_json::from_str(it).ok()).collect();
        let variables = self.variables_of(&with_scripts);
        let files = self.files.named_in(&[&expect, &assertions, &self.setup, rendered]);
        let head = [self.setup.as_str(), files.as_str(), rendered, variables.as_str()]
            .map(|it| Digest::from_content(it).to_string())
            .concat();
        let text = [head.as_bytes(), record.trim_ascii()].concat();
        Digest::from_content(text).to_string()
    }
}

/// Returns the rendered templates of `expect` and `assertions`, as JSON texts. A template can make the path of a file.
///
/// Leaves out templates that cannot be rendered, because their checks cannot be compiled either.
pub(super) fn render_rules(
    rules: [Option<&str>; 2],
    setup: &Setup<'_>,
    vars: &Map<String, Value>,
) -> String {
    let mut rendered = String::new();
    let variables = Variables::new(vars, &setup.env);
    let mut render = |_: &str, template: &str| {
        if let Ok(text) = variables.render(template) {
            rendered.push_str(&Value::from(text).to_string());
        }
    };
    for text in rules.into_iter().flatten() {
        let rule: Value = serde_json::from_str(text).unwrap_or_default();
        each_template(&rule, "", &mut render);
        if has_reference(&rule) {
            setup.assertion_templates.values().for_each(|it| each_template(it, "", &mut render));
        }
    }
    rendered
}

/// Adds the names of the environment variables that the `scripts` blocks in a value permit.
fn permitted_names<'v>(value: &'v Value, names: &mut BTreeSet<&'v str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|it| permitted_names(it, names)),
        Value::Object(entries) => {
            let permitted = entries.get("scripts").and_then(|it| it.get("env")?.as_array());
            names.extend(permitted.into_iter().flatten().filter_map(Value::as_str));
            entries.values().for_each(|it| permitted_names(it, names));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns true if an object in the value has the key `$ref`.
fn has_reference(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(has_reference),
        Value::Object(entries) => {
            entries.contains_key("$ref") || entries.values().any(has_reference)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Returns a JSON text without the escape sequences that JSON does not need, such as `\u00e9` for `é`.
///
/// Many programs escape all characters outside ASCII. A path with such characters would not be found in the text.
fn without_escapes(json: &str) -> Cow<'_, str> {
    if !json.contains('\\') {
        return Cow::Borrowed(json);
    }
    let value = serde_json::from_str::<Value>(json);
    value.map_or(Cow::Borrowed(json), |it| Cow::Owned(it.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_includes_files_with_escaped_names() {
        let folder = tempfile::tempdir().unwrap();
        let digest = |text: &str| {
            std::fs::write(folder.path().join("é.json"), text).unwrap();
            let files = Folder::open(folder.path()).unwrap();
            let referred = Referred::new(&files);
            referred.read_file("é.json").unwrap();
            let expect = r#"{"output": {"schemaFile": "\u00e9.json"}}"#;
            Basis::new(&referred, &[], None).digest(b"{}", [Some(expect), None], "")
        };
        assert_ne!(digest("{}"), digest("true"));
        assert_eq!(digest("{}"), digest("{}"));
    }

    #[test]
    fn digest_includes_files_with_paths_from_templates() {
        let folder = tempfile::tempdir().unwrap();
        let digest = |text: &str, rule: &str| {
            std::fs::write(folder.path().join("kind.js"), text).unwrap();
            let files = Folder::open(folder.path()).unwrap();
            let referred = Referred::new(&files);
            referred.read_file("kind.js").unwrap();
            let mut setup = Setup::new(&referred, None);
            let named = json!({"type": "javascript", "value": "{{ script }}"});
            setup.assertion_templates.insert("named".to_owned(), named);
            let mut vars = Map::new();
            vars.insert("name".to_owned(), json!("kind"));
            vars.insert("script".to_owned(), json!("file://kind.js"));
            let rules = [Some(rule), None];
            let rendered = render_rules(rules, &setup, &vars);
            Basis::new(&referred, &[], None).digest(b"{}", rules, &rendered)
        };
        for rule in [
            r#"{"toolCalls": [{"tool": "pay", "args": {"sum": {"$script": "file://{{ name }}.js"}}}]}"#,
            r#"{"assert": [{"type": "javascript", "value": "{{ script }}"}]}"#,
            r#"{"assert": [{"type": "javascript", "value": "\u007b{ script }}"}]}"#,
            r##"{"assert": [{"$ref": "#/assertionTemplates/named"}]}"##,
            r##"{"assert": [{"\u0024ref": "#/assertionTemplates/named"}]}"##,
        ] {
            assert_ne!(digest("1", rule), digest("2", rule), "{rule}");
            assert_eq!(digest("1", rule), digest("1", rule), "{rule}");
        }
        let other = r#"{"assert": [{"type": "javascript", "value": "{{ other }}"}]}"#;
        assert_eq!(digest("1", other), digest("2", other), "the rule names another file");
    }

    #[test]
    fn digest_includes_environment_variables() {
        let folder = tempfile::tempdir().unwrap();
        let files = Folder::open(folder.path()).unwrap();
        let referred = Referred::new(&files);
        let env = |word: &str| Map::from_iter([("WORD".to_owned(), json!(word))]);
        let of_rule = |word: &str, contains: &str| {
            let mut setup = Setup::new(&referred, None);
            setup.env = env(word);
            let rule = json!({"output": {"contains": contains}}).to_string();
            let rules = [Some(rule.as_str()), None];
            let rendered = render_rules(rules, &setup, &Map::new());
            Basis::new(&referred, &[], None).digest(b"{}", rules, &rendered)
        };
        let template = "{{ env.WORD }}";
        assert_ne!(of_rule("hello", template), of_rule("bye", template));
        assert_eq!(of_rule("hello", template), of_rule("hello", template));
        assert_eq!(
            of_rule("hello", "hello"),
            of_rule("bye", "hello"),
            "the rule reads no variable"
        );
        // Scripts and the prompts of judges read the variables after the rules are compiled.
        let of_suite = |word: &str| {
            let none: Env = Arc::new(|_: &str| None);
            let basis = Basis::new(&referred, &[], None).with_variables(&env(word), &none);
            assert!(!basis.setup.contains(word), "{}", basis.setup);
            basis.digest(b"{}", [None, None], "")
        };
        assert_ne!(of_suite("hello"), of_suite("bye"));
        assert_eq!(of_suite("hello"), of_suite("hello"));
        let of_check = |word: &'static str, is_named: bool| {
            let read: Env = Arc::new(move |name: &str| (name == "WORD").then(|| word.to_owned()));
            let check = json!({"type": "javascript", "value": "1", "scripts": {"env": ["WORD"]}});
            let mut suite = Suite::default();
            let mut rule = json!({"assert": [check]});
            if is_named {
                suite.assertion_templates.insert("named".to_owned(), check);
                rule = json!({"assert": [{"$ref": "#/assertionTemplates/named"}]});
            }
            let basis = Basis::new(&referred, &[], None).with_variables(&Map::new(), &read);
            basis.with_suite(&suite).digest(b"{}", [Some(&rule.to_string()), None], "")
        };
        for is_named in [false, true] {
            assert_ne!(of_check("hello", is_named), of_check("bye", is_named));
            assert_eq!(of_check("hello", is_named), of_check("hello", is_named));
        }
    }

    #[test]
    fn files_are_found_where_rules_name_them() {
        for (text, expected) in [
            (r#"{"schemaFile": "a.json"}"#, true),
            (r#"{"value": "file://a.json"}"#, true),
            (r#"{"value": "file://a.json:check"}"#, true),
            (r#"{"value": "file://./a.json"}"#, true),
            (r#"{"value": "ba.json"}"#, false),
            (r#"{"value": "see a.json"}"#, false),
        ] {
            assert_eq!(names(text, "a.json"), expected, "{text}");
        }
    }

    #[test]
    fn digest_includes_provider_settings_and_programs() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("judge.js"), "1").unwrap();
        let files = Folder::open(folder.path()).unwrap();
        let referred = Referred::new(&files);
        let digest = |providers: Value| {
            let Value::Object(providers) = providers else { unreachable!("it is written below") };
            let suite = Suite { providers, ..Suite::default() };
            Basis::new(&referred, &[], None).with_suite(&suite).digest(b"{}", [None, None], "")
        };
        let script = |config: Value| json!({"script": {"file": "judge.js", "config": config}});
        let before = digest(script(json!({"strict": true})));
        assert_eq!(before, digest(script(json!({"strict": true}))));
        assert_ne!(before, digest(script(json!({"strict": false}))));
        std::fs::write(folder.path().join("judge.js"), "2").unwrap();
        assert_ne!(before, digest(script(json!({"strict": true}))));
        let http = |key: &str, url: &str| digest(json!({"http": {"url": url, "apiKeyEnv": key}}));
        assert_eq!(http("A", "https://a.test"), http("B", "https://a.test"));
        assert_ne!(http("A", "https://a.test"), http("A", "https://b.test"));
        let openai = |body: Value| digest(json!({"openai": {"apiKeyEnv": "A", "body": body}}));
        assert_ne!(openai(json!({"seed": 1})), openai(json!({"seed": 2})));
    }
}
