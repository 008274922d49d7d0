//! Distinguishes the runs of suites that share a folder.

use std::path::{Path, PathBuf};

use kindlm_config::SuiteNames;
use kindlm_store::journal::Journal;
use kindlm_store::{Baseline, Digest};
use kindlm_types::{Report, SuiteInfo};
use kindlm_wire::v1::RunHead;

use crate::project::{self, SuiteFolder};
use crate::{Failure, World};

/// The key of the project's digest in a journal's settings.
pub(crate) const PROJECT: &str = "project";

/// The identity of a suite, for finding the runs of the suite.
///
/// A suite is identified by its project and its name. Two config files in a folder may have the same project and name,
/// like all promptfoo configs without a description. Then a run belongs to the config file that started the run, as
/// long as this file exists.
#[derive(Clone, Debug)]
pub struct SuiteKey {
    project: String,
    name: String,
    /// The config file, as the user named it.
    named: String,
    /// The file name of the config file, without the folder; `None` if it is unknown.
    config: Option<String>,
    folder: PathBuf,
}

impl SuiteKey {
    /// Creates the key of the suite at this location.
    pub fn new(place: &SuiteFolder, info: &SuiteInfo) -> Self {
        Self {
            project: info.project.clone(),
            name: info.name.clone(),
            named: place.name.clone(),
            config: config_name(info),
            folder: place.folder.clone(),
        }
    }

    /// Returns the key of the suite in `config`; `None` without `config`.
    ///
    /// Only the names are read, so the file may have other errors.
    ///
    /// # Errors
    ///
    /// Fails if the file or its names cannot be read.
    pub fn named(world: &World, config: Option<&Path>) -> Result<Option<Self>, Failure> {
        let Some(config) = config else { return Ok(None) };
        let place = SuiteFolder::new(world, config);
        let Some(names) = kindlm_config::suite_names(&place.read_config()?) else {
            return Err(Failure::input(format!(
                "cannot identify the suite of `{}`: `project` or `suite.name` cannot be read",
                place.name
            ))
            .with_help(format!("see what is wrong with `kindlm validate -c {}`", place.name)));
        };
        let SuiteNames { project, suite: name, .. } = names;
        let info = SuiteInfo {
            project,
            name,
            config_path: Some(place.name.clone()),
            ..SuiteInfo::default()
        };
        Ok(Some(Self::new(&place, &info)))
    }

    /// Returns the suite's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the command that runs the suite.
    pub(crate) fn test_command(&self) -> String {
        match self.named.as_str() {
            project::CONFIG => "`kindlm test`".to_owned(),
            named => format!("`kindlm test -c {named}`"),
        }
    }

    /// Returns true if the journal belongs to this suite and this config file.
    pub(crate) fn has_journal(&self, journal: &Journal) -> bool {
        let header = journal.header();
        self.is_same(journal) && self.is_own(header.config.as_deref())
    }

    /// Returns true if the journal belongs to this suite, from any config file.
    ///
    /// The config file may have been renamed after the run.
    pub(crate) fn is_same(&self, journal: &Journal) -> bool {
        let header = journal.header();
        let project = header.settings.get(PROJECT);
        header.suite == self.name
            && project.is_none_or(|it| *it == Digest::from_content(&self.project))
    }

    /// Returns true if the report belongs to a run of this suite and this config file.
    pub(crate) fn has_report<Cases>(&self, report: &Report<Cases>) -> bool {
        self.is_named(&report.suite) && self.is_own(config_name(&report.suite).as_deref())
    }

    /// Returns true if these totals belong to a run of this suite and this config file.
    pub(crate) fn has_head(&self, head: &RunHead) -> bool {
        let config = head.config_path.as_deref().and_then(file_name);
        head.suite == self.name && head.project == self.project && self.is_own(config.as_deref())
    }

    /// Returns true if the baseline belongs to this suite.
    pub fn has_baseline(&self, baseline: &Baseline) -> bool {
        baseline.is_of(&self.project, &self.name)
    }

    /// Returns true if this suite has the same project and the same name.
    pub(crate) fn is_named(&self, suite: &SuiteInfo) -> bool {
        suite.name == self.name && suite.project == self.project
    }

    /// Refuses a report of another suite. `name` is the name of the report in the error message.
    ///
    /// # Errors
    ///
    /// Fails if the report belongs to another suite.
    pub fn check<Cases>(&self, name: &str, report: &Report<Cases>) -> Result<(), Failure> {
        if self.is_named(&report.suite) {
            return Ok(());
        }
        let SuiteInfo { project, name: suite, .. } = &report.suite;
        Err(Failure::input(format!(
            "{name} is of the suite `{suite}` of the project `{project}`, and `{}` is `{}` of `{}`",
            self.named, self.name, self.project
        ))
        .with_help("name a run of that suite, or leave out `-c`"))
    }

    /// Returns true unless another config file started the run.
    ///
    /// A config file that no longer exists in the folder does not count.
    fn is_own(&self, config: Option<&str>) -> bool {
        let (Some(config), Some(own)) = (config, &self.config) else { return true };
        config == own || !self.folder.join(config).is_file()
    }
}

/// Returns the file name of a suite's config file, without the folder.
///
/// Returns `None` if the file is unknown.
pub(crate) fn config_name(info: &SuiteInfo) -> Option<String> {
    file_name(info.config_path.as_deref()?)
}

pub(crate) fn file_name(path: &str) -> Option<String> {
    Some(Path::new(path).file_name()?.to_string_lossy().into_owned())
}
