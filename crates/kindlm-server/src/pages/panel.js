// The panel in a frame of an agent builder. It takes messages only from the page around it, at the origin that the
// server permits, and sends messages only to this origin. Other messages, and those of unknown types, are ignored.
const element = (id) => document.getElementById(id);
const host = element('panel').dataset.origin;
const looks = { passed: ['good', '✓'], scored: ['good', '~'], failed: ['bad', '✗'], errored: ['trouble', '!'], skipped: ['none', '–'] };
const tokens = ['page', 'card', 'text', 'link', 'line'];
const state = { assertions: [], set: '', token: '', readOnly: false, last: null, running: null };

const send = (type, message = {}) => parent.postMessage({ ...message, type: `kindlm:${type}`, v: 1 }, host);

/** Sends a request to the server. Throws its problem. */
const request = async (path, options = {}) => {
  const headers = { 'content-type': 'application/json', ...options.headers, ...(state.token && { authorization: `Bearer ${state.token}` }) };
  const reply = await fetch(path, { ...options, headers });
  const body = await reply.json();
  if (!reply.ok) throw body;
  return body;
};
const fail = (problem, id) => {
  const { type = 'about:blank', title = 'The server does not answer', status = 0, detail = '' } = problem ?? {};
  element('error').textContent = detail || title;
  element('error').hidden = false;
  send('error', { id, problem: type, title, status, detail });
};
const make = (name, className, text) => Object.assign(document.createElement(name), { className, textContent: text });

/** Changes the words of an assertion. A criterion that repeated the words changes with them. */
const edit = (assertion, text) => {
  assertion.criteria = (assertion.criteria ?? []).map((it) => (it === assertion.instruction ? text : it));
  assertion.instruction = text;
  element('score').textContent = 'The rules have changed since the evaluation.';
  element('score').className = 'card verdict tone-warn';
};
const card = (assertion, result) => {
  const [tone, mark] = looks[result?.status] ?? ['none', '…'];
  const item = make('li', `card result tone-${tone}`, '');
  const head = make('h2', '', '');
  head.append(make('span', 'pill', `${mark} ${result?.status ?? 'not evaluated'}`), ' ', make('span', 'name', assertion.id));
  item.append(head);
  if (state.readOnly) {
    item.append(make('p', '', assertion.instruction));
  } else {
    const field = make('textarea', '', '');
    field.value = assertion.instruction ?? '';
    field.setAttribute('aria-label', `Rule ${assertion.id}`);
    field.addEventListener('input', () => edit(assertion, field.value));
    item.append(field);
  }
  const reason = result?.reasoning ?? result?.failure_message;
  if (reason) item.append(make('p', 'reason', reason));
  return item;
};
const show = (evaluation) => {
  const found = (id) => evaluation?.results.find((it) => it.id === id);
  element('cards').replaceChildren(...state.assertions.map((it) => card(it, found(it.id))));
  element('actions').hidden = state.readOnly || !state.assertions.length;
  element('save').hidden = !state.set;
  element('again').hidden = !state.last;
  if (evaluation) {
    const [tone, mark] = looks[evaluation.outcome] ?? looks.errored;
    element('score').className = `card verdict tone-${tone}`;
    element('score').textContent = `${mark} ${evaluation.passed} of ${evaluation.total} passed`;
  }
};

const init = async (message) => {
  Object.assign(state, { assertions: structuredClone(message.assertions ?? []), content: undefined, digest: undefined, set: message.set ?? '', token: message.token ?? '', readOnly: message.readOnly === true });
  if (!message.assertions && state.set) {
    const set = await request(`/v1/assertion-sets/${encodeURIComponent(state.set)}`);
    Object.assign(state, { assertions: set.content.assertions ?? [], content: set.content, digest: set.digest });
  }
  show();
};
const evaluate = async (message) => {
  state.running = new AbortController();
  state.last = message;
  if (Array.isArray(message.assertions)) state.assertions = structuredClone(message.assertions);
  if (!state.assertions.length && !state.content?.expect) {
    throw { type: 'urn:kindlm:problem:no-checks', title: 'No checks', status: 422, detail: 'the panel has no rule; send `kindlm:init` with a stored `set` or with `assertions`' };
  }
  element('score').textContent = 'Evaluating …';
  element('error').hidden = true;
  const start = performance.now();
  const { id, agent_input = '', agent_output, vars } = message;
  const record = { ...state.content, id, agent_input, agent_output, vars, assertions: state.assertions };
  const evaluation = await request('/v1/evaluate', { method: 'POST', body: JSON.stringify(record), signal: state.running.signal });
  const ms = Math.round(performance.now() - start);
  for (const it of evaluation.results) send('verdict', { id, assertion: it.id ?? it.label, pass: it.pass, reasoning: it.reasoning ?? it.failure_message, ms });
  const { outcome, score, passed, failed, total, results } = evaluation;
  send('result', { id, outcome, score, passed, failed, total, results });
  show(evaluation);
};
const save = async () => {
  const content = { ...state.content, assertions: state.assertions };
  const { name, version, digest } = await request(`/v1/assertion-sets/${encodeURIComponent(state.set)}`, { method: 'PUT', body: JSON.stringify(content), headers: state.digest ? { 'if-match': `"${state.digest}"` } : {} });
  state.digest = digest;
  element('score').textContent = `Saved as version ${version}.`;
  send('edited', { set: name, version, digest });
};
const cancel = (message) => {
  if (message.id === state.last?.id) state.running?.abort();
};
const theme = (message) => {
  for (const name of tokens) {
    const value = message.tokens?.[name];
    if (/^#[0-9a-f]{3,8}$/i.test(value)) document.documentElement.style.setProperty(`--${name}`, value);
  }
};
/** Runs a handler, and shows and sends its error. A cancelled request is no error. */
const handle = async (handler, message) => {
  try {
    await handler(message);
  } catch (problem) {
    if (problem?.name !== 'AbortError') fail(problem, message?.id);
  }
};

let queue = Promise.resolve();
/** Runs a handler after the earlier ones, so that an evaluation waits for the set. */
const later = (handler) => (message) => {
  queue = queue.then(() => handle(handler, message));
};
const handlers = {
  'kindlm:init': later(init),
  'kindlm:evaluate': (message) => (state.running?.abort(), later(evaluate)(message)),
  'kindlm:cancel': cancel,
  'kindlm:theme': theme,
};

addEventListener('message', (event) => {
  if (event.source !== parent || event.origin !== host) return;
  const handler = Object.hasOwn(handlers, event.data?.type) && handlers[event.data.type];
  if (handler) handler(event.data);
});
element('again').addEventListener('click', () => later(evaluate)({ ...state.last, assertions: undefined }));
element('save').addEventListener('click', later(save));
new ResizeObserver(() => send('resize', { height: Math.ceil(document.body.getBoundingClientRect().height) })).observe(document.body);
send('ready', { capabilities: ['evaluate', 'cancel', 'theme', 'edit'] });
