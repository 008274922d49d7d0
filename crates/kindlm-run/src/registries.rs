//! The registries that a suite uses: KindLM's built-in entries, and entries of the caller.

use std::sync::Arc;

use kindlm_engine::gates;
use kindlm_providers::Providers;
use kindlm_types::Registry;

/// The assertions, gates, providers and reporters that suites may name.
///
/// The default holds KindLM's built-in entries; `Registry::with` adds others.
#[derive(Clone, Debug)]
pub struct Registries {
    /// The assertions that `expect` may name.
    pub assertions: Arc<kindlm_assertions::Registry>,
    /// The gates that `gates` may name.
    pub gates: Registry<gates::Registration>,
    /// The providers that `providers` may name.
    pub providers: Providers,
    /// The reporters that `reports` may name.
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
