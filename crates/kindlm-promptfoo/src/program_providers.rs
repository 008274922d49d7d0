//! Providers that are programs: command lines and scripts.

use kindlm_source::{Kind, Node, Span};
use kindlm_types::script::ScriptRuntime;

use super::Translator;
use super::build::text;
use super::provider::Runtime;
use super::provider_groups::Entry;
use super::settings::Settings;

impl Translator<'_> {
    /// Translates a command line. A `config` is an error, which is reported.
    pub(super) fn exec(&mut self, entry: &Entry, command: &str) -> Settings {
        let span = entry.span;
        if let Some((key, _)) = entry.config.first() {
            let help = "give the program its settings in its command line or in the environment";
            self.unsupported(key.span, "`config` of an `exec` provider", Some(help));
        }
        let provider = vec![("command", text(span, command)), ("input", text(span, "argument"))];
        Settings { provider, ..Settings::default() }
    }

    /// Translates a provider that is a script. Returns `None` if the file cannot be read, which is reported.
    pub(super) fn script(
        &mut self,
        entry: &Entry,
        runtime: Runtime,
        path: &str,
        function: Option<&str>,
    ) -> Option<Settings> {
        let span = entry.span;
        let program = self.content(span, path)?;
        self.check_packages(span, path, runtime, &program);
        let function = function.or((runtime != Runtime::JavaScript).then_some("call_api"));
        let mut provider = vec![("file", text(span, path.trim_start_matches("./")))];
        if let Some(function) = function {
            provider.push(("function", text(span, function)));
        }
        if !entry.config.is_empty() {
            let config = entry.config.clone();
            let config = Node { span, used_at: None, kind: Kind::Mapping(config.into()) };
            provider.push(("config", config));
        }
        Some(Settings { provider, ..Settings::default() })
    }

    /// Warns of npm packages that a provider imports, if its runtime is the sandbox, which has no packages.
    pub(super) fn check_packages(
        &mut self,
        span: Span,
        path: &str,
        runtime: Runtime,
        program: &str,
    ) {
        let is_sandbox = self.scripts.runtime == ScriptRuntime::QuickJs;
        if runtime != Runtime::JavaScript || !is_sandbox {
            return;
        }
        let names: Vec<String> =
            super::packages::packages(program).iter().map(|it| format!("`{it}`")).collect();
        if names.is_empty() {
            return;
        }
        let (packages, them) =
            if names.len() == 1 { ("package", "it") } else { ("packages", "them") };
        let message = format!(
            "`{path}` imports the npm {packages} {}: the sandbox does not load {them}",
            names.join(", ")
        );
        let help = "`scripts: { runtime: node }` lets Node.js run programs, with packages and without a sandbox";
        self.warn(span, message, Some(help));
    }
}
