//! The services behind the routes: [`App`].

use std::sync::Arc;

use kindlm_assertions::Redactor;
use kindlm_run::evaluate::service::RecordService;

use crate::store::Store;

/// The services behind the routes. Clones share them.
#[derive(Clone, Debug)]
pub struct App {
    /// The service that evaluates records.
    pub records: RecordService,
    /// The database.
    pub store: Store,
    /// Masks personal data in samples before they are stored; `None` stores them as they are.
    pub redactor: Option<Arc<Redactor>>,
}
