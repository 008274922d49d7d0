//! The search in the changes between two versions of a suite.

use std::collections::BTreeSet;

use kindlm_store::Digest;
use kindlm_wire::bisect::{Answer, Candidate};
use serde_json::Value;

use super::Found;
use super::repository::Repository;
use super::search::{SmallestBad, Verdict, smallest_bad};
use super::trial::{Target, Trials, digest_of};
use super::units::Changes;
use crate::{Failure, OpenOptions, Project, Purpose, SuiteFolder, World};

/// The changes from an older version of a suite to the present version. Other files are read in their present version.
pub(super) struct SuiteChanges {
    options: OpenOptions,
    changes: Changes,
    /// The changes that may affect the case. All other changes are applied in each try.
    open: Vec<usize>,
}

impl SuiteChanges {
    /// Finds the changes, and opens the present suite.
    pub(super) fn open(
        world: &World,
        options: &OpenOptions,
        from: &str,
    ) -> Result<(Self, Project), Failure> {
        let place = SuiteFolder::new(world, &options.config);
        let new = parse(&place.read_config()?, &place.name)?;
        let old = parse(&older(world, &place, from)?, from)?;
        let changes = Changes::between(&old, &new);
        if changes.units.is_empty() {
            let message = format!("`{}` is the same as in `{from}`", place.name);
            return Err(Failure::input(message).with_help(
                "if another file changed, search in the commits with `--good` and `--bad`",
            ));
        }
        let open = (0..changes.units.len()).collect();
        let changes = Self { options: options.clone(), changes, open };
        let all = changes.open.iter().copied().collect();
        let project = changes.project(world, &all, Purpose::look(options.allow_programs))?;
        Ok((changes, project))
    }

    /// Leaves out the changes that do not affect the case. With and without such a change, the digest of the case is
    /// the same.
    ///
    /// Leaves out no change if a digest cannot be computed. Fails if no change affects the case.
    pub(super) fn relevant(self, world: &World, target: &Target) -> Result<Self, Failure> {
        let purpose = Purpose::look(self.options.allow_programs);
        let digest = |chosen: &BTreeSet<usize>| -> Option<Digest> {
            digest_of(self.project(world, chosen, purpose), target)
        };
        let all: BTreeSet<usize> = self.open.iter().copied().collect();
        let none = BTreeSet::new();
        let (Some(old), Some(new)) = (digest(&none), digest(&all)) else { return Ok(self) };
        let has_no_effect = |it: &usize| {
            let alone = BTreeSet::from([*it]);
            digest(&alone) == Some(old) && digest(&(&all - &alone)) == Some(new)
        };
        let idle: BTreeSet<usize> = all.iter().copied().filter(has_no_effect).collect();
        // Changes that have no effect alone may have an effect together. In that case, keep all changes.
        if digest(&idle) != Some(old) {
            return Ok(self);
        }
        let open: Vec<usize> = all.difference(&idle).copied().collect();
        if open.is_empty() {
            let message = match all.len() {
                1 => format!("the only change does not affect `{}`", target.case),
                count => format!("none of the {count} changes affects `{}`", target.case),
            };
            return Err(Failure::input(message).with_help(
                "if another file changed, search in the commits with `--good` and `--bad`",
            ));
        }
        Ok(Self { open, ..self })
    }

    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let units = self.open.iter().filter_map(|it| self.changes.units.get(*it));
        let candidate = |it: &super::units::Unit| Candidate {
            id: it.place.clone(),
            subject: None,
            removed: it.removed.clone(),
            added: it.added.clone(),
        };
        units.map(candidate).collect()
    }

    /// Opens the old suite with the chosen changes.
    fn project(
        &self,
        world: &World,
        chosen: &BTreeSet<usize>,
        purpose: Purpose,
    ) -> Result<Project, Failure> {
        let suite = self.changes.apply(chosen);
        // JSON is valid YAML.
        let text = serde_json::to_vec(&suite).map_err(|err| Failure::internal(err.to_string()))?;
        Project::of_text(world, &self.options, &text, purpose)
    }

    fn attempt(
        &self,
        world: &World,
        trials: &mut Trials<'_>,
        chosen: &BTreeSet<usize>,
    ) -> Result<Verdict, Failure> {
        let is_open = |it: &usize| self.open.contains(it);
        let idle = (0..self.changes.units.len()).filter(|it| !is_open(it));
        let chosen_units = chosen.iter().filter_map(|it| self.open.get(*it).copied());
        let project = self.project(world, &idle.chain(chosen_units).collect(), Purpose::Run);
        trials.attempt(self.named(chosen), project, true)
    }

    /// Names a set of changes by their numbers, from 1.
    fn named(&self, chosen: &BTreeSet<usize>) -> String {
        let numbers: Vec<String> = chosen.iter().map(|it| (it + 1).to_string()).collect();
        match &*numbers {
            [] => "without the changes".to_owned(),
            all if all.len() == self.open.len() => "all changes".to_owned(),
            [one] => format!("change {one}"),
            several => format!("changes {}", several.join(", ")),
        }
    }

    /// Tries all changes and no changes, and then searches for a minimal set of changes with which the case fails.
    pub(super) fn search(&self, world: &World, trials: &mut Trials<'_>) -> Result<Found, Failure> {
        let all: BTreeSet<usize> = (0..self.open.len()).collect();
        let verdict = self.attempt(world, trials, &all)?;
        if let Some(found) = super::end(trials, verdict, Verdict::Bad) {
            return Ok(found);
        }
        let verdict = self.attempt(world, trials, &BTreeSet::new())?;
        if let Some(found) = super::end(trials, verdict, Verdict::Good) {
            return Ok(found);
        }
        let mut attempt = |chosen: &BTreeSet<usize>| self.attempt(world, trials, chosen);
        let SmallestBad { changes, has_skipped, is_stopped } =
            smallest_bad(self.open.len(), &mut attempt)?;
        let candidates: Vec<usize> = changes.into_iter().collect();
        let answer = match (is_stopped, has_skipped && candidates.len() > 1) {
            (false, false) => Answer::Found { candidates },
            (true, _) => Answer::Among { candidates, reason: super::stop_reason(trials) },
            (false, true) => {
                let reason = "smaller sets of changes were skipped".to_owned();
                Answer::Among { candidates, reason }
            }
        };
        Ok(Found { answer, is_stopped })
    }
}

/// Returns the text of the older version: a file, or the suite's file in a commit.
///
/// Fails if `from` is neither a file nor a commit with that file, or if the file cannot be read.
fn older(world: &World, place: &SuiteFolder, from: &str) -> Result<Vec<u8>, Failure> {
    let path = world.working_dir.join(from);
    if path.is_file() {
        return SuiteFolder { path, name: from.to_owned(), folder: place.folder.clone() }
            .read_config();
    }
    let neither = |_| {
        Failure::input(format!("`{from}` is neither a file nor a commit"))
            .with_help("name an older version of the suite: `--from OLD.yaml` or `--from HEAD~3`")
    };
    let repository = Repository::around(&place.folder).map_err(neither)?;
    let commit = repository.commit(from).map_err(neither)?;
    let file = place.path.file_name().map(|it| it.to_string_lossy().into_owned());
    repository.text(&commit, &file.unwrap_or_default())
}

fn parse(bytes: &[u8], name: &str) -> Result<Value, Failure> {
    let text = str::from_utf8(bytes)
        .map_err(|_| Failure::input(format!("`{name}` is not text in UTF-8")))?;
    kindlm_config::yaml(text).map_err(|err| Failure::input(format!("`{name}`: {err}")))
}
