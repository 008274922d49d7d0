//! Runs users' scripts in worker processes.

use std::path::Path;
use std::sync::Arc;

use kindlm_providers::transport::{HttpTransport, TransportOptions};
use kindlm_script::{Fetch, FetchRequest, FetchResponse, HostOptions, ScriptHost};
use kindlm_types::BoxFuture;
use kindlm_types::script::{
    ScriptAnswer, ScriptError, ScriptErrorKind, ScriptPermissions, ScriptQuestion, ScriptRunner,
    ScriptRuntime, ScriptSource,
};

use crate::{Failure, World};

/// A runner of scripts in worker processes.
pub(crate) struct Runner {
    host: ScriptHost,
    /// True if only scripts that compute in the sandbox run.
    only_computes: bool,
}

impl Runner {
    /// Creates a runner of scripts whose files are below `root`.
    pub(crate) fn new(world: &World, root: &Path) -> Result<Arc<Self>, Failure> {
        Ok(Arc::new(Self { host: host(world, root)?, only_computes: false }))
    }

    /// Creates a runner for the scripts in requests of clients. These scripts only compute: they have no files, no
    /// environment variables, no network and no permissions.
    ///
    /// The compiler of the checks has the same rule; this runner does not rely on it.
    pub(crate) fn sandboxed(world: &World) -> Arc<Self> {
        let (program, args) = &world.script_worker;
        let options = HostOptions::new(program, args, &world.working_dir);
        let host = ScriptHost::new(HostOptions { loads_files: false, ..options });
        Arc::new(Self { host, only_computes: true })
    }

    /// Returns true if the runner refuses scripts that do more than compute in the sandbox.
    pub(crate) fn only_computes(&self) -> bool {
        self.only_computes
    }
}

/// Returns true if a script only computes in the sandbox.
fn computes(question: &ScriptQuestion) -> bool {
    question.runtime == ScriptRuntime::QuickJs
        && matches!(question.source, ScriptSource::Body { .. })
        && *question.permissions == ScriptPermissions::default()
}

impl ScriptRunner for Runner {
    fn run<'a>(
        &'a self,
        question: &'a ScriptQuestion,
    ) -> BoxFuture<'a, Result<ScriptAnswer, ScriptError>> {
        if self.only_computes && !computes(question) {
            let message = "scripts of requests run in the sandbox, without files and permissions";
            let err = ScriptError::new(ScriptErrorKind::Runtime, message);
            return Box::pin(std::future::ready(Err(err)));
        }
        Box::pin(self.host.run(question))
    }
}

/// Creates a script host for files below `root`. The first worker process starts with the first script.
pub(crate) fn host(world: &World, root: &Path) -> Result<ScriptHost, Failure> {
    let (program, args) = &world.script_worker;
    let transport = HttpTransport::new(TransportOptions::new(Arc::clone(&world.env)))
        .map_err(|err| Failure::internal(err.to_string()))?;
    let env = Arc::clone(&world.env);
    let options = HostOptions {
        env: Arc::new(move |name| env(name)),
        fetch: Some(Arc::new(Http(Arc::new(transport)))),
        ..HostOptions::new(program, args, root)
    };
    Ok(ScriptHost::new(options))
}

/// The HTTP transport for `fetch` in scripts.
struct Http(Arc<HttpTransport>);

impl Fetch for Http {
    fn fetch(&self, request: FetchRequest) -> BoxFuture<'static, Result<FetchResponse, String>> {
        let transport = Arc::clone(&self.0);
        Box::pin(async move {
            let FetchRequest { url, method, headers, body, timeout, max_body, .. } = request;
            let to = (method.as_str(), url.as_str());
            let answer = transport.fetch(to, &headers, body, timeout, max_body).await?;
            let (status, headers, body) = answer;
            Ok(FetchResponse { status, headers, body })
        })
    }
}
