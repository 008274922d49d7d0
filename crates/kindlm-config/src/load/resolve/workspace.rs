//! Workspaces of agents: the checks of their settings and files.

use std::sync::Arc;

use globset::GlobBuilder;
use kindlm_engine::{Digest, Fingerprint};
use kindlm_source::{Code, Piece};
use kindlm_types::workspace::{Container, HiddenFiles, Isolation};
use kindlm_types::{FileTree, MemberPart, TreeLimits, WorkspaceSpec};
use serde_json::Value;

use super::Resolved;
use crate::written::{HiddenEntry, HiddenTo, WorkspaceBlock};

/// A workspace with a digest of its settings and of the content of its files.
#[derive(Clone, Debug)]
pub(in crate::load) struct Workspace {
    pub(in crate::load) spec: Arc<WorkspaceSpec>,
    pub(in crate::load) digest: Fingerprint,
}

impl Resolved<'_> {
    /// Makes a workspace from a block.
    ///
    /// Reports problems of the files or settings, and then returns `None`.
    pub(in crate::load) fn make_workspace(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        block: WorkspaceBlock,
        written: &Value,
    ) -> Option<Workspace> {
        let before = self.sink.errors.len();
        self.check_settings(piece, at, &block);
        let mut digest = Digest::default().text("workspace").value(written);
        let limits = TreeLimits::new(block.max_bytes, block.max_files);
        let from = self.tree(piece, &format!("{at}/from"), &block.from, limits);
        if let Some(tree) = from {
            digest = digest.text(&tree.digest);
            if !tree.is_folder {
                let message = format!("`{}` is a file, not a folder", block.from);
                self.sink.push(piece.error(
                    Code::INVALID_VALUE,
                    &format!("{at}/from"),
                    MemberPart::Value,
                    message,
                ));
            }
        }
        let mut hidden = Vec::new();
        for (index, entry) in block.hidden.iter().enumerate() {
            let (from, to, at) = match entry {
                HiddenEntry::Path(from) => (from, None, format!("{at}/hidden/{index}")),
                HiddenEntry::To(HiddenTo { from, to }) => {
                    (from, Some(to), format!("{at}/hidden/{index}/from"))
                }
            };
            let Some(tree) = self.tree(piece, &at, from, limits) else { continue };
            digest = digest.text(&tree.digest);
            let name = || from.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            let to = match to {
                Some(to) => to.trim_start_matches("./").to_owned(),
                None if tree.is_folder => String::new(),
                None => name().to_owned(),
            };
            hidden.push(HiddenFiles { from: from.clone(), to });
        }
        if self.sink.errors.len() > before {
            return None;
        }
        let WorkspaceBlock { image, engine, env, .. } = block;
        let spec = WorkspaceSpec {
            from: block.from,
            isolation: block.isolation,
            setup: block.setup,
            hidden,
            ignore: block.ignore,
            max_bytes: block.max_bytes,
            max_files: block.max_files,
            max_diff_bytes: block.max_diff_bytes,
            reference: block.reference,
            network: block.network,
            container: image.map(|image| Container { image, engine, env }),
        };
        Some(Workspace { spec: Arc::new(spec), digest: digest.finish() })
    }

    /// Returns the digest and kind of a file or folder.
    ///
    /// Reports a path that cannot be read, and then returns `None`.
    fn tree(
        &mut self,
        piece: Piece<'_>,
        at: &str,
        path: &str,
        limits: TreeLimits,
    ) -> Option<FileTree> {
        match self.around.files.tree(path, limits) {
            Ok(tree) => Some(tree),
            Err(err) => {
                self.sink.report_file(piece, at, &err);
                None
            }
        }
    }

    /// Reports settings that do not fit the isolation, missing settings, invalid globs, and paths outside of the
    /// workspace.
    fn check_settings(&mut self, piece: Piece<'_>, at: &str, block: &WorkspaceBlock) {
        let isolation = block.isolation;
        let word = isolation.as_str();
        let mut wrong = |key: &str, message: String, help: &str| {
            let at = if key.is_empty() { at.to_owned() } else { format!("{at}/{key}") };
            self.sink.push(
                piece.error(Code::INVALID_VALUE, &at, MemberPart::Value, message).with_help(help),
            );
        };
        for (index, glob) in block.ignore.iter().enumerate() {
            if let Err(err) = GlobBuilder::new(glob).literal_separator(true).build() {
                let message = format!("`{glob}` is not a valid glob: {}", err.kind());
                wrong(&format!("ignore/{index}"), message, "write `node_modules/**`, for example");
            }
        }
        for (index, entry) in block.hidden.iter().enumerate() {
            if let HiddenEntry::To(HiddenTo { to, .. }) = entry
                && leads_out(to)
            {
                let message = format!("`{to}` leads out of the workspace");
                let help = "write a path relative to the workspace";
                wrong(&format!("hidden/{index}/to"), message, help);
            }
        }
        let is_container = isolation == Isolation::Container;
        if is_container && block.image.is_none() {
            let message = "`isolation: container` needs an `image`".to_owned();
            wrong("", message, "name one, such as `image: node:22`");
        }
        for (key, is_there) in [
            ("image", block.image.is_some()),
            ("engine", block.engine.is_some()),
            ("env", !block.env.is_empty()),
        ] {
            if is_there && !is_container {
                let message = format!("`{key}` does nothing with `isolation: {word}`");
                wrong(key, message, "it is for `isolation: container`");
            }
        }
        if block.reference.is_some() && isolation != Isolation::Worktree {
            let message = format!("`ref` does nothing with `isolation: {word}`");
            wrong("ref", message, "it is for `isolation: worktree`");
        }
        if !block.network && !matches!(isolation, Isolation::Bubblewrap | Isolation::Container) {
            let message = format!("`isolation: {word}` does not block the network");
            wrong("network", message, "choose `isolation: bubblewrap` or `container`");
        }
    }
}

/// Returns true if a path within a workspace leads out of the workspace.
fn leads_out(path: &str) -> bool {
    path.starts_with(['/', '\\']) || path.split(['/', '\\']).any(|it| it == "..")
}
