//! The progress of an evaluation: results while other checks wait for their judges, then the end.

use std::convert::Infallible;
use std::pin::pin;

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::{Stream, StreamExt as _, stream};
use kindlm_wire::evaluate::EvaluatedResult;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::app::App;
use crate::records::{self, Evaluated, Unevaluated};
use crate::store::adoption::Page;

/// A part of an evaluation.
#[derive(Debug)]
pub(crate) enum Progress {
    /// A check was evaluated while others wait for their judges.
    Result(Box<EvaluatedResult>),
    /// All checks were evaluated, or the evaluation failed. This part is the last part.
    End(Result<Box<Evaluated>, Box<Unevaluated>>),
}

/// Evaluates a record in a task, and returns its progress. The evaluation ends early if the receiver is dropped.
///
/// The evaluation is counted under `source`, and also under `page` if a person started it on a page. A record whose
/// checks ask no judge has no [`Progress::Result`].
pub(crate) fn evaluate(
    app: App,
    json: Vec<u8>,
    (source, page): (&'static str, Option<Page>),
) -> mpsc::UnboundedReceiver<Progress> {
    let (send, receive) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let start = Instant::now();
        let (watch, mut results) = mpsc::unbounded_channel();
        let mut evaluation = pin!(records::evaluate_watched(&app, json, Some(watch)));
        let end = loop {
            tokio::select! {
                biased;
                // The client has left, so the evaluation ends too.
                () = send.closed() => return,
                Some(result) = results.recv() => {
                    let _ = send.send(Progress::Result(Box::new(result)));
                }
                end = &mut evaluation => break end,
            }
        };
        // The last results may come together with the end.
        while let Ok(result) = results.try_recv() {
            let _ = send.send(Progress::Result(Box::new(result)));
        }
        if let Ok(evaluated) = &end {
            app.metrics.add_evaluation(source, evaluated.evaluation.outcome);
            if let Some(page) = page {
                records::add_page_evaluation(&app, page, start).await;
            }
        }
        // The client may have left.
        let _ = send.send(Progress::End(end.map(Box::new).map_err(Box::new)));
    });
    receive
}

/// Returns the parts of an evaluation as a stream.
pub(crate) fn parts(receive: mpsc::UnboundedReceiver<Progress>) -> impl Stream<Item = Progress> {
    stream::unfold(receive, |mut it| async {
        let part = it.recv().await?;
        Some((part, it))
    })
}

/// Makes a response of server-sent events.
pub(crate) fn events(events: impl Stream<Item = sse::Event> + Send + 'static) -> Response {
    let events = events.map(Ok::<_, Infallible>);
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}
