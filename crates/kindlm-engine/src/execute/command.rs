//! Runs the command of a test, and detects crashes.

use kindlm_types::{
    CommandEnd, CommandOutput, CommandSpec, Event, Execution, OpenWorkspace, ProviderError,
    ProviderErrorKind,
};

use super::Running;
use crate::COMMAND;
use crate::calls::Unanswered;

impl Running<'_> {
    pub(super) async fn command(
        &self,
        spec: &CommandSpec,
        around: Option<&dyn OpenWorkspace>,
        mut execution: Box<Execution>,
    ) -> (Box<Execution>, Option<Unanswered>) {
        // The cost of a program is known only if the program reports it.
        execution.spend.cost_usd = None;
        match self.judges.calls.run(spec).await {
            Ok(output) => {
                execution.output = crate::output_text(output.text, output.output_json.as_ref());
                execution.output_json = output.output_json;
                execution.tool_calls = output.tool_calls;
                let (usage, cost) = Event::usage(&output.events);
                execution.usage = usage.unwrap_or_default();
                execution.spend.cost_usd = cost;
                self.judges.calls.spend(Event::reported_usd(&output.events));
                execution.recorded_events = output.events;
                execution.completeness.coverage = output.coverage;
                execution.command = CommandEnd::from_parts(output.exit_code, output.stderr);
                execution.latency_ms = Some(output.latency_ms);
                execution.requests = 1;
                let lost = CommandOutput::lost(&output.unreadable);
                let lost =
                    lost.map(|it| ProviderError::new(ProviderErrorKind::Command, COMMAND, it));
                let error = crash(&execution, around).or(lost);
                (execution, error.map(Unanswered::Provider))
            }
            Err(error) => (execution, Some(error.into())),
        }
    }
}

/// Returns the error of a command that did not run to its end; `None` if it did.
///
/// Such a command could not be started, was ended by a signal, or its sandbox did not start. Without an error, the
/// missing output would pass checks such as `not-contains`. As in the original KindLM, any other exit code is no error.
/// Only the sandbox can detect that it did not start.
fn crash(execution: &Execution, around: Option<&dyn OpenWorkspace>) -> Option<ProviderError> {
    let (exit_code, stderr) = (execution.exit_code(), execution.stderr());
    if let Some(why) = around.and_then(|it| it.not_started(exit_code, stderr)) {
        return Some(ProviderError::new(ProviderErrorKind::Command, COMMAND, why));
    }
    let what = CommandOutput::broken_off(exit_code)?;
    let said = execution.stderr().trim();
    let said: String = said.chars().take(500).collect();
    let message =
        if said.is_empty() { what } else { format!("{what}; it wrote to stderr: {said}") };
    Some(ProviderError::new(ProviderErrorKind::Command, COMMAND, message))
}
