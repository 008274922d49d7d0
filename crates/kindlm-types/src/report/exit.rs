//! The exit codes.

/// The exit status of the program. The numbers are part of the public interface, because CI scripts use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExitStatus {
    /// All gates passed, and all executions were run.
    Success,
    /// One or more gates failed, or some executions were not run.
    GatesFailed,
    /// The configuration, the arguments or other input is invalid.
    InvalidInput,
    /// At least one execution is errored because of a provider, after all retries.
    ProviderError,
    /// An internal error of KindLM.
    Internal,
    /// The user interrupted the run.
    Interrupted,
}

impl ExitStatus {
    /// Returns the exit code of the process.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::GatesFailed => 1,
            Self::InvalidInput => 2,
            Self::ProviderError => 3,
            Self::Internal => 4,
            Self::Interrupted => 130,
        }
    }

    /// Returns the status that takes precedence.
    ///
    /// The order is 130 (interrupted), 2, 4, 3, 1, 0.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if self.rank() >= other.rank() { self } else { other }
    }

    fn rank(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::GatesFailed => 1,
            Self::ProviderError => 2,
            Self::Internal => 3,
            Self::InvalidInput => 4,
            Self::Interrupted => 5,
        }
    }
}
