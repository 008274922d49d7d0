//! Makes folders for agents, and removes them again.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use kindlm_types::{
    Backend, BoxFuture, OpenWorkspace, WorkFor, WorkspaceError, WorkspaceSpec, Workspaces,
};
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::isolation::Wrap;
use crate::open::Open;
use crate::options::{FoldersOptions, folder, slug};
use crate::start::{Start, StartKey};

/// Folders for agents. Everything is removed when this is dropped, unless the user asked to keep it.
#[derive(Debug)]
pub struct Folders {
    options: FoldersOptions,
    /// Made when the first folder is.
    root: Mutex<Option<Arc<TempDir>>>,
    /// The starts of workspaces: each is made once.
    starts: Mutex<HashMap<StartKey, Arc<OnceStart>>>,
}

type OnceStart = OnceCell<Result<Arc<Start>, WorkspaceError>>;

impl Folders {
    /// Nothing is made before it is needed.
    pub fn new(options: FoldersOptions) -> Self {
        Self { options, root: Mutex::default(), starts: Mutex::default() }
    }

    /// Checks that a workspace of this kind can be made: its folder exists, and the program for its isolation is
    /// installed.
    pub fn check(&self, spec: &WorkspaceSpec) -> Result<(), WorkspaceError> {
        Wrap::of(spec, &self.options)?;
        self.source(spec).map(|_| ())
    }

    /// The folder of the workspaces that were not removed, if any was made.
    pub fn kept(&self) -> Option<PathBuf> {
        let root = self.root.lock().unwrap_or_else(PoisonError::into_inner);
        root.as_ref().filter(|_| self.options.keep).map(|it| it.path().to_path_buf())
    }

    /// The real place of the folder that a workspace starts as.
    pub(crate) fn source(&self, spec: &WorkspaceSpec) -> Result<PathBuf, WorkspaceError> {
        let source = resolve(&self.options, &spec.from, "workspace.from")?;
        if source.is_dir() {
            return Ok(source);
        }
        Err(WorkspaceError(format!("`workspace.from` is `{}`, which is no folder", spec.from)))
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
        backend: &dyn Backend,
    ) -> Result<Open, WorkspaceError> {
        let wrap = Wrap::of(spec, &self.options)?;
        let root = self.root()?;
        let cell = {
            let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(starts.entry(StartKey::of(spec)).or_default())
        };
        let source = self.source(spec)?;
        let hidden = spec.hidden.iter().map(|it| {
            let from = resolve(&self.options, &it.from, "workspace.hidden")?;
            Ok((from, PathBuf::from(&it.to)))
        });
        let hidden: Vec<(PathBuf, PathBuf)> = hidden.collect::<Result<_, WorkspaceError>>()?;
        let making = Start::make(spec, source, &hidden, &wrap, &root, of.timeout, backend);
        let start = cell.get_or_init(|| async { making.await.map(Arc::new) }).await.clone()?;
        let work = folder(root.path(), &format!("{}-", slug(&of)), self.options.keep)?;
        Open::make(spec, (start, hidden), wrap, (root, work), self.options.keep, of, backend).await
    }
}

/// The real place of something that a suite names, if the suite may name it.
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
        backend: &'a dyn Backend,
    ) -> BoxFuture<'a, Result<Box<dyn OpenWorkspace>, WorkspaceError>> {
        Box::pin(async move {
            let open = self.make(spec, of, backend).await?;
            Ok(Box::new(open) as Box<dyn OpenWorkspace>)
        })
    }
}
