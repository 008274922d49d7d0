//! The links that open the source location of a test in an editor.

use std::path::{Component, Path, PathBuf};

use kindlm_types::suggest;

use crate::{Failure, SuiteFolder, World};

/// The variable with the editor, if the options name none.
const VARIABLE: &str = "KINDLM_EDITOR";

/// The known editors with their links. `{file}` is the whole path, which begins with `/`.
const KNOWN: [(&str, &str); 7] = [
    ("vscode", "vscode://file{file}:{line}"),
    ("vscodium", "vscodium://file{file}:{line}"),
    ("cursor", "cursor://file{file}:{line}"),
    ("windsurf", "windsurf://file{file}:{line}"),
    ("zed", "zed://file{file}:{line}"),
    ("idea", "idea://open?file={file}&line={line}"),
    ("textmate", "txmt://open?url=file://{file}&line={line}"),
];

/// Returns the link of an editor: of `named`, or else of the variable `KINDLM_EDITOR`; `None` if none is chosen.
///
/// An editor is a known name, or a URL with `{file}`.
///
/// # Errors
///
/// Fails if the text is neither a known name nor such a URL.
pub(super) fn link_of(world: &World, named: Option<&str>) -> Result<Option<String>, Failure> {
    let (editor, origin) = match (named, world.var(VARIABLE)) {
        (Some(named), _) => (named.to_owned(), "`--editor`"),
        (None, Some(editor)) => (editor, "the variable `KINDLM_EDITOR`"),
        (None, None) => return Ok(None),
    };
    if let Some((_, link)) = KNOWN.iter().find(|(name, _)| *name == editor) {
        return Ok(Some((*link).to_owned()));
    }
    if is_link(&editor) {
        return Ok(Some(editor));
    }
    let help = suggest(&editor, "editors", KNOWN.iter().map(|(name, _)| *name));
    Err(Failure::input(format!("{origin}: unknown editor `{editor}`"))
        .with_help(format!("{help}; or give a URL such as `vscode://file{{file}}:{{line}}`")))
}

/// Returns true for a URL with a scheme that runs no script, and with `{file}`.
fn is_link(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_word = |it: &String| {
        it.starts_with(|c: char| c.is_ascii_lowercase())
            && it.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            && !["javascript", "data", "vbscript"].contains(&it.as_str())
    };
    text.contains("{file}") && scheme.is_some_and(|it| is_word(&it))
}

/// Returns the folder to which the file paths in the source locations of tests are relative, with `/` between folders.
///
/// This is the folder in which the run was started. `config` is the path of the config file in the report. The folders
/// of `config` are removed from the end of the suite's folder.
pub(super) fn start_folder(world: &World, place: &SuiteFolder, config: Option<&str>) -> String {
    let folder = world.working_dir.join(&place.folder);
    let inside = config.map(Path::new).filter(|it| it.is_relative()).and_then(Path::parent);
    // `./a` is the folder `a`.
    let is_named = |it: &Component<'_>| *it != Component::CurDir;
    let inside = inside.map(|it| it.components().filter(is_named).collect::<PathBuf>());
    let start = inside.filter(|it| folder.ends_with(it)).and_then(|inside| {
        folder.ancestors().nth(inside.components().count()).map(Path::to_path_buf)
    });
    let start: PathBuf = start.unwrap_or_else(|| world.working_dir.clone());
    start.to_string_lossy().replace('\\', "/")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_editor_is_known_or_a_url() {
        let world = |editor: &'static str| {
            World::new("/w", Arc::new(move |name| (name == VARIABLE).then(|| editor.to_owned())))
        };
        let vscode = Some("vscode://file{file}:{line}".to_owned());
        assert_eq!(link_of(&world(""), None).unwrap(), None);
        assert_eq!(link_of(&world("zed"), Some("vscode")).unwrap(), vscode);
        assert_eq!(link_of(&world("vscode"), None).unwrap(), vscode);
        let own = "my+editor://open?{file}#{line}";
        assert_eq!(link_of(&world(""), Some(own)).unwrap().as_deref(), Some(own));
        for wrong in ["vscod", "javascript://{file}", "https://example.org", "{file}"] {
            let message = link_of(&world(wrong), None).unwrap_err().message.unwrap();
            assert_eq!(message, format!("the variable `KINDLM_EDITOR`: unknown editor `{wrong}`"));
        }
    }

    #[test]
    fn places_are_relative_to_the_start_of_the_run() {
        let world = World::new("/w", Arc::new(|_| None));
        let place = SuiteFolder::new(&world, Path::new("a/b/kindlm.yaml"));
        for (config, expected) in [
            (Some("kindlm.yaml"), "/w/a/b"),
            (Some("b/kindlm.yaml"), "/w/a"),
            (Some("./b/kindlm.yaml"), "/w/a"),
            (Some("./kindlm.yaml"), "/w/a/b"),
            (Some("elsewhere/kindlm.yaml"), "/w"),
            (Some("/abs/kindlm.yaml"), "/w"),
            (None, "/w"),
        ] {
            assert_eq!(start_folder(&world, &place, config), expected, "{config:?}");
        }
    }
}
