//! Runs vectors: their checks in the list form, their scripts in real workers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kindlm_assertions::{Setup, compile_with};
use kindlm_engine::{Judges, judge};
use kindlm_providers::transport::{HttpTransport, TransportOptions};
use kindlm_script::{Fetch, FetchRequest, FetchResponse, HostOptions, ScriptHost};
use kindlm_store::Folder;
use kindlm_types::script::{ScriptAnswer, ScriptError, ScriptQuestion, ScriptRunner};
use kindlm_types::{
    AssertionResult, AttemptBudget, BoxFuture, Embedding, Execution, Message, Models, Outcome,
    Params, Ports, Prompt, ProviderError, ProviderErrorKind, Reply, Role, Written, ecma,
    named_scores, weighted_score,
};
use serde_json::{Map, Value, json};

/// The ids of vectors that differ as intended, with the reasons.
pub(crate) type Differences<'a> = &'a [(&'a str, &'a str)];

/// Returns the vectors of a file.
pub(crate) fn vectors(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/conformance/promptfoo")
        .join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|it| !it.is_empty());
    lines.map(|it| serde_json::from_str(it).unwrap()).collect()
}

/// Runs vectors, and checks that exactly the vectors in `differences` differ.
pub(crate) fn agree(vectors: &[Value], differences: Differences<'_>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for vector in vectors {
        let folder = tempfile::tempdir().unwrap();
        let ours = ours(vector, &folder.path().canonicalize().unwrap(), &runtime);
        let is_engine_text = vector["reason_is_engine_text"] == json!(true);
        if let Some(what) = difference(&vector["expect"], &ours, is_engine_text) {
            found.insert(vector["id"].as_str().unwrap().to_owned(), what);
        }
    }
    let documented: BTreeMap<&str, &str> = differences.iter().copied().collect();
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

struct Workers(ScriptHost);

fn nobody<T: Send + 'static>() -> BoxFuture<'static, Result<T, ProviderError>> {
    let err = ProviderError::new(ProviderErrorKind::Unsupported, "nobody", "only scripts here");
    Box::pin(std::future::ready(Err(err)))
}

impl Models for Workers {
    fn complete<'a>(
        &'a self,
        _: &'a str,
        _: &'a Prompt,
        _: Duration,
        _: &'a dyn AttemptBudget,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        nobody()
    }

    fn embed<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: &'a str,
        _: Duration,
    ) -> BoxFuture<'a, Result<Embedding, ProviderError>> {
        nobody()
    }

    fn has_answer(&self, _provider: &str, _prompt: &Prompt) -> bool {
        false
    }

    fn limits_calls(&self) -> bool {
        false
    }
}

impl ScriptRunner for Workers {
    fn run<'a>(
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
        model: vector.pointer("/provider/id").and_then(Value::as_str).unwrap_or_default().into(),
        written: Some(Arc::new(written(vector))),
        ..Execution::default()
    }
}

/// Returns a test with the assertion, and with the temperature of its provider.
fn written(vector: &Value) -> Written {
    let expect = vector.get("assertion").map(|it| json!({"assert": [it]}).to_string().into());
    let temperature = vector.pointer("/provider/config/temperature").and_then(Value::as_f64);
    Written { expect, params: Params { temperature, ..Params::default() }, ..Written::default() }
}

fn vars(vector: &Value) -> Map<String, Value> {
    vector["vars"].as_object().cloned().unwrap_or_default()
}

/// The HTTP client for scripts.
struct Http(Arc<HttpTransport>);

impl Fetch for Http {
    fn fetch(&self, request: FetchRequest) -> BoxFuture<'static, Result<FetchResponse, String>> {
        let transport = Arc::clone(&self.0);
        Box::pin(async move {
            let FetchRequest { url, method, headers, body, timeout, max_body, .. } = request;
            let to = (method.as_str(), url.as_str());
            let (status, headers, body) =
                transport.fetch(to, &headers, body, timeout, max_body).await?;
            Ok(FetchResponse { status, headers, body })
        })
    }
}

pub(crate) fn host(folder: &Path) -> ScriptHost {
    let transport = HttpTransport::new(TransportOptions::new(Arc::new(|_: &str| None))).unwrap();
    let program = env!("CARGO_BIN_EXE_kindlm");
    let options = HostOptions::new(program, [kindlm_cli::SCRIPT_WORKER], folder);
    ScriptHost::new(HostOptions {
        workers: 1,
        env: Arc::new(|name| std::env::var(name).ok()),
        fetch: Some(Arc::new(Http(Arc::new(transport)))),
        // Interpreters start slowly while other tests run, so the time limit is long.
        timeout: Duration::from_mins(1),
        ..options
    })
}

/// Evaluates a vector with KindLM.
///
/// Returns the result in the format of the expected result.
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
    let mut setup = Setup::new(&files, None).with_yaml(kindlm_config::yaml);
    setup.env = vector["env"].as_object().cloned().unwrap_or_default();
    let (checks, problems) = compile_with(&json!({"assert": list}), &setup, &vars(vector));
    if let Some(problem) = problems.first() {
        return json!({"refused": format!("{}: {}", problem.pointer, problem.message)});
    }
    let backend = Workers(host(folder));
    let judges = Judges::new(Ports::new(&backend).with_scripts(&backend), &[], None);
    let execution = execution(vector);
    let outcome = runtime.block_on(judge(&checks, &execution, None, &judges));
    match (outcome.results.as_slice(), vector.get("assertion")) {
        ([only], Some(_)) => result_json(only),
        (results, _) => {
            let named = named_scores(results);
            let outcome = match vector["threshold"].as_f64() {
                Some(threshold) => Outcome::against(threshold, results),
                None => outcome.outcome,
            };
            let pass = match outcome {
                Outcome::Errored => json!("errored"),
                outcome => json!(matches!(outcome, Outcome::Passed | Outcome::Scored)),
            };
            json!({
                "pass": pass,
                "score": weighted_score(results),
                "namedScores": named.iter().map(|it| (it.name.clone(), json!(it.score.get()))).collect::<Map<_, _>>(),
                "componentResults": results.iter().map(result_json).collect::<Vec<_>>(),
            })
        }
    }
}

fn result_json(result: &AssertionResult) -> Value {
    let status = result.verdict.status();
    let mut said = json!({
        "pass": match status {
            "errored" => json!("errored"),
            _ => json!(result.verdict.held()),
        },
        "score": result.score.map(kindlm_types::Score::get),
        "reason": result.reasoning.as_deref().or(result.verdict.message()),
        "componentResults": result.components.iter().map(result_json).collect::<Vec<_>>(),
    });
    let named = result.named_scores.iter().map(|it| (it.name.clone(), json!(it.score.get())));
    said["namedScores"] = Value::Object(named.collect());
    said["metadata"] = Value::Object(result.metadata.clone());
    said
}

/// Returns the first difference between promptfoo's result and KindLM's result; `None` if both agree.
fn difference(expected: &Value, ours: &Value, is_engine_text: bool) -> Option<String> {
    if let Some(message) = expected.get("throws") {
        // If promptfoo throws an exception, KindLM reports an error before the run, or the check is errored.
        let said_so = ours.get("refused").is_some() || ours["pass"] == json!("errored");
        return (!said_so).then(|| format!("throws {message}, ours: {ours}"));
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
    // promptfoo's results are flat: the parts of a result follow it in the list.
    let mut theirs = theirs.iter();
    parts.iter().find_map(|part| {
        let one = theirs.next()?;
        for _ in part["componentResults"].as_array().into_iter().flatten() {
            theirs.next();
        }
        difference(one, part, false)
    })
}
