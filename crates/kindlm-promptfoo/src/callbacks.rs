//! `functionToolCallbacks`: functions that answer calls of tools. Their results are the output.

use std::fmt::Write;

use kindlm_source::{Key, Node};
use serde_json::Value;

use super::Translator;
use super::build::text;
use super::files::{extension, path};

/// Finds the calls in an output of OpenAI's chat API: a list of calls, a message with calls, or one older call.
const CHAT_CALLS: &str = r"
const calls = output?.tool_calls
  ?? (output?.function_call ? [output.function_call] : Array.isArray(output) ? output : output?.name ? [output] : []);
const nameOf = (it) => it.name || it.function?.name;
const argsOf = (it) => it.arguments || it.function?.arguments;
";

/// The results of the callbacks replace the output. A callback that throws leaves the output unchanged. Calls without
/// a callback are left out.
const CHAT: &str = r#"
const results = [];
try {
  for (const it of calls.filter((it) => has(nameOf(it)))) {
    const result = await call(nameOf(it), argsOf(it));
    results.push(result == null ? "" : typeof result === "object" ? JSON.stringify(result) : String(result));
  }
} catch {
  return output;
}
return results.length > 0 ? results.join("\n") : output;
"#;

/// The results of the callbacks replace the calls. If a callback is missing or throws, its call stays, as JSON.
const AZURE: &str = r#"
const results = [];
for (const it of calls) {
  let result = JSON.stringify(it);
  try {
    if (has(nameOf(it))) result = asText(await call(nameOf(it), argsOf(it) || "{}"));
  } catch {}
  results.push(result);
}
if (results.length === 1) return results[0];
return results.some((it, index) => it !== JSON.stringify(calls[index])) ? results.join("\n") : output;
"#;

/// Each line of the output is an item of the answer. The result of a callback replaces the line with its call.
const RESPONSES: &str = r#"
if (typeof output !== "string") return output;
const lines = [];
for (let line of output.split("\n")) {
  try {
    const it = JSON.parse(line);
    if (it?.type === "function_call" && "arguments" in it && has(it.name)) {
      line = asText(await call(it.name, it.arguments || "{}"));
    }
  } catch {}
  lines.push(line);
}
return lines.join("\n");
"#;

/// The results of the callbacks replace the output, unless one of the calls has no callback. The result of a single
/// call may be any value.
const GOOGLE: &str = r#"
let parts = output;
try {
  if (typeof output === "string") parts = JSON.parse(output);
} catch {
  return output;
}
const calls = [parts].flat().flatMap((it) => (it?.functionCall ? [it.functionCall] : []));
if (calls.length === 0 || !calls.every((it) => has(it.name))) return output;
const results = [];
for (const it of calls) results.push(await call(it.name, typeof it.args === "string" ? it.args : JSON.stringify(it.args ?? {})));
if (results.length === 1) return results[0] ?? "";
return results.map((it) => (typeof it === "string" ? it : JSON.stringify(it) ?? String(it))).join("\n");
"#;

/// Returns the script that answers the calls in an output of a provider; `None` for providers without callbacks.
///
/// `kind` is the provider in KindLM. For a model of Vertex AI, `kind` is the provider whose API the model uses. `name`
/// is the provider in promptfoo.
fn script(kind: &str, name: &str) -> Option<String> {
    match (kind, name) {
        (_, "vertex") if kind != "gemini" => None,
        ("openai", "azure") => Some([CHAT_CALLS, AZURE].concat()),
        ("openai", _) => Some([CHAT_CALLS, CHAT].concat()),
        ("openai-responses", _) => Some(RESPONSES.to_owned()),
        ("gemini", _) => Some(GOOGLE.to_owned()),
        _ => None,
    }
}

/// True if promptfoo calls the callbacks of a provider.
pub(super) fn has_callbacks(kind: &str) -> bool {
    matches!(kind, "openai" | "azure" | "openai-responses" | "gemini")
}

impl Translator<'_> {
    /// Returns the transform that calls the callbacks of a provider. Returns `None` without callbacks, or after an
    /// error, which is reported.
    pub(super) fn callbacks(
        &mut self,
        (kind, name): (&str, &str),
        config: &[(Key, Node)],
    ) -> Option<Node> {
        let (key, value) = config.iter().find(|(it, _)| &*it.name == "functionToolCallbacks")?;
        let script = script(kind, name);
        if script.is_none() && has_callbacks(kind) {
            let help = "checks see the calls themselves; remove the callbacks";
            self.unsupported(key.span, "`config.functionToolCallbacks` of this model", Some(help));
        }
        let code = format!("{}{}", self.factories(value), script?);
        Some(text(key.span, code.trim_end()))
    }

    /// Returns the code that makes the callbacks: the functions `has(name)` and `call(name, args)`.
    pub(super) fn factories(&mut self, value: &Node) -> String {
        let mut code = "const factories = {\n".to_owned();
        for (name, callback) in value.entries() {
            let Some(made) = self.factory(callback) else { continue };
            let name = Value::from(&*name.name);
            let _ = writeln!(code, "{name}: async () => {{ {made}\n}},");
        }
        code.push_str(
            "};\nconst loaded = {};\nconst has = (name) => Object.hasOwn(factories, name);\n\
             const asText = (it) => (typeof it === \"string\" ? it : JSON.stringify(it) ?? \"\");\n\
             const call = async (name, args) => {\n  loaded[name] ??= await factories[name]();\n  \
             return await loaded[name](args);\n};",
        );
        code
    }

    /// Returns the body of a function that creates the callback. Returns `None` after an error, which is reported.
    pub(super) fn factory(&mut self, callback: &Node) -> Option<String> {
        let Some(written) = callback.text() else {
            let help = "write a function as a text, or name its file: `file://callbacks.js:name`";
            self.error(callback.span, "expected a function", Some(help));
            return None;
        };
        let Some(file) = path(written) else {
            return Some(format!("return {}", written.trim_start()));
        };
        if let Some((file, pointer)) = file.split_once('#') {
            let keys: Vec<&str> = pointer.split('.').collect();
            return Some(format!(
                "const module = await import({}); let value = module.default ?? module; \
                 if (value?.__esModule && value.default) value = value.default; \
                 if (typeof value === \"function\") value = await value(); \
                 for (const key of {}) value = value[key]; return value;",
                Value::from(format!("./{file}")),
                Value::from(keys),
            ));
        }
        let (file, function) = super::programs::split(file);
        if !matches!(&*extension(file), "js" | "cjs" | "mjs" | "ts" | "cts" | "mts") {
            let help = "write the callback in JavaScript or TypeScript";
            self.unsupported(callback.span, &format!("the callback `{written}`"), Some(help));
            return None;
        }
        self.content(callback.span, file)?;
        let file = Value::from(format!("./{}", file.trim_start_matches("./")));
        let found = match function {
            Some(name) => {
                let name = Value::from(name);
                format!("module[{name}] ?? module.default?.[{name}] ?? module.default")
            }
            None => "module.default ?? module".to_owned(),
        };
        Some(format!("const module = await import({file}); return {found};"))
    }
}
