//! Holds the `javascript` assertion against promptfoo's answers, with the scripts run by real workers.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kindlm_assertions::{Setup, compile_with};
use kindlm_engine::{Judges, judge};
use kindlm_script::{HostOptions, ScriptHost};
use kindlm_store::Folder;
use kindlm_types::script::{ScriptAnswer, ScriptError, ScriptQuestion};
use kindlm_types::{
    AssertionResult, Backend, BoxFuture, CommandOutput, CommandSpec, Execution, Message, Prompt,
    ProviderError, ProviderErrorKind, Reply, Role, ecma, named_scores, weighted_score,
};
use serde_json::{Map, Value, json};

/// Where we differ on purpose, and why.
const DIFFERENCES: &[(&str, &str)] = &[
    ("file/yaml-string", "Values come from text and JSON files; the checks read no YAML."),
    ("aggregate/empty-set", "An empty set checks nothing, so it is a mistake in the suite."),
    ("aggregate/implicit-global-leak", "Each call begins afresh: no global outlives a check."),
    ("body/await-multi", "`await` works in inline code."),
    ("body/await-single", "`await` works in inline code."),
    ("context/arguments", "There is no third argument `process`."),
    (
        "context/keys",
        "What is not known is left out of the context rather than there as `undefined`.",
    ),
    (
        "context/keys-config-metadata",
        "What is not known is left out of the context rather than there as `undefined`.",
    ),
    (
        "context/trace-keys",
        "What is not known is left out of the context rather than there as `undefined`.",
    ),
    (
        "context/provider",
        "An execution knows the id of its model, not the configuration of the provider.",
    ),
    ("context/test-assert", "The context does not hold the list of all checks of the test."),
    (
        "error/throw-undefined",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/cjs-async-rejects",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/cjs-load-throws",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/cjs-named-missing",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/cjs-named-not-function",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/cjs-named-object-only-no-name",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/cjs-object-not-function",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/cjs-throws",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/doc-main",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/mjs-class-default",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/mjs-named-and-default",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file/mjs-named-no-name",
        "An exception in a file fails that check and keeps the others; there the whole row is an error.",
    ),
    (
        "file-other/contains-fn-name",
        "A script cannot make the value of another type; the suite says so when it is read.",
    ),
    (
        "file-other/contains-grading",
        "A script cannot make the value of another type; the suite says so when it is read.",
    ),
    ("file/absolute", "Files outside the folder of the suite are not read unless that is allowed."),
    (
        "file/missing-file",
        "A missing file, or one of an unknown ending, is found when the suite is read.",
    ),
    (
        "file/no-ext",
        "A missing file, or one of an unknown ending, is found when the suite is read.",
    ),
    (
        "file/package-ref",
        "A missing file, or one of an unknown ending, is found when the suite is read.",
    ),
    (
        "file/template-in-path",
        "A missing file, or one of an unknown ending, is found when the suite is read.",
    ),
    (
        "file/unsupported-ext",
        "A missing file, or one of an unknown ending, is found when the suite is read.",
    ),
    ("file/mjs-import-builtin", "Scripts have no `fs` unless folders are granted."),
    ("file/require-builtin", "Scripts have no `fs` unless folders are granted."),
    ("file/mts", "TypeScript is read only by builds with the feature for it."),
    ("file/ts-default", "TypeScript is read only by builds with the feature for it."),
    ("file/ts-enum", "TypeScript is read only by builds with the feature for it."),
    ("file/uppercase-ext", "The ending of a file is read without regard to case."),
    ("global/error-stack", "A stack of QuickJS begins with its frames, without the message."),
    ("global/intl", "QuickJS has no `Intl`."),
    ("global/intl-segmenter", "QuickJS has no `Intl`."),
    ("global/localecompare", "QuickJS has no `Intl`."),
    (
        "nunjucks/comment-private",
        "A template that cannot be rendered is found when the suite is read.",
    ),
    (
        "nunjucks/js-double-brace-open",
        "A template that cannot be rendered is found when the suite is read.",
    ),
    (
        "return/boolean-object",
        "The host reports values as data, in which wrapped primitives are the primitives and dates are texts.",
    ),
    (
        "return/date",
        "The host reports values as data, in which wrapped primitives are the primitives and dates are texts.",
    ),
    (
        "return/number-object",
        "The host reports values as data, in which wrapped primitives are the primitives and dates are texts.",
    ),
    ("return/component-results-garbage", "A part that is no grading result is shown as errored."),
    ("return/component-results-missing", "A part without a score has that of its verdict."),
    ("return/neg-inf", "A score that is no finite number makes the check errored."),
    ("return/score-nan", "A score that is no finite number makes the check errored."),
    (
        "transform/const-single",
        "A transform that throws makes its check errored and keeps the others.",
    ),
    ("transform/throws", "A transform that throws makes its check errored and keeps the others."),
    ("value/array", "A value that is no text is a mistake in the suite, found when it is read."),
    ("value/bool", "A value that is no text is a mistake in the suite, found when it is read."),
    ("value/missing", "A value that is no text is a mistake in the suite, found when it is read."),
    ("value/object", "A value that is no text is a mistake in the suite, found when it is read."),
];

struct Workers(ScriptHost);

fn nobody<T: Send + 'static>() -> BoxFuture<'static, Result<T, ProviderError>> {
    let err = ProviderError::new(ProviderErrorKind::Unsupported, "nobody", "only scripts here");
    Box::pin(std::future::ready(Err(err)))
}

impl Backend for Workers {
    fn complete<'a>(
        &'a self,
        _: &'a str,
        _: &'a Prompt,
        _: Duration,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        nobody()
    }

    fn embed<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: &'a str,
        _: Duration,
    ) -> BoxFuture<'a, Result<Arc<[f32]>, ProviderError>> {
        nobody()
    }

    fn run<'a>(
        &'a self,
        _: &'a CommandSpec,
    ) -> BoxFuture<'a, Result<CommandOutput, ProviderError>> {
        nobody()
    }

    fn script<'a>(
        &'a self,
        question: &'a ScriptQuestion,
    ) -> BoxFuture<'a, Result<ScriptAnswer, ScriptError>> {
        Box::pin(self.0.run(question))
    }
}

fn execution(vector: &Value) -> Execution {
    let (output, output_json) = match &vector["output"] {
        Value::String(text) => (text.clone(), None),
        value => (ecma::stringify(value), Some(value.clone())),
    };
    let response = vector.get("providerResponse").map(|given| {
        let mut response = json!({"output": vector["output"]});
        response.as_object_mut().unwrap().extend(given.as_object().unwrap().clone());
        response
    });
    let metadata = vector.pointer("/providerResponse/metadata").and_then(Value::as_object);
    let prompt = vector.get("prompt").unwrap_or(&json!("the prompt")).as_str().map(str::to_owned);
    Execution {
        input: prompt.map(|it| Message::new(Role::User, it)).into_iter().collect(),
        output,
        output_json,
        vars: vars(vector),
        metadata: metadata.cloned().unwrap_or_default(),
        provider_response: response,
        trace: vector.get("trace").map(|it| serde_json::from_value(it.clone()).unwrap()),
        ..Execution::default()
    }
}

fn vars(vector: &Value) -> Map<String, Value> {
    vector["vars"].as_object().cloned().unwrap_or_default()
}

/// What we say, in the form of what is expected.
fn ours(vector: &Value, folder: &Path, runtime: &tokio::runtime::Runtime) -> Value {
    let root = folder.to_str().unwrap();
    for (name, text) in vector["files"].as_object().into_iter().flatten() {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.as_str().unwrap()).unwrap();
    }
    let list = match (vector.get("assertion"), vector.get("asserts")) {
        (Some(one), _) => json!([one]),
        (None, several) => several.unwrap().clone(),
    };
    let list: Value = serde_json::from_str(&list.to_string().replace("<DIR>", root)).unwrap();
    let files = Folder::open(folder).unwrap();
    let mut setup = Setup::new(&files, None);
    setup.env = vector["env"].as_object().cloned().unwrap_or_default();
    let (checks, problems) = compile_with(&json!({"assert": list}), &setup, &vars(vector));
    if let Some(problem) = problems.first() {
        return json!({"refused": format!("{}: {}", problem.pointer, problem.message)});
    }
    let program = env!("CARGO_BIN_EXE_kindlm");
    let options = HostOptions::new(program, [kindlm_cli::SCRIPT_WORKER], folder);
    let backend = Workers(ScriptHost::new(HostOptions { workers: 1, ..options }));
    let judges = Judges::new(&backend, &[], None);
    let execution = execution(vector);
    let outcome = runtime.block_on(judge(&checks, &execution, None, &judges));
    match (outcome.results.as_slice(), vector.get("assertion")) {
        ([only], Some(_)) => said(only),
        (results, _) => {
            let named = named_scores(results);
            json!({
                "score": weighted_score(results),
                "namedScores": named.iter().map(|it| (it.name.clone(), json!(it.score.get()))).collect::<Map<_, _>>(),
                "componentResults": results.iter().map(said).collect::<Vec<_>>(),
            })
        }
    }
}

fn said(result: &AssertionResult) -> Value {
    let status = result.verdict.status();
    let mut said = json!({
        "pass": match status {
            "errored" => json!("errored"),
            _ => json!(result.verdict.held()),
        },
        "score": result.score.map(kindlm_types::Score::get),
        "reason": result.reasoning.as_deref().or(result.verdict.message()),
        "componentResults": result.components.iter().map(said).collect::<Vec<_>>(),
    });
    let named = result.named_scores.iter().map(|it| (it.name.clone(), json!(it.score.get())));
    said["namedScores"] = Value::Object(named.collect());
    said["metadata"] = Value::Object(result.metadata.clone());
    said
}

/// The first thing in which an answer is not what is expected.
fn difference(expected: &Value, ours: &Value, is_engine_text: bool) -> Option<String> {
    if let Some(message) = expected.get("throws") {
        return Some(format!("throws {message}, ours: {ours}"));
    }
    if let Some(refused) = ours.get("refused") {
        return Some(format!("refused: {refused}"));
    }
    for key in ["pass", "score"] {
        let (theirs, ours) = (&expected[key], &ours[key]);
        let same = match (theirs.as_f64(), ours.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() < 1e-9,
            _ => theirs == ours,
        };
        let is_errored = ours.is_null() && key == "pass";
        if !(same || is_errored) {
            return Some(format!("{key}: {theirs}, ours: {ours}"));
        }
    }
    let reason = ours["reason"].as_str().unwrap_or_default();
    if let Some(prefix) = expected["reason_prefix"].as_str()
        && !is_engine_text
        && !reason.starts_with(prefix)
    {
        return Some(format!("reason: {prefix:?}…, ours: {reason:?}"));
    }
    if let Some(theirs) = expected["reason"].as_str()
        && !ours["reason"].is_null()
        && theirs != reason
    {
        return Some(format!("reason: {theirs:?}, ours: {reason:?}"));
    }
    for (name, score) in expected["namedScores"].as_object().into_iter().flatten() {
        let ours = &ours["namedScores"][name];
        if score.as_f64() != ours.as_f64() {
            return Some(format!("named score {name}: {score}, ours: {ours}"));
        }
    }
    let rendered = expected.pointer("/metadata/renderedAssertionValue");
    if rendered.is_some() && rendered != ours.pointer("/metadata/renderedAssertionValue") {
        return Some(format!("rendered: {rendered:?}"));
    }
    let parts = ours["componentResults"].as_array()?;
    let theirs = expected["componentResults"].as_array()?;
    // Theirs are flat: the parts of a part follow it.
    let mut theirs = theirs.iter();
    parts.iter().find_map(|part| {
        let one = theirs.next()?;
        for _ in part["componentResults"].as_array().into_iter().flatten() {
            theirs.next();
        }
        difference(one, part, false)
    })
}

#[test]
fn javascript_agrees_but_for_what_differs_on_purpose() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/conformance/promptfoo/javascript.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut count = 0;
    for line in text.lines().filter(|it| !it.is_empty()) {
        let vector: Value = serde_json::from_str(line).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let ours = ours(&vector, &folder.path().canonicalize().unwrap(), &runtime);
        let is_engine_text = vector["reason_is_engine_text"] == json!(true);
        count += 1;
        if let Some(what) = difference(&vector["expect"], &ours, is_engine_text) {
            found.insert(vector["id"].as_str().unwrap().to_owned(), what);
        }
    }
    assert_eq!(count, 249);
    let mut documented: BTreeMap<&str, &str> = DIFFERENCES.iter().copied().collect();
    if cfg!(feature = "typescript") {
        documented.retain(|_, why| !why.starts_with("TypeScript"));
    }
    let surprises: Vec<String> = found
        .iter()
        .filter(|(id, _)| !documented.contains_key(id.as_str()))
        .map(|(id, what)| format!("{id}: {what}"))
        .collect();
    assert!(surprises.is_empty(), "{} differ:\n{}", surprises.len(), surprises.join("\n"));
    let gone: Vec<&str> =
        documented.keys().copied().filter(|id| !found.contains_key(*id)).collect();
    assert!(gone.is_empty(), "no difference any more: {gone:?}");
}
