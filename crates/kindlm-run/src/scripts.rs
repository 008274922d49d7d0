//! Runs users' scripts in worker processes.

use std::path::Path;
use std::sync::Arc;

use kindlm_providers::transport::{HttpTransport, TransportOptions};
use kindlm_script::{Fetch, FetchRequest, FetchResponse, HostOptions, ScriptHost};
use kindlm_types::BoxFuture;
use kindlm_types::script::{ScriptAnswer, ScriptError, ScriptQuestion, ScriptRunner};

use crate::{Failure, World};

/// A runner of scripts in worker processes.
pub(crate) struct Runner(ScriptHost);

impl Runner {
    /// Creates a runner of scripts whose files are below `root`.
    pub(crate) fn new(world: &World, root: &Path) -> Result<Arc<Self>, Failure> {
        Ok(Arc::new(Self(host(world, root)?)))
    }
}

impl ScriptRunner for Runner {
    fn run<'a>(
        &'a self,
        question: &'a ScriptQuestion,
    ) -> BoxFuture<'a, Result<ScriptAnswer, ScriptError>> {
        Box::pin(self.0.run(question))
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
            let FetchRequest { url, method, headers, body, timeout, max_body } = request;
            let to = (method.as_str(), url.as_str());
            let answer = transport.fetch(to, &headers, body, timeout, max_body).await?;
            let (status, headers, body) = answer;
            Ok(FetchResponse { status, headers, body })
        })
    }
}
