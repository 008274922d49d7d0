//! Runs the program of a test, and says when it was not able to do anything wrong.

use kindlm_types::{
    CommandOutput, CommandSpec, Event, Execution, OpenWorkspace, ProviderError, ProviderErrorKind,
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
        execution.cost_usd = None;
        match self.judges.calls.run(spec).await {
            Ok(output) => {
                execution.output = crate::said(output.text, output.output_json.as_ref());
                execution.output_json = output.output_json;
                execution.tool_calls = output.tool_calls;
                let (usage, cost) = Event::usage(&output.events);
                execution.usage = usage.unwrap_or_default();
                execution.cost_usd = cost;
                self.judges.calls.spend(Event::told_usd(&output.events));
                execution.recorded_events = output.events;
                execution.coverage = output.coverage;
                execution.stderr = output.stderr;
                execution.exit_code = output.exit_code;
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

/// The error of a command that ended: it was never started, or a signal ended it.
///
/// Any other exit code is the program's own word and no failure by itself, as in the original. But a program
/// that was not there, or crashed, has done nothing wrong either, and every negative check would hold. The same is true
/// of one whose sandbox did not start: only what is around it knows that.
fn crash(execution: &Execution, around: Option<&dyn OpenWorkspace>) -> Option<ProviderError> {
    let (exit_code, stderr) = (execution.exit_code, execution.stderr.as_str());
    if let Some(why) = around.and_then(|it| it.not_started(exit_code, stderr)) {
        return Some(ProviderError::new(ProviderErrorKind::Command, COMMAND, why));
    }
    let what = CommandOutput::broken_off(exit_code)?;
    let said = execution.stderr.trim();
    let said: String = said.chars().take(500).collect();
    let message =
        if said.is_empty() { what } else { format!("{what}; it wrote to stderr: {said}") };
    Some(ProviderError::new(ProviderErrorKind::Command, COMMAND, message))
}
