//! Inline suites: suites in the requests of clients that a server does not trust.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use kindlm_config::{Diagnostic, Sources};
use kindlm_engine::Suite;
use kindlm_store::Folder;
use kindlm_types::{FileError, Files};
use serde_json::Map;
use sha2::{Digest as _, Sha256};

use crate::programs::{self, Purpose};
use crate::secrets::Secrets;
use crate::{Failure, Project, SuiteFolder, World};

/// The name of an inline suite in error messages and reports.
const NAME: &str = "suite";

/// Refuses every read, because a request must not read files of the server.
pub(crate) struct NoAccess;

impl NoAccess {
    fn refuse<T>(path: &str) -> Result<T, FileError> {
        let message = "a request cannot read files of the server; write the content into it";
        Err(FileError::Other { path: path.to_owned(), message: message.to_owned() })
    }
}

impl Files for NoAccess {
    fn read_file(&self, path: &str) -> Result<Arc<str>, FileError> {
        Self::refuse(path)
    }

    fn glob(&self, pattern: &str) -> Result<Vec<String>, FileError> {
        Self::refuse(pattern)
    }
}

/// The models of a server's config, which inline suites name by their ids.
///
/// The models of providers that run programs (`command`, `script`, `mcp`) and of the provider `http` are refused.
#[derive(Debug)]
pub struct ServerModels {
    /// The providers, models, scripts and default judge of the config.
    config: Suite,
    /// The folder with the files of the providers.
    root: PathBuf,
}

impl ServerModels {
    /// Copies the models of a server's config.
    pub fn of_project(project: &Project) -> Self {
        let Suite { providers, models, scripts, defaults, .. } = &project.suite;
        let config = Suite {
            providers: providers.clone(),
            models: models.clone(),
            scripts: scripts.clone(),
            defaults: defaults.clone(),
            ..Suite::default()
        };
        Self { config, root: project.files.root().to_owned() }
    }

    /// Opens an inline suite: YAML or JSON. Its runs are stored below `folder`.
    ///
    /// The suite reads no files and no environment variables. It runs no commands, agents or programs. Its scripts
    /// compute in the sandbox. Its requests go to the providers of the config, which read only the files of the config.
    ///
    /// # Errors
    ///
    /// Fails if the suite is invalid, or has parts that are not permitted. The error message has a line for each error,
    /// with the line and the column in the text.
    pub fn open(&self, world: &World, folder: &Path, text: &[u8]) -> Result<Project, Failure> {
        let failed = |err: FileError| Failure::internal(err.to_string());
        let files = Folder::open(&self.root).map_err(failed)?;
        let (scripts, compile_script) = programs::runner(world, files.root(), Purpose::Look)?;
        let sources = Sources {
            scripts,
            compile_script: Some(compile_script),
            assertions: Arc::clone(&world.registries.assertions),
            gates: world.registries.gates.clone(),
            providers: world.registries.providers.clone(),
            inline: Some(&self.config),
            ..Sources::new(&NoAccess, &|_| None)
        };
        let loaded = kindlm_config::load_with(NAME, text, &sources);
        let Some(mut suite) = loaded.suite else {
            let mut text = loaded.diagnostics.iter().map(line).collect::<Vec<_>>().join("\n");
            Secrets::new(world, &Map::new()).redact_text(&mut text);
            return Err(Failure::inputs(text.lines().map(str::to_owned)));
        };
        suite.info.config_sha256 = Some(HEXLOWER.encode(&Sha256::digest(text)));
        // The checks are compiled. From here on, only the providers use the settings of scripts.
        suite.scripts = self.config.scripts.clone();
        Secrets::new(world, &suite.providers).redact_names(&mut suite);
        let path = folder.join(NAME);
        let place = SuiteFolder { path, name: NAME.to_owned(), folder: folder.to_owned() };
        Ok(Project { place, suite, files, allow_outside: false, is_inline: true })
    }
}

/// Formats an error as one line.
fn line(diagnostic: &Diagnostic) -> String {
    let place = diagnostic.position();
    let help = diagnostic.help.as_ref().map(|it| format!(" ({it})")).unwrap_or_default();
    let message = diagnostic.message.replace('\n', " ");
    format!("{}:{}:{}: {message}{}", diagnostic.file(), place.line, place.column, help)
}
