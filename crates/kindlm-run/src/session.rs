//! An open suite with its client, stores and secrets.

use std::sync::Arc;

use kindlm_engine::{Plan, RunOptions, Suite};
use kindlm_providers::transport::Waits;
use kindlm_providers::{Client, ClientOptions};
use kindlm_store::Folder;
use kindlm_store::responses::Responses;
use kindlm_types::Files;

use crate::responses::ResponseSource;
use crate::scripts::Runner;
use crate::secrets::Secrets;
use crate::{Failure, Place, World, budget, keys, project, trust};

/// The models of a suite, ready to be asked, and its stores.
pub struct Session {
    /// Sends requests to providers.
    pub client: Client,
    /// Runs the scripts of checks and providers.
    pub runner: Arc<Runner>,
    /// The stored answers.
    pub responses: Responses,
    /// What is masked in everything that is written.
    pub secrets: Secrets,
    /// Ends the waits of requests that are to be sent.
    pub waits: Waits,
}

impl Session {
    /// Opens the providers of a suite and its stored answers. Nothing is sent.
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
        let (waits, runner) = (Waits::default(), Runner::new(world, files.root())?);
        let options = ClientOptions::new(Arc::clone(&world.env), files.root())
            .with_providers(world.registries.providers.clone())
            .with_concurrency(concurrency)
            .with_waits(waits.clone())
            .with_scripts(project::scripts(&suite.scripts, &runner));
        let options = project::with_limits(options, suite);
        let client = Client::new(&suite.providers, files, options).map_err(|problems| {
            Failure::inputs(problems.iter().map(|it| {
                let place = it.pointer.replace('/', ".");
                format!("`providers{place}`: {}", it.message)
            }))
        })?;
        let secrets = Secrets::of(world, &suite.providers);
        let decides = (&suite.providers, &suite.scripts, files as &dyn Files);
        let responses = responses.open(world, &place.state(), decides, &secrets)?;
        Ok(Self { client, runner, responses, secrets, waits })
    }
}

/// What a run may spend, and on whom.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one run")]
pub(crate) struct Spending {
    /// Whether anything is sent; else all answers are recorded.
    pub may_ask: bool,
    /// True if everything is sent, and no answer comes from the response store.
    pub always_asks: bool,
    /// Whether prices may be unknown although there is a budget.
    pub allow_unpriced: bool,
    /// Whether the models under test are asked, and not only judges.
    pub asks_models: bool,
}

impl Spending {
    /// What can be known to go wrong before anything is sent: judges that nobody may trust, prices that nobody knows, keys
    /// that are not there. `open` is what of the plan is still to be sent.
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
