//! Patterns of the hosts that scripts may access.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::Problem;

/// A host, or all subdomains of a host, with or without a port.
///
/// Examples are `example.com`, `*.example.com`, `localhost:8080` and `[::1]:80`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    name: Name,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    Host(String),
    /// All subdomains of this name.
    Below(String),
    V6(Ipv6Addr),
}

impl HostPattern {
    /// Parses a pattern. Returns a problem with advice if the pattern cannot match any host.
    pub fn parse(entry: &str) -> Result<Self, Problem> {
        let problem = |message: String, help: String| Problem::new("", message).with_help(help);
        if let Some((_, rest)) = entry.split_once("://") {
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let help = format!("write the host alone: `{host}`");
            return Err(problem(format!("`{entry}` is an address and matches no host"), help));
        }
        if let Some((host, _)) = entry.split_once('/') {
            let help = format!("write the host alone: `{host}`");
            return Err(problem(format!("`{entry}` is more than a host and matches none"), help));
        }
        if entry.parse::<Ipv6Addr>().is_ok() {
            let help = format!("write the address in brackets: `[{entry}]`");
            return Err(problem(format!("`{entry}` matches no host"), help));
        }
        let (name, port) = match entry.rsplit_once(':').filter(|(_, it)| !it.contains(']')) {
            Some((name, port)) => (name, Some(port)),
            None => (entry, None),
        };
        let to_number = |it: &str| it.parse::<u16>().ok().filter(|it| *it > 0).ok_or(it.to_owned());
        let port = port.map(to_number).transpose().map_err(|port| {
            let help = format!("write a number from 1 to 65535, or `{name}` alone for any port");
            if port.is_empty() {
                return problem(format!("`{entry}` has a colon and no port"), help);
            }
            problem(format!("`{port}` is not a port"), help)
        })?;
        let name = name.to_ascii_lowercase();
        match fault(&name) {
            None => Ok(Self { name: Name::parse(name), port }),
            Some(help) => {
                Err(problem(format!("`{entry}` is not the name of a host and matches none"), help))
            }
        }
    }

    /// Returns true if the pattern matches a host and port. A pattern without a port matches every port.
    ///
    /// `host` is in the form of URLs: lower case, IPv6 in brackets.
    pub fn matches(&self, host: &str, port: Option<u16>) -> bool {
        if self.port.is_some() && self.port != port {
            return false;
        }
        match &self.name {
            Name::Host(name) => host == name,
            Name::Below(parent) => {
                host.strip_suffix(parent).is_some_and(|it| it.ends_with('.') && it.len() > 1)
            }
            Name::V6(address) => in_brackets(host) == Some(*address),
        }
    }
}

impl Name {
    fn parse(name: String) -> Self {
        match (in_brackets(&name), name.strip_prefix("*.")) {
            (Some(address), _) => Self::V6(address),
            (None, Some(parent)) => Self::Below(parent.to_owned()),
            (None, None) => Self::Host(name),
        }
    }
}

fn in_brackets(name: &str) -> Option<Ipv6Addr> {
    name.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// Returns the advice for a name that no host can have.
///
/// Returns `None` if a host can have the name.
fn fault(name: &str) -> Option<String> {
    const SUCH_AS: &str =
        "such as `example.com`, `*.example.com` or `localhost:8080`; each host is one entry";
    if in_brackets(name).is_some() {
        return None;
    }
    let plain = name.strip_prefix("*.").unwrap_or(name);
    if plain.contains('*') {
        let help = "name each host; `*.example.com` stands for every name below `example.com`";
        return Some(help.to_owned());
    }
    if let Some(parent) = name.strip_prefix('.').filter(|it| fault(it).is_none()) {
        return Some(format!("`*.{parent}` stands for every name below `{parent}`"));
    }
    if !plain.is_ascii() && plain.chars().all(|it| it.is_alphanumeric() || "-.".contains(it)) {
        let help = "write it in ASCII letters, as addresses have it: `xn--bcher-kva.example` for `bücher.example`";
        return Some(help.to_owned());
    }
    let is_label = |it: &str| {
        let is_letter = |it: u8| it.is_ascii_alphanumeric() || it == b'-' || it == b'_';
        !it.is_empty() && it.bytes().all(is_letter)
    };
    if !plain.split('.').all(is_label) {
        return Some(SUCH_AS.to_owned());
    }
    // A name that ends with a number is an IPv4 address, which has four numbers.
    let last = plain.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|it| it.is_ascii_digit()) || last.starts_with("0x");
    let is_address = plain == name && plain.parse::<Ipv4Addr>().is_ok();
    (is_number && !is_address)
        .then(|| "write all four numbers of an address: `127.0.0.1`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_host_patterns_are_problems() {
        for (entry, expected) in [
            ("example.com", None),
            ("EXAMPLE.com", None),
            ("my_service:8080", None),
            ("*.example.com", None),
            ("localhost:8080", None),
            ("127.0.0.1", None),
            ("[::1]", None),
            ("[::1]:80", None),
            ("[0:0:0:0:0:0:0:1]", None),
            ("xn--bcher-kva.de", None),
            ("127.0.0.1:99999", Some("`99999` is not a port")),
            ("localhost:0", Some("`0` is not a port")),
            ("localhost:", Some("`localhost:` has a colon and no port")),
            (
                "http://a.example:80/x",
                Some("`http://a.example:80/x` is an address and matches no host"),
            ),
            ("a.example/x", Some("`a.example/x` is more than a host and matches none")),
            ("::1", Some("`::1` matches no host")),
        ] {
            let told = HostPattern::parse(entry).err().map(|it| it.message);
            assert_eq!(told.as_deref(), expected, "{entry}");
        }
        for (entry, help) in [
            ("*", "name each host"),
            ("a.*.example", "name each host"),
            ("a.example, b.example", "each host is one entry"),
            (".example.com", "`*.example.com` stands for"),
            ("bücher.de", "in ASCII letters"),
            ("[::1", "each host is one entry"),
            ("a..b", "each host is one entry"),
            ("example.com.", "each host is one entry"),
            ("?", "each host is one entry"),
            ("", "each host is one entry"),
            ("127.1", "all four numbers"),
            ("0x7f000001", "all four numbers"),
            ("*.0.0.1", "all four numbers"),
        ] {
            let told = HostPattern::parse(entry).unwrap_err();
            assert!(
                told.message.contains("is not the name of a host"),
                "{entry}: {}",
                told.message
            );
            assert!(told.help.unwrap_or_default().contains(help), "{entry}");
        }
    }
}
