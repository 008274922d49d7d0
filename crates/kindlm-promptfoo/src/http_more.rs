//! Settings of `http` providers other than the request: certificates, signatures, statuses and tools.

use kindlm_source::{Key, Kind, Level, Node};
use serde_json::Value;

use super::Translator;
use super::build::{entries, list, map, node, text};
use super::programs::evaluate;

/// The settings of `tls` that have no effect, because connections always use TLS 1.2 or 1.3.
const INERT_TLS: [&str; 2] = ["minVersion", "maxVersion"];

/// The keys of an http provider that this module translates.
pub(super) const MORE: [&str; 9] = [
    "tls",
    "signatureAuth",
    "validateStatus",
    "tools",
    "tool_choice",
    "transformToolsFormat",
    "session",
    "sessionParser",
    "sessionSource",
];

/// The values that templates in the body of an http provider may use: each name with its JSON text.
pub(super) type Constants = Vec<(&'static str, String)>;

impl Translator<'_> {
    /// Translates one of [`MORE`], and adds the result to the settings of the provider.
    pub(super) fn http_more(
        &mut self,
        key: &Key,
        value: &Node,
        provider: &mut Vec<(&'static str, Node)>,
        constants: &mut Constants,
    ) {
        match &*key.name {
            "tls" => provider.extend(self.tls(value).map(|it| ("tls", it))),
            "signatureAuth" => {
                provider.extend(self.signature(value).map(|it| ("signature", it)));
            }
            "validateStatus" => {
                provider.extend(self.statuses(value).map(|it| ("acceptStatus", it)));
            }
            "tools" => {
                let tools = self.in_place(value).map(|it| it.to_json());
                constants.extend(tools.map(|it| ("tools", it.to_string())));
            }
            "tool_choice" => {
                let json = value.to_json();
                let said = json.as_str().map_or_else(|| json.to_string(), str::to_owned);
                constants.push(("tool_choice", said));
            }
            "session" => provider.extend(self.session(value).map(|it| ("session", it))),
            name @ ("sessionParser" | "sessionSource") => {
                let message = format!("`config.{name}` has no effect here");
                let help = "only red teaming of promptfoo uses it; `{{sessionId}}` is a variable of the test";
                self.warn(key.span, message, Some(help));
            }
            _ => {
                if !matches!(value.text(), Some("openai")) {
                    let help = "write the tools in the form of this vendor, without `transformToolsFormat`";
                    let what = "this `transformToolsFormat` of an http provider";
                    self.unsupported(key.span, what, Some(help));
                }
            }
        }
    }

    /// Translates the certificates of the connection. Returns `None` after an error, which is reported.
    fn tls(&mut self, tls: &Node) -> Option<Node> {
        let mut found = Vec::new();
        let before = self.diagnostics.len();
        for (key, value) in tls.entries() {
            let said = value.text().map(|it| self.with_env(it)).unwrap_or_default();
            match &*key.name {
                name @ ("caPath" | "certPath" | "keyPath") => {
                    let path = said.trim_start_matches("./");
                    self.content(value.span, path);
                    let name = match name {
                        "caPath" => "caPath",
                        "certPath" => "certPath",
                        _ => "keyPath",
                    };
                    found.push((name, text(value.span, path)));
                }
                "rejectUnauthorized" => {
                    let is_off = value.to_json() == Value::Bool(false);
                    found.push(("verify", node(value.span, Kind::Bool(!is_off))));
                }
                // This is the usual value for a local server. KindLM always uses the host of the address.
                "servername" if said == "localhost" => {}
                name if INERT_TLS.contains(&name) => {
                    let message = format!("`config.tls.{name}` has no effect here");
                    self.warn(key.span, message, Some("KindLM speaks TLS 1.2 and 1.3"));
                }
                "passphrase" | "pfxPath" | "pfx" => self.refuse_bundle(key),
                name => {
                    let what = format!("`config.tls.{name}` of an http provider");
                    self.unsupported(key.span, &what, Some(advice(name)));
                }
            }
        }
        let is_fine = self.diagnostics[before..].iter().all(|it| it.level == Level::Warning);
        is_fine.then(|| map(tls.span, found))
    }

    /// Reports a setting of a PKCS #12 bundle, with the commands that convert the bundle to PEM.
    fn refuse_bundle(&mut self, key: &Key) {
        let help = "convert the bundle: `openssl pkcs12 -in FILE.pfx -clcerts -nokeys -out cert.pem` and `openssl pkcs12 \
            -in FILE.pfx -nocerts -nodes -out key.pem`, and write `certPath: cert.pem, keyPath: key.pem`";
        self.unsupported(key.span, &format!("`{}`", key.name), Some(help));
    }

    /// Translates the signature of requests. Returns `None` after an error, which is reported.
    fn signature(&mut self, auth: &Node) -> Option<Node> {
        let span = auth.span;
        let set = |name: &str| auth.get(name).and_then(Node::text).map(|it| self.with_env(it));
        let data = set("signatureDataTemplate").map(|it| it.replace("\\n", "\n"));
        let data = data.unwrap_or_else(|| "{{signatureTimestamp}}".to_owned());
        let algorithm = set("signatureAlgorithm").unwrap_or_else(|| "SHA256".to_owned());
        let path = set("privateKeyPath").or_else(|| set("keyPath"));
        let is_jks = set("type").as_deref() == Some("jks")
            || auth.entries().iter().any(|(key, _)| key.name.starts_with("keystore"));
        if is_jks {
            let help = "convert the key: `keytool -importkeystore -srckeystore FILE.jks -destkeystore key.p12 \
                -deststoretype PKCS12` and `openssl pkcs12 -in key.p12 -nocerts -nodes -out key.pem`, and write \
                `signatureAuth: { privateKeyPath: key.pem, … }`";
            self.unsupported(span, "a Java keystore in `signatureAuth`", Some(help));
            return None;
        }
        let Some(path) = path else {
            let has_bundle = auth.get("pfxPath").is_some() || auth.get("pfxContent").is_some();
            let (what, help) = if has_bundle {
                (
                    "a PFX bundle in `signatureAuth`",
                    "convert the key: `openssl pkcs12 -in FILE.pfx -nocerts -nodes -out key.pem`, and write \
                     `signatureAuth: { privateKeyPath: key.pem, … }`",
                )
            } else {
                (
                    "a private key in the config",
                    "put it into a file beside the config, and write `signatureAuth: { privateKeyPath: key.pem, … }`",
                )
            };
            self.unsupported(span, what, Some(help));
            return None;
        };
        let path = path.trim_start_matches("./").to_owned();
        self.content(auth.get("privateKeyPath").map_or(span, |it| it.span), &path)?;
        let algorithm = algorithm.to_uppercase().replace("RSA-", "").replace('-', "");
        if !matches!(&*algorithm, "SHA256" | "SHA384" | "SHA512") {
            let help = "KindLM signs with SHA256, SHA384 or SHA512";
            self.unsupported(span, "this `signatureAlgorithm`", Some(help));
            return None;
        }
        let entries = [
            ("keyPath", text(span, &path)),
            ("data", text(span, &data)),
            ("algorithm", text(span, &algorithm)),
        ];
        Some(map(span, entries))
    }

    /// Translates the request that opens a session. Returns `None` after an error, which is reported.
    fn session(&mut self, session: &Node) -> Option<Node> {
        let mut found = Vec::new();
        for (key, value) in session.entries() {
            match &*key.name {
                "url" => found.push(("url", self.all_with_env(value))),
                "method" => {
                    let method = value.text().unwrap_or_default().to_uppercase();
                    found.push(("method", text(value.span, &method)));
                }
                "headers" => found.push(("headers", entries(value.span, self.pairs(value)))),
                "body" => found.push(("body", self.body(value)?)),
                "responseParser" => found.push(self.session_id(value)?),
                name => {
                    self.unsupported(key.span, &format!("`config.session.{name}`"), None);
                    return None;
                }
            }
        }
        Some(map(session.span, found))
    }

    /// Translates the expression for the id of a session into a path or a header. Returns `None` after an error,
    /// which is reported.
    fn session_id(&mut self, parser: &Node) -> Option<(&'static str, Node)> {
        let code = parser.text().unwrap_or_default();
        let header = code.trim().strip_prefix("data.headers").and_then(header_of);
        if let Some(header) = header {
            return Some(("idHeader", text(parser.span, &header)));
        }
        let body = code.trim().strip_prefix("data.body");
        let path = body.and_then(|rest| match rest {
            "" => Some(String::new()),
            rest => path_of(&format!("json{rest}")),
        });
        if path.is_none() {
            let help = "write `data.body.KEY` or `data.headers['NAME']`";
            self.unsupported(parser.span, "this `responseParser` of a session", Some(help));
        }
        Some(("idPath", text(parser.span, &path?)))
    }

    /// Translates the condition on the status of an answer, by evaluating it for every status. Returns `None` after an
    /// error, which is reported.
    fn statuses(&mut self, condition: &Node) -> Option<Node> {
        let span = condition.span;
        let code = condition.text().map(str::trim).filter(|it| !it.starts_with("file://"));
        let Some(code) = code else {
            let help = "write the condition itself: `validateStatus: 'status < 500'`";
            self.unsupported(span, "a file in `validateStatus`", Some(help));
            return None;
        };
        let is_function = code.contains("=>") || code.starts_with("function");
        let check = if is_function { code.to_owned() } else { format!("status => ({code})") };
        let code = format!(
            "const check = ({check});\nconst found = [];\nfor (let it = 100; it < 600; it++) if (check(it)) \
             found.push(it);\nreturn found;"
        );
        let found = match evaluate(&self.runner(), &code, &[], &[]) {
            Ok(found) => found,
            Err(why) => {
                let help = "write a condition on `status`: `validateStatus: 'status < 500'`";
                self.error(
                    span,
                    format!("`validateStatus` cannot be evaluated: {why}"),
                    Some(help),
                );
                return None;
            }
        };
        let numbers = found.as_array().into_iter().flatten().filter_map(Value::as_u64);
        let ranges = ranges(numbers);
        if ranges.is_empty() {
            self.error(
                span,
                "`validateStatus` accepts no status",
                Some("every answer is an error"),
            );
            return None;
        }
        Some(list(span, ranges.iter().map(|it| text(span, it))))
    }
}

/// Converts an expression such as `json.a.b[0]` to the path `a.b.0`. Returns `None` for other code.
pub(super) fn path_of(text: &str) -> Option<String> {
    let rest = text.trim().strip_prefix("json")?;
    let path = rest.replace("?.", ".").replace('[', ".").replace([']', '\'', '"'], "");
    let path = path.trim_start_matches('.').replace("..", ".");
    let is_plain = path.chars().all(|it| it.is_alphanumeric() || matches!(it, '.' | '_' | '-'));
    let is_computed = path.split('.').any(|it| matches!(it, "length" | "at" | ""));
    // A dot or a bracket in a quoted key would divide this key in the path.
    let mut quoted = rest.split(['\'', '"']).skip(1).step_by(2);
    let is_divided = quoted.any(|it| it.contains(['.', '[', ']']));
    let is_path = is_plain && !is_computed && !is_divided && rest.starts_with(['.', '[', '?']);
    is_path.then_some(path)
}

/// Returns the name of a header in an expression, `['x-session']` or `.session`; `None` for other code.
fn header_of(rest: &str) -> Option<String> {
    let rest = rest.strip_prefix("?.").unwrap_or(rest);
    let name = rest.strip_prefix("['").and_then(|it| it.strip_suffix("']"));
    let name = name.or_else(|| rest.strip_prefix("[\"").and_then(|it| it.strip_suffix("\"]")));
    let name = name.or_else(|| rest.strip_prefix('.'))?;
    let is_name = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_');
    (!name.is_empty() && name.chars().all(is_name)).then(|| name.to_owned())
}

/// Returns the advice for a setting of `tls`.
fn advice(name: &str) -> &'static str {
    match name {
        "servername" => {
            "write the name into `url`, and its address into the file `hosts` of this machine"
        }
        "ciphers" | "secureProtocol" => {
            "remove it: KindLM offers only the suites of TLS 1.2 and 1.3 that are known as safe"
        }
        "jksPath" | "jksContent" | "keyAlias" | "keystorePassword" => {
            "convert the key: `keytool -importkeystore -srckeystore FILE.jks -destkeystore key.p12 -deststoretype \
             PKCS12`, then with `openssl pkcs12` to PEM, and write `certPath` and `keyPath`"
        }
        _ => "put it into a file beside the config, and write `caPath`, `certPath` and `keyPath`",
    }
}

/// Returns ascending numbers as ranges: `200-299`.
fn ranges(numbers: impl Iterator<Item = u64>) -> Vec<String> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let written = |(first, last): (u64, u64)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.into_iter().map(written).collect()
}

/// Begins each template in a body with `{% set %}` tags for the constants that the template names.
pub(super) fn with_constants(body: &Node, constants: &Constants) -> Node {
    let kind = match &body.kind {
        Kind::Text(written) => {
            let used = constants.iter().filter(|(name, _)| written.contains(name));
            let used = used.filter(|_| kindlm_template::is_template(written));
            let set = |(name, json): &(&str, String)| {
                format!("{{% set {name} = {} %}}", Value::from(json.as_str()))
            };
            let before: String = used.map(set).collect();
            Kind::Text([&before, &**written].concat().as_str().into())
        }
        Kind::List(items) => Kind::List(
            items.iter().map(|it| with_constants(it, constants)).collect::<Vec<_>>().into(),
        ),
        Kind::Mapping(pairs) => Kind::Mapping(
            pairs
                .iter()
                .map(|(key, it)| (key.clone(), with_constants(it, constants)))
                .collect::<Vec<_>>()
                .into(),
        ),
        other => other.clone(),
    };
    Node { kind, ..body.clone() }
}

#[cfg(test)]
mod tests {
    use kindlm_source::Span;

    use super::*;

    #[test]
    fn ranges_of_numbers_are_joined() {
        for (numbers, expected) in [
            (vec![], vec![]),
            (vec![200, 201, 202, 404], vec!["200-202", "404"]),
            ((100..600).collect(), vec!["100-599"]),
        ] {
            assert_eq!(ranges(numbers.into_iter()), expected);
        }
    }

    #[test]
    fn reads_paths() {
        for (text, expected) in [
            ("json.choices[0].message.content", Some("choices.0.message.content")),
            ("json['a'].b", Some("a.b")),
            ("json?.a?.[0]", Some("a.0")),
            ("json['a-b'][\"c\"]", Some("a-b.c")),
            ("json['a.b']", None),
            ("json.x[\"a[0]\"].y", None),
            ("json", None),
            ("text", None),
            ("json.items.length", None),
            ("json.map(it => it)", None),
        ] {
            assert_eq!(path_of(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn headers_are_found_in_expressions() {
        for (rest, expected) in [
            ("['x-session']", Some("x-session")),
            ("[\"a\"]", Some("a")),
            ("?.[\"a\"]", Some("a")),
            (".session", Some("session")),
            ("['a'].b", None),
            ("", None),
        ] {
            assert_eq!(header_of(rest).as_deref(), expected, "{rest}");
        }
    }

    #[test]
    fn only_templates_that_name_a_value_get_it() {
        let span = Span::new(0, 0);
        let constants = vec![("tools", r#"[{"a":1}]"#.to_owned())];
        for (written, expected) in [
            ("{{ tools | dump }}", r#"{% set tools = "[{\"a\":1}]" %}{{ tools | dump }}"#),
            ("{{ prompt }}", "{{ prompt }}"),
            ("the tools", "the tools"),
        ] {
            let made = with_constants(&text(span, written), &constants);
            assert_eq!(made.text(), Some(expected));
        }
    }
}
