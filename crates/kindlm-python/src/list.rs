//! Records as a list of dicts.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::checks::{Checks, KEYS, own_checks};
use crate::error::KindlmError;
use crate::service::Batch;

/// Evaluates the dicts of an iterable, and returns a list of dicts.
pub(crate) fn evaluate<'py>(
    records: &Bound<'py, PyAny>,
    checks: &Checks,
    batch: &mut Batch<'py, '_>,
) -> PyResult<Bound<'py, PyAny>> {
    let rows = batch.evaluate(lines(records, checks)?)?;
    let py = records.py();
    let text = py.detach(|| serde_json::to_vec(&rows));
    let text = text.map_err(|err| KindlmError::new_err(err.to_string()))?;
    py.import(intern!(py, "json"))?.call_method1(intern!(py, "loads"), (PyBytes::new(py, &text),))
}

/// Returns the records as JSON, with the checks.
fn lines(records: &Bound<'_, PyAny>, checks: &Checks) -> PyResult<Vec<Vec<u8>>> {
    let py = records.py();
    let is_one = records.is_instance_of::<PyDict>() || records.is_instance_of::<PyString>();
    let Some(records) = (!is_one).then(|| records.try_iter().ok()).flatten() else {
        let message = format!(
            "`records`: expected a list of dicts or a table of Arrow, got {}; in Ray Data, set \
            `batch_format=\"pyarrow\"`",
            records.get_type().name()?
        );
        return Err(PyTypeError::new_err(message));
    };
    let options = PyDict::new(py);
    options.set_item("allow_nan", false)?;
    let encoder = py.import("json")?.getattr("JSONEncoder")?.call((), Some(&options))?;
    let encode = encoder.getattr("encode")?;
    let line = |(index, record): (usize, PyResult<Bound<'_, PyAny>>)| {
        let record = record?;
        let place = || format!("records[{index}]");
        let Ok(record) = record.cast::<PyDict>() else {
            let message =
                format!("{}: expected a dict, got {}", place(), record.get_type().name()?);
            return Err(PyTypeError::new_err(message));
        };
        for key in KEYS {
            if record.contains(key)? {
                return Err(own_checks(&place(), key));
            }
        }
        let text = encode.call1((record,)).map_err(|cause| {
            let error = KindlmError::new_err(format!("{}: not JSON: {cause}", place()));
            error.set_cause(py, Some(cause));
            error
        })?;
        Ok(checks.add_to(text.cast::<PyString>()?.to_str()?.as_bytes()))
    };
    records.enumerate().map(line).collect()
}
