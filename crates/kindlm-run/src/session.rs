//! An open suite with its client, stores and secrets.

use std::path::Path;
use std::sync::Arc;

use kindlm_assertions::ScriptSettings;
use kindlm_engine::{Plan, RunOptions, Suite};
use kindlm_providers::transport::Waits;
use kindlm_providers::{Client, ClientOptions};
use kindlm_store::Folder;
use kindlm_store::responses::Responses;
use kindlm_types::{Files, NoFiles};
use serde_json::{Map, Value};

use crate::judge_setup::NamedJudge;
use crate::project::CONFIG;
use crate::responses::ResponseSource;
use crate::scripts::Runner;
use crate::secrets::Secrets;
use crate::{Failure, Place, World, budget, keys, project, trust};

/// Models that can be asked, and their stores: those of a suite, or a judge without a suite.
pub struct Session {
    /// Sends requests to providers.
    pub(crate) client: Client,
    /// Runs the scripts of checks.
    pub(crate) runner: Arc<Runner>,
    /// The stored answers.
    pub(crate) responses: Responses,
    /// Masks secrets in everything that is written.
    pub(crate) secrets: Secrets,
    /// Ends the waits of requests that are to be sent.
    pub(crate) waits: Waits,
}

impl Session {
    /// Opens the providers of a suite and its stored answers. Nothing is sent. At most `concurrency` requests are under way
    /// at once.
    ///
    /// # Errors
    ///
    /// If a provider is not configured as it should be, or the stored answers cannot be used.
    pub fn new(
        world: &World,
        place: &Place,
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

    /// Opens the provider of a judge that is named without a suite; without a judge, only scripts can be run. Scripts of
    /// checks are in `folder`. Nothing is sent.
    ///
    /// # Errors
    ///
    /// If the key of the judge is not set, or the stored answers cannot be used.
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
        let state = Place::new(world, Path::new(CONFIG)).state();
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
        let client = Client::new(providers, files, options.with_waits(waits.clone())).map_err(
            |problems| {
                Failure::inputs(problems.iter().map(|it| {
                    let place = it.pointer.replace('/', ".");
                    format!("`providers{place}`: {}", it.message)
                }))
            },
        )?;
        let secrets = Secrets::of(world, providers);
        let responses = responses.open(world, state, decides, &secrets)?;
        Ok(Self { client, runner, responses, secrets, waits })
    }

    /// Runs the scripts of checks in `folder`, and those of providers where they were.
    pub(crate) fn with_check_scripts(self, world: &World, folder: &Path) -> Result<Self, Failure> {
        Ok(Self { runner: Runner::new(world, folder)?, ..self })
    }
}

/// The budget of a run, and the models that it may use.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one run")]
pub(crate) struct Spending {
    /// True if anything is sent; else all answers come from the response store.
    pub may_ask: bool,
    /// True if everything is sent, and no answer comes from the response store.
    pub always_asks: bool,
    /// True if prices may be unknown although there is a budget.
    pub allow_unpriced: bool,
    /// True if the models under test are asked, and not only judges.
    pub asks_models: bool,
}

impl Spending {
    /// Refuses a run that is bound to fail, before anything is sent: a judge that is not calibrated well enough, an unknown
    /// price, a missing key. `open` is the part of the plan that is not executed yet.
    pub(crate) fn check(
        &self,
        world: &World,
        place: &Place,
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
            world.tell(&format!("warning: {warning}"));
        }
        Ok(())
    }
}
