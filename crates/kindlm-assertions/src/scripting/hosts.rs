//! Hosts that scripts may reach, as they are written: one that matches nothing, or a port that is none, is a mistake.

use kindlm_types::Problem;

/// What is wrong with an entry of `net`, if anything is; the problem points from the entry.
pub(super) fn fault(entry: &str) -> Option<Problem> {
    let problem = |message: String, help: String| Some(Problem::new("", message).with_help(help));
    if let Some((_, rest)) = entry.split_once("://") {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let help = format!("write the host alone: `{host}`");
        return problem(format!("`{entry}` is an address and matches no host"), help);
    }
    if let Some((host, _)) = entry.split_once('/') {
        let help = format!("write the host alone: `{host}`");
        return problem(format!("`{entry}` is more than a host and matches none"), help);
    }
    let is_bare_v6 = !entry.starts_with('[') && entry.matches(':').count() > 1;
    if is_bare_v6 {
        let help = format!("write the address in brackets: `[{entry}]`");
        return problem(format!("`{entry}` matches no host"), help);
    }
    let (name, port) = match entry.rsplit_once(':').filter(|(_, it)| !it.contains(']')) {
        Some((name, port)) => (name, Some(port)),
        None => (entry, None),
    };
    if let Some(port) = port
        && !port.parse::<u16>().is_ok_and(|it| it > 0)
    {
        let help = format!("write a number from 1 to 65535, or `{name}` alone for any port");
        return problem(format!("`{port}` is not a port"), help);
    }
    let plain = name.strip_prefix("*.").unwrap_or(name);
    if plain.contains('*') {
        let help = "name each host; `*.example.com` stands for every name below `example.com`";
        return problem(format!("`{entry}` matches no host"), help.to_owned());
    }
    if plain.is_empty() || plain.contains(|it: char| it.is_whitespace() || "@,;\"'".contains(it)) {
        let help =
            "such as `example.com`, `*.example.com` or `localhost:8080`; each host is one entry";
        return problem(format!("`{entry}` is not the name of a host"), help.to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_hosts_that_match_nothing() {
        for (entry, expected) in [
            ("example.com", None),
            ("*.example.com", None),
            ("localhost:8080", None),
            ("127.0.0.1", None),
            ("[::1]", None),
            ("[::1]:80", None),
            ("127.0.0.1:99999", Some("`99999` is not a port")),
            ("localhost:0", Some("`0` is not a port")),
            ("localhost:", Some("`` is not a port")),
            (
                "http://a.example:80/x",
                Some("`http://a.example:80/x` is an address and matches no host"),
            ),
            ("a.example/x", Some("`a.example/x` is more than a host and matches none")),
            ("*", Some("`*` matches no host")),
            ("a.*.example", Some("`a.*.example` matches no host")),
            ("::1", Some("`::1` matches no host")),
            ("a.example, b.example", Some("`a.example, b.example` is not the name of a host")),
        ] {
            let told = fault(entry).map(|it| it.message);
            assert_eq!(told.as_deref(), expected, "{entry}");
        }
    }
}
