//! The services behind the routes: [`App`].

use kindlm_run::evaluate::service::RecordService;

use crate::store::Store;

/// The services behind the routes. Clones share them.
#[derive(Clone, Debug)]
pub struct App {
    /// The service that evaluates records.
    pub records: RecordService,
    /// The database.
    pub store: Store,
}
