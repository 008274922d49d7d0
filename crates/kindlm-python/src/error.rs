//! The exception of the module.

use pyo3::exceptions::PyValueError;

pyo3::create_exception!(
    kindlm,
    KindlmError,
    PyValueError,
    "The checks, the config or the records are invalid, or a check needs a judge that does not exist."
);
