//! The search in the commits of a repository.

use kindlm_wire::bisect::{Answer, Candidate, StepVerdict};

use super::Found;
use super::repository::{Commit, Repository, short};
use super::search::{FirstBad, Verdict, first_bad};
use super::trial::Trials;
use crate::{Failure, OpenOptions, Project, Purpose, SuiteFolder, World};

/// The commits from a good commit to a bad commit.
pub(super) struct Commits {
    repository: Repository,
    good: Commit,
    /// The commits after the good commit, oldest first. The last commit is bad.
    after: Vec<Commit>,
    /// The name of the suite's file.
    file: String,
    options: OpenOptions,
}

impl Commits {
    /// Finds the commits, and opens the suite of the bad commit.
    pub(super) fn open(
        world: &World,
        options: &OpenOptions,
        good: &str,
        bad: &str,
    ) -> Result<(Self, Project), Failure> {
        let place = SuiteFolder::new(world, &options.config);
        let repository = Repository::around(&place.folder)?;
        let (good, bad) = (repository.commit(good)?, repository.commit(bad)?);
        let after = repository.between(&good, &bad)?;
        let file = place.path.file_name().map(|it| it.to_string_lossy().into_owned());
        let file = file.unwrap_or_default();
        let commits = Self { repository, good, after, file, options: options.clone() };
        let purpose = Purpose::look(options.allow_programs);
        let (project, _checkout) = commits.project(world, &bad, purpose)?;
        Ok((commits, project?))
    }

    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let candidate = |it: &Commit| Candidate {
            id: it.id.clone(),
            subject: Some(it.subject.clone()),
            ..Candidate::default()
        };
        self.after.iter().map(candidate).collect()
    }

    /// Opens the suite of a commit in a temporary folder. The folder exists as long as the second value.
    ///
    /// Fails if the files cannot be written. The inner result fails if the suite cannot be loaded.
    fn project(
        &self,
        world: &World,
        commit: &Commit,
        purpose: Purpose,
    ) -> Result<(Result<Project, Failure>, super::repository::Checkout), Failure> {
        let checkout = self.repository.check_out(commit)?;
        let config = self.repository.path(&checkout, &self.file);
        let options = OpenOptions { config, ..self.options.clone() };
        let project = Project::open(world, &options, purpose).map_err(|failure| {
            let message = failure.message.as_deref().map(|it| checkout.without_path(it));
            let id = short(&commit.id);
            Failure {
                message: message.map(|it| format!("the suite of {id} cannot be loaded: {it}")),
                ..failure
            }
        });
        Ok((project, checkout))
    }

    fn attempt(
        &self,
        world: &World,
        trials: &mut Trials<'_>,
        commit: &Commit,
    ) -> Result<Verdict, Failure> {
        let (project, _checkout) = self.project(world, commit, Purpose::Run)?;
        let tried = format!("{} {}", short(&commit.id), commit.subject);
        trials.attempt(tried, project, false)
    }

    /// Tries the bad and the good commit, and then searches for the first bad commit between them.
    pub(super) fn search(&self, world: &World, trials: &mut Trials<'_>) -> Result<Found, Failure> {
        if let Some(bad) = self.after.last() {
            let verdict = self.attempt(world, trials, bad)?;
            if let Some(found) = super::end(trials, verdict, Verdict::Bad) {
                return Ok(found);
            }
        }
        let verdict = self.attempt(world, trials, &self.good)?;
        if let Some(found) = super::end(trials, verdict, Verdict::Good) {
            return Ok(found);
        }
        let mut attempt = |at: usize| match self.after.get(at) {
            Some(commit) => self.attempt(world, trials, commit),
            None => Ok(Verdict::Skip),
        };
        let FirstBad { suspects, is_stopped } = first_bad(self.after.len(), &mut attempt)?;
        let answer = match (&*suspects, is_stopped) {
            ([_], _) => Answer::Found { candidates: suspects },
            (_, true) => Answer::Among { candidates: suspects, reason: super::stop_reason(trials) },
            (_, false) => {
                let skipped =
                    trials.steps.iter().filter(|it| it.verdict == StepVerdict::Skipped).count();
                let reason = match skipped {
                    1 => "1 commit was skipped".to_owned(),
                    count => format!("{count} commits were skipped"),
                };
                Answer::Among { candidates: suspects, reason }
            }
        };
        Ok(Found { answer, is_stopped })
    }
}
