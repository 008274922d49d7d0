//! Names under which secrets stand: of environment variables, headers and settings.

/// Parts of the names of variables, settings and headers that hold secrets.
const PARTS: [&str; 7] =
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"];

/// Whole words of the names of variables that hold secrets.
const WORDS: [&str; 6] = ["PASS", "PAT", "PWD", "AUTH", "COOKIE", "JWT"];

/// True if an environment variable of this name is likely to hold a secret.
///
/// ```
/// use kindlm_redact::is_secret_variable;
///
/// assert!(is_secret_variable("OPENAI_API_KEY") && is_secret_variable("GH_PAT") && is_secret_variable("DB_PASS"));
/// assert!(!is_secret_variable("PATH") && !is_secret_variable("PWD") && !is_secret_variable("SSH_AUTH_SOCK"));
/// ```
pub fn is_secret_variable(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // Behind an underscore: `PWD` alone is the working folder, and `SSH_AUTH_SOCK` the path of a socket.
    let last = name.rsplit_once('_').map(|(_, word)| word);
    PARTS.iter().any(|it| name.contains(it)) || last.is_some_and(|it| WORDS.contains(&it))
}

/// True if a header of this name is likely to hold a secret.
pub fn is_secret_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "key", "token", "secret", "cookie", "password"].iter().any(|it| name.contains(it))
}

/// True if a setting of this name is likely to hold a secret. The name of a variable is none.
pub fn is_secret_setting(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let word = name.replace(['-', '_'], "");
    let is_telling =
        ["apikey", "authorization", "password", "secret"].iter().any(|it| word.contains(it));
    // `apiKeyEnvar` names a variable.
    (is_telling && !word.contains("env")) || name.ends_with("_key") || name.ends_with("_token")
}
