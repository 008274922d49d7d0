//! Removes the types of TypeScript.

/// The JavaScript of a file; files that are not TypeScript come back as they are.
pub(crate) fn strip(path: &str, text: String) -> Result<String, String> {
    let typescript = [".ts", ".mts", ".cts"].iter().any(|extension| path.ends_with(extension));
    if typescript {
        return Err(format!("`{path}` is TypeScript, which this build cannot read"));
    }
    Ok(text)
}
