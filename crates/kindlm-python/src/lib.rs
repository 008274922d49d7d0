//! The module `kindlm` for Python: checks recorded outputs of models and agents.
//!
//! A [`RecordService`] evaluates each record, as in `kindlm evaluate`. `docs/python.md` describes the module.

mod checks;
mod error;
mod list;
mod service;
mod table;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use kindlm_run::evaluate::service::RecordService;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use checks::Checks;
use error::KindlmError;
use service::{Batch, Notices};

/// Runs a script worker until its stdin ends, and returns the exit code for the process.
#[pyfunction]
fn script_worker() -> u8 {
    kindlm_script::worker::main()
}

/// Checks records. Several threads can use an evaluator at once, and it can be pickled.
///
/// `expect` has the checks, in the form of `expect` in a `kindlm.yaml`: a dict, a list of checks, or a text in JSON or
/// YAML. A dict with `assertions`, `expect` or `threshold` sets these keys of each record.
///
/// `config` is the path of a `kindlm.yaml` with the judges. Without a config, there is no judge. The keys of providers
/// are read from the environment.
///
/// `threads` is the number of records that are evaluated at once. The default is the number of CPUs, and at least 8 with
/// a config, because records wait for judges.
#[pyclass(frozen, module = "kindlm")]
struct Evaluator {
    checks: Checks,
    config: Option<PathBuf>,
    threads: Option<usize>,
    running: Mutex<Running>,
    notices: Notices,
}

/// A service, and the id of the process in which its threads run.
struct Running {
    service: RecordService,
    process: u32,
}

#[pymethods]
impl Evaluator {
    #[new]
    #[pyo3(signature = (expect, config=None, *, threads=None))]
    fn new(
        expect: &Bound<'_, PyAny>,
        config: Option<PathBuf>,
        threads: Option<usize>,
    ) -> PyResult<Self> {
        guarded(|| {
            let py = expect.py();
            let checks = Checks::new(expect)?;
            let notices = Notices::default();
            let service = service::start(py, config.as_deref(), threads, &notices)?;
            py.detach(|| service::compile(&service, &checks))?;
            notices.warn(py)?;
            let running = Mutex::new(Running { service, process: std::process::id() });
            Ok(Self { checks, config, threads, running, notices })
        })
    }

    /// Evaluates records, and returns a result for each one, in the same order.
    ///
    /// A list of dicts gives a list of dicts, in the form of the results of `kindlm evaluate --jsonl`. A table of
    /// pyarrow gives a table, a record batch gives a record batch, and any other table of Arrow gives a table of
    /// pyarrow.
    ///
    /// A record that is not valid has an `error` instead of an outcome.
    fn evaluate<'py>(&self, records: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        guarded(|| {
            let py = records.py();
            let service = self.service(py)?;
            let mut batch =
                Batch::new(py, &service, service::threads(self.threads, self.config.is_some()));
            let results = if records.hasattr("__arrow_c_array__")? {
                table::evaluate_batch(records, &self.checks, &mut batch)
            } else if records.hasattr("__arrow_c_stream__")? {
                table::evaluate_table(records, &self.checks, &mut batch)
            } else {
                list::evaluate(records, &self.checks, &mut batch)
            };
            self.notices.warn(py)?;
            results
        })
    }

    /// Returns the arguments that create an equal evaluator, for `pickle`.
    fn __getnewargs_ex__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        let arguments = (self.checks.as_str(), self.config.clone()).into_pyobject(py)?;
        let named = PyDict::new(py);
        named.set_item("threads", self.threads)?;
        Ok((arguments, named))
    }
}

impl Evaluator {
    /// Returns the service. In a process that was forked after the service was started, this starts another service.
    ///
    /// The lock is held only while the thread is attached to Python, so a fork never copies a locked lock.
    fn service(&self, py: Python<'_>) -> PyResult<RecordService> {
        let process = std::process::id();
        let lock = || self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let current = Some(lock()).filter(|it| it.process == process).map(|it| it.service.clone());
        if let Some(service) = current {
            return Ok(service);
        }
        // `start` runs Python code, and another thread that runs meanwhile may need the lock.
        let started = service::start(py, self.config.as_deref(), self.threads, &self.notices)?;
        let mut running = lock();
        if running.process != process {
            // The threads of the old service do not exist in this process, so nothing can wait for them.
            std::mem::forget(std::mem::replace(&mut running.service, started));
            running.process = process;
        }
        Ok(running.service.clone())
    }
}

/// Runs `work`, and turns a panic into an exception that `except Exception` catches.
fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let failed = |_| {
        let message = "internal error; the standard error has the details. Please report it at \
            https://github.com/kindlm/kindlm/issues";
        Err(KindlmError::new_err(message))
    };
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(failed)
}

#[pymodule]
fn _kindlm(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("KindlmError", module.py().get_type::<KindlmError>())?;
    module.add_class::<Evaluator>()?;
    module.add_function(wrap_pyfunction!(script_worker, module)?)
}
