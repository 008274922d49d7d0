//! Finds the npm packages that a provider imports, so that `kindlm validate` names them.

/// The modules of Node.js, which are no packages.
const NODE: [&str; 42] = [
    "assert",
    "async_hooks",
    "buffer",
    "child_process",
    "cluster",
    "console",
    "constants",
    "crypto",
    "dgram",
    "diagnostics_channel",
    "dns",
    "domain",
    "events",
    "fs",
    "http",
    "http2",
    "https",
    "inspector",
    "module",
    "net",
    "os",
    "path",
    "perf_hooks",
    "process",
    "punycode",
    "querystring",
    "readline",
    "repl",
    "stream",
    "string_decoder",
    "sys",
    "timers",
    "tls",
    "trace_events",
    "tty",
    "url",
    "util",
    "v8",
    "vm",
    "wasi",
    "worker_threads",
    "zlib",
];

/// Returns the npm packages that a program in JavaScript or TypeScript imports, without duplicates.
///
/// The search reads the text line by line. It skips single-line comments and imports of types.
pub(super) fn packages(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim_start) {
        let is_comment = ["//", "*", "/*"].iter().any(|it| line.starts_with(it));
        let is_type = ["import type ", "export type "].iter().any(|it| line.starts_with(it));
        if is_comment || is_type {
            continue;
        }
        for name in specifiers(line).filter(|it| is_package(it)) {
            if !found.contains(&name) {
                found.push(name);
            }
        }
    }
    found
}

/// Returns the texts in quotes behind `require(`, `import(`, `from` and `import`, each as often as it occurs.
fn specifiers(line: &str) -> impl Iterator<Item = &str> {
    let words = ["require(", "import(", " from ", "import "];
    let found = words.into_iter().flat_map(|word| line.match_indices(word));
    found.filter_map(|(at, word)| {
        // `import "x"` stands at the beginning of a line.
        if word == "import " && at > 0 {
            return None;
        }
        let rest = line[at + word.len()..].trim_start();
        let quote = rest.chars().next().filter(|it| matches!(it, '"' | '\''))?;
        rest.get(1..)?.split_once(quote).map(|(name, _)| name)
    })
}

fn is_package(name: &str) -> bool {
    let first = name.split('/').next().unwrap_or_default();
    let is_path = name.starts_with(['.', '/']) || name.contains("://");
    !name.is_empty() && !is_path && !name.starts_with("node:") && !NODE.contains(&first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_what_is_no_path_and_no_module_of_node() {
        for (text, expected) in [
            ("const promptfoo = require('promptfoo');", vec!["promptfoo"]),
            ("import OpenAI from \"openai\";\nimport { x } from '@a/b';", vec!["openai", "@a/b"]),
            ("import 'dotenv/config'", vec!["dotenv/config"]),
            ("const x = await import('y');", vec!["y"]),
            ("const a = require('b'), c = require('d');", vec!["b", "d"]),
            ("import type { ApiProvider } from 'promptfoo';", vec![]),
            ("// require('z')", vec![]),
            ("const fs = require('fs/promises'); const a = require('./a');", vec![]),
            ("import fs from 'node:fs';\nimport b from '../b.mjs';", vec![]),
            ("require('worker_threads'); require('querystring')", vec![]),
            ("require(name)", vec![]),
        ] {
            assert_eq!(packages(text), expected, "{text}");
        }
    }
}
