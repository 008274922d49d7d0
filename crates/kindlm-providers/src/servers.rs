//! Servers with an API compatible to OpenAI's. Each row of the table is a provider.

use kindlm_types::Problem;
use serde_json::Value;

use crate::dialect::openai::{Config, OpenAi};
use crate::dialect::settings;
use crate::{Codec, Kind, Meta, Registration};

/// A server with an API compatible to OpenAI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Server {
    /// The id of the provider.
    pub name: &'static str,
    /// The name of the vendor or of the product.
    pub vendor: &'static str,
    /// The base URL. It is empty if only the configuration has it.
    pub base_url: &'static str,
    /// The environment variable of the key.
    pub key: &'static str,
    /// True if the server accepts requests without a key. Then the key is sent only if the configuration names its
    /// variable.
    pub is_open: bool,
    /// The address of the vendor's documentation.
    pub docs: &'static str,
    /// A setting that the configuration must have, with an example of its value; empty if there is none.
    pub needs: &'static str,
}

const fn keyed(
    name: &'static str,
    vendor: &'static str,
    base_url: &'static str,
    key: &'static str,
    docs: &'static str,
    needs: &'static str,
) -> Server {
    Server { name, vendor, base_url, key, is_open: false, docs, needs }
}

const fn open(
    name: &'static str,
    vendor: &'static str,
    base_url: &'static str,
    key: &'static str,
    docs: &'static str,
    needs: &'static str,
) -> Server {
    Server { is_open: true, ..keyed(name, vendor, base_url, key, docs, needs) }
}

/// Returns all servers, sorted by name.
pub fn all() -> impl Iterator<Item = &'static Server> + Clone {
    ROWS.iter().map(|(server, _)| server)
}

/// Returns the server with this name; `None` if there is none.
pub fn find(name: &str) -> Option<&'static Server> {
    all().find(|it| it.name == name)
}

/// Returns the providers of the servers, sorted by id.
pub(crate) fn registrations() -> impl Iterator<Item = &'static Registration> + Clone {
    ROWS.iter().map(|(_, registration)| registration)
}

/// Creates the codec of a server. Fails with the problems of the configuration.
fn codec(server: &Server, config: &Value) -> Result<Box<dyn Codec>, Vec<Problem>> {
    if let Some((key, _)) = server.needs.split_once(':')
        && config.get(key).is_none()
    {
        let problem = Problem::key("", format!("`{}` needs `{key}`", server.name));
        return Err(vec![problem.with_help(format!("add it, such as `{}`", server.needs))]);
    }
    Ok(Box::new(OpenAi::new(settings::parse_config(config)?, server.base_url)?))
}

/// Makes the table of servers, each with its registration.
///
/// A row begins with `keyed`, or with `open` for a server that accepts requests without a key. The name, the vendor,
/// the variable of the key and the documentation follow. `at` is the base URL, and `needs` is a setting that the
/// configuration must have.
macro_rules! servers {
    ($($access:ident $name:literal, $vendor:literal, $key:literal, $docs:literal
        $(, at $url:literal)? $(, needs $needs:literal)?;)*) => {
        static ROWS: &[(Server, Registration)] = &[$({
            const SERVER: Server = $access(
                $name,
                $vendor,
                concat!("" $(, $url)?),
                $key,
                $docs,
                concat!("" $(, $needs)?),
            );
            let registration = Registration {
                meta: Meta {
                    id: $name,
                    summary: concat!($vendor, ", by an API compatible to OpenAI's."),
                    since: "0.1.0",
                    key_variable: if SERVER.is_open { None } else { Some(SERVER.key) },
                    shorthand: SERVER.needs.is_empty(),
                    wraps_agent: false,
                    docs: concat!(
                        "# ", $name, "\n\n", $vendor, ", by an API compatible to OpenAI's: see its [documentation](",
                        $docs, ").\n\n```yaml providers\n", $name, ":\n  apiKeyEnv: ", $key, "\n",
                        $("  ", $needs, "\n",)?
                        "```\n\n`", $name, ":MODEL` is a model of this provider. `apiKeyEnv: null` sends no key.\n\n",
                        $("The default of `baseUrl` is `", $url, "`.\n",)?
                        "The other settings, the requests, the replies and the errors are those of `openai`: see ",
                        "`kindlm explain openai`.\n",
                    ),
                },
                schema: |it| it.reference::<Config>(),
                kind: Kind::Http(|config| codec(&SERVER, config)),
            };
            (SERVER, registration)
        }),*];
    };
}

servers! {
    keyed "abliteration", "abliteration.ai", "ABLIT_KEY", "https://abliteration.ai",
        at "https://api.abliteration.ai/v1";
    keyed "ai21", "AI21 Labs", "AI21_API_KEY", "https://docs.ai21.com",
        at "https://api.ai21.com/studio/v1";
    keyed "aimlapi", "AI/ML API", "AIML_API_KEY", "https://docs.aimlapi.com",
        at "https://api.aimlapi.com/v1";
    keyed "atlascloud", "Atlas Cloud", "ATLASCLOUD_API_KEY", "https://www.atlascloud.ai",
        at "https://api.atlascloud.ai/v1";
    keyed "cerebras", "Cerebras", "CEREBRAS_API_KEY", "https://inference-docs.cerebras.ai",
        at "https://api.cerebras.ai/v1";
    keyed "cloudflare-ai", "Workers AI of Cloudflare", "CLOUDFLARE_API_KEY",
        "https://developers.cloudflare.com/workers-ai/",
        needs "baseUrl: https://api.cloudflare.com/client/v4/accounts/ACCOUNT/ai/v1";
    keyed "cometapi", "CometAPI", "COMETAPI_KEY", "https://www.cometapi.com",
        at "https://api.cometapi.com/v1";
    keyed "dashscope", "Model Studio of Alibaba Cloud", "DASHSCOPE_API_KEY",
        "https://www.alibabacloud.com/help/en/model-studio/",
        at "https://dashscope-intl.aliyuncs.com/compatible-mode/v1";
    keyed "databricks", "Databricks", "DATABRICKS_TOKEN", "https://docs.databricks.com",
        needs "baseUrl: https://WORKSPACE.cloud.databricks.com/serving-endpoints";
    keyed "deepseek", "DeepSeek", "DEEPSEEK_API_KEY", "https://api-docs.deepseek.com",
        at "https://api.deepseek.com/v1";
    open "docker", "Docker Model Runner", "DOCKER_MODEL_RUNNER_API_KEY",
        "https://docs.docker.com/ai/model-runner/",
        at "http://localhost:12434/engines/v1";
    keyed "envoy", "Envoy AI Gateway", "OPENAI_API_KEY", "https://aigateway.envoyproxy.io",
        needs "baseUrl: https://GATEWAY/v1";
    keyed "f5", "F5 AI Gateway", "F5_API_KEY", "https://www.f5.com",
        needs "baseUrl: https://GATEWAY/ROUTE";
    keyed "fireworks", "Fireworks AI", "FIREWORKS_API_KEY", "https://docs.fireworks.ai",
        at "https://api.fireworks.ai/inference/v1";
    keyed "groq", "Groq", "GROQ_API_KEY", "https://console.groq.com/docs",
        at "https://api.groq.com/openai/v1";
    open "helicone", "Helicone AI Gateway", "HELICONE_API_KEY", "https://docs.helicone.ai",
        at "http://localhost:8080/ai";
    keyed "huggingface", "Inference Providers of Hugging Face", "HF_TOKEN",
        "https://huggingface.co/docs/inference-providers",
        at "https://router.huggingface.co/v1";
    keyed "hyperbolic", "Hyperbolic", "HYPERBOLIC_API_KEY", "https://docs.hyperbolic.xyz",
        at "https://api.hyperbolic.xyz/v1";
    open "litellm", "LiteLLM Proxy", "LITELLM_API_KEY", "https://docs.litellm.ai",
        at "http://0.0.0.0:4000";
    keyed "llamaapi", "Llama API of Meta", "LLAMA_API_KEY", "https://llama.developer.meta.com/docs",
        at "https://api.llama.com/compat/v1";
    open "localai", "LocalAI", "LOCALAI_API_KEY", "https://localai.io",
        at "http://localhost:8080/v1";
    keyed "minimax", "MiniMax", "MINIMAX_API_KEY", "https://platform.minimax.io/docs",
        at "https://api.minimax.io/v1";
    open "mlflow-gateway", "MLflow AI Gateway", "MLFLOW_GATEWAY_API_KEY", "https://mlflow.org/docs/latest/",
        needs "baseUrl: http://localhost:5000/gateway/mlflow/v1";
    keyed "moonshot", "Moonshot AI", "MOONSHOT_API_KEY", "https://platform.moonshot.ai/docs",
        at "https://api.moonshot.ai/v1";
    keyed "novita", "Novita AI", "NOVITA_API_KEY", "https://novita.ai/docs",
        at "https://api.novita.ai/openai/v1";
    keyed "nscale", "Nscale", "NSCALE_SERVICE_TOKEN", "https://docs.nscale.com",
        at "https://inference.api.nscale.com/v1";
    keyed "nvidia", "NVIDIA NIM", "NVIDIA_API_KEY", "https://docs.api.nvidia.com",
        at "https://integrate.api.nvidia.com/v1";
    open "openclaw", "OpenClaw", "OPENCLAW_GATEWAY_TOKEN", "https://docs.openclaw.ai",
        at "http://127.0.0.1:18789/v1";
    keyed "openrouter", "OpenRouter", "OPENROUTER_API_KEY", "https://openrouter.ai/docs",
        at "https://openrouter.ai/api/v1";
    keyed "orcarouter", "OrcaRouter", "ORCAROUTER_API_KEY", "https://www.orcarouter.ai",
        at "https://api.orcarouter.ai/v1";
    keyed "perplexity", "Perplexity", "PERPLEXITY_API_KEY", "https://docs.perplexity.ai",
        at "https://api.perplexity.ai";
    // Portkey's own key is in a header. The bearer token is the key of the vendor behind Portkey, unless Portkey stores
    // that key.
    open "portkey", "Portkey", "OPENAI_API_KEY", "https://portkey.ai/docs",
        at "https://api.portkey.ai/v1", needs "headers: { x-portkey-api-key: 'env:PORTKEY_API_KEY' }";
    keyed "together", "Together AI", "TOGETHER_API_KEY", "https://docs.together.ai",
        at "https://api.together.xyz/v1";
    keyed "truefoundry", "TrueFoundry AI Gateway", "TRUEFOUNDRY_API_KEY", "https://docs.truefoundry.com",
        at "https://llm-gateway.truefoundry.com";
    keyed "vercel", "Vercel AI Gateway", "AI_GATEWAY_API_KEY", "https://vercel.com/docs/ai-gateway",
        at "https://ai-gateway.vercel.sh/v1";
    open "vllm", "vLLM", "VLLM_API_KEY", "https://docs.vllm.ai",
        at "http://localhost:8000/v1";
    keyed "xai", "xAI", "XAI_API_KEY", "https://docs.x.ai",
        at "https://api.x.ai/v1";
}

#[cfg(test)]
mod tests {
    use kindlm_types::Prompt;
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_are_sorted_and_have_an_address_or_need_one() {
        let names: Vec<&str> = all().map(|it| it.name).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(names, sorted);
        for (server, registration) in ROWS {
            let name = server.name;
            assert_eq!(find(name), Some(server));
            assert_eq!(registration.meta.id, name);
            assert!(crate::REGISTRY.iter().all(|it| it.meta.id != name), "{name}");
            let needs_url = server.needs.starts_with("baseUrl:");
            assert_eq!(server.base_url.is_empty(), needs_url, "{name}");
            for url in [server.base_url, server.docs].iter().filter(|it| !it.is_empty()) {
                assert_eq!(settings::check_url("", url), None, "{name}");
                assert!(!url.ends_with("/chat/completions"), "{name}");
            }
            assert_eq!(settings::check_variable("", server.key), None, "{name}");
            let usual = registration.default_config();
            assert_eq!(usual.is_some(), server.needs.is_empty(), "{name}");
        }
    }

    #[test]
    fn requests_are_sent_to_the_address_of_the_row() {
        let prompt = Prompt { model: "m".to_owned(), ..Prompt::default() };
        for (server, registration) in ROWS {
            let Kind::Http(make) = registration.kind else { panic!("{}", server.name) };
            let Some(config) = registration.default_config() else {
                let problems = make(&json!({"apiKeyEnv": "KEY"})).unwrap_err();
                let (key, _) = server.needs.split_once(':').unwrap();
                assert!(problems[0].message.contains(key), "{problems:?}");
                continue;
            };
            let request = make(&config).unwrap().encode(&prompt).unwrap();
            assert_eq!(request.url, format!("{}/chat/completions", server.base_url));
            let has_key = request.headers.iter().any(|(name, _)| name == "Authorization");
            assert_eq!(has_key, !server.is_open, "{}", server.name);
            let elsewhere = json!({"apiKeyEnv": null, "baseUrl": "https://h/v1"});
            let elsewhere = make(&elsewhere).unwrap().encode(&prompt).unwrap();
            assert_eq!(elsewhere.url, "https://h/v1/chat/completions");
            assert_eq!(elsewhere.body, request.body);
        }
    }

    #[test]
    fn servers_of_this_machine_accept_requests_without_a_key() {
        for server in all().filter(|it| it.base_url.starts_with("http:")) {
            assert!(server.is_open, "{}", server.name);
        }
    }

    #[test]
    fn the_example_of_a_page_is_a_good_configuration() {
        for (server, registration) in ROWS {
            let (_, rest) = registration.meta.docs.split_once("```yaml providers\n").unwrap();
            let (example, _) = rest.split_once("```").unwrap();
            let providers: Value = serde_yaml::from_str(example).unwrap();
            let problems = codec(server, &providers[server.name]).err();
            assert_eq!(problems, None, "{}", server.name);
        }
    }
}
