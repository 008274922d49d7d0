//! Finds a suite, reads it, and shows what is wrong with it.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, LazyLock};

use data_encoding::HEXLOWER;
use kindlm_assertions::{ScriptSettings, Setup};
use kindlm_config::{Diagnostic, Imported, Loaded, Sources};
use kindlm_engine::{Model, Suite};
use kindlm_providers::{ClientOptions, Scripts};
use kindlm_store::{Folder, MAX_FILE_BYTES};
use kindlm_types::{ExitStatus, Files};
use serde_json::Map;

use sha2::{Digest as _, Sha256};

use crate::args::ConfigArgs;
use crate::programs::{self, Purpose};
use crate::scripts::Runner;
use crate::secrets::Secrets;
use crate::values::ReporterSpec;
use crate::{Failure, Io};

/// The name of the file that is looked for when none is named.
pub(crate) const CONFIG: &str = "kindlm.yaml";

/// Where a suite is.
#[derive(Debug)]
pub(crate) struct Place {
    /// The config file.
    pub(crate) path: PathBuf,
    /// The config file, as the user named it.
    pub(crate) name: String,
    /// The folder that it is in: what its paths are relative to.
    pub(crate) folder: PathBuf,
}

/// A suite that can be run.
pub(crate) struct Project {
    /// Where it is.
    pub(crate) place: Place,
    /// What it says.
    pub(crate) suite: Suite,
    /// The files that it refers to.
    pub(crate) files: Folder,
}

impl Place {
    /// Where the suite is that the user named, whether it exists or not.
    pub(crate) fn new(io: &Io, config: &Path) -> Self {
        let mut path = io.working_dir.join(config);
        let mut name = config.to_path_buf();
        if path.is_dir() {
            path.push(CONFIG);
            name.push(CONFIG);
        }
        let folder = path.parent().map_or_else(|| io.working_dir.clone(), Path::to_path_buf);
        Self { path, name: name.display().to_string(), folder }
    }

    /// The folder in which runs and baselines are kept.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.join(".kindlm")
    }

    pub(crate) fn read(&self) -> Result<Vec<u8>, Failure> {
        let failed = |err: &std::io::Error| {
            Failure::input(format!("cannot read `{}`: {}", self.name, kindlm_store::words(err)))
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
        // To read a pipe may take for ever.
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
        ]) {
            Some(other) => failure.with_help(format!("there is a `{other}`: use `-c {other}`")),
            None => failure.with_help(
                "run `kindlm init` to write a first one, or name yours with `-c <file>`",
            ),
        }
    }

    /// The failure of an import whose config does not exist.
    fn nothing_to_import(&self) -> Failure {
        let failure = Failure::input(format!("there is no `{}`", self.name));
        match self.beside(&["promptfooconfig.yaml", "promptfooconfig.json"]) {
            Some(other) => failure
                .with_help(format!("there is a `{other}`: `kindlm import {other}` converts it")),
            None => failure.with_help("name the promptfoo config: `kindlm import <file>`"),
        }
    }

    /// The first of these names that another file in the folder has.
    fn beside(&self, names: &[&'static str]) -> Option<&'static str> {
        let is_other = |name: &&str| !self.path.ends_with(name) && self.folder.join(name).is_file();
        names.iter().copied().find(is_other)
    }
}

/// Reads a suite, and whatever is wrong with it.
pub(crate) fn load(
    io: &Io,
    args: &ConfigArgs,
    purpose: Purpose,
) -> Result<(Place, Folder, Loaded), Failure> {
    let place = Place::new(io, &args.config);
    let bytes = place.read()?;
    let files = Folder::open(&place.folder)
        .map_err(|err| Failure::input(err.to_string()))?
        .allow_outside(args.allow_outside);
    let env = |name: &str| (io.env)(name);
    let sources = sources(io, &files, &env, purpose)?;
    let mut loaded = kindlm_config::load_with(&place.name, &bytes, &sources);
    if let Some(suite) = &mut loaded.suite {
        suite.info.config_sha256 = Some(HEXLOWER.encode(&Sha256::digest(&bytes)));
        Secrets::of(io, &suite.providers).redact_names(suite);
    }
    Ok((place, files, loaded))
}

/// Reads another tool's config, and translates it.
pub(crate) fn import(io: &Io, args: &ConfigArgs) -> Result<(Place, Imported), Failure> {
    let place = Place::new(io, &args.config);
    if !place.path.exists() {
        return Err(place.nothing_to_import());
    }
    let bytes = place.read()?;
    let files = Folder::open(&place.folder)
        .map_err(|err| Failure::input(err.to_string()))?
        .allow_outside(args.allow_outside);
    let env = |name: &str| (io.env)(name);
    let sources = sources(io, &files, &env, Purpose::look(args.allow_programs))?;
    let imported = kindlm_config::import_with(&place.name, &bytes, &sources);
    Ok((place, imported))
}

/// What a config is read with.
fn sources<'a>(
    io: &Io,
    files: &'a Folder,
    env: &'a dyn Fn(&str) -> Option<String>,
    purpose: Purpose,
) -> Result<Sources<'a>, Failure> {
    let (scripts, compile_script) = programs::runner(io, files.root(), purpose)?;
    Ok(Sources {
        scripts,
        compile_script: Some(compile_script),
        reporters: &REPORTERS,
        only_models: purpose == Purpose::Models,
        ..Sources::new(files, env)
    })
}

/// The ids of all reporters.
static REPORTERS: LazyLock<Vec<&str>> =
    LazyLock::new(|| kindlm_reporters::REGISTRY.iter().map(|it| it.meta.id).collect());

/// The reports that the suite asks for, in files below its folder.
pub(crate) fn reports(
    place: &Place,
    suite: &Suite,
    allow_outside: bool,
) -> Result<Vec<ReporterSpec>, Failure> {
    let spec = |(id, path): &(String, String)| {
        let reporter = kindlm_reporters::find(id)
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

/// Whether a path stays inside the folder that it is relative to.
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

/// Who runs the programs that are providers, with what the suite permits.
pub(crate) fn scripts(settings: &ScriptSettings, runner: &Arc<Runner>) -> Scripts {
    Scripts {
        runner: Arc::<Runner>::clone(runner),
        runtime: settings.runtime,
        permissions: Arc::clone(&settings.permissions),
    }
}

/// What checks are compiled with that are not in a suite: they read `files`, and may name these models, if it is known which
/// there are. Of a suite they take over what it says of scripts, judges and the checks that may be referred to.
pub(crate) fn setup<'a>(
    io: &Io,
    files: &'a dyn Files,
    models: Option<&'a [String]>,
    suite: Option<&Suite>,
) -> Setup<'a> {
    let mut setup = Setup::new(files, models).with_yaml(kindlm_config::yaml).telling_missing();
    if let Some(suite) = suite {
        setup.scripts = suite.scripts.clone();
        setup.judging = suite.judging.clone();
        setup.assertion_templates.clone_from(&suite.assertion_templates);
        let permitted = suite.scripts.permissions.env.iter();
        setup.env = permitted.map(|it| (it.clone(), (io.env)(it).into())).collect();
    }
    setup
}

/// Reads a suite that is to be used. Errors are shown on stderr, and end the command.
pub(crate) fn open(io: &mut Io, args: &ConfigArgs, purpose: Purpose) -> Result<Project, Failure> {
    let read = load(io, args, purpose)?;
    usable(io, read)
}

/// The same of one that was read.
pub(crate) fn usable(
    io: &mut Io,
    (place, files, loaded): (Place, Folder, Loaded),
) -> Result<Project, Failure> {
    if let Some(suite) = loaded.suite {
        // Warnings are in the suite, and so in the report.
        return Ok(Project { place, suite, files });
    }
    show(io, &loaded);
    io.tell("nothing was sent");
    Err(Failure::said(ExitStatus::InvalidInput))
}

/// How the models of a suite may be asked.
pub(crate) fn with_limits(options: ClientOptions, suite: &Suite) -> ClientOptions {
    let limits =
        |options: ClientOptions, it: &Model| options.with_limits(&it.provider, &it.name, it.limits);
    suite.models.iter().fold(options, limits)
}

/// Shows problems on stderr, each with its place, and how many there are.
pub(crate) fn show(io: &mut Io, loaded: &Loaded) {
    show_all(io, &loaded.diagnostics, &loaded.warnings);
}

/// Shows errors and warnings on stderr, and how many errors there are in which file.
pub(crate) fn show_all(io: &mut Io, errors: &[Diagnostic], warnings: &[Diagnostic]) {
    let color = io.color_stderr();
    let secrets = Secrets::of(io, &Map::new());
    for diagnostic in errors.iter().chain(warnings) {
        let mut text = kindlm_config::render(diagnostic, color);
        secrets.redact_text(&mut text);
        io.show(text.trim_end());
        io.tell("");
    }
    // The config file first, as its problems come first; then datasets by name.
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for diagnostic in errors {
        let file = diagnostic.file();
        match counts.iter_mut().find(|(name, _)| *name == file) {
            Some((_, count)) => *count += 1,
            None => counts.push((file, 1)),
        }
    }
    let counts = counts.into_iter().enumerate().map(|(index, (file, count))| {
        let problems = match (index, count) {
            (0, 1) => " problem",
            (0, _) => " problems",
            _ => "",
        };
        format!("{count}{problems} in `{file}`")
    });
    let counts: Vec<String> = counts.collect();
    if !counts.is_empty() {
        io.tell(&counts.join(", "));
    }
}
