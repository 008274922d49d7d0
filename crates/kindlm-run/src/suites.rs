//! Distinguishes the runs of suites that share a folder.

use std::path::{Path, PathBuf};

use kindlm_config::SuiteNames;
use kindlm_store::Digest;
use kindlm_store::journal::Journal;
use kindlm_types::{Report, SuiteInfo};

use crate::project::{self, Place};
use crate::{Failure, World};

/// The name in a journal's settings of the digest of the project.
pub(crate) const PROJECT: &str = "project";

/// The suite that a run must be of.
///
/// A suite is identified by its project and its name. Two config files in one folder may have the same, as all promptfoo
/// configs without a description do; a run then belongs to the file that it was begun with, as long as that is there.
#[derive(Clone, Debug)]
pub struct SuiteKey {
    project: String,
    name: String,
    /// The config file, as the user named it.
    named: String,
    /// Its name without the folder.
    config: Option<String>,
    folder: PathBuf,
}

impl SuiteKey {
    /// The key of the suite at this place.
    pub fn new(place: &Place, info: &SuiteInfo) -> Self {
        Self {
            project: info.project.clone(),
            name: info.name.clone(),
            named: place.name.clone(),
            config: config_name(info),
            folder: place.folder.clone(),
        }
    }

    /// The key of the suite in `config`; `None` without `config`. Only its names are read, so the file may have other
    /// problems.
    ///
    /// # Errors
    ///
    /// If the file or its names cannot be read.
    pub fn named(world: &World, config: Option<&Path>) -> Result<Option<Self>, Failure> {
        let Some(config) = config else { return Ok(None) };
        let place = Place::new(world, config);
        let Some(names) = kindlm_config::suite_names(&place.read()?) else {
            return Err(Failure::input(format!(
                "`{}` does not say which suite it is: `project` or `suite.name` cannot be read",
                place.name
            ))
            .with_help(format!("see what is wrong with `kindlm validate -c {}`", place.name)));
        };
        let SuiteNames { project, suite: name } = names;
        let info = SuiteInfo {
            project,
            name,
            config_path: Some(place.name.clone()),
            ..SuiteInfo::default()
        };
        Ok(Some(Self::new(&place, &info)))
    }

    /// The suite's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The command that runs the suite.
    pub(crate) fn test_command(&self) -> String {
        match self.named.as_str() {
            project::CONFIG => "`kindlm test`".to_owned(),
            named => format!("`kindlm test -c {named}`"),
        }
    }

    /// True if a run with this journal is one of its runs.
    pub(crate) fn has_journal(&self, journal: &Journal) -> bool {
        let header = journal.header();
        self.is_same(journal) && self.is_own(header.config.as_deref())
    }

    /// The same for a journal that the user named: its config file may have another name by now.
    pub(crate) fn is_same(&self, journal: &Journal) -> bool {
        let header = journal.header();
        let project = header.settings.get(PROJECT);
        header.suite == self.name && project.is_none_or(|it| *it == Digest::of(&self.project))
    }

    /// True if a run with this report is one of its runs.
    pub(crate) fn has_report<Cases>(&self, report: &Report<Cases>) -> bool {
        self.is_named(&report.suite) && self.is_own(config_name(&report.suite).as_deref())
    }

    /// The same for a report that the user named.
    pub(crate) fn is_named(&self, suite: &SuiteInfo) -> bool {
        suite.name == self.name && suite.project == self.project
    }

    /// Refuses a report of another suite; `name` is its name in the message.
    ///
    /// # Errors
    ///
    /// If it is of another suite.
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

    /// True if a run that was begun with this config file is not one of another file in the folder.
    fn is_own(&self, config: Option<&str>) -> bool {
        let (Some(config), Some(own)) = (config, &self.config) else { return true };
        config == own || !self.folder.join(config).is_file()
    }
}

/// The name of a suite's config file, without the folder.
pub(crate) fn config_name(info: &SuiteInfo) -> Option<String> {
    let path = Path::new(info.config_path.as_deref()?);
    Some(path.file_name()?.to_string_lossy().into_owned())
}
