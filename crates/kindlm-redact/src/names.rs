//! Detects the names of environment variables, headers and settings that hold secrets.

/// The words that mark an environment variable as a secret anywhere in its name.
const PARTS: [&str; 7] =
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"];

/// The words that mark an environment variable as a secret after the last underscore of its name.
const WORDS: [&str; 6] = ["PASS", "PAT", "PWD", "AUTH", "COOKIE", "JWT"];

/// Returns true if an environment variable with this name probably holds a secret. Upper and lower case are equal.
///
/// ```
/// use kindlm_redact::is_secret_variable;
///
/// assert!(is_secret_variable("OPENAI_API_KEY") && is_secret_variable("GH_PAT") && is_secret_variable("DB_PASS"));
/// assert!(!is_secret_variable("PATH") && !is_secret_variable("PWD") && !is_secret_variable("SSH_AUTH_SOCK"));
/// ```
pub fn is_secret_variable(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // Only a word after an underscore counts: `PWD` alone is the working folder, and `SSH_AUTH_SOCK` is a socket path.
    let last = name.rsplit_once('_').map(|(_, word)| word);
    PARTS.iter().any(|it| name.contains(it)) || last.is_some_and(|it| WORDS.contains(&it))
}

/// Returns true if an environment variable with this name certainly holds a secret. The value of such a variable in a
/// file is an error.
///
/// Unlike [`is_secret_variable`], names in lower case and names such as `MAX_OUTPUT_TOKENS` do not count.
///
/// ```
/// use kindlm_redact::is_certain_secret;
///
/// assert!(is_certain_secret("OPENAI_API_KEY") && is_certain_secret("DB_PASSWORD"));
/// assert!(!is_certain_secret("MAX_OUTPUT_TOKENS") && !is_certain_secret("KEYBOARD"));
/// ```
pub fn is_certain_secret(name: &str) -> bool {
    ["_KEY", "_TOKEN", "_SECRET", "_PASSWORD"].iter().any(|it| name.ends_with(it))
}

/// Returns true if a header with this name, in any case, probably holds a secret.
pub fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "key", "token", "secret", "cookie", "password"].iter().any(|it| name.contains(it))
}

/// Returns true if a setting with this name, in any case, probably holds a secret.
///
/// A setting that holds the name of a variable is not a secret. `prompt_cache_key` is not a secret either, because the
/// value names a cache of OpenAI and Mistral.
///
/// ```
/// use kindlm_redact::is_secret_setting;
///
/// assert!(is_secret_setting("apiKey") && is_secret_setting("auth_token"));
/// assert!(!is_secret_setting("apiKeyEnv") && !is_secret_setting("prompt_cache_key"));
/// ```
pub fn is_secret_setting(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    if name == "prompt_cache_key" {
        return false;
    }
    is_telling_name(&name) || name.ends_with("_key") || name.ends_with("_token")
}

/// Returns true if the name of a setting alone shows that the value is a secret.
///
/// Unlike [`is_secret_setting`], names such as `eos_token` and `primary_key` do not count.
pub fn is_telling_name(name: &str) -> bool {
    const WORDS: [&str; 7] =
        ["apikey", "authorization", "password", "secret", "accesskey", "accesstoken", "authtoken"];
    let word = name.to_ascii_lowercase().replace(['-', '_'], "");
    // `apiKeyEnvar` holds the name of a variable.
    WORDS.iter().any(|it| word.contains(it)) && !word.contains("env")
}
