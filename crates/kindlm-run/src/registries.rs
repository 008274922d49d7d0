//! The registries of a suite: the entries of KindLM, and those of the caller.

use std::sync::Arc;

use kindlm_engine::gates;
use kindlm_providers::Providers;
use kindlm_types::Registry;

/// The assertions, gates, providers and reporters of suites. The default is KindLM's own; `Registry::with` adds others.
#[derive(Clone, Debug)]
pub struct Registries {
    /// The assertions of `expect`.
    pub assertions: Arc<kindlm_assertions::Registry>,
    /// The gates of `gates`.
    pub gates: Registry<gates::Registration>,
    /// The providers of `providers`.
    pub providers: Providers,
    /// The reporters of `reports`.
    pub reporters: Registry<kindlm_reporters::Registration>,
}

impl Default for Registries {
    fn default() -> Self {
        Self {
            assertions: kindlm_assertions::built_in(),
            gates: gates::built_in(),
            providers: kindlm_providers::built_in(),
            reporters: kindlm_reporters::built_in(),
        }
    }
}
