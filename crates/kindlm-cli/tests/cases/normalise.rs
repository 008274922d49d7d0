//! Removes the parts of a text that differ between runs and machines.

use std::sync::LazyLock;

use regex::Regex;

static RULES: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    [
        (r"\b\d{8}-\d{6}-\d{3}-[0-9a-f]{4}\b", "<run>"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?UTC|Z)?", "<time>"),
        (r"\b[0-9a-f]{64}\b", "<sha256>"),
        (r"\b(linux|macos|windows)-(x86_64|aarch64)\b", "<platform>"),
        (r#"name="latency_p50_ms" value="[^"]*""#, r#"name="latency_p50_ms" value="<ms>""#),
        (r#""latencyMs": ?\{[^}]*\}"#, r#""latencyMs": <ms>"#),
        (r#""(durationMs|latencyMs|latencyAvgMs)": ?[0-9.e-]+"#, r#""$1": <ms>"#),
        (r#"\b(time|timestamp)="[^"]*""#, r#"$1="<time>""#),
        // The number is right-aligned, so the number of spaces depends on the number of digits.
        (r"(?m) {2,}(avg )?\d+(\.\d+)? (ms|s)\b", "  ${1}<ms>"),
        (r" · \d+(\.\d+)? (ms|s) · ", " · <ms> · "),
        (r"(?m) · \d+(\.\d+)? (ms|s)(\\?)$", " · <ms>$3"),
        (r"\| \d+(\.\d+)? (ms|s) \|", "| <ms> |"),
        (r#"(name="latency_p50_ms" value)="[^"]*""#, r#"$1="<ms>""#),
        (r"\bTime {4}\d+(\.\d+)? (ms|s)\b", "Time    <ms>"),
        (r"(?m)\b(runs?|files?), \d+ (bytes|kB|MB)$", "$1, <size>"),
        // Progress is printed once a second, so slow machines print more lines.
        (r"(?m)^[\d,]+ of [\d,]+ (executions|outputs)(  .*)?\n", ""),
        // Failed cases are printed during a run of more than a second.
        (r"(?m)^[✗!] .* · .*\n", ""),
        (r"\bKindLM \d+\.\d+\.\d+\b", "KindLM <version>"),
    ]
    .into_iter()
    .map(|(pattern, replacement)| (Regex::new(pattern).unwrap(), replacement))
    .collect()
});

/// Replaces times, ids and paths in a text; `folder` is the folder of the case.
pub(crate) fn normalise(text: &str, folder: &str) -> String {
    let mut text = text.replace(folder, "<dir>");
    text = text.replace(&format!("kindlm {}", env!("CARGO_PKG_VERSION")), "kindlm <version>");
    text = text.replace(
        &format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION")),
        "\"version\": \"<version>\"",
    );
    for (pattern, replacement) in &*RULES {
        text = pattern.replace_all(&text, *replacement).into_owned();
    }
    text
}
