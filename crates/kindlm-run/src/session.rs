//! An open suite with its client, stores and secrets.

use std::path::Path;
use std::sync::Arc;

use kindlm_assertions::ScriptSettings;
use kindlm_engine::{Plan, RunOptions, Suite};
use kindlm_providers::transport::Waits;
use kindlm_providers::{Client, ClientOptions};
use kindlm_store::Folder;
use kindlm_store::responses::{Recorded, Responses};
use kindlm_types::{Files, NoFiles, Ports};
use serde_json::{Map, Value};

use crate::judge_setup::NamedJudge;
use crate::project::CONFIG;
use crate::responses::ResponseSource;
use crate::scripts::Runner;
use crate::secrets::Secrets;
use crate::{Failure, SuiteFolder, World, budget, keys, project, trust};

/// The client, stores and secrets of a suite, or of a judge given by name.
pub struct Session {
    /// The client that sends requests to providers.
    pub(crate) client: Client,
    /// The runner of check scripts.
    pub(crate) runner: Arc<Runner>,
    /// The response store.
    pub(crate) responses: Responses,
    /// The secrets that are masked in everything written.
    pub(crate) secrets: Secrets,
    /// The waits before requests; an interrupt ends these waits.
    pub(crate) waits: Waits,
}

/// Returns the ports of a run.
///
/// Models use the response store. In a replay, agents cannot run. Scripts run in worker processes. With a sandboxed
/// runner, there are only the models and the scripts: no command and no agent can run.
pub(crate) fn ports<'a>(
    client: &'a Client,
    recorded: &'a Recorded<&'a Client>,
    runner: &'a Runner,
) -> Ports<'a> {
    if runner.only_computes() {
        return Ports { scripts: runner, ..Ports::new(recorded) };
    }
    Ports { models: recorded, commands: client, agents: recorded.agents(client), scripts: runner }
}

impl Session {
    /// Opens the providers of a suite and its response store. No request is sent.
    ///
    /// At most `concurrency` requests run at once.
    ///
    /// # Errors
    ///
    /// Fails if a provider's configuration is invalid, or the response store cannot be used.
    pub fn new(
        world: &World,
        place: &SuiteFolder,
        (suite, files): (&Suite, &Folder),
        concurrency: usize,
        responses: &ResponseSource,
    ) -> Result<Self, Failure> {
        let runner = Runner::new(world, files.root())?;
        let options = ClientOptions::new(Arc::clone(&world.env), files.root())
            .with_providers(world.registries.providers.clone())
            .with_concurrency(concurrency)
            .with_scripts(project::scripts(&suite.scripts, &runner));
        let options = project::with_limits(options, suite);
        let decides = (&suite.providers, &suite.scripts, files as &dyn Files);
        Self::open(world, &place.state(), decides, (options, runner), responses)
    }

    /// Opens the provider of a judge given by name. No request is sent.
    ///
    /// Without a judge, only scripts can run.
    ///
    /// The scripts of checks are in `folder`.
    ///
    /// # Errors
    ///
    /// Fails if the judge's key is not set and every answer must be requested, or if the response store cannot be used.
    pub fn without_suite(
        world: &World,
        judge: Option<&NamedJudge>,
        folder: &Path,
        concurrency: usize,
        responses: &ResponseSource,
    ) -> Result<Self, Failure> {
        let runner = Runner::new(world, folder)?;
        let options =
            ClientOptions::new(Arc::clone(&world.env), folder).with_concurrency(concurrency);
        let none = Map::new();
        let providers = judge.map_or(&none, |it| &it.providers);
        keys::require(world, judge.map(|it| &it.model), providers, responses)?;
        let decides = (providers, &ScriptSettings::default(), &NoFiles as &dyn Files);
        let state = SuiteFolder::new(world, Path::new(CONFIG)).state();
        Self::open(world, &state, decides, (options, runner), responses)
    }

    fn open(
        world: &World,
        state: &Path,
        decides: (&Map<String, Value>, &ScriptSettings, &dyn Files),
        (options, runner): (ClientOptions, Arc<Runner>),
        responses: &ResponseSource,
    ) -> Result<Self, Failure> {
        let (waits, (providers, _, files)) = (Waits::default(), decides);
        let secrets = Secrets::new(world, providers);
        let options = options.with_waits(waits.clone()).with_secrets(secrets.rules().clone());
        let client = Client::new(providers, files, options).map_err(|problems| {
            Failure::inputs(problems.iter().map(|it| {
                let place = it.pointer.replace('/', ".");
                format!("`providers{place}`: {}", it.message)
            }))
        })?;
        let responses = responses.open(world, state, decides, &secrets)?;
        Ok(Self { client, runner, responses, secrets, waits })
    }

    /// Makes the session run the scripts of checks in `folder`. The folder of provider scripts is unchanged.
    pub(crate) fn with_check_scripts(self, world: &World, folder: &Path) -> Result<Self, Failure> {
        Ok(Self { runner: Runner::new(world, folder)?, ..self })
    }

    /// Makes the session run only scripts of checks that compute, and no command and no agent.
    ///
    /// The scripts of providers are unchanged.
    pub(crate) fn sandboxed(self, world: &World) -> Self {
        Self { runner: Runner::sandboxed(world), ..self }
    }
}

/// The rules for requests that a run may send.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one run")]
pub(crate) struct Spending {
    /// True if requests may be sent.
    ///
    /// Otherwise, all answers come from the response store.
    pub may_ask: bool,
    /// True if every answer is requested, and no answer comes from the response store.
    pub always_asks: bool,
    /// True if a run with a budget may start although a price is unknown.
    pub allow_unpriced: bool,
    /// True if models under test are asked, not only judges.
    pub asks_models: bool,
}

impl Spending {
    /// Refuses a run that cannot succeed, before anything is sent.
    ///
    /// The reasons are an uncalibrated judge, an unknown price, or a missing key. Keys that may not be needed only
    /// cause a warning.
    ///
    /// `open` holds the executions that are not done yet.
    pub(crate) fn check(
        &self,
        world: &World,
        place: &SuiteFolder,
        (suite, files, plan): (&Suite, &Folder, &Plan),
        open: &Plan,
        options: &RunOptions,
    ) -> Result<(), Failure> {
        trust::check((world.now)(), &place.state(), &place.name, (suite, files), plan)?;
        if !self.may_ask {
            return Ok(());
        }
        if !self.allow_unpriced {
            budget::check(suite, plan, options, self.asks_models)?;
        }
        let mut missing = keys::missing_for(world, suite, open, self.asks_models);
        missing.refuse(self.always_asks)?;
        for warning in missing.all() {
            world.notify(&format!("warning: {warning}"));
        }
        Ok(())
    }
}
