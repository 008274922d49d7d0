//! Finds a suite, loads it, and reports its errors.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use kindlm_assertions::{ScriptSettings, Setup};
use kindlm_config::{Diagnostic, Imported, Loaded, Sources};
use kindlm_engine::{Model, Suite};
use kindlm_providers::{ClientOptions, Scripts};
use kindlm_store::{Folder, MAX_FILE_BYTES};
use kindlm_types::Files;
use kindlm_types::script::RunScript;
use serde_json::Map;

use sha2::{Digest as _, Sha256};

use crate::programs::{self, Purpose};
use crate::reports::ReporterSpec;
use crate::scripts::Runner;
use crate::secrets::Secrets;
use crate::{Failure, World};

/// The default name of the config file.
pub const CONFIG: &str = "kindlm.yaml";

/// The usual names of promptfoo configs.
const PROMPTFOO: [&str; 4] =
    ["promptfooconfig.yaml", "promptfooconfig.json", "promptfooconfig.js", "promptfooconfig.ts"];

/// The suite to open, and the permissions of its files and programs.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// The config file, or a folder with a `kindlm.yaml`.
    ///
    /// The path is relative to the working folder.
    pub config: PathBuf,
    /// True if the suite may refer to files outside its folder.
    pub allow_outside: bool,
    /// True if programs that generate prompts, tests and variables may run outside the sandbox and use the network,
    /// even if the suite is only inspected.
    pub allow_programs: bool,
    /// True if a promptfoo config may read tests from the network.
    pub allow_network: bool,
}

impl OpenOptions {
    /// Creates options without additional permissions.
    pub fn new(config: impl Into<PathBuf>) -> Self {
        Self {
            config: config.into(),
            allow_outside: false,
            allow_programs: false,
            allow_network: false,
        }
    }
}

/// The location of a suite.
#[derive(Clone, Debug)]
pub struct SuiteFolder {
    /// The config file.
    pub path: PathBuf,
    /// The config file as the user named it, for error messages.
    pub name: String,
    /// The folder of the config file; paths in the suite are relative to it.
    pub folder: PathBuf,
}

/// An open suite.
pub struct Project {
    /// The location of the suite.
    pub place: SuiteFolder,
    /// The resolved suite.
    pub suite: Suite,
    /// The files that the suite refers to.
    pub files: Folder,
    /// True if the suite may refer to files outside its folder.
    pub allow_outside: bool,
    /// True if the sender of the suite is not trusted; see [`ServerModels`](crate::ServerModels).
    pub is_inline: bool,
}

impl Project {
    /// Opens a suite.
    ///
    /// # Errors
    ///
    /// Fails if the file or its folder cannot be read, or if the suite has errors. The error message has a line for
    /// each error. [`load`] returns errors with their locations instead.
    pub fn open(world: &World, options: &OpenOptions, purpose: Purpose) -> Result<Self, Failure> {
        let opened = load(world, options, purpose)?;
        Self::of_loaded(world, opened, options.allow_outside)
    }

    /// Opens a suite with this text in place of the text of its config file.
    ///
    /// # Errors
    ///
    /// Fails like [`open`](Self::open).
    pub fn of_text(
        world: &World,
        options: &OpenOptions,
        text: &[u8],
        purpose: Purpose,
    ) -> Result<Self, Failure> {
        let place = SuiteFolder::new(world, &options.config);
        let opened = load_text(world, place, text, options, purpose)?;
        Self::of_loaded(world, opened, options.allow_outside)
    }

    fn of_loaded(
        world: &World,
        (place, files, loaded): (SuiteFolder, Folder, Loaded),
        allow_outside: bool,
    ) -> Result<Self, Failure> {
        let Some(suite) = loaded.suite else {
            let render = |it: &Diagnostic| kindlm_config::render(it, false);
            let secrets = Secrets::new(world, &Map::new());
            let mut text = loaded.diagnostics.iter().map(render).collect::<Vec<_>>().join("\n");
            secrets.redact_text(&mut text);
            return Err(Failure::inputs(text.lines().map(str::to_owned)));
        };
        Ok(Self { place, suite, files, allow_outside, is_inline: false })
    }
}

impl SuiteFolder {
    /// Returns the location of a config file, or of a folder with a `kindlm.yaml`. The file may not exist.
    pub fn new(world: &World, config: &Path) -> Self {
        let mut path = world.working_dir.join(config);
        let mut name = config.to_path_buf();
        if path.is_dir() {
            path.push(CONFIG);
            name.push(CONFIG);
        }
        let folder = path.parent().map_or_else(|| world.working_dir.clone(), Path::to_path_buf);
        Self { path, name: name.display().to_string(), folder }
    }

    /// Returns the folder that stores runs, baselines, calibrations and responses.
    pub fn state(&self) -> PathBuf {
        self.folder.join(".kindlm")
    }

    /// Reads the config file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, is not a regular file, or exceeds [`MAX_FILE_BYTES`].
    pub fn read_config(&self) -> Result<Vec<u8>, Failure> {
        let failed = |err: &std::io::Error| {
            Failure::input(format!(
                "cannot read `{}`: {}",
                self.name,
                kindlm_store::describe_io_error(err)
            ))
        };
        let metadata = match fs::metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(err) if err.kind() == ErrorKind::NotFound => return Err(self.missing()),
            Err(err) => return Err(failed(&err)),
        };
        let too_large = || {
            let mib = MAX_FILE_BYTES >> 20;
            Failure::input(format!("`{}` is larger than the {mib} MiB that are allowed", self.name))
        };
        // Refuse a pipe, because reading it may never end.
        if !metadata.is_file() {
            let message = format!("cannot read `{}`: it is not a regular file", self.name);
            return Err(
                Failure::input(message).with_help("save the suite to a file, and name that")
            );
        }
        if metadata.len() > MAX_FILE_BYTES {
            return Err(too_large());
        }
        let file = fs::File::open(&self.path).map_err(|err| failed(&err))?;
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|err| failed(&err))?;
        if bytes.len() as u64 > MAX_FILE_BYTES { Err(too_large()) } else { Ok(bytes) }
    }

    fn missing(&self) -> Failure {
        if self.path.ends_with(CONFIG) && self.folder.ends_with(CONFIG) {
            let folder = self
                .name
                .strip_suffix(CONFIG)
                .map_or(self.name.as_str(), |it| it.trim_end_matches('/'));
            let failure = Failure::input(format!("`{folder}` is a folder, not a file"));
            return failure.with_help("rename it, or name the suite with `-c <file>`");
        }
        let failure = Failure::input(format!("there is no `{}`", self.name));
        match self.beside(&[
            "kindlm.yaml",
            "kindlm.yml",
            "promptfooconfig.yaml",
            "promptfooconfig.json",
            "promptfooconfig.js",
            "promptfooconfig.ts",
        ]) {
            Some(other) => failure.with_help(format!("there is a `{other}`: use `-c {other}`")),
            None => failure.with_help(
                "run `kindlm init` to write a first one, or name yours with `-c <file>`",
            ),
        }
    }

    /// Returns the failure of an import whose config file does not exist.
    fn nothing_to_import(&self) -> Failure {
        let failure = Failure::input(format!("there is no `{}`", self.name));
        match self.beside(&PROMPTFOO) {
            Some(other) => failure
                .with_help(format!("there is a `{other}`: `kindlm import {other}` converts it")),
            None => failure.with_help("name the promptfoo config: `kindlm import <file>`"),
        }
    }

    /// Returns the first of these names that exists in the folder; `None` if no name exists.
    ///
    /// The config file itself is left out.
    fn beside(&self, names: &[&'static str]) -> Option<&'static str> {
        let is_other = |name: &&str| !self.path.ends_with(name) && self.folder.join(name).is_file();
        names.iter().copied().find(is_other)
    }
}

/// Loads a suite, and returns its errors with their locations.
///
/// # Errors
///
/// Fails if the file or its folder cannot be read.
pub fn load(
    world: &World,
    args: &OpenOptions,
    purpose: Purpose,
) -> Result<(SuiteFolder, Folder, Loaded), Failure> {
    let place = SuiteFolder::new(world, &args.config);
    let bytes = place.read_config()?;
    load_text(world, place, &bytes, args, purpose)
}

/// Loads a suite from the text of its config file.
fn load_text(
    world: &World,
    place: SuiteFolder,
    text: &[u8],
    args: &OpenOptions,
    purpose: Purpose,
) -> Result<(SuiteFolder, Folder, Loaded), Failure> {
    let files = Folder::open(&place.folder)
        .map_err(|err| Failure::input(err.to_string()))?
        .allow_outside(args.allow_outside);
    let env = |name: &str| (world.env)(name);
    let mut sources = sources(world, &files, &env, purpose)?;
    sources.network = network(world, &files, args)?;
    let mut loaded = kindlm_config::load_with(&place.name, text, &sources);
    if let Some(suite) = &mut loaded.suite {
        suite.info.config_sha256 = Some(HEXLOWER.encode(&Sha256::digest(text)));
        Secrets::new(world, &suite.providers).redact_names(suite);
    }
    Ok((place, files, loaded))
}

/// Reads and translates a promptfoo config.
///
/// # Errors
///
/// Fails if the file does not exist, or if the file or its folder cannot be read.
pub fn import(world: &World, args: &OpenOptions) -> Result<(SuiteFolder, Imported), Failure> {
    let place = SuiteFolder::new(world, &args.config);
    if !place.path.exists() {
        return Err(place.nothing_to_import());
    }
    let bytes = place.read_config()?;
    let files = Folder::open(&place.folder)
        .map_err(|err| Failure::input(err.to_string()))?
        .allow_outside(args.allow_outside);
    let env = |name: &str| (world.env)(name);
    let mut sources = sources(world, &files, &env, Purpose::look(args.allow_programs))?;
    sources.network = network(world, &files, args)?;
    let imported = kindlm_config::import_with(&place.name, &bytes, &sources);
    Ok((place, imported))
}

/// Returns the runner of scripts that read tests from the network; `None` if the user has not allowed network access.
fn network(
    world: &World,
    files: &Folder,
    args: &OpenOptions,
) -> Result<Option<Arc<RunScript>>, Failure> {
    if !args.allow_network {
        return Ok(None);
    }
    Ok(Some(programs::runner(world, files.root(), Purpose::Run)?.0))
}

/// Returns the files, environment and registries for reading a config.
fn sources<'a>(
    world: &World,
    files: &'a Folder,
    env: &'a dyn Fn(&str) -> Option<String>,
    purpose: Purpose,
) -> Result<Sources<'a>, Failure> {
    let (scripts, compile_script) = programs::runner(world, files.root(), purpose)?;
    Ok(Sources {
        scripts,
        compile_script: Some(compile_script),
        reporters: world.registries.reporters.ids().collect(),
        assertions: Arc::clone(&world.registries.assertions),
        gates: world.registries.gates.clone(),
        providers: world.registries.providers.clone(),
        only_models: purpose == Purpose::Models,
        ..Sources::new(files, env)
    })
}

/// Returns the reporters and files that the suite's `reports` block requests.
///
/// # Errors
///
/// Fails if a reporter is unknown, or a file is outside the suite's folder and `allow_outside` is false.
pub fn reports(
    world: &World,
    place: &SuiteFolder,
    suite: &Suite,
    allow_outside: bool,
) -> Result<Vec<ReporterSpec>, Failure> {
    let spec = |(id, path): &(String, String)| {
        let reporter = world
            .registries
            .reporters
            .find(id)
            .ok_or_else(|| Failure::input(format!("`reports`: there is no reporter `{id}`")))?;
        let written = Path::new(path);
        if !allow_outside && !is_inside(written) {
            return Err(Failure::input(format!(
                "`reports.{id}` is `{path}`, outside the folder of the config file"
            ))
            .with_help("choose a file inside it, or give `--allow-outside`"));
        }
        let path = written.strip_prefix(".").unwrap_or(written);
        let named = Path::new(&place.name).parent().unwrap_or(Path::new(""));
        Ok(ReporterSpec { reporter, path: Some(named.join(path)) })
    };
    suite.reports.iter().map(spec).collect()
}

/// Returns true if a relative path stays inside its folder.
pub(crate) fn is_inside(path: &Path) -> bool {
    let mut depth = 0_i32;
    path.components().all(|part| {
        match part {
            Component::CurDir => {}
            Component::Normal(_) => depth += 1,
            Component::ParentDir => depth -= 1,
            Component::RootDir | Component::Prefix(_) => depth = -1,
        }
        depth >= 0
    })
}

/// Returns the runner of `script` providers, with the settings of the suite.
pub(crate) fn scripts(settings: &ScriptSettings, runner: &Arc<Runner>) -> Scripts {
    let permissions = Arc::clone(&settings.permissions);
    Scripts::new(Arc::<Runner>::clone(runner), settings.runtime, permissions)
}

/// Returns the setup for checks outside a suite.
///
/// The checks read files from `files`. If `models` are given, checks may name no other models.
///
/// The settings of scripts, judges and named checks come from `suite`.
pub(crate) fn setup<'a>(
    world: &World,
    files: &'a dyn Files,
    models: Option<&'a [String]>,
    suite: Option<&Suite>,
) -> Setup<'a> {
    let mut setup = Setup::new(files, models)
        .with_registry(Arc::clone(&world.registries.assertions))
        .with_yaml(kindlm_config::yaml)
        .with_advice();
    if let Some(suite) = suite {
        setup.scripts = suite.scripts.clone();
        setup.judging = suite.judging.clone();
        setup.assertion_templates.clone_from(&suite.assertion_templates);
        let permitted = suite.scripts.permissions.env.iter();
        setup.env = permitted.map(|it| (it.clone(), (world.env)(it).into())).collect();
    }
    setup
}

/// Adds the rate limits of a suite's models.
pub(crate) fn with_limits(options: ClientOptions, suite: &Suite) -> ClientOptions {
    let limits =
        |options: ClientOptions, it: &Model| options.with_limits(&it.provider, &it.name, it.limits);
    suite.models.iter().fold(options, limits)
}
