//! The raw HTTP request of an `http` provider, as the settings of a request.

use kindlm_source::{Key, Node, Span};

use super::Translator;
use super::build::{entries, key, text};
use super::files::path;

/// The settings that promptfoo ignores beside a raw request.
const IGNORED: [&str; 5] = ["url", "method", "headers", "queryParams", "body"];

/// The header that the connection sets by itself.
const OF_CONNECTION: &str = "content-length";

/// The parts of a raw request. All of them may have templates.
#[derive(Debug, PartialEq, Eq)]
struct RawRequest {
    method: String,
    /// The address without its scheme and host, such as `/chat?a=1`.
    target: String,
    host: String,
    /// The other headers.
    headers: Vec<(String, String)>,
    /// The body; empty if there is none.
    body: String,
}

impl RawRequest {
    /// Parses a raw request. The error says which part is missing or invalid.
    fn parse(raw: &str) -> Result<Self, String> {
        let raw = raw.replace("\r\n", "\n");
        let (head, body) = raw.trim().split_once("\n\n").unwrap_or((raw.trim(), ""));
        let mut lines = head.lines();
        let first = lines.next().unwrap_or_default();
        let (method, rest) = first.split_once(' ').unwrap_or_default();
        let (target, version) = rest.rsplit_once(' ').unwrap_or_default();
        let is_valid = !method.is_empty()
            && method.bytes().all(|it| it.is_ascii_uppercase())
            && version.to_ascii_lowercase().starts_with("http");
        if !is_valid {
            return Err(format!("its first line `{first}` is not such as `POST /chat HTTP/1.1`"));
        }
        let (mut host, mut headers) = (None, Vec::new());
        for line in lines {
            let header = line.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
            let Some((name, value)) = header.filter(|(name, _)| is_header_name(name)) else {
                return Err(no_header(line));
            };
            if name.eq_ignore_ascii_case("host") {
                host = Some(value.to_owned());
            } else if !name.eq_ignore_ascii_case(OF_CONNECTION) {
                headers.push((name.to_owned(), value.to_owned()));
            }
        }
        let is_multipart = headers.iter().any(|(name, value): &(String, String)| {
            name.eq_ignore_ascii_case("content-type")
                && value.to_ascii_lowercase().starts_with("multipart/")
        });
        let body = body.trim();
        Ok(Self {
            method: method.to_owned(),
            target: path_of(target.trim())?,
            host: host.ok_or("it has no header `Host`")?,
            headers,
            // Servers read the parts of a form only with these line breaks.
            body: if is_multipart { body.replace('\n', "\r\n") } else { body.to_owned() },
        })
    }

    /// Returns the parts of this request as settings of an `http` provider.
    fn settings(&self, span: Span, scheme: &str) -> Vec<(Key, Node)> {
        let Self { method, target, host, headers, body } = self;
        let headers = headers.iter().map(|(name, it)| (name.clone(), text(span, it)));
        let mut settings = vec![
            (key(span, "url"), text(span, &format!("{scheme}://{host}{target}"))),
            (key(span, "method"), text(span, method)),
            (key(span, "headers"), entries(span, headers)),
        ];
        settings.extend((!body.is_empty()).then(|| (key(span, "body"), text(span, body))));
        settings
    }
}

/// True if a text can be the name of a header, or contains a template.
fn is_header_name(name: &str) -> bool {
    let is_token = |it: char| it.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(it);
    let is_json = name.starts_with(['{', '[']) && !name.starts_with("{{");
    !is_json && (name.contains("{{") || name.chars().all(is_token))
}

/// Returns the error for a line that is not a header.
fn no_header(line: &str) -> String {
    let is_body = line.contains(':') || line.trim_start().starts_with(['{', '[']);
    let why = if is_body {
        "; is the empty line between the headers and the body missing?"
    } else {
        ", such as `Content-Type: application/json`"
    };
    format!("its line `{line}` is no header{why}")
}

/// Returns the path and the query of a target. As in promptfoo, the host of a whole address has no effect.
///
/// Fails if the target begins with a template, because the value may or may not have a leading slash.
fn path_of(target: &str) -> Result<String, String> {
    if target.starts_with("{{") || target.starts_with("{%") {
        return Err(format!(
            "its target `{target}` begins with a template; write `/{target}`, and the value without its first `/`"
        ));
    }
    let below = ["https://", "http://"].iter().find_map(|it| target.strip_prefix(it));
    let path = below.map_or(target, |it| it.find(['/', '?']).map_or("", |at| &it[at..]));
    Ok(if path.starts_with('/') { path.to_owned() } else { format!("/{path}") })
}

impl Translator<'_> {
    /// Replaces `request` by the settings of this raw request. Returns `None` after an error, which is reported.
    ///
    /// The scheme is `https` if the provider's `url` has this scheme, or with `useHttps`.
    pub(super) fn without_raw_request(
        &mut self,
        url: &str,
        config: Vec<(Key, Node)>,
    ) -> Option<Vec<(Key, Node)>> {
        let at = |name: &str| config.iter().find(|(key, _)| &*key.name == name).map(|(_, it)| it);
        let Some(request) = at("request") else { return Some(config) };
        let url = at("url").and_then(Node::text).unwrap_or(url);
        let is_https = url.starts_with("https")
            || at("useHttps").is_some_and(|it| it.to_json().as_bool() == Some(true));
        let raw = match request.text().map(|it| (it, path(it))) {
            Some((_, Some(file))) => self.content(request.span, file)?,
            Some((raw, None)) => raw.to_owned(),
            None => String::new(),
        };
        let parsed = RawRequest::parse(&raw);
        let parsed = parsed.map_err(|why| {
            let help =
                "write a whole request: its first line, its headers, an empty line, and its body";
            self.error(request.span, format!("`request` cannot be read: {why}"), Some(help));
        });
        for (key, _) in &config {
            // The scheme is read from `url`.
            if &*key.name != "url" && IGNORED.contains(&&*key.name) {
                self.warn(key.span, format!("`{}` has no effect beside `request`", key.name), None);
            }
        }
        let settings = parsed.ok()?.settings(request.span, if is_https { "https" } else { "http" });
        let is_kept = |(key, _): &(Key, Node)| {
            !IGNORED.contains(&&*key.name) && !matches!(&*key.name, "request" | "useHttps")
        };
        Some(settings.into_iter().chain(config.into_iter().filter(is_kept)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_requests_are_split_into_their_parts() {
        let raw = "POST /chat/{{ id }}?a=b c HTTP/1.1\r\nHost: a.example:8080\r\nContent-Length: 7\r\n\
            Content-Type: application/json\r\n\r\n{\"q\": \"{{prompt}}\"}\n";
        let request = RawRequest::parse(raw).unwrap();
        assert_eq!(
            request,
            RawRequest {
                method: "POST".to_owned(),
                target: "/chat/{{ id }}?a=b c".to_owned(),
                host: "a.example:8080".to_owned(),
                headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
                body: "{\"q\": \"{{prompt}}\"}".to_owned(),
            }
        );
        let raw = "POST / HTTP/1.1\nHost: h\nContent-Type: multipart/form-data; boundary=b\n\n\
            --b\nContent-Disposition: form-data; name=\"q\"\n\n{{prompt}}\n--b--\n";
        assert_eq!(
            RawRequest::parse(raw).unwrap().body,
            "--b\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\n{{prompt}}\r\n--b--"
        );
        let request = RawRequest::parse("\nGET / HTTP/2\nhost: h\n{{ a }}: b\n").unwrap();
        assert_eq!((request.host.as_str(), request.body.as_str()), ("h", ""));
        assert_eq!(request.headers, [("{{ a }}".to_owned(), "b".to_owned())]);
    }

    #[test]
    fn targets_keep_only_their_path_and_query() {
        for (target, expected) in [
            ("chat", "/chat"),
            ("/chat?a=1", "/chat?a=1"),
            ("/{{ path }}", "/{{ path }}"),
            ("https://b.example/x?a=1", "/x?a=1"),
            ("http://{{ host }}/x", "/x"),
            ("http://b.example?a=1", "/?a=1"),
            ("http://b.example", "/"),
        ] {
            let request = RawRequest::parse(&format!("GET {target} HTTP/1.1\nHost: h")).unwrap();
            assert_eq!(request.target, expected, "{target}");
        }
    }

    #[test]
    fn an_invalid_raw_request_names_its_line() {
        for (raw, words) in [
            ("", "its first line ``"),
            ("POST /x", "its first line `POST /x`"),
            ("post /x HTTP/1.1\nHost: h", "its first line `post /x HTTP/1.1`"),
            ("GET {{ path }} HTTP/1.1\nHost: h", "write `/{{ path }}`"),
            ("GET / HTTP/1.1", "no header `Host`"),
            ("GET / HTTP/1.1\nHost: h\nwords", "its line `words` is no header, such as"),
            ("POST / HTTP/1.1\nHost: h\n{\"q\": 1}", "its line `{\"q\": 1}` is no header; is"),
            ("POST / HTTP/1.1\nHost: h\n{\n", "its line `{` is no header; is the empty line"),
            ("POST / HTTP/1.1\nHost: h\nmy words: 1", "its line `my words: 1` is no header; is"),
        ] {
            let error = RawRequest::parse(raw).unwrap_err();
            assert!(error.contains(words), "{raw}: {error}");
        }
    }
}
