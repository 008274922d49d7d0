//! Tests that are read from the network: files, Google Sheets, and datasets of Hugging Face.
//!
//! A script in the sandbox sends the requests. It may only reach the hosts that the address needs.

use std::sync::Arc;
use std::time::Duration;

use kindlm_source::{Code, Diagnostic, Key, Node, Span};
use kindlm_types::ecma::encode_uri_component;
use kindlm_types::script::{
    RunScript, ScriptOutcome, ScriptPermissions, ScriptQuestion, ScriptRuntime, ScriptSource,
    ScriptValue,
};
use serde_json::{Value, json};

use super::Translator;
use super::files::{extension, path};
use super::test_list::named_file;

/// The script that sends a request. Its token is the value of the first set environment variable in `names`. The
/// script returns the text of the answer, or the host of a refused redirect.
const DOWNLOAD: &str = "
const token = names.map((name) => process.env[name]).find(Boolean);
const headers = token ? { Authorization: `Bearer ${token}` } : {};
const response = await fetch(url, { headers }).catch((error) => {
  if (error.code !== 'ERR_ACCESS_DENIED') throw error;
  return { refused: error.host };
});
if (response.refused) return response;
if (!response.ok) throw new Error(`the server answered with status ${response.status}`);
return await response.text();
";

/// The time limit of a request.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The maximum number of rows of a dataset. Each row is a test, and more rows are an error.
const MOST_ROWS: u64 = 20_000;

/// The maximum size of all answers for a dataset, in bytes.
const MOST_BYTES: usize = 256 << 20;

/// The keys of a test that name programs or providers.
const PROGRAM_KEYS: [&str; 7] = [
    "provider",
    "providers",
    "transform",
    "transformVars",
    "contextTransform",
    "postprocess",
    "assertScoringFunction",
];

/// The types of checks that run programs or send requests.
const PROGRAM_CHECKS: [&str; 4] = ["javascript", "python", "ruby", "webhook"];

/// The number of rows per request. Hugging Face answers with at most this many.
const PAGE: u64 = 100;

const HUGGING_FACE: &str = "huggingface://datasets/";
const ROWS: &str = "https://datasets-server.huggingface.co/rows";
const SHEETS: &str = "https://docs.google.com/spreadsheets/";

/// The environment variables of Hugging Face's token, in promptfoo's order.
const TOKENS: [&str; 3] = ["HF_TOKEN", "HF_API_TOKEN", "HUGGING_FACE_HUB_TOKEN"];

impl Translator<'_> {
    /// Reads tests from an address. Returns no tests after an error, which is reported.
    pub(super) fn tests_of_network(&mut self, span: Span, address: &str) -> Vec<Node> {
        self.tests_at(span, address).unwrap_or_default()
    }

    fn tests_at(&mut self, span: Span, address: &str) -> Option<Vec<Node>> {
        let is_dataset = address.starts_with(HUGGING_FACE);
        let is_web = address.starts_with("https://") || address.starts_with("http://");
        if !is_dataset && !is_web {
            let help = "save them beside the config, as CSV, JSONL or YAML";
            self.unsupported(span, "tests at such an address", Some(help));
            return None;
        }
        if host(address).is_some_and(|it| it.ends_with(".sharepoint.com")) {
            let help = "promptfoo signs in there with a certificate; download the file, and name it: `file://tests.csv`";
            self.unsupported(span, "reading tests from SharePoint", Some(help));
            return None;
        }
        if self.inputs.network.is_none() {
            let message = format!("tests from `{}` are not read", short(address));
            let help = "`--allow-network` lets KindLM read them; or save them beside the config";
            self.error(span, message, Some(help));
            return None;
        }
        if is_dataset {
            return self.dataset(span, address);
        }
        let (url, ending, hosts) = if address.starts_with(SHEETS) {
            let hosts = vec!["docs.google.com".to_owned(), "*.googleusercontent.com".to_owned()];
            (sheet(address), "csv".to_owned(), hosts)
        } else {
            let path = address.split(['?', '#']).next().unwrap_or(address);
            (address.to_owned(), extension(path), host(address).into_iter().collect())
        };
        if !matches!(ending.as_str(), "csv" | "json" | "jsonl" | "yaml" | "yml") {
            let help = "the address of a file ends with .csv, .json, .jsonl or .yaml";
            self.unsupported(span, "tests at such an address", Some(help));
            return None;
        }
        if hosts.is_empty() {
            let message = format!("`{}` cannot be read", short(address));
            self.error(span, message, Some("an address has a host, and neither a user nor a key"));
            return None;
        }
        let content = self.download(span, &url, hosts, &[])?;
        if content.trim_start().to_ascii_lowercase().starts_with("<!doctype html") {
            let message = format!("`{}` is a page, not a file of tests", short(address));
            let help = "a sheet must be readable for everyone who has its link";
            self.error(span, message, Some(help));
            return None;
        }
        let tests = self.tests_of_content(span, (&short(address), &ending), &content);
        self.only_data(span, address, tests)
    }

    /// Returns the tests if they only have data; `None` after an error, which is reported.
    ///
    /// Other people can change a file on the network. So a test is an error if it would run a program, read a file or
    /// an environment variable, or send a request.
    fn only_data(&mut self, span: Span, address: &str, tests: Vec<Node>) -> Option<Vec<Node>> {
        let Some(what) = tests.iter().find_map(power) else { return Some(tests) };
        let message = format!("a test of `{}` has {what}", short(address));
        let help = "tests from the network only have data; save the file beside the config, if you trust it";
        self.error(span, message, Some(help));
        None
    }

    /// Reads the rows of a dataset of Hugging Face. Each row has the variables of a test.
    fn dataset(&mut self, span: Span, address: &str) -> Option<Vec<Node>> {
        let mut tests = Vec::new();
        let Some((base, limit)) = dataset(address) else {
            let help = "write `huggingface://datasets/OWNER/NAME?split=test`";
            self.error(span, format!("`{address}` is no dataset"), Some(help));
            return None;
        };
        let mut most = limit.unwrap_or(u64::MAX);
        let (mut offset, mut bytes) = (0, 0);
        while offset < most {
            let length = PAGE.min(most - offset);
            let url = format!("{base}&offset={offset}&length={length}");
            let hosts = vec!["datasets-server.huggingface.co".to_owned()];
            let content = self.download(span, &url, hosts, &TOKENS)?;
            bytes += content.len();
            if bytes > MOST_BYTES {
                let message = format!("`{}` has more than 256 MiB", short(address));
                self.error(span, message, Some("add `&limit=1000` to its address"));
                return None;
            }
            let page: Value = serde_json::from_str(&content).unwrap_or_default();
            let (rows, total) = (page["rows"].as_array(), page["num_rows_total"].as_u64());
            let (Some(rows), Some(total)) = (rows, total) else {
                let message = format!("the answer for `{}` has no rows", short(address));
                let help = "check the name and the split of the dataset";
                self.error(span, message, Some(help));
                return None;
            };
            most = most.min(total);
            if most > MOST_ROWS {
                let message = format!(
                    "`{}` has {most} rows, and at most {MOST_ROWS} are read",
                    short(address)
                );
                self.error(span, message, Some("add `&limit=1000` to its address"));
                return None;
            }
            // An answer with fewer rows than requested is an error, so the number of requests is limited.
            if rows.len() as u64 != length.min(most - offset) {
                let received = offset + rows.len() as u64;
                let message = format!("`{}` gave {received} of {most} rows", short(address));
                self.error(span, message, Some("try again later"));
                return None;
            }
            for row in rows {
                let test = json!({"vars": row["row"], "options": {"disableVarExpansion": true}});
                tests.push(Node::at(span, &test));
            }
            offset += rows.len() as u64;
        }
        self.only_data(span, address, tests)
    }

    /// Returns the content at an address. Returns `None` after an error, which is reported.
    fn download(
        &mut self,
        span: Span,
        url: &str,
        hosts: Vec<String>,
        tokens: &[&str],
    ) -> Option<String> {
        let network = Arc::clone(self.inputs.network.as_ref()?);
        match download(&network, url, hosts, tokens) {
            Ok(content) => Some(content),
            Err(why) => {
                let message = format!("`{}` cannot be read: {why}", short(url));
                let diagnostic = Diagnostic::error(Code::FILE, message, self.source, span);
                self.diagnostics.push(diagnostic.with_help("check the address and the network"));
                None
            }
        }
    }
}

fn download(
    network: &Arc<RunScript>,
    url: &str,
    hosts: Vec<String>,
    tokens: &[&str],
) -> Result<String, String> {
    let env: Vec<String> = tokens.iter().map(|&it| it.to_owned()).collect();
    let source = ScriptSource::Body {
        params: vec!["url".to_owned(), "names".to_owned()],
        code: DOWNLOAD.into(),
    };
    let permissions = ScriptPermissions { net: hosts, env, ..ScriptPermissions::default() };
    let question = ScriptQuestion::new(ScriptRuntime::QuickJs, source)
        .with_args([json!(url), json!(tokens)].map(|it| it.to_string().into()).to_vec())
        .with_permissions(Arc::new(permissions))
        .with_timeout(TIMEOUT);
    match network(&question).map_err(|err| err.message)?.outcome {
        ScriptOutcome::Returned(ScriptValue::Json(Value::String(content))) => Ok(content),
        // Only a redirect can leave the host of the address.
        ScriptOutcome::Returned(ScriptValue::Json(answer)) if answer["refused"].is_string() => {
            let host = answer["refused"].as_str().unwrap_or_default();
            Err(format!("it redirects to {host}; write the address there"))
        }
        ScriptOutcome::Returned(_) => Err("the answer is not text".to_owned()),
        ScriptOutcome::Threw { message, thrown, .. } => Err(message.unwrap_or(thrown)),
    }
}

/// Returns the host of an address, with its port. Returns `None` without a host, or if the address has a user.
fn host(address: &str) -> Option<String> {
    let rest = address.split_once("://")?.1;
    let host = rest.split(['/', '?', '#']).next()?;
    (!host.is_empty() && !host.contains('@')).then(|| host.to_owned())
}

/// Returns an address without its user and its query, which may have secrets.
fn short(address: &str) -> String {
    let rest = address.split(['?', '#']).next().unwrap_or(address);
    let Some((scheme, rest)) = rest.split_once("://") else { return rest.to_owned() };
    let host = rest.split('/').next().unwrap_or(rest);
    let user = host.rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://{}", &rest[user..])
}

/// Returns a description of the program, file, variable or request that a test uses; `None` if it only has data.
fn power(test: &Node) -> Option<String> {
    if let Some((file, _)) = named_file(test) {
        return Some(format!("the name of another file, `{}`", short(file)));
    }
    let vars = test.get("vars").and_then(power_of_text);
    vars.or_else(|| {
        test.entries().iter().filter(|(key, _)| &*key.name != "vars").find_map(power_of_entry)
    })
}

/// Returns a description of the first text that names a file or may read environment variables; `None` without such a
/// text.
fn power_of_text(node: &Node) -> Option<String> {
    if let Some(text) = node.text() {
        if path(text).is_some() {
            return Some("the name of a file".to_owned());
        }
        let is_template = text.contains("{{") || text.contains("{%");
        return (is_template && text.contains("env"))
            .then(|| "a template that may read environment variables".to_owned());
    }
    let entries = node.entries().iter().map(|(_, it)| it);
    node.items().iter().chain(entries).find_map(power_of_text)
}

fn power_of_entry((key, value): &(Key, Node)) -> Option<String> {
    let name = &*key.name;
    if PROGRAM_KEYS.contains(&name) {
        return Some(format!("`{name}`"));
    }
    let kind = value.text().filter(|_| name == "type").map(|it| it.trim_start_matches("not-"));
    if let Some(kind) = kind.filter(|it| PROGRAM_CHECKS.contains(it)) {
        return Some(format!("a check of the type `{kind}`"));
    }
    let items = || value.items().iter().flat_map(Node::entries);
    power_of_text(value).or_else(|| value.entries().iter().chain(items()).find_map(power_of_entry))
}

/// Returns the address that exports a Google Sheet as CSV. The address keeps the `gid` of the sheet, if it has one.
fn sheet(address: &str) -> String {
    let base = address.split(['?', '#']).next().unwrap_or(address);
    let base = base.split("/edit").next().unwrap_or(base);
    let query = address.split_once('?').map_or("", |(_, it)| it).split('#').next().unwrap_or("");
    let gid = query.split('&').find_map(|it| it.strip_prefix("gid="));
    let gid = gid.map(|it| format!("&gid={it}")).unwrap_or_default();
    format!("{base}/export?format=csv{gid}")
}

/// Returns the address of the rows of a dataset, and the `limit` in its query, if there is one.
///
/// Returns `None` if the owner or the name is missing, or the limit is no number.
fn dataset(address: &str) -> Option<(String, Option<u64>)> {
    let rest = address.strip_prefix(HUGGING_FACE)?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (owner, name) = path.split_once('/')?;
    if owner.is_empty() || name.is_empty() || name.contains('/') {
        return None;
    }
    let mut pairs = vec![("split", "test"), ("config", "default")];
    for (key, value) in query.split('&').filter_map(|it| it.split_once('=')) {
        match pairs.iter_mut().find(|(it, _)| *it == key) {
            Some(pair) => pair.1 = value,
            None => pairs.push((key, value)),
        }
    }
    let limit = pairs.iter().find(|(key, _)| *key == "limit");
    let limit = limit.map(|(_, it)| it.parse::<u64>()).transpose().ok()?;
    let dataset = encode_uri_component(&format!("{owner}/{name}"));
    let pairs = pairs.iter().map(|(key, it)| format!("{key}={it}"));
    let query: Vec<String> = std::iter::once(format!("dataset={dataset}")).chain(pairs).collect();
    Some((format!("{ROWS}?{}", query.join("&")), limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_those_of_their_rows() {
        for (address, expected) in [
            (
                "https://docs.google.com/spreadsheets/d/1a/edit?usp=sharing",
                "https://docs.google.com/spreadsheets/d/1a/export?format=csv",
            ),
            (
                "https://docs.google.com/spreadsheets/d/1a/edit?gid=7#gid=7",
                "https://docs.google.com/spreadsheets/d/1a/export?format=csv&gid=7",
            ),
        ] {
            assert_eq!(sheet(address), expected);
        }
        for (address, expected) in [
            (
                "huggingface://datasets/a/b",
                Some(("?dataset=a%2Fb&split=test&config=default", None)),
            ),
            (
                "huggingface://datasets/a/b?split=train&limit=5",
                Some(("?dataset=a%2Fb&split=train&config=default&limit=5", Some(5))),
            ),
            ("huggingface://datasets/a", None),
            ("huggingface://datasets/a/b?limit=many", None),
        ] {
            let expected = expected.map(|(query, limit)| (format!("{ROWS}{query}"), limit));
            assert_eq!(dataset(address), expected, "{address}");
        }
        assert_eq!(short("https://user:key@a.example/x@y?z=1"), "https://a.example/x@y");
        for (address, expected) in [
            ("https://a.example:8443/x?y=1", Some("a.example:8443")),
            ("https://user:key@a.example/x", None),
        ] {
            assert_eq!(host(address).as_deref(), expected, "{address}");
        }
    }
    #[test]
    fn tests_of_the_network_only_have_data() {
        let span = Span::new(0, 0);
        for (test, expected) in [
            (
                json!({"vars": {"a": "b", "provider": "x"}, "assert": [{"type": "equals", "value": "b"}]}),
                None,
            ),
            (
                json!({"vars": {"a": ["{{ env.KEY }}"]}}),
                Some("a template that may read environment variables"),
            ),
            (json!({"vars": {"a": "file://secret.txt"}}), Some("the name of a file")),
            (
                json!({"assert": [{"type": "not-python", "value": "x"}]}),
                Some("a check of the type `python`"),
            ),
            (
                json!({"assert": [{"assert": [{"type": "equals", "provider": "exec:x"}]}]}),
                Some("`provider`"),
            ),
            (json!({"options": {"transform": "x"}}), Some("`transform`")),
            (
                json!("http://169.254.169.254/x.json"),
                Some("the name of another file, `http://169.254.169.254/x.json`"),
            ),
            (json!({"path": "tests.js"}), Some("the name of another file, `tests.js`")),
        ] {
            assert_eq!(power(&Node::at(span, &test)).as_deref(), expected, "{test}");
        }
    }
}
