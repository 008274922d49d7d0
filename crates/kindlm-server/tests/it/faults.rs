//! Servers that are killed or paused while they store and evaluate samples.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use kindlm_server::store::sampling::is_sampled;
use kindlm_testing::MockServer;
use serde_json::{Value, json};

use crate::monitor::{config, evaluate_shop, judge_shop, rates, sample, says_polite, send};
use crate::postgres::{Cluster, postgres};
use crate::server::{Reply, Server};

/// The number of samples in a request.
const BATCH: usize = 50;

/// The number of workers of a server. Each evaluates one sample at a time.
const WORKERS: usize = 4;

/// Waits until an event has happened.
fn wait(mut has_happened: impl FnMut() -> bool, shown: impl Fn() -> String) {
    let end = Instant::now() + Duration::from_mins(2);
    while !has_happened() {
        assert!(Instant::now() < end, "{}", shown());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the sum of the values of a metric in `/metrics` whose labels contain `label`.
fn metric(server: &Server, name: &str, label: &str) -> u64 {
    let body = server.get("/metrics").body;
    let lines = body.lines().filter_map(|it| it.strip_prefix(name)?.strip_prefix('{'));
    let lines = lines.filter(|it| it.contains(label)).filter_map(|it| it.rsplit_once(' '));
    lines.map(|(_, value)| value.parse::<u64>().unwrap()).sum()
}

fn pending(server: &Server) -> u64 {
    metric(server, "kindlm_samples", "pending")
}

fn wait_until_none_is_pending(server: &Server) {
    wait(|| pending(server) == 0, || server.get("/metrics").body);
}

/// Returns the results that passed and those that failed, as `/v1/metrics/assertions` counts them.
fn counted(server: &Server) -> [u64; 2] {
    let rates = rates(server, "");
    assert!(rates.iter().all(|it| [&it["errored"], &it["skipped"]] == [0, 0]), "{rates:?}");
    ["passed", "failed"].map(|key| rates.iter().map(|it| it[key].as_u64().unwrap()).sum())
}

/// Returns the ids of all samples. Fails if an id is listed twice, or if the total differs.
fn listed(server: &Server) -> BTreeSet<usize> {
    let (mut ids, mut query) = (BTreeSet::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/samples?limit=1000{query}")).json();
        for item in page["items"].as_array().unwrap() {
            assert!(ids.insert(item["id"].as_str().unwrap().parse().unwrap()), "{item}");
        }
        let Some(next) = page["next"].as_str() else {
            assert_eq!(page["total"], ids.len());
            return ids;
        };
        query = format!("&cursor={next}");
    }
}

/// Returns true if a sample passes its check. Every third sample of a batch does not.
fn passes(id: usize) -> bool {
    !(id % BATCH).is_multiple_of(3)
}

/// Sends a batch of samples, and does not wait for the response.
fn begin(server: &Server, batch: usize) -> TcpStream {
    let output = |id: usize| if passes(id) { "a refund" } else { "no" };
    let ids = batch * BATCH..(batch + 1) * BATCH;
    let lines: Vec<String> = ids.map(|it| sample(it, "shop", output(it)).to_string()).collect();
    let key = format!("idempotency-key: batch-{batch}");
    let head = ["host: localhost", "content-type: application/x-ndjson", &key];
    server.begin("POST /v1/samples", &head, lines.join("\n").as_bytes())
}

/// Waits until a batch is acknowledged as new. A repeated request gets the first response.
fn acknowledged(stream: TcpStream) {
    let reply = Reply::from_stream(stream).unwrap();
    assert_eq!(reply.status, 200, "{}", reply.body);
    let stored = reply.json();
    assert_eq!([&stored["stored"], &stored["duplicates"]], [BATCH, 0], "{stored}");
}

#[test]
fn kills_during_ingest_lose_and_repeat_nothing() {
    /// The batches that are sent and acknowledged one by one before each kill.
    const BEFORE: usize = 8;
    /// The batches that are sent at once. The server is killed while it stores them.
    const AT_ONCE: usize = 4;
    /// The share of the samples that is evaluated.
    const RATE: f64 = 0.1;
    let folder = tempfile::tempdir().unwrap();
    let args = ["--lease", "5"];
    let mut server = Server::start(folder.path(), &args);
    evaluate_shop(&server, RATE);
    let mut next = 0;
    // The number of batches sent at once that are acknowledged before the kill.
    for seen in 0..=AT_ONCE {
        for batch in next..next + BEFORE {
            acknowledged(begin(&server, batch));
        }
        next += BEFORE;
        let mut sent: Vec<TcpStream> =
            (next..next + AT_ONCE).map(|it| begin(&server, it)).collect();
        sent.drain(..seen).for_each(acknowledged);
        server.kill();
        drop(sent);
        server = Server::start(folder.path(), &args);
        let stored = listed(&server);
        assert!((0..(next + seen) * BATCH).all(|it| stored.contains(&it)), "{seen}: {stored:?}");
        // A batch is stored as a whole, or not at all.
        assert!(stored.len().is_multiple_of(BATCH), "{seen}: {stored:?}");
        // The client cannot know which of the other batches are stored, and sends all of them again.
        for batch in next + seen..next + AT_ONCE {
            acknowledged(begin(&server, batch));
        }
        // The first response to this batch was sent before the kill.
        acknowledged(begin(&server, next - 1));
        next += AT_ONCE;
    }
    let samples = next * BATCH;
    assert_eq!(listed(&server), (0..samples).collect());
    wait_until_none_is_pending(&server);
    let evaluated = (0..samples).filter(|it| is_sampled(&it.to_string(), RATE));
    let (passed, failed): (Vec<usize>, Vec<usize>) = evaluated.partition(|it| passes(*it));
    assert_eq!(counted(&server), [passed.len() as u64, failed.len() as u64]);
}

/// Sends samples to each server, which wakes its workers. Waits until each worker of each server asks the judge.
fn occupy(servers: &[&Server], judge: &MockServer, sent: &mut usize) {
    judge.hold();
    let before = judge.count();
    for server in servers {
        let ids = *sent..*sent + 20;
        *sent = ids.end;
        send(
            server,
            ids.map(|it| {
                // The outputs differ, because equal questions are sent to the judge only once.
                let mut sample = sample(it, "shop", &format!("sorry {it}"));
                sample["agent_input"] = Value::from("q");
                sample
            }),
        );
    }
    let all = before + servers.len() * WORKERS;
    wait(|| judge.count() >= all, || format!("{} of {all}", judge.count()));
}

#[test]
fn servers_with_one_queue_count_each_sample_once() {
    let Some(bin) = postgres() else {
        kindlm_testing::not_run("postgresql", "PostgreSQL is not installed");
        return;
    };
    let cluster = Cluster::start(&bin);
    let folder = tempfile::tempdir().unwrap();
    let judge = MockServer::answering(says_polite).unwrap();
    std::fs::write(folder.path().join("kindlm.yaml"), config(&judge)).unwrap();
    let args = ["-c", "kindlm.yaml", "--database", &cluster.url, "--lease", "5"];
    // All of them find an empty database, and create its tables.
    let [killed, paused, other] = std::thread::scope(|scope| {
        [(); 3]
            .map(|()| scope.spawn(|| Server::start(folder.path(), &args)))
            .map(|it| it.join().unwrap())
    });
    judge_shop(&killed);
    let evaluated = || {
        let evaluations = [&paused, &other];
        evaluations.map(|it| metric(it, "kindlm_evaluations_total", "sample")).iter().sum::<u64>()
    };
    let mut samples = 0;
    let all_are_counted_once = |samples: usize| {
        wait_until_none_is_pending(&other);
        let samples = samples as u64;
        assert_eq!(counted(&other), [samples, 0]);
        // An evaluation is stored before it is counted.
        wait(|| evaluated() >= samples, || format!("{} of {samples}", evaluated()));
        assert_eq!(evaluated(), samples);
    };

    occupy(&[&killed, &paused, &other], &judge, &mut samples);
    killed.kill();
    judge.release();
    all_are_counted_once(samples);
    // The judge was asked again about the samples of the killed server.
    assert!(judge.count() >= samples + WORKERS, "{} of {samples}", judge.count());

    // A paused server has no heartbeat either, and it gets the answers of the judge later.
    occupy(&[&paused, &other], &judge, &mut samples);
    paused.signal("STOP");
    judge.release();
    wait_until_none_is_pending(&other);
    assert_eq!(counted(&other), [samples as u64, 0]);
    assert!(judge.count() >= samples + 2 * WORKERS, "{} of {samples}", judge.count());
    paused.signal("CONT");
    // A worker asks the judge about the next sample after it has tried to store its late result.
    occupy(&[&paused, &other], &judge, &mut samples);
    judge.release();
    all_are_counted_once(samples);
}

#[test]
fn evaluation_ends_when_its_client_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let judge = MockServer::answering(says_polite).unwrap();
    std::fs::write(folder.path().join("kindlm.yaml"), config(&judge)).unwrap();
    let server = Server::start(folder.path(), &["-c", "kindlm.yaml", "--concurrency", "1"]);
    judge.hold();
    let rule = json!({"judge": [{"criteria": "Is polite"}]});
    let record = json!({"agent_input": "q", "agent_output": "sorry", "expect": rule});
    let head = ["host: localhost", "content-type: application/json"];
    let left = server.begin("POST /v1/evaluate", &head, record.to_string().as_bytes());
    wait(|| judge.count() == 1, String::new);
    drop(left);
    // The server evaluates one record at a time, and the judge has not answered.
    let plain = json!({"agent_output": "x", "expect": {"output": {"contains": ["x"]}}});
    assert_eq!(server.evaluate(&plain).status, 200);
    judge.release();
}

#[test]
fn connections_whose_clients_do_not_read_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &[]);
    // Together, these responses are larger than the buffers of a connection.
    let requests = "GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n".repeat(100);
    let unread: Vec<TcpStream> = (0..512)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(requests.as_bytes()).unwrap();
            stream
        })
        .collect();
    let mut stream = server.begin("GET /healthz", &["host: localhost"], b"");
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    drop(unread);
}
