//! Tests of promptfoo's keys, one for each table row in `docs/promptfoo.md`.

use std::collections::BTreeSet;
use std::sync::Arc;

use kindlm_config::{Imported, Loaded, Sources, import_with, load_with};
use kindlm_engine::Model;
use kindlm_promptfoo::Inputs;
use kindlm_schema::normalise_numbers;
use kindlm_source::{Source, read_yaml};
use kindlm_types::script::{
    ScriptAnswer, ScriptOutcome, ScriptQuestion, ScriptSource, ScriptValue,
};
use serde_json::{Value, json};

use crate::memory::Memory;

/// The expected result of an import.
enum Comes {
    /// A suite that contains these texts.
    As(&'static [&'static str]),
    /// A suite and a warning that contains this text.
    Warned(&'static str),
    /// An error that contains this text.
    Refused(&'static str),
}

use Comes::{As, Refused, Warned};

/// The key as in the table, a config, and the expected result. Missing prompts, providers and tests are added.
const ROWS: &[(&str, &str, Comes)] = &[
    ("description", "description: greetings", As(&["name: greetings"])),
    (
        "prompts",
        "prompts: [file://p.txt, { raw: 'Raw {{x}}', label: raw }, { id: file://p.md, label: md }, file://chat.json]",
        As(&["user: one", "user: two", "raw:", "md:", "role: system"]),
    ),
    ("prompts", "prompts: { 'Hi {{x}}': greeting }", As(&["greeting:", "user: Hi {{x}}"])),
    (
        "prompts: file://prompt.js:fn",
        "prompts: ['file://prompt.js:fn']",
        As(&["user: made by prompt.js fn"]),
    ),
    (
        "prompts",
        "providers: ['openai:gpt-4o']\nprompts: ['{{ x | dump }}', 'Hi {{x}}']",
        As(&["template: chat user: '{{ x | dump }}'", "template: jinja user: Hi {{x}}"]),
    ),
    (
        "prompts",
        "prompts: ['{{ x | dump }}']\ntests: [{ assert: [{ type: llm-rubric, value: a }] }]",
        As(&["template: jinja user: '{{ x | dump }}'"]),
    ),
    (
        "prompts",
        "providers: ['openai:gpt-4o', echo]\nprompts: [{ raw: '{{ x | dump }}', label: p }]",
        As(&[
            "p: template: chat user: '{{ x | dump }}'",
            "p · text: template: jinja user: '{{ x | dump }}'",
            "prompt: p models: - openai:gpt-4o",
            "prompt: p · text models: - echo",
        ]),
    ),
    (
        "prompts: langfuse://…",
        "prompts: ['langfuse://a:1']",
        Refused("a prompt from `langfuse://`"),
    ),
    (
        "prompts: langfuse://…",
        "prompts: [{ raw: 'helicone://a:1', label: l }]",
        Refused("a prompt from `helicone://`"),
    ),
    ("prompts: exec:…", "prompts: ['exec:./p.sh -v']", As(&["user: printed"])),
    ("prompts: exec:…", "prompts: [file://p.rb]", As(&["user: printed"])),
    ("prompts: exec:…", "prompts: [./p.pl]", As(&["user: printed"])),
    ("prompts: exec:…", "prompts: ['exec:']", Refused("the command is missing")),
    ("prompts: exec:…", "prompts: ['exec:\"']", Refused("the command is missing")),
    ("prompts: exec:…", "prompts: [file://missing.sh]", Refused("`missing.sh` does not exist")),
    ("prompts", "prompts: ['package:a:b']", Refused("a prompt of an npm package")),
    (
        "prompts[].config",
        "prompts: [{ id: file://p.txt, config: { seed: 1 } }]",
        Warned("`config` has no effect on the prompts of `p.txt`"),
    ),
    (
        "prompts",
        "prompts: [file://p.csv, file://dos.txt, file://lines.csv]",
        As(&[
            "first: template: jinja user: Say one",
            "Say two: template",
            "user: three",
            "user: four",
            "user: five",
        ]),
    ),
    ("prompts", "prompts: [file://wide.csv]", Refused("`wide.csv` has no column `prompt`")),
    ("providers", "providers: echo", As(&["id: echo"])),
    ("providers", "targets: [{ echo: { label: e } }]", As(&["id: e"])),
    (
        "providers: file://providers.yaml",
        "providers: [file://providers.yaml]",
        As(&["id: from file"]),
    ),
    (
        "providers: file://providers.yaml",
        "providers: [file://nested.yaml]",
        Refused("a file of providers cannot name another file of providers"),
    ),
    (
        "providers: file://providers.yaml",
        "providers: [file://scripts.yaml]",
        As(&["file: provider.js"]),
    ),
    (
        "providers: openai:…",
        "providers: ['openai:chat:gpt-4o']",
        As(&["provider: openai", "model: gpt-4o"]),
    ),
    (
        "providers: openai:responses:…",
        "providers: ['openai:responses:gpt-5']",
        As(&["provider: openai-responses", "itemsAsText: true", "params: omitDefaults: true"]),
    ),
    (
        "providers: openai:responses:…",
        "providers: [{ id: 'openai:responses:gpt-4o', config: { max_output_tokens: 9, verbosity: low } }]",
        As(&["maxTokens: 9", "verbosity: low"]),
    ),
    (
        "providers: openai:responses:…",
        "providers: [{ id: 'openai:responses:gpt-4o', config: { tools: [{ type: function, name: f }, { type: web_search }] } }]",
        As(&["hostedTools: - type: web_search", "name: f"]),
    ),
    (
        "config.tools",
        "providers: [{ id: 'anthropic:claude-sonnet-5', config: { tools: [{ type: web_search_20260209, max_uses: 2 }, { name: f, input_schema: {} }] } }]",
        As(&["hostedTools: - type: web_search_20260209 max_uses: 2 name: web_search", "name: f"]),
    ),
    (
        "config.tools",
        "providers: [{ id: 'anthropic:claude-sonnet-5', config: { tools: { name: f, input_schema: {} } } }]",
        Refused("expected a list of tools"),
    ),
    (
        "config.tools",
        "providers: [{ id: 'openai:gpt-4o', config: { tools: { type: function, function: { name: f } } } }]",
        Refused("expected a list of tools"),
    ),
    (
        "config.tools",
        "providers: [{ id: 'google:gemini-2.5-pro', config: { tools: { function_declarations: [{ name: f }] } } }]",
        As(&["tools: - name: f"]),
    ),
    (
        "config.response_format",
        "providers: [{ id: 'anthropic:claude-sonnet-5', config: { output_format: { type: json_schema, schema: { type: object } } } }]",
        As(&["output_config: format: type: json_schema", "JSON.parse(output)"]),
    ),
    (
        "config.apiBaseUrl",
        "providers: [{ id: 'openai:gpt-4o', config: { apiHost: '{{ env.NOBODY }}' } }]",
        Refused("the environment variable `NOBODY` is not set"),
    ),
    (
        "config.apiBaseUrl",
        "providers: [{ id: 'openai:gpt-4o', config: { apiBaseUrl: 'https://a.example/{{env.GATEWAY_TOKEN}}/v1' } }]",
        Refused("the address would contain the secret `GATEWAY_TOKEN`"),
    ),
    (
        "config.apiBaseUrl",
        "providers: [{ id: 'openai:gpt-4o', config: { apiBaseUrl: 'https://{{ env.REGION | lower }}.example' } }]",
        Refused("only `{{env.NAME}}` may be in an address"),
    ),
    ("providers: bedrock:…", "providers: ['bedrock:api:InvokeModel']", Refused("`bedrock:api`")),
    (
        "providers: github:…",
        "providers: ['github:openai/gpt-4o-mini']",
        Refused("the provider `github:openai/gpt-4o-mini`"),
    ),
    (
        "tests[].assert[].…",
        "tests: [{ assert: [{ type: is-valid-openai-tools-call, value: false }] }]",
        Warned("`value` has no effect on `is-valid-openai-tools-call`"),
    ),
    (
        "tests[].assert[].…",
        "tests: [{ assert: [{ type: g-eval, value: a, rubricPrompt: Grade it }] }]",
        Warned("`rubricPrompt` has no effect on `g-eval`"),
    ),
    (
        "options.provider",
        "tests: [{ assert: [{ type: similar, value: a, provider: file://vectors.js }] }]",
        Refused("a program that makes embeddings"),
    ),
    (
        "prompts: exec:…",
        "prompts: [{ raw: 'exec:./prompt.sh', label: a }]",
        As(&["a: template: jinja user: printed"]),
    ),
    (
        "config.tools",
        "providers: [{ id: 'anthropic:claude-sonnet-5', config: { tools: [{ type: memory_20250818, name: memory }] } }]",
        As(&[
            "hostedTools: - type: memory_20250818",
            "callsAsOutput: anthropic",
            "answerTools: false",
        ]),
    ),
    (
        "providers: bedrock:…",
        "providers: [{ id: 'bedrock:amazon.nova-lite-v1:0', config: { toolConfig: { toolChoice: { any: {} }, tools: [{ toolSpec: { name: f } }] } } }]",
        As(&["toolConfig: toolChoice: any: {}", "tools: - name: f"]),
    ),
    (
        "providers: openai:…",
        "providers: [{ id: 'openai:gpt-4o', config: { passthrough: { max_completion_tokens: 8 } } }]",
        As(&["maxTokens: 8"]),
    ),
    (
        "providers: openai:…",
        "providers: [{ id: 'openai:gpt-4o', config: { user: '{{ env.NOBODY }}' } }]",
        Refused("a template in `config.user`"),
    ),
    (
        "providers: openai:responses:…",
        "providers: [{ id: 'openai:responses:gpt-4o', config: { tools: [{ type: mcp, headers: { Authorization: 'Bearer {{ env.NOBODY }}' } }] } }]",
        As(&["hostedTools: - type: mcp headers: Authorization: Bearer {{ env.NOBODY }}"]),
    ),
    (
        "providers: openai:responses:…",
        "providers: [{ id: 'openai:responses:gpt-4o', config: { tools: [{ type: mcp, headers: { X: '{{ x }}' } }] } }]",
        Refused("a template in `config.tools`"),
    ),
    (
        "providers: openai:responses:…",
        "providers: [{ id: 'openai:responses:gpt-4o', config: { background: true } }]",
        Refused("`background` of `openai:responses`"),
    ),
    (
        "providers: openai:responses:…",
        "providers: [{ id: 'openai:responses:gpt-4o', config: { stream: true } }]",
        As(&["stream: true"]),
    ),
    ("providers: openai:…", "providers: ['openai:gpt-5']", As(&["params: omitDefaults: true"])),
    (
        "providers: openai:…",
        "providers: [{ id: 'openai:o3', config: { max_tokens: 9 } }]",
        Warned("`config.max_tokens` has no effect on `o3`"),
    ),
    (
        "providers: openai:…",
        "providers: [{ id: 'openai:o3', config: { max_tokens: 9, max_completion_tokens: 8 } }]",
        As(&["params: maxTokens: 8 omitDefaults: true"]),
    ),
    (
        "providers: openai:…",
        "providers: [{ id: 'openai:gpt-4o', config: { max_completion_tokens: 8 } }]",
        Warned("`config.max_completion_tokens` has no effect on `gpt-4o`"),
    ),
    (
        "providers: anthropic:…",
        "providers: ['anthropic:messages:claude-sonnet-4-5']",
        As(&["provider: anthropic"]),
    ),
    (
        "providers: anthropic:…",
        "providers: [{ id: 'anthropic:claude-sonnet-4-5', config: { stream: true } }]",
        As(&["stream: true"]),
    ),
    (
        "providers: google:…",
        "providers: ['google:gemini-2.5-flash', 'ollama:chat:llama3']",
        As(&["provider: gemini", "provider: ollama"]),
    ),
    (
        "providers: openrouter:…",
        "providers: ['groq:llama', 'cerebras:x']",
        As(&["baseUrl: https://api.groq.com/openai/v1", "CEREBRAS_API_KEY"]),
    ),
    (
        "providers: azure:chat:…",
        "providers: [{ id: 'azure:chat:mine', config: { apiHost: r.openai.azure.com } }]",
        As(&[
            "baseUrl: https://r.openai.azure.com/openai/v1",
            "apiKeyEnv: AZURE_API_KEY",
            "model: mine",
        ]),
    ),
    (
        "providers: azure:chat:…",
        "providers: ['azure:chat:mine']",
        Refused("the address of this provider is missing"),
    ),
    (
        "providers: azure:chat:…",
        "providers: [{ id: 'azure:responses:mine', config: { apiHost: r.openai.azure.com, apiVersion: preview } }]",
        As(&["type: openai-responses", "baseUrl: https://r.openai.azure.com/openai/v1"]),
    ),
    (
        "providers: bedrock:…",
        "providers: ['bedrock:us.amazon.nova-lite-v1:0']",
        As(&["provider: bedrock model: us.amazon.nova-lite-v1:0", "params: temperature: 0"]),
    ),
    (
        "providers: bedrock:…",
        "providers: [{ id: 'bedrock:converse:us.anthropic.claude-x-v1:0', config: { region: eu-west-1, maxTokens: 9, thinking: { type: enabled, budget_tokens: 5 }, guardrailIdentifier: g } }]",
        As(&[
            "region: eu-west-1",
            "guardrailConfig: guardrailIdentifier: g guardrailVersion: DRAFT",
            "additionalModelRequestFields: thinking:",
            "params: maxTokens: 9 omitDefaults: true",
        ]),
    ),
    (
        "providers: bedrock:…",
        "providers: [{ id: 'bedrock:meta.llama3-1-8b-instruct-v1:0', config: { max_gen_len: 7, temperature: 0.5 } }]",
        As(&["params: maxTokens: 7 temperature: 0.5"]),
    ),
    (
        "providers: bedrock:…",
        "providers: [{ id: 'bedrock:amazon.titan-text-lite-v1', config: { textGenerationConfig: { maxTokenCount: 7, topP: 0.5 } } }]",
        As(&["maxTokens: 7 topP: 0.5"]),
    ),
    (
        "providers: bedrock:…",
        "providers: [{ id: 'bedrock:converse:m', config: { tools: [{ toolSpec: { name: f, inputSchema: { json: { type: object } } } }], toolChoice: any } }]",
        As(&["tools: - name: f parameters: type: object", "toolChoice: any: {}"]),
    ),
    (
        "providers: bedrock:…",
        "providers: [{ id: 'bedrock:converse:m', config: { profile: work } }]",
        Warned("`config.profile` has no effect here"),
    ),
    (
        "providers: bedrock:…",
        "providers: [{ id: 'bedrock:converse:m', config: { accessKeyId: '{{env.AWS_ACCESS_KEY_ID}}' } }]",
        As(&["provider: bedrock"]),
    ),
    (
        "providers: bedrock:…",
        "providers: [{ id: 'bedrock:converse:m', config: { secretAccessKey: abc } }]",
        Refused("KindLM reads the credentials of AWS from the environment"),
    ),
    ("providers: bedrock:…", "providers: ['bedrock:video:x']", Refused("`bedrock:video`")),
    (
        "providers: bedrock:kb:…",
        "providers: [{ id: 'bedrock:kb:us.anthropic.claude-sonnet-5', config: { region: us-east-2, knowledgeBaseId: K, max_tokens: 9, numberOfResults: 3 } }]",
        As(&[
            "url: https://bedrock-agent-runtime.us-east-2.amazonaws.com/retrieveAndGenerate aws: service: bedrock region: us-east-2",
            r#""knowledgeBaseId":"K","modelArn":"us.anthropic.claude-sonnet-5""#,
            r#""textInferenceConfig":{"maxTokens":9}"#,
        ]),
    ),
    (
        "providers: bedrock:kb:…",
        "providers: ['bedrock:kb:x']",
        Refused("the id of the knowledge base is missing"),
    ),
    (
        "providers: azure:foundry-agent:…",
        "providers: [{ id: 'azure:foundry-agent:a', config: { projectUrl: 'r.services.ai.azure.com/api/projects/p', temperature: 0.7, max_tokens: 5 } }]",
        As(&[
            "url: https://r.services.ai.azure.com/api/projects/p/openai/v1/responses apiKeyEnv: AZURE_ACCESS_TOKEN",
            r#""agent_reference":{"name":"a","type":"agent_reference"}"#,
        ]),
    ),
    (
        "providers: azure:foundry-agent:…",
        "providers: [{ id: 'azure:foundry-agent:a', config: { projectUrl: p, tools: [] } }]",
        Refused("`config.tools` of an agent of Foundry"),
    ),
    (
        "providers: azure:foundry-agent:…",
        "providers: [{ id: 'azure:foundry-agent:a', config: { projectUrl: p, max_tokens: 5, max_completion_tokens: 7 } }]",
        As(&[r#""max_output_tokens":7"#]),
    ),
    (
        "providers: bedrock:kb:…",
        "providers: [{ id: 'bedrock:kb:m', config: { knowledgeBaseId: K, apiKey: '{{env.BEDROCK_KEY}}' } }]",
        As(&["/retrieveAndGenerate apiKeyEnv: BEDROCK_KEY headers:"]),
    ),
    (
        "providers: bedrock:kb:…",
        "providers: [{ id: 'bedrock:kb:us.anthropic.claude-sonnet-5', config: { knowledgeBaseId: K, temperature: 0.5 } }]",
        Warned("`config.temperature` has no effect on `us.anthropic.claude-sonnet-5`"),
    ),
    (
        "providers: vertex:…",
        "providers: [{ id: 'vertex:gemini-2.5-pro', config: { projectId: p, region: us-central1, generationConfig: { topK: 3 } } }]",
        As(&[
            "project: p region: us-central1",
            "apiKeyEnv: GOOGLE_ACCESS_TOKEN",
            "generationConfig: topK: 3",
            "omitDefaults: true",
        ]),
    ),
    (
        "providers: vertex:…",
        "env: { GOOGLE_CLOUD_PROJECT: q }\nproviders: ['vertex:claude-sonnet-4-5@20250929']",
        As(&["project: q", "model: claude-sonnet-4-5@20250929"]),
    ),
    (
        "providers: vertex:…",
        "providers: [{ id: 'vertex:llama-3.2-90b-vision-instruct-maas', config: { projectId: p } }]",
        As(&["model: meta/llama-3.2-90b-vision-instruct-maas"]),
    ),
    (
        "providers: vertex:…",
        "providers: [{ id: 'vertex:llama-3.3-70b', config: { projectId: p, maxOutputTokens: 9, llamaConfig: { safetySettings: { enabled: false } } } }]",
        As(&["maxTokens: 9", "model_safety_settings: enabled: false llama_guard_settings: {}"]),
    ),
    (
        "providers: vertex:…",
        "providers: [{ id: 'vertex:llama-3.3-70b', config: { projectId: p, context: a, extra_body: {} } }]",
        Warned("`config.context`, `config.extra_body` have no effect on"),
    ),
    (
        "providers: vertex:…",
        "providers: [{ id: 'vertex:claude-x', config: { projectId: p, anthropic_version: v, tools: [{ codeExecution: {} }] } }]",
        Warned("`config.tools` has no effect on `claude-x`"),
    ),
    (
        "providers: vertex:…",
        "providers: [{ id: 'vertex:claude-x', config: { projectId: p, anthropic_version: v, topK: 3 } }]",
        As(&["maxTokens: 512", "anthropic_version: v", "top_k: 3"]),
    ),
    (
        "providers: vertex:…",
        "providers: [{ id: 'vertex:gemini-x', config: { projectId: p, tools: [{ googleSearch: {} }], modelArmor: { promptTemplate: a/b } } }]",
        As(&["hostedTools: - googleSearch: {}", "model_armor_config: prompt_template_name: a/b"]),
    ),
    ("providers: vertex:…", "providers: ['vertex:chat-bison']", Refused("`vertex:chat-bison`")),
    (
        "providers: vertex:…",
        "providers: ['vertex:gemini']",
        Refused("the project of this provider is missing"),
    ),
    (
        "providers: vertex:…",
        "providers: [{ id: 'vertex:gemini-x', config: { projectId: p, apiKey: '{{env.K}}' } }]",
        Refused("`config.apiKey` at Vertex AI"),
    ),
    (
        "providers: google:…",
        "providers: [{ id: 'google:gemini-x', config: { vertexai: true, projectId: p } }]",
        As(&["provider: vertex", "project: p"]),
    ),
    (
        "providers: google:…",
        "providers: [{ id: 'google:gemini-2.5-flash', config: { mediaConfig: {} } }]",
        Warned("`config.mediaConfig` has no effect"),
    ),
    (
        "providers: google:image:…",
        "providers: [{ id: 'google:image:imagen-4.0-generate-001', config: { aspectRatio: '16:9' } }]",
        As(&[
            "url: https://generativelanguage.googleapis.com/v1beta/models/imagen-4.0-generate-001:predict",
            "\"aspectRatio\":\"16:9\"",
        ]),
    ),
    (
        "providers: google:image:…",
        "providers: [{ id: 'google:image:4.0', config: { projectId: p, addWatermark: false, seed: 3 } }]",
        As(&[
            "/projects/p/locations/us-central1/publishers/google/models/imagen-4.0:predict",
            "\"seed\":3",
        ]),
    ),
    (
        "providers: google:image:…",
        "providers: [{ id: 'google:image:4.0', config: { seed: 3 } }]",
        Warned("`config.seed` has no effect at Google AI Studio"),
    ),
    (
        "providers: google:image:…",
        "providers: [{ id: 'google:gemini-3-pro-image', config: { imageAspectRatio: '16:9', imageSize: 2K, generationConfig: { topK: 1 } } }]",
        As(&[
            "responseModalities: - TEXT - IMAGE topK: 1 imageConfig: aspectRatio: 16:9 imageSize: 2K",
        ]),
    ),
    (
        "providers: google:image:…",
        "providers: [{ id: 'google:gemini-2.5-flash-image', config: { projectId: p, imageSize: 2K } }]",
        Warned("`config.imageSize` has no effect on `gemini-2.5-flash-image`"),
    ),
    (
        "providers: google:image:…",
        "providers: [{ id: 'google:gemini-3-pro-image', config: { projectId: p, region: eu } }]",
        As(&["provider: vertex", "region: global"]),
    ),
    (
        "providers: google:live:…",
        "providers: [{ id: 'google:live:m', config: { generationConfig: { response_modalities: [text], topK: 3 }, timeoutMs: 9, temperature: 0.5 } }]",
        As(&[
            "provider: google-live",
            "idleTimeoutMs: 9 apiKeyEnv: GEMINI_API_KEY output: object",
            "responseModalities: - TEXT topK: 3",
        ]),
    ),
    (
        "providers: google:live:…",
        "providers: [{ id: 'google:live:m', config: { tools: [{ functionDeclarations: [{ name: f }] }], functionToolCallbacks: { f: '() => 1' } } }]",
        As(&["answerCalls:", "return () => 1", "if (!has(name)) return {};"]),
    ),
    (
        "providers: google:live:…",
        "providers: [{ id: 'google:live:m', config: { functionToolStatefulApi: { url: a } } }]",
        Refused("a server of tools in `config.functionToolStatefulApi`"),
    ),
    (
        "providers: google:live:…",
        "providers: [{ id: 'google:live:m', config: { generationConfig: { response_modalities: [audio] } } }]",
        Warned("checks see the transcript of the audio, not the audio itself"),
    ),
    (
        "providers: openai:realtime:…",
        "providers: [{ id: 'openai:realtime:gpt-realtime', config: { modalities: [text, audio], voice: echo, temperature: 1 } }]",
        As(&[
            "provider: openai-realtime",
            "output_modalities: - audio",
            "voice: echo",
            "output: note",
        ]),
    ),
    (
        "providers: google:live:…",
        "providers: ['google:live:gemini-3.8-live-extended-thinking']",
        Refused("`google:live:gemini-3.8-live-extended-thinking`"),
    ),
    (
        "providers: google:live:…",
        "providers: [{ id: 'google:live:m', config: { maxOutputTokens: 9, generationConfig: { maxOutputTokens: 5, topK: 3 }, topK: 4 } }]",
        As(&["maxTokens: 5", "topK: 3"]),
    ),
    (
        "providers: openai:realtime:…",
        "providers: [{ id: 'openai:realtime:gpt-realtime', config: { maxToolIterations: 20 } }]",
        Refused("`config.maxToolIterations`"),
    ),
    (
        "providers: openai:realtime:…",
        "providers: ['openai:realtime:gpt-realtime']\ntests: [{ metadata: { conversationId: a } }]",
        Refused("`metadata.conversationId` of a realtime model"),
    ),
    (
        "providers: openai:realtime:…",
        "providers: [{ id: 'openai:realtime:gpt-realtime', config: { maintainContext: false, maxToolIterations: 8 } }]\ntests: [{ metadata: { conversationId: a } }]",
        As(&["provider: openai-realtime"]),
    ),
    (
        "providers: openai:realtime:…",
        "providers: ['openai:realtime:gpt-realtime-whisper']",
        Refused("`openai:realtime:gpt-realtime-whisper`"),
    ),
    (
        "providers: cloudflare-gateway:…",
        "providers: [{ id: 'cloudflare-gateway:openai:gpt-4o-mini', config: { accountId: a, gatewayId: g, temperature: 0.7, max_tokens: 200, cfAigToken: '{{env.T}}', headers: { X-A: b } } }]",
        As(&[
            "baseUrl: https://gateway.ai.cloudflare.com/v1/a/g/openai apiKeyEnv: OPENAI_API_KEY",
            "headers: cf-aig-authorization: Bearer env:T X-A: b",
            "model: gpt-4o-mini",
            "params: temperature: 0.7 maxTokens: 200",
        ]),
    ),
    (
        "providers: cloudflare-gateway:…",
        "providers: [{ id: 'cloudflare-gateway:anthropic:claude-haiku-4-5-20251001', config: { accountId: a, gatewayId: g, max_tokens: 200 } }]",
        As(&[
            "baseUrl: https://gateway.ai.cloudflare.com/v1/a/g/anthropic apiKeyEnv: ANTHROPIC_API_KEY",
            "params: maxTokens: 200 temperature: 0",
        ]),
    ),
    (
        "providers: cloudflare-gateway:…",
        "providers: [{ id: 'cloudflare-gateway:mistral:mistral-small', config: { accountId: a, gatewayId: g } }]",
        As(&[
            "baseUrl: https://gateway.ai.cloudflare.com/v1/a/g/mistral/v1 apiKeyEnv: MISTRAL_API_KEY",
        ]),
    ),
    (
        "providers: cloudflare-gateway:…",
        "env: { CLOUDFLARE_ACCOUNT_ID: a, GATEWAY: g }\nproviders: [{ id: 'cloudflare-gateway:workers-ai:@cf/meta/llama', config: { gatewayIdEnvar: GATEWAY } }]",
        As(&[
            "baseUrl: https://gateway.ai.cloudflare.com/v1/a/g/workers-ai/@cf/meta/llama apiKeyEnv: CLOUDFLARE_API_KEY",
        ]),
    ),
    (
        "providers: cloudflare-gateway:…",
        "providers: [{ id: 'cloudflare-gateway:azure-openai:gpt-4o', config: { accountId: a, gatewayId: g, resourceName: r, deploymentName: d } }]",
        As(&[
            "baseUrl: https://gateway.ai.cloudflare.com/v1/a/g/azure-openai/r/d?api-version=2024-12-01-preview",
            "apiKeyEnv: null headers: api-key: env:AZURE_OPENAI_API_KEY",
        ]),
    ),
    (
        "providers: cloudflare-gateway:…",
        "providers: [{ id: 'cloudflare-gateway:anthropic:claude-x', config: { accountId: a, gatewayId: g, seed: 1 } }]",
        Warned("`config.seed` has no effect on `claude-x`"),
    ),
    (
        "providers: cloudflare-gateway:…",
        "providers: [{ id: 'cloudflare-gateway:openai:gpt-4o', config: { accountId: a, gatewayId: g, apiBaseUrl: 'https://b.example' } }]",
        As(&["baseUrl: https://gateway.ai.cloudflare.com/v1/a/g/openai"]),
    ),
    (
        "providers: cloudflare-gateway:…",
        "providers: [{ id: 'cloudflare-gateway:openai:gpt-4o', config: { accountId: a, gatewayId: g, apiHost: b.example } }]",
        Warned("`config.apiHost` has no effect on `gpt-4o`"),
    ),
    (
        "providers: cloudflare-gateway:…",
        "providers: [{ id: 'cloudflare-gateway:openai:gpt-4o', config: { accountId: a, gatewayId: g, cfAigTokenEnvar: MY_TOKEN } }]",
        As(&["headers: cf-aig-authorization: Bearer env:MY_TOKEN"]),
    ),
    (
        "providers: cloudflare-gateway:…",
        "providers: ['cloudflare-gateway:openai:gpt-4o']",
        Refused("the address of this provider is missing"),
    ),
    (
        "providers: cloudflare-gateway:…",
        "providers: [{ id: 'cloudflare-gateway:openai:gpt-4o', config: { accountId: '{{env.A}}', gatewayId: '{{ env.G }}' } }]",
        Refused("the environment variables `A` and `G` are not set"),
    ),
    (
        "providers: cloudflare-gateway:…",
        "providers: [{ id: 'cloudflare-gateway:openai:gpt-4o', config: { accountId: a, gatewayId: g, cfAigToken: abc } }]",
        Refused("a key must not be in a file"),
    ),
    (
        "providers: cloudflare-gateway:…",
        "providers: ['cloudflare-gateway:bedrock:x']",
        Refused("the provider `cloudflare-gateway:bedrock:x`"),
    ),
    (
        "providers: xai:responses:…",
        "providers: [{ id: 'xai:responses:grok-4.3', config: { tools: [{ type: web_search }, { type: x_search }, { type: function, name: f }] } }]",
        As(&[
            "type: openai-responses itemsAsText: true hostedTools: - type: web_search - type: x_search",
            "baseUrl: https://api.x.ai/v1 apiKeyEnv: XAI_API_KEY",
            "params: maxTokens: 4096 temperature: 0.7",
            "tools: - name: f",
        ]),
    ),
    (
        "providers: xai:responses:…",
        "providers: ['xai:grok-4.3', { id: 'xai:responses:grok-4.3', config: { reasoning: { effort: high }, max_output_tokens: 9, temperature: 0, region: eu-west-1 } }]",
        As(&[
            "reasoning: effort: high",
            "baseUrl: https://eu-west-1.api.x.ai/v1",
            "params: temperature: 0 maxTokens: 9",
        ]),
    ),
    (
        "providers: xai:responses:…",
        "env: { XAI_API_BASE_URL: 'https://x.example/v1' }\nproviders: [{ id: 'xai:responses:grok-4.3', config: { region: eu-west-1 } }]",
        As(&["baseUrl: https://x.example/v1"]),
    ),
    (
        "providers: xai:responses:…",
        "providers: [{ id: 'xai:responses:grok-4.3', config: { max_tokens: 9 } }]",
        Warned("`config.max_tokens` has no effect on `grok-4.3`"),
    ),
    (
        "providers: xai:responses:…",
        "providers: [{ id: 'xai:responses:grok-4.3', config: { stream: true } }]",
        As(&["stream: true"]),
    ),
    (
        "providers: xai:voice:…",
        "providers: [{ id: 'xai:voice:grok-3', config: { voice: Rex, region: eu-west-1 } }]",
        As(&["voice: Rex", "baseUrl: https://eu-west-1.api.x.ai/v1", "output: calls"]),
    ),
    (
        "providers: xai:voice:…",
        "providers: [{ id: 'xai:voice:grok-3', config: { websocketUrl: 'wss://a' } }]",
        Refused("`config.websocketUrl`"),
    ),
    ("providers: google:live:…", "providers: ['google:video:m']", Refused("`google:video:m`")),
    ("providers: opencode", "providers: ['opencode:sdk']", Refused("`opencode:sdk`")),
    (
        "providers: anthropic:claude-agent-sdk",
        "providers: [{ id: 'anthropic:claude-agent-sdk', label: it, config: { model: sonnet, max_turns: 3, append_allowed_tools: [Skill], output_format: { type: json_schema, schema: { type: object } } } }]",
        As(&[
            "it: type: claude-code",
            "emptyFolder: true",
            "model: sonnet",
            "outputSchema: type: object",
            "--allowedTools - Skill - --tools - Skill - --permission-mode - default - --strict-mcp-config - --setting-sources=",
            "agent: - it",
        ]),
    ),
    (
        "providers: anthropic:claude-agent-sdk",
        "providers: [{ id: 'anthropic:claude-agent-sdk', config: { working_dir: gone } }]",
        Refused("`gone` does not exist"),
    ),
    (
        "providers: anthropic:claude-agent-sdk",
        "providers: [{ id: 'anthropic:claude-agent-sdk', config: { ask_user_question: { behavior: deny } } }]",
        Refused("`config.ask_user_question`"),
    ),
    (
        "providers: anthropic:claude-agent-sdk",
        "providers: [{ id: 'anthropic:claude-agent-sdk', config: { permission_mode: bypassPermissions } }]",
        Refused("`bypassPermissions` needs a second setting"),
    ),
    (
        "providers: anthropic:claude-agent-sdk",
        "providers: [{ id: 'anthropic:claude-agent-sdk', config: { resume: s } }]",
        Refused("`config.resume` of Claude Code"),
    ),
    (
        "providers: anthropic:claude-agent-sdk",
        "providers: [{ id: 'anthropic:claude-agent-sdk', config: { extra_args: { add-dir: / } } }]",
        Refused("`extra_args` must not have the option `add-dir`"),
    ),
    (
        "providers: anthropic:claude-agent-sdk",
        "providers: [{ id: 'anthropic:claude-agent-sdk', config: { mcp: { servers: [{ name: w, command: npx, env: { A: '{{env.A}}' } }] }, executable: node } }]",
        Warned("`config.executable` has no effect here"),
    ),
    (
        "providers: anthropic:claude-agent-sdk",
        "providers: [echo]\ntests: [{ assert: [{ type: llm-rubric, value: a, provider: 'anthropic:claude-agent-sdk' }] }]",
        Refused("an agent as a grader"),
    ),
    (
        "providers: openai:codex-sdk",
        "providers: [{ id: 'openai:codex-sdk:gpt-5.4', config: { sandbox_mode: read-only, output_schema: { type: object }, cli_config: { model_verbosity: low } } }]",
        As(&[
            "type: codex",
            "model: gpt-5.4",
            "outputSchema: type: object",
            "--sandbox - read-only - --config - model_verbosity=\"low\"",
        ]),
    ),
    (
        "providers: openai:codex-sdk",
        "providers: [{ id: 'openai:codex-app-server', config: { turn_timeout_ms: 900 } }]",
        As(&["timeoutMs: 900", "--sandbox - read-only - --config - approval_policy=\"never\""]),
    ),
    (
        "providers: anthropic:claude-agent-sdk",
        "env: { ROOT: /data }\nproviders: [{ id: 'anthropic:claude-agent-sdk', config: { mcp: { servers: [{ name: w, command: npx, args: ['{{env.ROOT}}'] }] } } }]",
        As(&["ROOT: /data", "${ROOT}"]),
    ),
    (
        "providers: anthropic:claude-agent-sdk",
        "providers: [{ id: 'anthropic:claude-agent-sdk', config: { mcp: { servers: [{ name: w, command: npx, args: ['{{ env.ROOT | upper }}'] }] } } }]",
        Refused("this template in an MCP server"),
    ),
    (
        "providers: openai:codex-sdk",
        "providers: [{ id: 'openai:codex-app-server', config: { turn_timeout_ms: 900 } }]\nevaluateOptions: { timeoutMs: 700 }",
        As(&["timeoutMs: 900", "timeoutMs: 700"]),
    ),
    (
        "providers: openai:codex-sdk",
        "providers: [{ id: 'openai:codex-sdk', config: { persist_threads: true } }]",
        Refused("`config.persist_threads` of Codex"),
    ),
    (
        "providers: openai:codex-sdk",
        "providers: ['openai:codex-sdk']\nprompts: ['[{\"type\": \"text\", \"text\": \"a\"}]']",
        Refused("a prompt of input items for Codex"),
    ),
    (
        "providers: replicate:…",
        "providers: [{ id: 'replicate:meta/meta-llama-3-8b-instruct', config: { max_new_tokens: 9, top_k: 3, prompt: { prefix: '[I] ' } } }]",
        As(&[
            "prefix: '[I] '",
            "apiKeyEnv: REPLICATE_API_TOKEN",
            "input: max_new_tokens: 9 top_k: 3",
            "params: omitDefaults: true",
        ]),
    ),
    (
        "providers: replicate:…",
        "tests: [{ assert: [{ type: moderation, provider: 'replicate:moderation:a/guard' }] }]",
        As(&["model: replicate:moderation:a/guard rubricPrompt: |- Human: {{ input }}"]),
    ),
    (
        "providers: openai:image:…",
        "providers: [{ id: 'openai:image:gpt-image-1', config: { quality: low } }, { id: 'openai:image:dall-e-3', config: { background: opaque } }]",
        As(&[
            "url: https://api.openai.com/v1/images/generations",
            r#"{"prompt": {{ prompt | dump }}, "model":"gpt-image-1","n":1,"size":"1024x1024","quality":"low"}"#,
            r#""model":"dall-e-3","n":1,"size":"1024x1024","response_format":"url"}"#,
        ]),
    ),
    (
        "providers: openai:image:…",
        "providers: [{ id: 'openai:image:dall-e-3', config: { background: opaque } }]",
        Warned("`config.background` has no effect on `dall-e-3`"),
    ),
    (
        "providers: openai:image:…",
        "providers: ['xai:image:grok-imagine-image', { id: 'replicate:image:a/b', config: { width: 512, guidance: 3.5 } }]",
        As(&[
            "url: https://api.x.ai/v1/images/generations",
            r#""model":"grok-imagine-image","n":1,"response_format":"url"}"#,
            "input: width: 512 guidance: 3.5 height: 768 image: true",
        ]),
    ),
    (
        "providers: openai:image:…",
        "providers: ['fal:image:fal-ai/flux/schnell', { id: 'fal:image:fal-ai/flux/dev', config: { seed: 42, apiKey: '{{env.K}}' } }]",
        As(&[
            "url: https://fal.run/fal-ai/flux/schnell headers: Content-Type: application/json Authorization: Key {{env.FAL_KEY}}",
            r#"{"prompt": {{ prompt | dump }}}"#,
            r#"{"prompt": {{ prompt | dump }}, "seed":42}"#,
            "Authorization: Key {{env.K}}",
            "found = (json?.images?.length ? json.images : json?.image ? [json.image] : []) ?? []",
        ]),
    ),
    (
        "providers: openai:image:…",
        "providers: [{ id: 'fal:image:m', config: { client: {} } }]",
        Refused("`config.client` of `fal:image`"),
    ),
    (
        "providers: openai:image:…",
        "providers: ['openai:image:gpt-image-1']\ntests: [{ assert: [{ type: llm-rubric, value: a }] }]",
        As(&["type: llm-rubric"]),
    ),
    (
        "providers: openai:moderation",
        "tests: [{ assert: [{ type: moderation, provider: 'openai:moderation', value: [hate] }] }]",
        As(&[
            "url: https://api.openai.com/v1/moderations",
            "model: omni-moderation-latest",
            "rubricPrompt: '{{ output }}'",
        ]),
    ),
    (
        "providers: openai:image:…",
        "providers: ['openai:image:dall-e-3']\ntests: [{ assert: [{ type: llm-rubric, value: a }] }]",
        Refused("a graded check of the address of an image"),
    ),
    (
        "providers: openai:image:…",
        "providers: [{ id: 'openai:image:gpt-image-1', config: { mask: a } }]",
        Refused("`config.mask` of `openai:image`"),
    ),
    (
        "providers: openclaw",
        "providers: [openclaw, { id: 'openclaw:main', config: { session_key: s, scopes: [a, b], gateway_url: 'wss://h.example' } }]",
        As(&[
            "baseUrl: http://127.0.0.1:18789/v1 apiKeyEnv: null",
            "model: openclaw params:",
            "baseUrl: https://h.example/v1",
            "x-openclaw-agent-id: main x-openclaw-session-key: agent:main:s x-openclaw-scopes: a,b",
            "model: openclaw/main",
        ]),
    ),
    (
        "providers: openclaw",
        "providers: [{ id: 'openclaw:responses', config: { backend_model: m, reasoning_effort: low } }]",
        As(&["type: openai-responses", "x-openclaw-model: m", "body: reasoning: effort: low"]),
    ),
    (
        "tests[].assert[].…",
        "tests: [{ assert: [{ type: javascript, value: 'true', provider: 'openai:gpt-4o' }] }]",
        Warned("`provider` has no effect on `javascript`"),
    ),
    (
        "providers: openclaw",
        "providers: [{ id: openclaw, config: { auth_token: abc } }]",
        Refused("a key must not be in a file"),
    ),
    ("providers: openclaw", "providers: ['openclaw:agent']", Refused("`openclaw:agent`")),
    (
        "providers: quiverai:…",
        "providers: [{ id: 'quiverai:arrow-1.1-max', config: { max_output_tokens: 9, references: ['https://a.example/b.png', { base64: a }] } }]",
        As(&[
            "apiKeyEnv: QUIVERAI_API_KEY url: https://api.quiver.ai/v1/svgs/generations",
            r#"{"prompt": {{ prompt | dump }}, "max_output_tokens":9,"references":[{"url":"https://a.example/b.png"},{"base64":"a"}],"model":"arrow-1.1-max","stream":false}"#,
        ]),
    ),
    (
        "providers: quiverai:…",
        "providers: [{ id: 'quiverai:vectorize:arrow-1.1', config: { auto_crop: true } }, { id: 'quiverai:vectorize', config: { image: { url: 'https://a.example/b.png' } } }]",
        As(&[
            "url: https://api.quiver.ai/v1/svgs/vectorizations",
            r#"{% endif %}, "auto_crop":true,"model":"arrow-1.1","stream":false}"#,
            r#"{"image": {"url":"https://a.example/b.png"}, "model":"arrow-1.1","stream":false}"#,
        ]),
    ),
    (
        "providers: quiverai:…",
        "providers: [{ id: 'quiverai:vectorize', config: { image: 'https://a.example/b.png' } }]",
        Refused("`config.image` has no image"),
    ),
    (
        "providers: quiverai:…",
        "providers: [{ id: 'quiverai:arrow-1.1', config: { target_size: 128 } }]",
        Warned("`config.target_size` has no effect on `arrow-1.1`"),
    ),
    (
        "providers: n8n:https://…",
        "providers: [{ id: 'n8n:https://a.example/b', config: { headers: { Authorization: 'Bearer {{env.K}}' }, body: { q: '{{prompt}}', n: 1 } } }]",
        As(&[
            "url: https://a.example/b method: POST",
            "Authorization: Bearer {{env.K}}",
            r#"{"q": {% set made %}{{prompt}}{% endset %}{{ made | dump }}, "n": 1{% if sessionId is defined"#,
        ]),
    ),
    (
        "providers: n8n:https://…",
        "providers: [{ id: n8n, config: { sessionField: a } }]",
        Refused("`config.sessionField` of `n8n`"),
    ),
    (
        "providers: watsonx:…",
        "providers: [{ id: 'watsonx:ibm/granite', config: { maxNewTokens: 9, topP: 0.5, lengthPenalty: { decayFactor: 2 } } }]",
        As(&[
            "url: https://us-south.ml.cloud.ibm.com/ml/v1/text/generation?version=2023-05-29",
            "apiKeyEnv: WATSONX_AI_BEARER_TOKEN",
            r#""model_id": "ibm/granite", "project_id": "{{env.WATSONX_AI_PROJECT_ID}}""#,
            r#""parameters": {"max_new_tokens":9,"top_p":0.5,"length_penalty":{"decay_factor":2}}"#,
            "inputTokens: results.0.input_token_count",
        ]),
    ),
    (
        "providers: watsonx:…",
        "providers: [{ id: 'watsonx:ibm/granite', config: { apiKeyEnvar: K } }]",
        Refused("`config.apiKeyEnvar` of `watsonx`"),
    ),
    (
        "providers: google:…",
        "providers: [{ id: 'cohere:command-a-03-2025', config: { temperature: 0.5, prompt_truncation: AUTO } }]",
        As(&[
            "url: https://api.cohere.com/v1/chat",
            r#""prompt_truncation":"AUTO""#,
            r#""temperature":0.5"#,
            "apiKeyEnv: COHERE_API_KEY",
        ]),
    ),
    (
        "providers: huggingface:chat:…",
        "providers: [{ id: 'huggingface:chat:org/m', config: { inferenceProvider: groq } }]",
        As(&[
            "baseUrl: https://router.huggingface.co/v1",
            "apiKeyEnv: HF_TOKEN",
            "model: org/m:groq",
        ]),
    ),
    (
        "providers: huggingface:text-generation:…",
        "providers: [{ id: 'huggingface:text-generation:org/m', config: { max_new_tokens: 9 } }]",
        As(&[
            "url: https://router.huggingface.co/hf-inference/models/org/m",
            "inputs: '{{prompt}}' parameters: return_full_text: false max_new_tokens: 9",
            "responsePath: 0.generated_text",
            "apiKeyEnv: HF_TOKEN",
        ]),
    ),
    (
        "providers: huggingface:text-generation:…",
        "providers: [{ id: 'huggingface:text-generation:tgi', config: { apiEndpoint: 'http://h:1/v1/chat/completions' } }]",
        As(&["baseUrl: http://h:1/v1", "provider: huggingface model: tgi"]),
    ),
    (
        "providers: huggingface:text-generation:…",
        "providers: ['huggingface:text-classification:org/m']",
        As(&["transformResponse: 'JSON.stringify("]),
    ),
    (
        "providers: huggingface:text-generation:…",
        "providers: [{ id: 'huggingface:token-classification:org/m', config: { wait_for_model: true } }]",
        As(&[
            "inputs: '{{prompt}}' parameters: aggregation_strategy: simple options: wait_for_model: true use_cache: true",
            "transformResponse: 'JSON.stringify(json.reduce(",
        ]),
    ),
    (
        "providers: huggingface:text-generation:…",
        "tests: [{ assert: [{ type: classifier, value: a, provider: 'huggingface:text-classification:org/m' }] }]",
        As(&["type: classifier", "rubricPrompt: '{{ output }}'"]),
    ),
    (
        "providers: huggingface:text-generation:…",
        "tests: [{ assert: [{ type: similar, value: a, provider: 'huggingface:sentence-similarity:org/m' }] }]",
        As(&["models/org/m/pipeline/feature-extraction", "embeddingPath: ''"]),
    ),
    (
        "providers: huggingface:text-generation:…",
        "providers: ['huggingface:fill-mask:m']",
        Refused("`huggingface:fill-mask`"),
    ),
    (
        "providers: llama",
        "providers: [{ id: llama, config: { temperature: 0.5, verbose: true } }]",
        As(&["url: http://localhost:8080/completion", "n_predict: 512", "responsePath: content"]),
    ),
    (
        "providers: llama",
        "providers: [{ id: llama, config: { verbose: true } }]",
        Warned("`config.verbose` has no effect on `llama`"),
    ),
    (
        "providers: wss://…",
        "providers: [{ id: 'wss://a.example/b', config: { messageTemplate: '{\"q\": {{prompt | dump}}}', transformResponse: data.output, headers: { A: '{{env.K}}' }, protocols: [a, b] } }]",
        As(&[
            "url: wss://a.example/b message: '{\"q\": {{prompt | dump}}}' transformResponse: data.output",
            "A: env:K Sec-WebSocket-Protocol: a, b",
        ]),
    ),
    (
        "providers: wss://…",
        "providers: [{ id: websocket, config: { url: 'ws://a', messageTemplate: a, streamResponse: '(a, e) => [e, true]', transformResponse: data } }]",
        As(&["streamResponse: (a, e) => [e, true]"]),
    ),
    (
        "providers: wss://…",
        "providers: ['wss://a.example']",
        Refused("the websocket has no `messageTemplate`"),
    ),
    ("providers: browser", "providers: [browser]", Refused("the provider `browser`")),
    (
        "providers: browser",
        "providers: ['elevenlabs:stt:a']",
        Refused("the provider `elevenlabs:stt:a`"),
    ),
    (
        "providers: browser",
        "providers: ['azure:assistant:a']",
        Refused("the provider `azure:assistant:a`"),
    ),
    (
        "providers: sagemaker:…",
        "providers: [{ id: 'sagemaker:huggingface:e1', config: { region: eu-west-1, maxTokens: 9 } }]",
        As(&[
            "url: https://runtime.sagemaker.eu-west-1.amazonaws.com/endpoints/e1/invocations",
            "aws: service: sagemaker region: eu-west-1",
            r#""parameters": {"max_new_tokens":9,"temperature":0.7,"top_p":1,"do_sample":true,"return_full_text":false}}"#,
        ]),
    ),
    (
        "providers: sagemaker:…",
        "providers: ['sagemaker:e1']",
        Refused("the kind of the model of `e1` is missing"),
    ),
    (
        "providers: sagemaker:…",
        "providers: ['sagemaker:embedding:e1']",
        Refused("`sagemaker:embedding:e1` for embeddings in this place"),
    ),
    (
        "providers: sagemaker:…",
        "tests: [{ options: { provider: { embedding: { id: 'sagemaker:embedding:e1', config: { responseFormat: { path: 'json.data[0]' } } } } }, assert: [{ type: similar, value: a }] }]",
        As(&[
            "endpoints/e1/invocations",
            "body: input: '{{ prompt }}' text: '{{ prompt }}' inputs: '{{ prompt }}'",
            "embeddingPath: data.0",
        ]),
    ),
    (
        "providers: file://main.go",
        "providers: ['golang:main.go']",
        Refused("a provider in a Go file"),
    ),
    (
        "providers: file://main.go",
        "providers: ['file://gone.go:CallApi']",
        Refused("`gone.go` does not exist"),
    ),
    (
        "prompts[].messages",
        "prompts: [{ label: l, messages: [{ role: user, content: a }] }]",
        Refused("this prompt has neither `raw` nor `id`"),
    ),
    (
        "tests: file://tests.xlsx#Sheet",
        "tests: 'file://a.xlsx#2'",
        Refused("`a.xlsx` cannot be read"),
    ),
    (
        "tests: https://…",
        "tests: https://a.sharepoint.com/t.csv",
        Refused("reading tests from SharePoint"),
    ),
    ("tests", "tests: []", Warned("there are no tests: each prompt is sent once")),
    (
        "providers: openrouter:…",
        "providers: ['nscale:m', 'docker:ai/smollm2', { id: 'cloudflare-ai:chat:@cf/m', config: { accountId: a1 } }]",
        As(&[
            "baseUrl: https://inference.api.nscale.com/v1",
            "apiKeyEnv: NSCALE_SERVICE_TOKEN",
            "baseUrl: http://localhost:12434/engines/v1 apiKeyEnv: null",
            "https://api.cloudflare.com/client/v4/accounts/a1/ai/v1",
            "model: '@cf/m'",
        ]),
    ),
    (
        "providers: openrouter:…",
        "providers: ['databricks:m']",
        Refused("the address of this provider is missing"),
    ),
    (
        "providers: openrouter:…",
        "providers: [{ id: 'portkey:gpt-4o', config: { portkeyVirtualKey: v, headers: { X-A: b } } }]",
        As(&[
            "baseUrl: https://api.portkey.ai/v1",
            "x-portkey-virtual-key: v x-portkey-api-key: env:PORTKEY_API_KEY X-A: b",
            "apiKeyEnv: null",
        ]),
    ),
    (
        "config.headers",
        "providers: [{ id: 'openai:gpt-4o', config: { headers: { X-Token: '{{env.T}}', X-Auth: 'Bearer {{env.U}}' } } }]",
        As(&["headers: X-Token: env:T X-Auth: Bearer env:U"]),
    ),
    (
        "config.headers",
        "providers: [{ id: 'openai:gpt-4o', config: { headers: { Authorization: Bearer abc } } }]",
        Refused("a key must not be in a file"),
    ),
    (
        "config.headers",
        "providers: [{ id: 'anthropic:messages:claude', config: { headers: { X-A: b } } }]",
        As(&["headers: X-A: b"]),
    ),
    (
        "config.headers",
        "providers: [{ id: 'mistral:m', config: { headers: { X-A: b } } }]",
        Refused("`config.headers`"),
    ),
    ("providers: echo", "providers: [echo]", As(&["provider: echo"])),
    (
        "providers: https://…",
        "providers: [{ id: 'https://a.example/{{x}}', config: { method: post, queryParams: { k: '{{env.K}}' }, headers: { A: '{{env.A}}', B: 'Bearer {{env.B}}' }, body: { q: '{{ prompt | trim }}' }, transformResponse: 'json.a[0]' } }]",
        As(&[
            "url: https://a.example/{{x}}",
            "method: POST",
            "A: env:A",
            "B: Bearer {{env.B}}",
            "k: '{{env.K}}'",
            "q: '{{ prompt | trim }}'",
            "template: jinja",
            "responsePath: a.0",
        ]),
    ),
    (
        "providers: https://…",
        "providers: [{ id: 'https://a.example/x', config: { transformResponse: '(json) => json.a + 1', auth: { type: bearer, token: '{{env.T}}' } } }]",
        As(&[
            "transformResponse: (json) => json.a + 1",
            "method: GET",
            "Authorization: Bearer {{env.T}}",
        ]),
    ),
    (
        "providers: https://…",
        "providers: [{ id: 'https://a.example/x', config: { body: { a: 1 } } }]",
        Warned("without a `method`, promptfoo sends this as GET"),
    ),
    (
        "providers: https://…",
        "providers: [{ id: https, config: { useHttps: true, request: \"POST /x?a={{x}} HTTP/1.1\\nHost: a.example\\nContent-Type: application/json\\n\\n{\\\"q\\\": \\\"{{prompt}}\\\"}\" } }]",
        As(&["url: https://a.example/x?a={{x}}", "method: POST", "Content-Type: application/json"]),
    ),
    (
        "providers: https://…",
        "providers: [{ id: 'https://a.example/x', config: { request: 'POST /x' } }]",
        Refused(
            "`request` cannot be read: its first line `POST /x` is not such as `POST /chat HTTP/1.1`",
        ),
    ),
    (
        "providers: https://…",
        "providers: [{ id: 'https://a.example/x', config: { tls: { caPath: ./p.txt, rejectUnauthorized: false, servername: localhost } } }]",
        As(&["tls: caPath: p.txt verify: false"]),
    ),
    (
        "providers: https://…",
        "providers: [{ id: 'https://a.example/x', config: { headers: { S: '{{sessionId}}' }, session: { url: 'https://a.example/s', method: get, headers: { B: 'Bearer {{env.B}}' }, responseParser: 'data.body.a[0].id' } } }]",
        As(&[
            "session: url: https://a.example/s method: GET headers: B: Bearer {{env.B}} idPath: a.0.id",
        ]),
    ),
    (
        "providers: https://…",
        "providers: [{ id: 'https://a.example/x', config: { session: { url: 'https://a.example/s', body: { a: 1 }, responseParser: 'data.headers[\"x-id\"]' } } }]",
        As(&["session: url: https://a.example/s body: a: 1 idHeader: x-id"]),
    ),
    (
        "providers: https://…",
        "providers: [{ id: 'https://a.example/x', config: { session: { url: 'https://a.example/s', responseParser: 'pick(data)' } } }]",
        Refused("this `responseParser` of a session"),
    ),
    (
        "providers: https://…",
        "providers: [{ id: 'https://a.example/x', config: { sessionParser: data.body.id, sessionSource: server } }]",
        Warned("`config.sessionParser` has no effect here"),
    ),
    (
        "providers: https://…",
        "providers: [{ id: 'https://a.example/x', config: { tls: { pfxPath: a.pfx } } }]",
        Refused("`pfxPath` of promptfoo is not supported"),
    ),
    (
        "providers: https://…",
        "providers: [{ id: 'https://a.example/x', config: { headers: { S: '{{signature}}' }, signatureAuth: { privateKeyPath: ./p.txt, signatureDataTemplate: 'a{{signatureTimestamp}}', signatureAlgorithm: RSA-SHA256, signatureValidityMs: 9 } } }]",
        As(&["signature: keyPath: p.txt data: a{{signatureTimestamp}} algorithm: SHA256"]),
    ),
    (
        "providers: https://…",
        "providers: [{ id: 'https://a.example/x', config: { signatureAuth: { type: jks, keystorePath: a.jks } } }]",
        Refused("a Java keystore in `signatureAuth`"),
    ),
    (
        "providers: https://…",
        "providers: [{ id: 'https://a.example/x', config: { signatureAuth: { pfxPath: a.pfx } } }]",
        Refused("a PFX bundle in `signatureAuth`"),
    ),
    (
        "providers: https://…",
        "providers: [{ id: 'https://a.example/x', config: { validateStatus: 'status < 500' } }]",
        As(&["acceptStatus: - 200-299 - '404'"]),
    ),
    (
        "providers: https://…",
        "providers: [{ id: 'https://a.example/x', config: { method: POST, body: { t: '{{tools | dump}}' }, tools: [{ a: 1 }], transformToolsFormat: openai } }]",
        As(&[r#"{% set tools = "[{\"a\":1}]" %}{{tools | dump}}"#]),
    ),
    (
        "providers: https://…",
        "providers: [{ id: 'https://a.example/x', config: { transformToolsFormat: google } }]",
        Refused("this `transformToolsFormat` of an http provider"),
    ),
    (
        "providers: exec:…",
        "providers: ['exec:./run.sh -q']",
        As(&["command: ./run.sh -q", "input: argument"]),
    ),
    (
        "providers: file://provider.js",
        "providers: [{ id: 'file://provider.js:fn', config: { a: 1 } }, 'python:provider.py']",
        As(&["file: provider.js", "function: fn", "a: 1", "function: call_api"]),
    ),
    ("providers[].label", "providers: [{ id: echo, label: mine }]", As(&["id: mine"])),
    (
        "providers[].prompts",
        "prompts: [{ raw: A, label: a }, { raw: B, label: b }]\nproviders: [{ id: echo, prompts: [b] }]",
        As(&["prompt: b"]),
    ),
    (
        "providers[].transform",
        "providers: [{ id: echo, transform: output.trim() }]",
        As(&["transform: output.trim()"]),
    ),
    (
        "providers[].transform",
        "providers: [{ id: echo, transform: output.trim() }]\ntests: [{ options: { transform: output.length } }]",
        As(&["transform:\n  - output.trim()\n  - output.length"]),
    ),
    ("providers[].delay", "providers: [{ id: echo, delay: 1000 }]", As(&["rpm: 60"])),
    (
        "providers[].env",
        "providers: [{ id: echo, env: { OPENAI_API_KEY: '{{x}}' } }]",
        Refused("a secret must not be in a file"),
    ),
    (
        "config.temperature",
        "providers: [{ id: 'openai:x', config: { temperature: 0.5, max_tokens: 9, top_p: 1, stop: [a], seed: 7 } }]",
        As(&["temperature: 0.5", "maxTokens: 9", "topP: 1", "seed: 7", "stopSequences"]),
    ),
    (
        "config.apiKeyEnvar",
        "providers: [{ id: 'openai:x', config: { apiKey: '{{env.MY_KEY}}' } }]",
        As(&["apiKeyEnv: MY_KEY"]),
    ),
    (
        "config.apiKey",
        "providers: [{ id: 'openai:x', config: { apiKey: abc } }]",
        Refused("a key must not be in a file"),
    ),
    (
        "config.apiBaseUrl",
        "providers: [{ id: 'openai:x', config: { apiHost: h.example } }]",
        As(&["baseUrl: https://h.example/v1"]),
    ),
    (
        "config.tools",
        "providers: [{ id: 'openai:x', config: { tools: [{ type: function, function: { name: f } }] } }]",
        As(&["name: f", "answerTools: false", "callsAsOutput: openai"]),
    ),
    (
        "config.response_format",
        "providers: [{ id: 'openai:x', config: { response_format: { type: json_schema, json_schema: { name: n, schema: {} } } } }]",
        As(&["body:", "response_format:", "JSON.parse(output)"]),
    ),
    (
        "config.passthrough",
        "providers: [{ id: 'openai:x', config: { passthrough: { a: 1 }, reasoning_effort: low } }]",
        As(&["a: 1", "reasoning_effort: low"]),
    ),
    (
        "config.passthrough",
        "providers: [{ id: 'openai:x', config: { passthrough: { max_tokens: 9, stream: false, b: 1 }, max_tokens: 8 } }]",
        As(&["maxTokens: 9", "body: b: 1"]),
    ),
    (
        "config.passthrough",
        "providers: [{ id: 'openai:x', config: { passthrough: { a: { api_key: abc } } } }]",
        Refused("a key must not be in a file"),
    ),
    (
        "config.passthrough",
        "providers: [{ id: 'google:x', config: { service_tier: flex, passthrough: { a: 1, generationConfig: { maxOutputTokens: 9 } } } }]",
        As(&["maxTokens: 9", "body: service_tier: flex a: 1 generationConfig: {}"]),
    ),
    (
        "config.passthrough",
        "providers: [{ id: 'ollama:chat:x', config: { truncate: true, num_predict: 8, passthrough: { options: { num_predict: 9, top_k: 1 }, a: 1 } } }]",
        As(&["maxTokens: 9", "body: truncate: true options: top_k: 1 a: 1"]),
    ),
    (
        "config.response_format",
        "providers: [{ id: 'google:x', config: { responseSchema: 'file://schema.json' } }]",
        As(&["generationConfig: responseSchema: type: object responseMimeType: application/json"]),
    ),
    (
        "config.cost",
        "providers: [{ id: 'openai:x', config: { cost: 0.000001 } }]",
        As(&["price:", "input: 1"]),
    ),
    (
        "config.functions",
        "providers: [{ id: 'openai:x', config: { functions: [{ name: f }], function_call: auto } }]",
        As(&["functions:\n        - name: f", "function_call: auto"]),
    ),
    (
        "config.…",
        "providers: [{ id: 'openai:x', config: { unknown_setting: 1 } }]",
        Warned("`config.unknown_setting` is not known here"),
    ),
    (
        "config.…",
        "providers: [{ id: 'anthropic:x', config: { thinking: { type: enabled, budget_tokens: 1024 }, unknown_setting: 1 } }]",
        As(&["body:", "budget_tokens: 1024", "unknown_setting: 1", "omitDefaults: true"]),
    ),
    (
        "config.…",
        "providers: [{ id: 'google:x', config: { topK: 3, generationConfig: { topP: 1 }, safetySettings: [] } }]",
        As(&["generationConfig: topK: 3 topP: 1", "safetySettings: []"]),
    ),
    (
        "config.functionToolCallbacks",
        "providers: [{ id: 'openai:x', config: { functionToolCallbacks: { f: '(args) => args' } } }]",
        As(&["transform: |-", "\"f\": async () => { return (args) => args"]),
    ),
    (
        "providers: openai:…",
        "providers: [{ id: 'openai:a', config: { model: b } }, { id: 'openai:chat:c', config: { model: d } }]",
        As(&["model: b", "model: c"]),
    ),
    (
        "config.functionToolCallbacks",
        "providers: [{ id: 'anthropic:x', config: { functionToolCallbacks: { f: x } } }]",
        Refused("`config.functionToolCallbacks`"),
    ),
    (
        "config.functionToolCallbacks",
        "providers: [{ id: 'openai:x', config: { functionToolCallbacks: { f: 'file://gone.js:f' } } }]",
        Refused("`gone.js` does not exist"),
    ),
    (
        "config.functionToolCallbacks",
        "providers: [{ id: 'openai:x', config: { functionToolCallbacks: { f: 'file://f.py:f' } } }]",
        Refused("the callback `file://f.py:f`"),
    ),
    (
        "config.systemInstruction",
        "providers: [{ id: 'google:x', config: { systemInstruction: Be brief. } }]",
        As(&["systemInstruction: - Be brief."]),
    ),
    (
        "config.systemInstruction",
        "providers: [{ id: 'vertex:gemini-x', config: { projectId: p, systemInstruction: { parts: [{ text: one }, { text: two }] } } }]",
        As(&["systemInstruction: - one - two"]),
    ),
    (
        "config.systemInstruction",
        "providers: [{ id: 'google:x', config: { systemInstruction: 'Say {{x}}' } }]",
        Refused("a template in `config.systemInstruction`"),
    ),
    (
        "config.systemInstruction",
        "providers: [{ id: 'vertex:claude-x', config: { projectId: p, systemInstruction: a } }]",
        Refused("`config.systemInstruction` of Claude"),
    ),
    (
        "config.…",
        "providers: [{ id: 'openai:x', config: { my_secret: abc } }]",
        Refused("a key must not be in a file"),
    ),
    (
        "config.…",
        "providers: [{ id: 'anthropic:x', config: { extra_body: { a: [{ password: abc }] } } }]",
        Refused("a key must not be in a file"),
    ),
    (
        "config.…",
        "providers: [{ id: 'openai:x', config: { prompt_cache_key: support } }]",
        As(&["body: prompt_cache_key: support"]),
    ),
    (
        "config.…",
        "providers: [{ id: 'openai:x', config: { stream: true } }]",
        Warned("`config.stream` has no effect here"),
    ),
    (
        "config.…",
        "providers: [{ id: 'google:x', config: { generationConfig: { maxOutputTokens: 9, topP: 1 } } }]",
        As(&["maxTokens: 9", "generationConfig: topP: 1"]),
    ),
    (
        "config.…",
        "providers: [{ id: 'anthropic:x', config: { effort: low, thinking: { type: enabled, budget_tokens: 4000 } } }]",
        As(&["output_config: effort: low", "maxTokens: 5024"]),
    ),
    (
        "config.…",
        "providers: [{ id: 'azure:chat:x', config: { apiHost: h, isReasoningModel: true } }]",
        Refused("`config.isReasoningModel` at Azure"),
    ),
    (
        "config.…",
        "providers: [{ id: 'azure:chat:x', config: { apiHost: h, modelName: o3-mini } }]",
        Refused("`config.modelName` at Azure"),
    ),
    (
        "config.…",
        "providers: [{ id: 'azure:chat:x', config: { apiHost: h, modelName: gpt-4o } }]",
        Warned("`config.modelName` has no effect here"),
    ),
    (
        "config.…",
        "providers: [{ id: 'xai:grok-3', config: { region: us-east-1 } }]",
        As(&["baseUrl: https://us-east-1.api.x.ai/v1"]),
    ),
    (
        "config.…",
        "providers: [{ id: 'openai:x', config: { tone: '{{ x }}' } }]",
        Refused("a template in `config.tone`"),
    ),
    (
        "tests",
        "tests: [file://t.csv, file://t.jsonl, file://t.yaml, { vars: { x: in place } }]",
        As(&["x: csv", "x: jsonl", "x: yaml", "x: in place"]),
    ),
    (
        "tests: file://tests.js:fn",
        "tests: ['file://tests.js:fn', { path: file://tests.js, config: { a: 1 } }]",
        As(&["x: tests.js fn []", r#"x: tests.js [{"a":1}]"#]),
    ),
    (
        "tests: https://…",
        "tests: 'https://docs.google.com/spreadsheets/d/1/edit'",
        As(&["x: from https://docs.google.com/spreadsheets/d/1/export?format=csv"]),
    ),
    (
        "tests: https://…",
        "tests: ['https://a.example/t.yaml?key=1']",
        As(&["x: from https://a.example/t.yaml?key=1"]),
    ),
    (
        "tests: https://…",
        "tests: ['huggingface://datasets/a/b?limit=2']",
        As(&["x: row 0", "x: row 1"]),
    ),
    (
        "tests: https://…",
        "tests: ['https://a.example/gone.csv']",
        Refused("`https://a.example/gone.csv` cannot be read"),
    ),
    (
        "tests: https://…",
        "tests: ['https://a.example/page.csv']",
        Refused("is a page, not a file of tests"),
    ),
    (
        "tests: https://…",
        "tests: ['huggingface://datasets/a/large']",
        Refused("has 30000 rows, and at most 20000 are read"),
    ),
    ("tests: https://…", "tests: ['s3://a/b.csv']", Refused("tests at such an address")),
    (
        "tests[].vars",
        "tests: [{ vars: { name: Ada, x: 'Hello {{ name | upper }}', y: '{{ nobody }}' } }]",
        As(&["x: Hello ADA", "y: '{{ nobody }}'"]),
    ),
    ("tests[].vars", "tests: [{ vars: { x: '{{ x | uper }}' } }]", Refused("no filter `uper`")),
    (
        "tests[].assert",
        "tests: [{ assert: [{ type: equals, value: x, metric: '{{ env.REGION }}' }] }]",
        As(&["scripts: env: - REGION"]),
    ),
    (
        "tests[].assert",
        "tests: [{ assert: [{ type: llm-rubric, value: x, rubricPrompt: '{{ output }}{{ env.REGION }}' }] }]",
        As(&["scripts: env: - REGION"]),
    ),
    (
        "tests[].assert",
        "tests: [{ assert: [{ type: equals, value: '{{ env.REGION }}' }] }]",
        As(&["scripts: env: - REGION"]),
    ),
    (
        "tests[].vars",
        "tests: [{ vars: { x: [a, b], y: '{{x}}!', z: file://p.md } }]",
        As(&["y: a!", "y: b!", "z: md"]),
    ),
    (
        "tests[].vars: file://var.js",
        "tests: [{ vars: { x: file://var.js } }]",
        As(&["x: value of x"]),
    ),
    (
        "tests[].vars: file://image.png",
        "tests: [{ vars: { x: file://image.png } }]",
        As(&["x: file://image.png"]),
    ),
    (
        "tests[].vars: file://a.pdf",
        "tests: [{ vars: { x: file://a.pdf } }]",
        Refused("a variable with the text of a PDF"),
    ),
    (
        "tests[].assert",
        "tests: [{ assert: [{ type: not-equals, value: a, weight: 2, metric: m }] }]",
        As(&["type: not-equals", "weight: 2", "metric: m"]),
    ),
    (
        "tests[].assertScoringFunction",
        "tests: [{ assertScoringFunction: file://score.js, assert: [{ type: equals, value: a }] }]",
        As(&["type: assert-set", "scoring: file://score.js"]),
    ),
    ("tests[].threshold", "tests: [{ threshold: 0.5 }]", As(&["threshold: 0.5"])),
    ("tests[].metadata", "tests: [{ metadata: { kind: a } }]", As(&["metadata:", "kind: a"])),
    ("tests[].providerOutput", "tests: [{ providerOutput: { a: 1 } }]", As(&["output:", "a: 1"])),
    (
        "tests[].prompts",
        "prompts: [{ raw: A, label: a }, { raw: B, label: b }]\ntests: [{ prompts: [b] }]",
        As(&["prompt: b"]),
    ),
    ("tests[].prompts", "tests: [{ prompts: [nobody] }]", Refused("there is no prompt `nobody`")),
    (
        "tests[].providers",
        "providers: [echo, { id: echo, label: e2 }]\ntests: [{ providers: [e2] }]",
        As(&["models:\n  - e2"]),
    ),
    (
        "tests[].providers",
        "tests: [{ providers: [nobody] }]",
        Refused("there is no provider `nobody`"),
    ),
    (
        "tests[].provider",
        "tests: [{ provider: { id: 'openai:o', config: { temperature: 1 } } }]",
        As(&["models:\n  - openai:o"]),
    ),
    (
        "options.transform",
        "tests: [{ options: { transform: output.trim() } }]",
        As(&["transform: output.trim()"]),
    ),
    (
        "options.transformVars",
        "tests: [{ vars: { x: 1 }, options: { transformVars: '({})' } }]",
        As(&["y: transformed"]),
    ),
    (
        "options.prefix",
        "tests: [{ options: { prefix: 'a ', suffix: ' b' } }]",
        As(&["user: a hi b"]),
    ),
    (
        "options.provider",
        "tests: [{ assert: [{ type: llm-rubric, value: a }, { type: similar, value: b }] }]",
        As(&[
            "value: a model: openai:chat:gpt-5.6-sol",
            "value: b model: openai:embedding:text-embedding-3-large",
        ]),
    ),
    (
        "options.provider",
        "assertionTemplates: { t: { type: llm-rubric, value: a } }\ntests: [{ assert: [{ $ref: '#/assertionTemplates/t' }] }]",
        As(&["value: a model: openai:chat:gpt-5.6-sol"]),
    ),
    (
        "options.provider",
        "defaultTest: { options: { provider: { id: 'openai:j', config: { temperature: 0.7 } } } }\ntests: [{ assert: [{ type: similar, value: a }] }]",
        As(&["id: openai:j", "temperature: 0.7", "model: openai:j"]),
    ),
    (
        "providers: openai:embedding:…",
        "tests: [{ assert: [{ type: similar, value: a, provider: 'openai:embedding:text-embedding-3-small' }] }]",
        As(&["model: text-embedding-3-small", "model: openai:embedding:text-embedding-3-small"]),
    ),
    (
        "providers: openai:embedding:…",
        "defaultTest: { options: { provider: { embedding: 'openai:embeddings:text-embedding-3-large' } } }\ntests: [{ assert: [{ type: similar, value: a }, { type: llm-rubric, value: b }] }]",
        As(&[
            "value: a model: openai:embeddings:text-embedding-3-large",
            "type: llm-rubric value: b",
        ]),
    ),
    (
        "providers: openai:embedding:…",
        "providers: ['openai:embedding:text-embedding-3-small']",
        Refused("for embeddings in this place"),
    ),
    (
        "options.…",
        "tests: [{ options: { tone: kind } }]",
        Warned("`options.tone` is only seen by scripts"),
    ),
    ("options.…", "tests: [{ options: { temperature: 1 } }]", Refused("`options.temperature`")),
    (
        "options.factuality",
        "tests: [{ options: { factuality: { subset: 0.5 } }, assert: [{ type: factuality, value: a }] }]",
        As(&["scores: A: 0.5 B: 1 C: 1 D: 0 E: 1", "input: prompt"]),
    ),
    (
        "options.factuality",
        "tests: [{ options: { factuality: { subsets: 0.5 } } }]",
        Refused("there is no finding `subsets`"),
    ),
    ("options.rubricPrompt", "tests: [{ options: { rubricPrompt: x } }]", As(&["prompt: hi"])),
    (
        "options.disableVarExpansion",
        "tests: [{ vars: { x: [a, b] }, options: { disableVarExpansion: true } }]",
        As(&["x:\n    - a\n    - b"]),
    ),
    (
        "options.disableDefaultAsserts",
        "defaultTest: { assert: [{ type: equals, value: gone }] }\ntests: [{ options: { disableDefaultAsserts: true } }]",
        As(&["assert: []"]),
    ),
    ("options.runSerially", "tests: [{ options: { runSerially: true } }]", As(&["prompt: hi"])),
    (
        "options.storeOutputAs",
        "prompts: ['Say {{x}}']\ntests: [{ vars: { x: a }, options: { storeOutputAs: y } }, { vars: { x: '{{y}}!' } }]",
        As(&["storeOutputAs: y", "user: Say {{y}}!", "history: stored outputs", "y: ''"]),
    ),
    (
        "options.storeOutputAs",
        "prompts: [a, b]\ntests: [{ options: { storeOutputAs: y } }]",
        Refused("`options.storeOutputAs` with several prompts or providers"),
    ),
    (
        "options.storeOutputAs",
        "tests: [{ options: { storeOutputAs: y }, assert: [{ type: equals, value: '{{y}}' }] }]",
        Refused("a stored output in a check"),
    ),
    (
        "_conversation",
        "prompts: [{ raw: '{{ _conversation }}', label: p }]\ntests: [{ metadata: { conversationId: c } }]",
        As(&["history: p · c"]),
    ),
    (
        "_conversation",
        "prompts: [{ raw: '{{ _conversation }}', label: p }]\ntests: [{ vars: { x: a } }]",
        As(&["history: p"]),
    ),
    (
        "_conversation",
        "prompts: ['{{ _conversation }}']\ntests: [{ options: { disableConversationVar: true } }]",
        Refused("the variable `_conversation` with `disableConversationVar`"),
    ),
    (
        "_conversation",
        "prompts: ['{{ _conversation }}']\ntests: [{ vars: { x: '{{ _conversation }}' } }]",
        Refused("the variable `_conversation` outside of a prompt"),
    ),
    (
        "_conversation",
        "prompts: ['{{ _conversation }}', b]\ntests: [{ assert: [{ type: select-best, value: a }] }]",
        Refused("the variable `_conversation` in a test that compares outputs"),
    ),
    ("defaultTest", "defaultTest: file://default.yaml", As(&["type: equals", "value: by default"])),
    (
        "scenarios",
        "tests: []\nscenarios: [file://scenario.yaml]",
        As(&["who: a", "who: b", "x: each"]),
    ),
    (
        "assertionTemplates",
        "assertionTemplates: { t: { type: equals, value: a } }\ntests: [{ assert: [{ $ref: '#/assertionTemplates/t' }] }]",
        As(&["assert: - type: equals value: a"]),
    ),
    (
        "assertionTemplates",
        "assertionTemplates: { s: { type: assert-set, assert: [{ type: llm-rubric, value: a }] } }\ntests: [{ assert: [{ $ref: '#/assertionTemplates/s' }] }]",
        As(&["value: a model: openai:chat:gpt-5.6-sol"]),
    ),
    (
        "assertionTemplates",
        "assertionTemplates: { t: { $ref: '#/assertionTemplates/u' }, u: { $ref: 'refs.yaml#/judged' } }\ntests: [{ assert: [{ $ref: '#/assertionTemplates/t', weight: 2 }] }]",
        As(&["value: b weight: 2 model: openai:chat:gpt-5.6-sol"]),
    ),
    (
        "assertionTemplates",
        "assertionTemplates: { t: { type: llm-rubric, value: a } }\ntests: [{ assert: { $ref: '#/assertionTemplates/t' } }]",
        Refused("expected a list of assertions"),
    ),
    (
        "assertionTemplates",
        "tests: [{ assert: [{ $ref: '#/assertionTemplates/t' }] }]",
        Refused("`#/assertionTemplates/t` is no assertion template"),
    ),
    (
        "assertionTemplates",
        "assertionTemplates: { t: { $ref: '#/assertionTemplates/t' } }\ntests: [{ assert: [{ $ref: '#/assertionTemplates/t' }] }]",
        Refused("is circular"),
    ),
    (
        "assertionTemplates",
        "assertionTemplates: { t: { type: assert-set, assert: [{ $ref: '#/assertionTemplates/u' }] }, u: { type: assert-set, assert: [{ $ref: '#/assertionTemplates/t' }] } }\ntests: [{ assert: [{ $ref: '#/assertionTemplates/t' }] }]",
        Refused("is circular"),
    ),
    (
        "derivedMetrics",
        "derivedMetrics: [{ name: total, value: a + 1 }]",
        As(&["derivedMetrics:", "name: total"]),
    ),
    (
        "nunjucksFilters",
        "prompts: ['{{ x | shout }}']\nnunjucksFilters: { shout: ./filter.js }\ntests: [{ vars: { x: a } }]",
        As(&["user: filtered"]),
    ),
    ("env", "env: { REGION: eu }\nprompts: ['in {{ env.REGION }}']", As(&["user: in eu"])),
    ("env", "env: { OPENAI_API_KEY: abc }", Refused("a secret must not be in a file")),
    (
        "outputPath",
        "outputPath: [a.json, a.xml]",
        As(&["reports:", "json: a.json", "junit: a.xml"]),
    ),
    ("outputPath", "outputPath: a.csv", As(&["csv: a.csv"])),
    ("outputPath", "outputPath: a.txt", Warned("the file of results `a.txt` is not written")),
    (
        "evaluateOptions.maxConcurrency",
        "evaluateOptions: { maxConcurrency: 3 }",
        As(&["concurrency: 3"]),
    ),
    ("evaluateOptions.repeat", "evaluateOptions: { repeat: 2 }", As(&["repeat: 2"])),
    ("evaluateOptions.timeoutMs", "evaluateOptions: { timeoutMs: 900 }", As(&["timeoutMs: 900"])),
    (
        "evaluateOptions.delay",
        "evaluateOptions: { delay: 500 }",
        As(&["rpm: 120", "concurrency: 1"]),
    ),
    (
        "evaluateOptions.cache",
        "evaluateOptions: { cache: false, showProgressBar: true }",
        Warned("`cache` has no effect here"),
    ),
    (
        "evaluateOptions.maxEvalTimeMs",
        "evaluateOptions: { maxEvalTimeMs: 1 }",
        Refused("`evaluateOptions.maxEvalTimeMs`"),
    ),
    ("commandLineOptions", "commandLineOptions: { maxConcurrency: 5 }", As(&["concurrency: 5"])),
    (
        "commandLineOptions",
        "commandLineOptions: { filterPattern: x }",
        Refused("`commandLineOptions.filterPattern`"),
    ),
    (
        "$ref",
        "defaultTest: { $ref: 'refs.yaml#/both' }\ntests: [{ $ref: '#/defaultTest' }]",
        As(&["value: by reference"]),
    ),
    ("$ref", "defaultTest: { $ref: '#/nowhere' }", Refused("`#/nowhere` has no target")),
    ("$ref", "defaultTest: { $ref: '#/defaultTest' }", Refused("is circular")),
    ("scripts", "scripts: { net: [a.example] }", As(&["net:\n  - a.example"])),
    ("tags", "tags: { a: b }", Warned("`tags` has no effect here")),
    ("…", "test: []", Warned("`test` is not a key of promptfoo")),
    ("redteam", "redteam: {}", Refused("`redteam`")),
    (
        "extensions",
        "extensions: ['file://hook.js:beforeAll']\ntests: [{ vars: { x: 1 } }, { vars: { x: 2 } }]",
        As(&["x: 1", "x: added by beforeAll", "x: 2"]),
    ),
    (
        "extensions",
        "extensions: ['file://hook.js:beforeEach']\ndefaultTest: { assert: [{ type: equals, value: a }] }\ntests: [{ vars: { x: [b, c] } }]",
        As(&["x: b once", "x: c once", "value: a"]),
    ),
    (
        "extensions",
        "extensions: ['file://hook.js:every']\ntests: [{ vars: { x: b } }]",
        As(&["x: b with beforeEach", "user: asked by beforeAll"]),
    ),
    (
        "extensions",
        "extensions: ['file://hook.js:afterAll', 'file://hook.js:afterEach']",
        As(&["extensions: - file://hook.js:afterAll - file://hook.js:afterEach"]),
    ),
    ("extensions", "extensions: ['file://hook.js']", Refused("expected an extension")),
    (
        "extensions",
        "extensions: ['file://hook.js:wrong']",
        Refused("`beforeAll` of the extension returned no `suite`"),
    ),
    (
        "extensions",
        "extensions: ['file://hook.js:every']\nprompts: [file://prompt.js]",
        Refused("a `beforeAll` that changes prompts beside prompt functions"),
    ),
    (
        "extensions",
        "extensions: ['file://hook.js:beforeEach']\nscenarios: [{ config: [{ vars: { x: 1 } }] }]",
        Refused("`beforeEach` beside `scenarios`"),
    ),
    (
        "providers: file://provider.js",
        "providers: [file://provider.rb]",
        As(&["file: provider.rb", "function: call_api"]),
    ),
    ("tracing", "tracing: { enabled: true }", Warned("`tracing` has no effect here")),
    (
        "prompts[].config",
        "prompts: [{ raw: a, label: p, config: { temperature: 0.5 } }, b]\nproviders: [{ id: 'openai:gpt-4o', config: { seed: 1 } }]",
        As(&[
            "id: openai:gpt-4o · p provider: openai model: gpt-4o params: seed: 1 temperature: 0.5",
            "prompt: p models: - openai:gpt-4o · p",
            "prompt: b models: - openai:gpt-4o vars",
        ]),
    ),
    (
        "prompts[].config",
        "prompts: ['file://returns.js']\nproviders: ['openai:gpt-4o']",
        As(&["params: temperature: 0.25", "user: with settings"]),
    ),
    (
        "prompts[].config",
        "prompts: [{ raw: a, config: x }]",
        Refused("expected settings of the provider"),
    ),
    (
        "prompts[].…",
        "prompts: [{ raw: a, colour: x }]",
        Warned("`colour` is not a key of a prompt"),
    ),
    ("prompts[].…", "prompts: [{ raw: a, lable: x }]", Refused("`lable` is not a key of a prompt")),
    (
        "prompts",
        "prompts: ['{\"chat_history\": [{\"role\": \"CHATBOT\", \"message\": \"Hi\"}], \"message\": \"Who?\"}']",
        As(&["role: assistant content: Hi", "role: user content: Who?"]),
    ),
    ("prompts", "prompts: [missing.txt]", Refused("`missing.txt` does not exist")),
    (
        "config.tools",
        "providers: [{ id: 'bedrock:us.anthropic.claude-sonnet-4-6', config: { tools: [{ type: bash_20250124, name: bash }] } }]",
        Refused("the tool `bash_20250124` of Anthropic's API"),
    ),
    ("prompts: file://prompt.py", "prompts: ['file://whole.py']", As(&["user: printed"])),
    (
        "providers[].…",
        "providers: [{ id: echo, colour: x }]",
        Warned("`colour` is not a key of a provider"),
    ),
    (
        "providers[].…",
        "providers: [{ id: echo, lable: x }]",
        Refused("`lable` is not a key of a provider"),
    ),
    (
        "providers[].prompts",
        "prompts: [{ raw: a, label: p }, b]\nproviders: [{ id: echo, prompts: p }]",
        As(&["prompt: p"]),
    ),
    ("providers: file://provider.js", "providers: [./provider.js]", As(&["file: provider.js"])),
    (
        "providers: echo",
        "providers: [{ id: echo, config: { output_format: x } }]",
        As(&["id: echo"]),
    ),
    ("tests[].…", "tests: [{ matrix: x }]", Warned("`matrix` is not a key of a test")),
    ("tests[].…", "tests: [{ storeOutputAs: x }]", Warned("`storeOutputAs` has no effect here")),
    ("tests[].…", "tests: [{ asert: [] }]", Refused("`asert` is not a key of a test")),
    (
        "tests[].assert[].…",
        "tests: [{ assert: [{ type: not-guardrails, provider: mine }] }]",
        Warned("`provider` has no effect on `not-guardrails`"),
    ),
    (
        "tests[].assert[].…",
        "tests: [{ assert: [{ type: equals, value: a, reason: b }] }]",
        Warned("`reason` has no effect on `equals`"),
    ),
    (
        "tests[].assert[].…",
        "tests: [{ assert: [{ type: equals, value: a, weigth: 2 }] }]",
        Refused("unknown key `weigth`"),
    ),
    (
        "tests[].assert[].…",
        "tests: [{ assert: [{ type: llm-rubric, value: a, config: { k: 1 } }] }]",
        Warned("`config` has no effect on `llm-rubric`"),
    ),
    (
        "options.rubricPrompt",
        "tests: [{ options: { rubricPrompt: 'Grade {{ output }}' }, assert: [{ type: llm-rubric }] }]",
        As(&["type: llm-rubric", "value: ''"]),
    ),
    (
        "config.tools",
        "providers: [{ id: 'google:gemini-2.5-flash', config: { tools: [{ googleSearch: {} }, { functionDeclarations: [{ name: f }] }] } }]",
        As(&["hostedTools: - googleSearch: {}", "name: f"]),
    ),
    (
        "tests: file://tests.js:fn",
        "tests: ['file://made.py:Maker.make']",
        As(&["x: made.py Maker.make"]),
    ),
];

fn files() -> Memory {
    Memory::from_files([
        ("p.txt", "one\n---\ntwo\n"),
        ("p.csv", "label,prompt\nfirst,Say one\n,Say two\n"),
        ("wide.csv", "a,b\nc,d\n"),
        ("lines.csv", "Prompt\nfive\n"),
        ("dos.txt", "three\r\n --- \r\nfour\r\n"),
        ("p.md", "md\n"),
        ("chat.json", r#"[{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]"#),
        ("providers.yaml", "- { id: echo, label: from file }\n"),
        ("nested.yaml", "- file://providers.yaml\n"),
        ("scripts.yaml", "- file://provider.js:fn\n"),
        ("t.csv", "x\ncsv\n"),
        ("t.jsonl", "{\"vars\": {\"x\": \"jsonl\"}}\n"),
        ("t.yaml", "- vars: { x: yaml }\n"),
        ("default.yaml", "assert: [{ type: equals, value: by default }]\n"),
        (
            "scenario.yaml",
            "config: [{ vars: { who: a } }, { vars: { who: b } }]\ntests: [{ vars: { x: each } }]\n",
        ),
        (
            "refs.yaml",
            "both: { assert: [{ type: equals, value: by reference }] }\njudged: { type: llm-rubric, value: b }\n",
        ),
        ("schema.json", r#"{"type": "object"}"#),
        ("prompt.js", "x"),
        ("p.rb", "x"),
        ("p.pl", "x"),
        ("main.go", "x"),
        ("a.xlsx", "x"),
        ("tests.js", "x"),
        ("var.js", "x"),
        ("filter.js", "x"),
        ("returns.js", "x"),
        ("hook.js", "x"),
        ("provider.rb", "x"),
        ("made.py", "x"),
        ("whole.py", "x"),
        ("score.js", "x"),
        ("provider.js", "x"),
        ("provider.py", "x"),
        ("image.png", "x"),
    ])
}

/// Replaces the functions of `extensions`.
fn hook(function: &str, args: &[Value]) -> Value {
    match function {
        "beforeAll" => {
            assert_eq!(args[1], json!({"hookName": "beforeAll"}));
            let mut context = args[0].clone();
            let test = json!({"vars": {"x": "added by beforeAll"}});
            context["suite"]["tests"].as_array_mut().unwrap().insert(1, test);
            context
        }
        "beforeEach" => {
            let mut context = args[0].clone();
            context["test"]["vars"]["x"] =
                json!(format!("{} once", args[0]["test"]["vars"]["x"].as_str().unwrap_or("one")));
            context
        }
        "every" => {
            let mut context = args[1].clone();
            if args[0] == "beforeAll" {
                context["suite"]["prompts"] = json!([{"raw": "asked by beforeAll", "label": "p"}]);
            } else {
                let x = context["test"]["vars"]["x"].as_str().unwrap_or_default().to_owned();
                context["test"]["vars"]["x"] =
                    json!(format!("{x} with {}", args[0].as_str().unwrap()));
            }
            context
        }
        _ => json!({"a": 1}),
    }
}

/// Replaces the network: returns the content at the address of a question.
fn content(question: &ScriptQuestion) -> ScriptOutcome {
    let url: String = serde_json::from_str(&question.args[0]).unwrap();
    let host = url.split('/').nth(2).unwrap();
    assert!(
        question.permissions.net.iter().any(|it| it == host),
        "{url}: {:?}",
        question.permissions
    );
    let rows = |total: u32| {
        let rows: Vec<Value> =
            (0..2).map(|it| json!({"row": {"x": format!("row {it}")}})).collect();
        json!({"rows": rows, "num_rows_total": total}).to_string()
    };
    let content = match url.as_str() {
        it if it.contains("gone") => {
            let (message, stack) = (Some("status 404".to_owned()), String::new());
            return ScriptOutcome::Threw { message, stack, thrown: String::new() };
        }
        it if it.contains("page") => "<!DOCTYPE html>".to_owned(),
        it if it.contains("large") => rows(30_000),
        it if it.contains("huggingface") => rows(3),
        it if it.contains("yaml") => format!("- vars: {{ x: 'from {it}' }}"),
        it => format!("x\nfrom {it}\n"),
    };
    ScriptOutcome::Returned(ScriptValue::Json(json!(content)))
}

/// Replaces the script host: returns the result of the program that a row of [`ROWS`] names.
fn answer(question: &ScriptQuestion) -> Value {
    let args: Vec<Value> =
        question.args.iter().map(|it| serde_json::from_str(it).unwrap()).collect();
    let (path, name) = match &question.source {
        ScriptSource::Export { path, name, .. } => {
            (path.as_str(), name.clone().unwrap_or_default())
        }
        ScriptSource::File { path, function } => {
            (path.as_str(), function.clone().unwrap_or_default())
        }
        ScriptSource::Body { params, .. } if params.is_empty() => {
            return (200..300).chain([404]).collect();
        }
        ScriptSource::Body { params, .. } if params[0] == "path" => return json!("printed"),
        ScriptSource::Body { .. } => return json!({"y": "transformed"}),
    };
    match path {
        "prompt.js" => json!(format!("made by {path} {name}")),
        "tests.js" => {
            json!([{"vars": {"x": format!("{path} {name} {}", Value::from(args))}}])
        }
        "var.js" => json!({"output": format!("value of {}", args[0].as_str().unwrap())}),
        "filter.js" => json!("filtered"),
        "hook.js" => hook(&name, &args),
        "returns.js" => json!({"prompt": "with settings", "config": {"temperature": 0.25}}),
        "made.py" => json!([{"vars": {"x": format!("{path} {name}")}}]),
        other => panic!("nobody should run {other}"),
    }
}

/// Returns the models that the tests of a suite run on, with the configurations of their providers. Returns `None` if the
/// suite has errors.
fn tested(loaded: &Loaded) -> Option<Vec<(Model, Option<Value>)>> {
    let suite = loaded.suite.as_ref()?;
    let ids: BTreeSet<&String> = suite.cases.iter().flat_map(|it| it.models.iter()).collect();
    let config = |it: &Model| suite.providers.get(&it.provider).cloned().map(normalise_numbers);
    // The functions of a provider are in its configuration too, where the numbers are normalized.
    let of = |it: &Model| (Model { offers: Arc::default(), ..it.clone() }, config(it));
    Some(suite.models.iter().filter(|it| ids.contains(&it.id)).map(of).collect())
}

/// An import of a row.
struct Row {
    imported: Imported,
    /// The translation as YAML without short forms.
    whole: String,
    /// True if the tests of the imported suite run on the same models as those of the promptfoo config.
    has_same_models: bool,
}

fn imported(row: &str) -> Row {
    let mut config = format!("{row}\n");
    for (key, default) in
        [("prompts", "[hi]"), ("providers", "[echo]"), ("tests", "[{ vars: { x: 1 } }]")]
    {
        let is_there = |name: &str| config.lines().any(|it| it.starts_with(&format!("{name}:")));
        let is_given = is_there(key) || key == "providers" && is_there("targets");
        if !is_given {
            let line = format!("{key}: {default}\n");
            config.push_str(&line);
        }
    }
    let files = files();
    let env = |_: &str| None;
    let sources = Sources {
        scripts: Arc::new(|question| {
            let outcome = ScriptOutcome::Returned(ScriptValue::from(answer(question)));
            Ok(ScriptAnswer::new(outcome))
        }),
        network: Some(Arc::new(|question| Ok(ScriptAnswer::new(content(question))))),
        reporters: vec!["csv", "json", "junit"],
        ..Sources::new(&files, &env)
    };
    let whole = translated(&config, &sources);
    let name = "promptfooconfig.yaml";
    let imported = import_with(name, config.as_bytes(), &sources);
    let has_same_models = imported.yaml.as_ref().is_some_and(|yaml| {
        let original = load_with(name, config.as_bytes(), &sources);
        let own = load_with("kindlm.yaml", yaml.as_bytes(), &sources);
        tested(&own).is_some_and(|own| Some(own) == tested(&original))
    });
    Row { imported, whole, has_same_models }
}

/// Returns the translation as YAML without short forms.
fn translated(config: &str, sources: &Sources<'_>) -> String {
    let source = Arc::new(Source::new("promptfooconfig.yaml", config));
    let root = read_yaml(&source, 0..config.len()).root.unwrap();
    let mut inputs = Inputs::new(sources.files, sources.env, Arc::clone(&sources.scripts));
    inputs.network.clone_from(&sources.network);
    inputs.reporters = &sources.reporters;
    let translated = kindlm_promptfoo::translate(&source, &root, &inputs);
    serde_yaml::to_string(&translated.root.to_json()).unwrap()
}

#[test]
fn every_key_is_translated_as_the_table_shows() {
    let mut wrong = Vec::new();
    for (key, config, expected) in ROWS {
        let Row { imported, whole, has_same_models } = imported(config);
        let Imported { yaml, diagnostics, warnings, .. } = imported;
        let errors: Vec<&str> = diagnostics.iter().map(|it| it.message.as_str()).collect();
        let has_warning = |part: &str| warnings.iter().any(|it| it.message.contains(part));
        let is_right = match expected {
            As(parts) => {
                let yaml = yaml.clone().unwrap_or_default();
                // The indentation of lists depends on their depth, so white space is normalized.
                let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
                // A part is in the short form or, for most keys, in the form without defaults.
                let has = |it: &&str| {
                    [&yaml, &whole].into_iter().any(|text| plain(text).contains(&plain(it)))
                };
                has_same_models && parts.iter().all(has)
            }
            Warned(part) => yaml.is_some() && has_warning(part),
            Refused(part) => yaml.is_none() && errors.iter().any(|it| it.contains(part)),
        };
        if !is_right {
            wrong.push(format!(
                "{key}: {config}\n{errors:?}\nsame models: {has_same_models}\n{whole}\n{}",
                yaml.unwrap_or_default()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_page_has_the_rows_of_the_table_and_no_others() {
    let page = include_str!("../../../../docs/promptfoo.md");
    let table = page.split("## Key by key").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = table.lines().filter_map(|it| it.strip_prefix("| `")?.split("` |").next());
    let said: BTreeSet<&str> = rows.collect();
    let tested: BTreeSet<&str> = ROWS.iter().map(|(key, ..)| *key).collect();
    let said: Vec<&str> = said.into_iter().collect();
    let tested: Vec<&str> = tested.into_iter().collect();
    assert_eq!(said, tested);
}
