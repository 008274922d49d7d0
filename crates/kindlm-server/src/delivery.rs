//! Sends alerts to other services and people: [`deliver`].

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use kindlm_run::World;
use kindlm_transport::{HttpTransport, TransportOptions};
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;
use url::Url;

use crate::alerts::Alert;
use crate::app::App;
use crate::email::{Email, one_line};
use crate::problem::Problem;
use crate::store::deliveries::Delivery;
use crate::store::{StoreError, digest, pause_after};

/// The pause between two queries for new messages.
const PAUSE: Duration = Duration::from_secs(2);

/// The pause before the second attempt. Each later pause is four times as long, at most [`LONGEST_PAUSE`].
const RETRY: Duration = Duration::from_secs(1);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// The time limit of an HTTP request with a message.
const PATIENCE: Duration = Duration::from_secs(10);

/// The address of a service that receives alerts. It may contain a secret, so only its host is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct AlertUrl(Url);

/// The text is not an `http://` or `https://` URL with a host.
#[derive(Debug, thiserror::Error)]
#[error("expected an `http://` or `https://` address, such as `https://hooks.example.com/alerts`")]
pub struct NotAnAddress;

impl FromStr for AlertUrl {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let url = Url::parse(text).map_err(|_| NotAnAddress)?;
        let is_http = ["http", "https"].contains(&url.scheme()) && url.has_host();
        if is_http { Ok(Self(url)) } else { Err(NotAnAddress) }
    }
}

impl fmt::Debug for AlertUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlertUrl({})", self.0.host_str().unwrap_or_default())
    }
}

/// A receiver of alerts.
#[derive(Clone, Debug)]
pub enum Destination {
    /// A service that receives the alert as JSON.
    Webhook(AlertUrl),
    /// An incoming webhook of Slack, or of a service that accepts the same messages.
    Slack(AlertUrl),
    /// A person or list that receives e-mails.
    Email(Box<Email>),
}

impl Destination {
    /// Returns the key of the messages to this destination in the database. The key does not reveal the address.
    fn key(&self) -> String {
        match self {
            Self::Webhook(AlertUrl(url)) => digest(format!("webhook {url}").as_bytes()),
            Self::Slack(AlertUrl(url)) => digest(format!("slack {url}").as_bytes()),
            Self::Email(email) => email.key(),
        }
    }

    /// Returns the option and the host of the destination, for messages to the operator.
    fn name(&self) -> String {
        let named = |option: &str, AlertUrl(url): &AlertUrl| {
            format!("`{option}` to {}", url.host_str().unwrap_or_default())
        };
        match self {
            Self::Webhook(url) => named("--alert-webhook", url),
            Self::Slack(url) => named("--alert-slack", url),
            Self::Email(email) => email.name(),
        }
    }
}

/// The JSON that a webhook receives.
#[derive(Serialize)]
struct Message<'a> {
    /// `alert` at an alarm, or `end` when the alert has ended.
    event: &'static str,
    #[serde(flatten)]
    alert: &'a Alert,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
}

/// Sends alerts to these destinations until the future is dropped. Errors are reported to the operator.
///
/// Returns at once without destinations, or if the HTTP client cannot be created.
pub async fn deliver(app: App, destinations: Vec<Destination>) {
    let options = TransportOptions::new(Arc::clone(&app.runs.world().env));
    let transport = match HttpTransport::new(options) {
        Ok(it) => Arc::new(it),
        Err(err) => {
            app.runs.world().notify(&format!("warning: alerts cannot be delivered: {err}"));
            return;
        }
    };
    let mut senders = JoinSet::new();
    for destination in destinations {
        senders.spawn(deliver_to(app.clone(), Arc::clone(&transport), destination));
    }
    while senders.join_next().await.is_some() {}
}

async fn deliver_to(app: App, transport: Arc<HttpTransport>, destination: Destination) {
    loop {
        let attempt = deliver_next(&app, &transport, &destination);
        if !has_sent(attempt, &destination.name(), app.runs.world()).await {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Waits for an attempt to send a message, and returns true if a message was due, even if the delivery failed.
///
/// An error or a panic is reported to the operator, and does not end the sender.
async fn has_sent(
    attempt: impl Future<Output = Result<bool, StoreError>>,
    destination: &str,
    world: &World,
) -> bool {
    match AssertUnwindSafe(attempt).catch_unwind().await {
        Ok(Ok(has_sent)) => has_sent,
        Ok(Err(err)) => {
            Problem::from(err).report_cause(world);
            false
        }
        // The panic hook has written the text of the panic to the standard error.
        Err(_) => {
            world.notify(&format!(
                "warning: {destination}: the server has a bug: it panicked when it sent an alert; it tries again later"
            ));
            false
        }
    }
}

/// Sends the next message. Returns false if none is due. If the delivery fails, the message is due again after a pause.
async fn deliver_next(
    app: &App,
    transport: &HttpTransport,
    destination: &Destination,
) -> Result<bool, StoreError> {
    let Some(delivery) = app.store.lease_delivery(&destination.key()).await? else {
        return Ok(false);
    };
    let Delivery { id, is_end, attempts, alert } = delivery;
    let alert = app.alerts.describe(alert, app.runs.world()).await;
    let event = if is_end { "end" } else { "alert" };
    let link = app.alerts.link.as_ref().map(|it| link(it, &alert.agent));
    let message = Message { event, alert: &alert, link };
    let sent = match destination {
        Destination::Webhook(AlertUrl(url)) => {
            send(transport, url, serde_json::to_vec(&message)?).await
        }
        Destination::Slack(AlertUrl(url)) => {
            let body = json!({"text": text(&message, escaped)});
            send(transport, url, serde_json::to_vec(&body)?).await
        }
        Destination::Email(email) => email.send(&id, &text(&message, one_line)).await,
    };
    if let Err(why) = sent {
        let pause = pause_after(RETRY, attempts).min(LONGEST_PAUSE);
        let (name, seconds) = (destination.name(), pause.as_secs());
        let text =
            format!("warning: {name}: alert {}: {why}; next attempt in {seconds} s", alert.id);
        app.runs.world().notify(&text);
        app.store.release_delivery(&id, pause).await?;
    } else {
        app.store.finish_delivery(&id).await?;
    }
    Ok(true)
}

/// Sends a message once. Redirects are not followed, and the body of the response is not read.
async fn send(transport: &HttpTransport, url: &Url, body: Vec<u8>) -> Result<(), String> {
    let headers = [("content-type".to_owned(), "application/json".to_owned())];
    match transport.fetch_status(("POST", url.as_str()), &headers, body, PATIENCE).await? {
        200..=299 => Ok(()),
        status @ 300..=399 => Err(format!("status {status}; redirects are not followed")),
        status => Err(format!("status {status}")),
    }
}

/// Returns the URL of the page with the charts of an agent.
fn link(server: &Url, agent: &str) -> String {
    let mut url = server.clone();
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().push("monitor");
    }
    url.query_pairs_mut().clear().append_pair("agent", agent);
    url.to_string()
}

/// Escapes a text for Slack. Otherwise, a name could mention people or hide a link.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns the text of a message for people. `plain` makes a name harmless: it escapes markup or removes line breaks.
fn text(message: &Message<'_>, plain: fn(&str) -> String) -> String {
    let Message { alert, link, .. } = message;
    let Alert { agent, assertion, set, version, since, from, to, judge, .. } = alert;
    let version = if version.is_empty() { String::new() } else { format!(" {}", plain(version)) };
    let mut text = format!("{}: {}{version} ({})", plain(assertion), plain(agent), plain(set));
    if alert.ended.is_some() {
        text = format!("Alert ended: {text}\n{}, after the alarm at {since}", alert.end_in_words());
    } else {
        let (from, to) = (from.in_words(), to.in_words());
        text = format!("The pass rate has fallen: {text}\nfrom {from} to {to}, since {since}");
    }
    if let Some(judge) = judge {
        text.push('\n');
        text.push_str(&plain(&judge.in_words()));
    }
    if let Some(link) = link {
        text.push('\n');
        text.push_str(link);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;
    use std::task::Poll;

    use kindlm_stats::Tally;

    use super::*;
    use crate::alerts::AlertJudge;

    fn slack_text(message: &Message<'_>) -> String {
        text(message, escaped)
    }

    fn alert() -> Alert {
        Alert {
            id: "1".to_owned(),
            agent: "a & b".to_owned(),
            assertion: "<!channel>".to_owned(),
            set: "support@3".to_owned(),
            version: "v2".to_owned(),
            since: "2026-11-26T08:00:00Z".to_owned(),
            from: Tally::new(95, 100).unwrap().into(),
            to: Tally::new(12, 20).unwrap().into(),
            latest: None,
            evidence: 12_345.0,
            judge: Some(AlertJudge::Changed { reason: "5 of 9 differ".to_owned() }),
            ended: None,
            end_reason: None,
        }
    }

    #[test]
    fn slack_message_is_plain_text() {
        let mut alert = alert();
        let link = Some(link(&"https://k.example.com/x/".parse().unwrap(), &alert.agent));
        let text = slack_text(&Message { event: "alert", alert: &alert, link: link.clone() });
        assert_eq!(
            text,
            "The pass rate has fallen: &lt;!channel&gt;: a &amp; b v2 (support@3)\n\
            from 95.0 % (88.8–97.8) of 100 to 60.0 % (38.7–78.1) of 20, since 2026-11-26T08:00:00Z\n\
            the judge changed too: 5 of 9 differ\n\
            https://k.example.com/x/monitor?agent=a+%26+b"
        );
        (alert.ended, alert.end_reason) = (Some(String::new()), Some("recovered".to_owned()));
        let text = slack_text(&Message { event: "end", alert: &alert, link: None });
        assert!(text.starts_with("Alert ended: ") && text.contains("has recovered"), "{text}");
    }

    #[test]
    fn rate_below_one_is_not_shown_as_100_percent() {
        let words = |passed, total| {
            crate::alerts::PassRate::from(Tally::new(passed, total).unwrap()).in_words()
        };
        assert!(words(9_999, 10_000).starts_with("99.9 % ("), "{}", words(9_999, 10_000));
        assert!(words(100, 100).starts_with("100.0 % ("), "{}", words(100, 100));
    }

    #[test]
    fn name_in_an_email_stays_on_its_line() {
        let mut alert = alert();
        alert.assertion = "a\r\nBcc: eve@evil.test\n\nb".to_owned();
        let text = text(&Message { event: "alert", alert: &alert, link: None }, one_line);
        assert_eq!(
            text,
            "The pass rate has fallen: a  Bcc: eve@evil.test  b: a & b v2 (support@3)\n\
            from 95.0 % (88.8–97.8) of 100 to 60.0 % (38.7–78.1) of 20, since 2026-11-26T08:00:00Z\n\
            the judge changed too: 5 of 9 differ"
        );
    }

    #[test]
    fn addresses_are_checked_and_not_shown() {
        let url: AlertUrl = "https://ann:key@hooks.example.com/T00/secret".parse().unwrap();
        let destination = Destination::Webhook(url.clone());
        for text in [format!("{destination:?}"), destination.name(), destination.key()] {
            assert!(!["secret", "key@", "T00"].iter().any(|it| text.contains(it)), "{text}");
        }
        assert_ne!(destination.key(), Destination::Slack(url).key());
        for text in ["", "hooks.example.com", "file:///etc/passwd", "ftp://a", "https://"] {
            assert!(text.parse::<AlertUrl>().is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn panic_is_reported_and_does_not_end_the_sender() {
        let notices = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&notices);
        let world = World {
            notices: Arc::new(move |it: &str| seen.lock().unwrap().push(it.to_owned())),
            ..World::new(Path::new("."), Arc::new(|_| None))
        };
        let panics = std::future::poll_fn(|_| -> Poll<Result<bool, StoreError>> {
            panic!("a bug of a sender")
        });
        assert!(!has_sent(panics, "`--alert-slack` to h", &world).await);
        assert!(has_sent(std::future::ready(Ok(true)), "`--alert-slack` to h", &world).await);
        let notices = notices.lock().unwrap();
        assert!(
            notices.len() == 1 && notices[0].starts_with("warning: `--alert-slack` to h: "),
            "{notices:?}"
        );
    }

    #[test]
    fn pauses_grow_to_an_hour() {
        let pause = |attempts| pause_after(RETRY, attempts).min(LONGEST_PAUSE).as_secs();
        assert_eq!([1, 2, 3, 7, 8, 60].map(pause), [1, 4, 16, 3600, 3600, 3600]);
    }
}
