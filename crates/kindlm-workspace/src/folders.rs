//! Creates and removes workspace folders for agents.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use kindlm_types::{
    BoxFuture, Commands, OpenWorkspace, WorkFor, WorkspaceError, WorkspaceSpec, Workspaces,
};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::isolation::Wrap;
use crate::open::Open;
use crate::options::{FoldersOptions, folder, slug};
use crate::start::{Start, StartKey};

/// The workspace folders of a run.
///
/// On drop, all folders are removed, except the workspaces that the user keeps.
#[derive(Debug)]
pub struct Folders {
    options: FoldersOptions,
    /// The parent of all folders, which is created with the first folder.
    root: Mutex<Option<Arc<TempDir>>>,
    /// The starting states. Each starting state is created once.
    starts: Mutex<HashMap<StartKey, Arc<OnceStart>>>,
}

type OnceStart = OnceCell<Result<Arc<Start>, WorkspaceError>>;

impl Folders {
    /// Creates an empty set of folders. No folder is created on disk yet.
    pub fn new(options: FoldersOptions) -> Self {
        Self { options, root: Mutex::default(), starts: Mutex::default() }
    }

    /// Checks that a workspace can be created.
    ///
    /// Fails if the source folder is missing or not permitted, or if the program for the isolation is not installed.
    pub fn check(&self, spec: &WorkspaceSpec) -> Result<(), WorkspaceError> {
        Wrap::find(spec, &self.options)?;
        self.source(spec).map(|_| ())
    }

    /// Returns the parent of the kept workspaces.
    ///
    /// Returns `None` if workspaces are not kept, or if no workspace was created.
    pub fn kept(&self) -> Option<PathBuf> {
        let root = self.root.lock().unwrap_or_else(PoisonError::into_inner);
        root.as_ref().filter(|_| self.options.keep).map(|it| it.path().to_path_buf())
    }

    /// Returns the path of the source folder, with symbolic links resolved. Fails if the path is not a folder, or is
    /// outside the suite's folder without permission.
    pub(crate) fn source(&self, spec: &WorkspaceSpec) -> Result<PathBuf, WorkspaceError> {
        let source = resolve(&self.options, &spec.from, "workspace.from")?;
        if source.is_dir() {
            return Ok(source);
        }
        Err(WorkspaceError(format!("`workspace.from` is `{}`, which is not a folder", spec.from)))
    }

    fn root(&self) -> Result<Arc<TempDir>, WorkspaceError> {
        let mut root = self.root.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(root) = &*root {
            return Ok(Arc::clone(root));
        }
        let temp = self.options.temp.canonicalize().unwrap_or_else(|_| self.options.temp.clone());
        let made = folder(&temp, "kindlm-", self.options.keep)?;
        Ok(Arc::clone(root.insert(Arc::new(made))))
    }

    async fn make(
        &self,
        spec: &WorkspaceSpec,
        of: WorkFor<'_>,
        commands: &dyn Commands,
    ) -> Result<Open, WorkspaceError> {
        let wrap = Wrap::find(spec, &self.options)?;
        let root = self.root()?;
        let cell = {
            let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(starts.entry(StartKey::from_spec(spec)).or_default())
        };
        let source = self.source(spec)?;
        let hidden = spec.hidden.iter().map(|it| {
            let from = resolve(&self.options, &it.from, "workspace.hidden")?;
            Ok((from, PathBuf::from(&it.to)))
        });
        let hidden: Vec<(PathBuf, PathBuf)> = hidden.collect::<Result<_, WorkspaceError>>()?;
        let making = Start::make(spec, source, &hidden, &wrap, &root, of.timeout, commands);
        let start = cell.get_or_init(|| async { making.await.map(Arc::new) }).await.clone()?;
        let work = folder(root.path(), &format!("{}-", slug(&of)), self.options.keep)?;
        Open::make(spec, (start, hidden), wrap, (root, work), self.options.keep, of, commands).await
    }
}

/// Resolves a path from the suite.
///
/// Fails if the path does not exist, or leads out of the suite's folder without permission.
fn resolve(options: &FoldersOptions, path: &str, key: &str) -> Result<PathBuf, WorkspaceError> {
    let failed = |why: String| WorkspaceError(format!("`{key}` is `{path}`: {why}"));
    let suite = options.suite.canonicalize().map_err(|err| failed(err.to_string()))?;
    let real = suite.join(path).canonicalize().map_err(|err| failed(err.to_string()))?;
    if options.allow_outside || real.starts_with(&suite) {
        return Ok(real);
    }
    Err(failed("it is outside the folder of the config file; give `--allow-outside`".to_owned()))
}

impl Workspaces for Folders {
    fn open<'a>(
        &'a self,
        spec: &'a WorkspaceSpec,
        of: WorkFor<'a>,
        commands: &'a dyn Commands,
    ) -> BoxFuture<'a, Result<Box<dyn OpenWorkspace>, WorkspaceError>> {
        Box::pin(async move {
            let open = self.make(spec, of, commands).await?;
            Ok(Box::new(open) as Box<dyn OpenWorkspace>)
        })
    }
}
