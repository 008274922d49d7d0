//! Functions of the suite that get the results of a run.

use kindlm_types::script::{ScriptRuntime, ScriptSource};

/// A function that is called with results when a run has ended. The function cannot change the results.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hook {
    /// The function as written in the suite, such as `hooks.js:afterAll`.
    pub name: String,
    /// The runtime of the function.
    pub runtime: ScriptRuntime,
    /// The source of the function.
    pub source: ScriptSource,
    /// The event that the function is named after; `None` if the function has another name.
    ///
    /// A function with another name is called for each event, with the name of the event.
    pub event: Option<HookEvent>,
}

impl Hook {
    /// Creates a hook; `event` is `None` for a function that is not named after an event.
    pub fn new(
        name: impl Into<String>,
        runtime: ScriptRuntime,
        source: ScriptSource,
        event: Option<HookEvent>,
    ) -> Self {
        Self { name: name.into(), runtime, source, event }
    }

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

    /// Returns the name of the event, as in promptfoo.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AfterEach => "afterEach",
            Self::AfterAll => "afterAll",
        }
    }
}
