//! The number of agents that run at the same time, with ports that do not limit it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kindlm_engine::{
    Comparison, Control, ConversationTurn, Executed, Model, Run, RunOptions, Suite, TestCase,
    Until, execute, plan,
};
use kindlm_types::{
    AgentEnd, AgentReply, AgentSession, AgentSpec, AgentStart, AgentTurn, Agents, BoxFuture,
    ExecutionError, Outcome, Ports, ProviderError,
};

use crate::support::{Fake, asks, edit, model, says};

/// Agents that answer each message with `ok` after 10 ms.
#[derive(Default)]
struct Programs {
    running: AtomicUsize,
    started: AtomicUsize,
    /// The maximum number of agents that ran at the same time.
    most: AtomicUsize,
    /// The switch that the first turn uses to stop the run.
    stops: Option<Control>,
}

struct Session<'a>(&'a Programs);

impl Agents for Programs {
    fn start_agent<'a>(
        &'a self,
        _start: &'a AgentStart,
    ) -> BoxFuture<'a, Result<Box<dyn AgentSession + 'a>, ProviderError>> {
        Box::pin(async move {
            self.started.fetch_add(1, Ordering::SeqCst);
            let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            let session: Box<dyn AgentSession + 'a> = Box::new(Session(self));
            Ok(session)
        })
    }
}

impl AgentSession for Session<'_> {
    fn turn(&mut self, _turn: AgentTurn) -> BoxFuture<'_, Result<AgentReply, ProviderError>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            if let Some(control) = &self.0.stops {
                control.stop("interrupted");
            }
            Ok(AgentReply { text: "ok".to_owned(), ..AgentReply::default() })
        })
    }

    fn end(&mut self) -> BoxFuture<'_, AgentEnd> {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        Box::pin(async { AgentEnd::default() })
    }
}

/// Builds a suite whose cases run in all three ways: alone, in comparison rounds, and in waves.
fn mixed() -> Suite {
    let agent = |id: &str| Model { agent: Some(Arc::new(AgentSpec::default())), ..model(id) };
    let case = |name: &str| {
        let mut case = TestCase::prompt(name, name, &["p", "q"]);
        edit(&mut case, |it| it.checks = [says("ok")].into());
        case
    };
    let compared = TestCase { compared: Some(Comparison::Named("g".into())), ..case("compared") };
    let waves = TestCase { until: Some(Until::Settled), repeat: 4, ..case("waves") };
    Suite {
        models: vec![agent("p"), agent("q")],
        cases: vec![case("alone"), compared, waves],
        ..Suite::default()
    }
}

async fn executed(suite: &Suite, concurrency: usize, programs: &Programs) -> Executed {
    let options = RunOptions { concurrency: Some(concurrency), ..RunOptions::default() };
    let plan = plan(suite, &options).unwrap();
    let fake = Fake::saying("1");
    let ports = Ports::from(&fake).with_agents(programs);
    let control = programs.stops.clone();
    execute(Run { control: control.as_ref(), ..Run::new(suite, &plan, &options, ports) }).await
}

#[tokio::test(start_paused = true)]
async fn no_more_agents_run_than_the_concurrency_allows() {
    for concurrency in [1, 2] {
        let programs = Programs::default();
        let executed = executed(&mixed(), concurrency, &programs).await;
        assert!(executed.cases.iter().all(|it| it.outcome == Outcome::Passed), "{executed:?}");
        assert_eq!(programs.most.load(Ordering::SeqCst), concurrency);
        assert_eq!(programs.running.load(Ordering::SeqCst), 0);
    }
}

/// The judge is asked between two turns, while the only agent holds the only permit for agents.
#[tokio::test(start_paused = true)]
async fn a_running_agent_leaves_permits_to_its_judge() {
    let mut suite = mixed();
    suite.cases.truncate(1);
    suite.models.push(model("judge"));
    suite.defaults.judge_model = Some("judge".to_owned());
    edit(&mut suite.cases[0], |it| {
        let turn = |label: &str, checks: Vec<_>| {
            ConversationTurn::new(label, Some("hi".to_owned()), checks.into())
        };
        let mut required = asks("Is it kind?");
        required.options.require = true;
        it.conversation = vec![turn("first", vec![required]), turn("second", vec![])];
    });
    let programs = Programs::default();
    let executed = executed(&suite, 1, &programs).await;
    assert!(executed.cases.iter().all(|it| it.outcome == Outcome::Passed), "{executed:?}");
}

#[tokio::test(start_paused = true)]
async fn agents_that_wait_for_others_do_not_start_after_a_stop() {
    let programs = Programs { stops: Some(Control::default()), ..Programs::default() };
    let executed = executed(&mixed(), 1, &programs).await;
    assert_eq!(programs.started.load(Ordering::SeqCst), 1);
    let errors =
        executed.cases.iter().flat_map(|it| &it.executions).filter_map(|it| it.error.as_ref());
    assert!(errors.clone().all(|it| matches!(it, ExecutionError::NotRun { .. })), "{executed:?}");
    assert!(errors.count() > 1);
}
