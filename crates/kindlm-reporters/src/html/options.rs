//! The options of a server, and the links to an editor.

use kindlm_types::SourcePlace;
use kindlm_wire::v1::RunHead;

use crate::percent::path_in_url;

/// The options of a page that a server shows: the earlier runs of the suite, and the links to an editor.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// The totals of the runs of the suite, oldest first.
    pub past: Vec<RunHead>,
    /// The link that opens the place of a test in an editor: a URL with `{file}` and `{line}`. `None` for no link.
    pub editor: Option<String>,
    /// The folder to which the places of tests are relative, with `/` between folders.
    pub folder: String,
}

impl ServeOptions {
    /// Returns the link that opens a place in the editor; `None` without an editor.
    pub(super) fn link(&self, place: &SourcePlace) -> Option<String> {
        let editor = self.editor.as_ref()?;
        let file = place.file.replace('\\', "/");
        let is_absolute = file.starts_with('/') || file.chars().nth(1) == Some(':');
        let path = if is_absolute { file } else { format!("{}/{file}", self.folder) };
        let path = format!("/{}", path_in_url(path.trim_start_matches('/')));
        Some(editor.replace("{file}", &path).replace("{line}", &place.line.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_name_the_file_and_line() {
        for (editor, folder, file, expected) in [
            (
                "vscode://file{file}:{line}",
                "/home/me/my suite",
                "a/kindlm.yaml",
                "vscode://file/home/me/my%20suite/a/kindlm.yaml:7",
            ),
            (
                "idea://open?file={file}&line={line}",
                "/x",
                "/y/b#.yaml",
                "idea://open?file=/y/b%23.yaml&line=7",
            ),
            (
                "vscode://file{file}:{line}",
                "C:/suites",
                "sub\\a.yaml",
                "vscode://file/C%3A/suites/sub/a.yaml:7",
            ),
        ] {
            let options = ServeOptions {
                editor: Some(editor.to_owned()),
                folder: folder.to_owned(),
                ..ServeOptions::default()
            };
            let place = SourcePlace::new(file, 7, 1);
            assert_eq!(options.link(&place).as_deref(), Some(expected));
            assert_eq!(ServeOptions { editor: None, ..options }.link(&place), None);
        }
    }
}
