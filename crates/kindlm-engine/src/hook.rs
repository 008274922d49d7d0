//! Functions of the suite that get the results of a run.

use kindlm_types::script::{ScriptRuntime, ScriptSource};

/// A function that is called with results when a run has ended. It cannot change them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The function as the suite writes it, such as `hooks.js:afterAll`.
    pub name: String,
    /// The runtime of the function.
    pub runtime: ScriptRuntime,
    /// The function.
    pub source: ScriptSource,
    /// The event after which the function is named.
    ///
    /// `None` if it has another name: it is then called for each event, with the name of the event.
    pub event: Option<HookEvent>,
}

impl Hook {
    /// Returns true if the function is called for an event.
    pub fn runs_for(&self, event: HookEvent) -> bool {
        self.event.is_none_or(|it| it == event)
    }
}

/// The event for which a hook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookEvent {
    /// One execution has a result.
    AfterEach,
    /// All executions have results.
    AfterAll,
}

impl HookEvent {
    /// All events.
    pub const ALL: [Self; 2] = [Self::AfterEach, Self::AfterAll];

    /// Returns the name of the event, which is that of promptfoo.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AfterEach => "afterEach",
            Self::AfterAll => "afterAll",
        }
    }
}
