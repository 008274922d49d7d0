//! Records as a table of Arrow.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_json::{LineDelimitedWriter, ReaderBuilder};
use arrow_pyarrow::{FromPyArrow as _, IntoPyArrow as _, Table, ToPyArrow as _};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef};
use pyo3::prelude::*;

use crate::checks::{Checks, KEYS, own_checks};
use crate::error::KindlmError;
use crate::service::{Batch, Row};

/// Evaluates a record batch, and returns a record batch.
pub(crate) fn evaluate_batch<'py>(
    records: &Bound<'py, PyAny>,
    checks: &Checks,
    batch: &mut Batch<'py, '_>,
) -> PyResult<Bound<'py, PyAny>> {
    let records_batch = RecordBatch::from_pyarrow_bound(records)?;
    let schema = results_schema(&records_batch.schema())?;
    evaluate(&records_batch, checks, batch, &schema)?.to_pyarrow(records.py())
}

/// Evaluates a table, and returns a table with the same number of batches.
pub(crate) fn evaluate_table<'py>(
    records: &Bound<'py, PyAny>,
    checks: &Checks,
    batch: &mut Batch<'py, '_>,
) -> PyResult<Bound<'py, PyAny>> {
    let table = Table::from_pyarrow_bound(records)?;
    let schema = results_schema(&table.schema())?;
    let evaluated = table.record_batches().iter().map(|it| evaluate(it, checks, batch, &schema));
    let results = evaluated.collect::<PyResult<Vec<_>>>()?;
    Table::try_new(results, schema).map_err(|err| unreadable(&err))?.into_pyarrow(records.py())
}

fn evaluate(
    records: &RecordBatch,
    checks: &Checks,
    batch: &mut Batch<'_, '_>,
    schema: &SchemaRef,
) -> PyResult<RecordBatch> {
    let py = batch.py();
    let lines = py.detach(|| lines(records, checks)).map_err(|err| unreadable(&err))?;
    let rows = batch.evaluate(lines)?;
    py.detach(|| results(&rows, schema)).map_err(|err| unreadable(&err))
}

fn unreadable(err: &ArrowError) -> PyErr {
    KindlmError::new_err(format!("the table cannot be evaluated: {err}"))
}

/// Returns the rows as JSON, with the checks. A null is a missing key.
fn lines(records: &RecordBatch, checks: &Checks) -> Result<Vec<Vec<u8>>, ArrowError> {
    let mut writer = LineDelimitedWriter::new(Vec::new());
    writer.write(records)?;
    writer.finish()?;
    let text = writer.into_inner();
    let lines = text.split(|it| *it == b'\n').filter(|it| !it.is_empty());
    Ok(lines.map(|it| checks.add_to(it)).collect())
}

fn results(rows: &[Row], schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let builder = ReaderBuilder::new(Arc::clone(schema)).with_coerce_primitive(true);
    let mut decoder = builder.with_batch_size(rows.len()).build_decoder()?;
    decoder.serialize(rows)?;
    Ok(decoder.flush()?.unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(schema))))
}

/// Returns the columns of the results for the columns of the records. Fails if a column of the records is one of
/// [`KEYS`].
///
/// The columns are the keys of a result in JSON. Keys whose values have no fixed type are left out.
fn results_schema(records: &Schema) -> PyResult<SchemaRef> {
    if let Some(key) = KEYS.into_iter().find(|it| records.field_with_name(it).is_ok()) {
        return Err(own_checks("the table", key));
    }
    let field = |(name, kind): (&str, &DataType)| Field::new(name, kind.clone(), true);
    let (text, float, count) = (DataType::Utf8, DataType::Float64, DataType::UInt64);
    let result = [
        ("id", &text),
        ("type", &text),
        ("label", &text),
        ("status", &text),
        ("pass", &DataType::Boolean),
        ("score", &float),
        ("severity", &text),
        ("weight", &float),
        ("metric", &text),
        ("reasoning", &text),
        ("failure_code", &text),
        ("failure_message", &text),
    ];
    let result = DataType::Struct(result.into_iter().map(field).collect::<Fields>());
    let results = DataType::new_list(result, true);
    let id = id_type(records);
    let columns = [
        ("id", &id),
        ("outcome", &text),
        ("score", &float),
        ("passed", &count),
        ("failed", &count),
        ("total", &count),
        ("weighted_score", &float),
        ("error", &text),
        ("results", &results),
    ];
    Ok(Arc::new(Schema::new(columns.map(field).to_vec())))
}

/// Returns the type of the ids of the results: the type of the records' ids, or else text.
fn id_type(records: &Schema) -> DataType {
    match records.field_with_name("id").map(Field::data_type) {
        Ok(id) if id.is_integer() || id.is_string() || *id == DataType::Boolean => id.clone(),
        _ => DataType::Utf8,
    }
}
