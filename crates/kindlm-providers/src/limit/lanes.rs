//! All lanes of one provider, and what they share: a key, and an account that pays.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kindlm_types::{ProviderError, ProviderErrorKind};

use super::{Lane, Limits};

/// The lanes of one provider. A lane is there from the first request on.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// The provider's key; empty if nobody has said it.
    provider: String,
    /// By model.
    limits: HashMap<String, Limits>,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    lanes: HashMap<String, Arc<Lane>>,
    shut: Option<Arc<ProviderError>>,
}

impl Lanes {
    /// Lanes of this provider with these limits, by model.
    pub(crate) fn of(provider: &str, limits: HashMap<String, Limits>) -> Self {
        Self { provider: provider.to_owned(), limits, open: Mutex::default() }
    }

    /// The lane of a model.
    pub(crate) fn to(&self, model: &str) -> Arc<Lane> {
        let mut open = self.open();
        if let Some(lane) = open.lanes.get(model) {
            return Arc::clone(lane);
        }
        let limits = self.limits.get(model).copied().unwrap_or_default();
        let lane = Arc::new(Lane::new(limits).named(format!("{}:{model}", self.provider)));
        if let Some(why) = &open.shut {
            lane.shut(why);
        }
        open.lanes.insert(model.to_owned(), Arc::clone(&lane));
        lane
    }

    /// Shuts what an error shows to be hopeless. An error of something that was not sent shows nothing.
    ///
    /// A key that is refused, and an account that has nothing left to spend, are the same for all models. Only
    /// 403 may mean that the account must not use this one model.
    pub(crate) fn heed(&self, lane: &Lane, err: &ProviderError) {
        if err.attempts == 0 {
            return;
        }
        match (err.kind, err.status) {
            (ProviderErrorKind::Auth, Some(403)) => lane.shut(&Arc::new(err.clone())),
            (ProviderErrorKind::Auth | ProviderErrorKind::QuotaExhausted, _) => {
                let mut open = self.open();
                let why = open.shut.get_or_insert_with(|| Arc::new(err.clone()));
                let why = Arc::clone(why);
                open.lanes.values().for_each(|it| it.shut(&why));
            }
            _ => {}
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
