//! The data that the page's script reads: head, index, chunks of cases, and the comparison.

use std::fmt::Write as _;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use kindlm_types::{AnyReport, AssertionResult, CaseResult, ExecutionResult, Summary};
use kindlm_wire::v1;
use serde_json::{Value, json};

use super::fit::{Cut, cut_texts};
use super::index::Index;
use super::options::ServeOptions;
use super::{base85, failed, prompts, view};
use crate::RenderError;
use crate::verdict;

/// The size at which a chunk is full, in bytes before compression. A full chunk gets no further case.
const CHUNK: usize = 300_000;
/// The maximum number of causes, gates and models in the [`head`]. The head should stay below 50 KB.
const LISTED: usize = 50;
/// The maximum number of characters of a text in the head.
const TEXT: usize = 300;

/// The maximum depth of parts of checks in the data. The page shows fewer levels.
const DEEPEST: usize = 32;

/// Returns the head: the data of the overview, as JSON that is safe inside a `script` element.
pub(super) fn head(report: &AnyReport<'_>, summary: &Summary) -> Result<String, RenderError> {
    let head = json!({
        "version": 1,
        "verdict": verdict::word(report, summary),
        "clauses": verdict::clauses(report, summary),
        "exitCode": summary.exit_status.code(),
        "run": report.run.id,
        "suite": report.suite.name,
        "project": report.suite.project,
        "configPath": report.suite.config_path,
        "totals": wire(&v1::Totals::from(summary.totals))?,
        "held": wire(&v1::Rate::from(summary.totals.held()))?,
        "gates": list(report.gates.iter().map(v1::Gate::from))?,
        "models": list(summary.models.iter().map(v1::ModelTotals::from))?,
        "causes": list(summary.causes.iter().cloned().map(v1::Cause::from))?,
    });
    let mut head = head;
    shorten(&mut head);
    Ok(inert(&head.to_string()))
}

fn list<T: serde::Serialize>(items: impl Iterator<Item = T>) -> Result<Value, RenderError> {
    items.take(LISTED).map(|it| wire(&it)).collect::<Result<Vec<_>, _>>().map(Value::Array)
}

fn wire(value: &impl serde::Serialize) -> Result<Value, RenderError> {
    serde_json::to_value(value).map_err(|err| failed(&err))
}

/// Cuts long texts in the head. The recursion is shallow, because the head has no nested data of users.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(TEXT) {
                text.truncate(end);
                text.push('…');
            }
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the comparison of the report as JSON that is safe inside a `script` element; empty without a comparison.
///
/// With `has_prompts`, the key `prompts` has the differences between the prompts of models. A served page does not use
/// this key.
pub(super) fn comparison(report: &AnyReport<'_>, has_prompts: bool) -> Result<String, RenderError> {
    let Some(it) = &report.comparison else { return Ok(String::new()) };
    let mut comparison = wire(it)?;
    if has_prompts {
        comparison["prompts"] = prompts::between_models(report)?;
    }
    Ok(inert(&comparison.to_string()))
}

/// Escapes JSON so that it contains only ASCII text that cannot end a `script` element.
fn inert(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut units = [0; 2];
    for c in json.chars() {
        if matches!(c, ' '..='~') && !matches!(c, '<' | '>' | '&') {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut units) {
                // Writing to a string does not fail, so the result can be ignored.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

/// A receiver of the compressed JSON blocks of the page.
pub(super) trait Blocks {
    /// Receives the next chunk of cases.
    fn chunk(&mut self, number: usize, gzip: Vec<u8>) -> Result<(), RenderError>;
    /// Receives the index, after the last chunk.
    fn index(&mut self, gzip: Vec<u8>) -> Result<(), RenderError>;
}

/// Writes the blocks into the page, each as a `script` element with an id.
impl Blocks for String {
    fn chunk(&mut self, number: usize, gzip: Vec<u8>) -> Result<(), RenderError> {
        block(self, &format!("chunk-{number}"), &gzip)
    }

    fn index(&mut self, gzip: Vec<u8>) -> Result<(), RenderError> {
        block(self, "index", &gzip)
    }
}

/// The cases as compressed chunks, and their index.
pub(super) struct Data<'a> {
    index: Index<'a>,
    /// The JSON array of the current chunk, without its last bracket.
    cases: String,
    /// The number of chunks that were written.
    chunks: usize,
    /// The number of cases in the current chunk.
    place: usize,
    cut: Cut,
    /// The options of the server; `None` for a file.
    served: Option<&'a ServeOptions>,
}

impl<'a> Data<'a> {
    pub(super) fn new(summary: &'a Summary, cut: Cut) -> Self {
        Self {
            index: Index::new(summary),
            cases: String::new(),
            chunks: 0,
            place: 0,
            cut,
            served: None,
        }
    }

    /// Adds the options of a server, so that the cases link to an editor.
    pub(super) fn served_with(self, options: &'a ServeOptions) -> Self {
        Self { served: Some(options), ..self }
    }

    /// Adds a case. Writes a chunk if it is full.
    pub(super) fn add(
        &mut self,
        report: &AnyReport<'_>,
        position: usize,
        blocks: &mut dyn Blocks,
    ) -> Result<(), RenderError> {
        let case = report.cases.read_case(position)?;
        let json = match self.cut.limit_for(case.outcome) {
            Some(most) => {
                let mut json = wire(&wire_case(&case))?;
                cut_texts(&mut json["executions"], most);
                json.to_string()
            }
            None => match report.cases.written(position)? {
                Some(json) => json,
                None => serde_json::to_string(&wire_case(&case)).map_err(|err| failed(&err))?,
            },
        };
        self.index.add(&case, self.chunks, self.place);
        self.cases.push_str(if self.place == 0 { "[" } else { "," });
        self.cases.push_str("{\"case\":");
        self.cases.push_str(&json);
        let mut view = view::describe_case(report, &case);
        let link = self.served.zip(case.source.as_ref()).and_then(|(it, place)| it.link(place));
        if let Some(link) = link {
            view["editor"] = link.into();
        }
        write!(self.cases, ",\"view\":{view}")?;
        self.cases.push('}');
        self.place += 1;
        if self.cases.len() >= CHUNK { self.flush(blocks) } else { Ok(()) }
    }

    /// Writes the last chunk and the index.
    pub(super) fn finish(mut self, blocks: &mut dyn Blocks) -> Result<(), RenderError> {
        if self.place > 0 {
            self.flush(blocks)?;
        }
        blocks.index(gzip(&self.index.into_json(self.chunks)?)?)
    }

    fn flush(&mut self, blocks: &mut dyn Blocks) -> Result<(), RenderError> {
        self.cases.push(']');
        blocks.chunk(self.chunks, gzip(&self.cases)?)?;
        self.cases.clear();
        self.chunks += 1;
        self.place = 0;
        Ok(())
    }
}

/// Converts a case to JSON data, without its task digest, its cluster, and the parts of checks that are nested deeper
/// than [`DEEPEST`].
///
/// A script may nest parts arbitrarily deep, and cloning and serializing them is recursive.
fn wire_case(case: &CaseResult) -> v1::Case {
    let executions = case.executions.iter().map(|it| ExecutionResult {
        execution: it.execution.clone(),
        results: it.results.iter().map(|it| shallow(it, DEEPEST)).collect(),
        outcome: it.outcome,
        error: it.error.clone(),
        judge_cost_usd: it.judge_cost_usd,
        judge_usage: it.judge_usage,
        judge_spending: it.judge_spending.clone(),
    });
    let executions = executions.collect();
    let CaseResult {
        pass_rate,
        repeats,
        errored_repeats,
        early_end,
        checks,
        latency_avg_ms,
        cost,
        ..
    } = *case;
    v1::Case::from(CaseResult {
        case: case.case.clone(),
        model: case.model.clone(),
        tags: case.tags.clone(),
        digest: case.digest.clone(),
        task_digest: None,
        cluster: None,
        plan_index: case.plan_index,
        source: case.source.clone(),
        outcome: case.outcome,
        pass_rate,
        repeats,
        errored_repeats,
        early_end,
        scores: case.scores.clone(),
        failure_codes: case.failure_codes.clone(),
        checks,
        latency_avg_ms,
        cost,
        total_tokens: case.total_tokens,
        executions,
    })
}

/// Copies a result with its parts up to a depth.
fn shallow(result: &AssertionResult, depth: usize) -> AssertionResult {
    let parts = result.components.iter().filter(|_| depth > 0);
    AssertionResult {
        components: parts.map(|it| shallow(it, depth - 1)).collect(),
        assertion: result.assertion.clone(),
        is_negated: result.is_negated,
        label: result.label.clone(),
        verdict: result.verdict.clone(),
        score: result.score,
        severity: result.severity,
        class: result.class,
        weight: result.weight,
        decides_score: result.decides_score,
        metric: result.metric.clone(),
        turn: result.turn.clone(),
        reasoning: result.reasoning.clone(),
        cause: result.cause.clone(),
        judging: result.judging.clone(),
        set: result.set.clone(),
        named_scores: result.named_scores.clone(),
        evidence: result.evidence.clone(),
        source: result.source.clone(),
        metadata: result.metadata.clone(),
    }
}

fn gzip(json: &str) -> Result<Vec<u8>, RenderError> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(json.as_bytes()).map_err(|err| failed(&err))?;
    gzip.finish().map_err(|err| failed(&err))
}

/// Writes a compressed block with an id.
fn block(out: &mut String, id: &str, gzip: &[u8]) -> Result<(), RenderError> {
    write!(out, "<script type=\"application/x-gzip+base85\" id=\"{id}\">")?;
    out.push_str(&base85::encode(gzip));
    out.push_str("</script>\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_json_is_inert_ascii() {
        let json = json!({"a": "</script><!-- é \u{202e}\u{7f} 👩"}).to_string();
        let inert = inert(&json);
        assert!(inert.is_ascii() && !inert.contains(['<', '>', '&', '\u{7f}']), "{inert}");
        assert_eq!(
            serde_json::from_str::<Value>(&inert).unwrap(),
            serde_json::from_str::<Value>(&json).unwrap()
        );
    }
}
