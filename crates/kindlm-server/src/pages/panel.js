// The panel in a frame of an agent builder. It takes messages only from the page around it, at the origin that the
// server permits, and sends messages only to this origin. Other messages, and those of unknown types, are ignored.
import { readEvents } from './events.js';
import { Card, RuleCard, look, quotesOf, rangesOf } from './panel-cards.js';

const element = (id) => document.getElementById(id);
const host = element('panel').dataset.origin;
const colours = ['page', 'card', 'text', 'link', 'line'];
const LONGEST_ID = 40;
const TRIED = 10;
/** The number of days of the pass rates in production. */
const DAYS = 28;
const state = {
  set: '', agent: '', token: '', readOnly: false, number: new Intl.NumberFormat(),
  // The cards of the rules, the content and the digest of the stored version of the set, and its rules by id.
  cards: [], content: {}, digest: '', saved: undefined,
  // The pass rates in production by assertion, the message of the newest evaluation, and the evaluation that runs.
  rates: new Map(), last: null, running: null,
};

const send = (type, message = {}) => parent.postMessage({ ...message, type: `kindlm:${type}`, v: 1 }, host);

/** Sends a request to the server. Throws its problem. */
const call = async (path, options = {}) => {
  const headers = { 'content-type': 'application/json', ...(state.token && { authorization: `Bearer ${state.token}` }), ...options.headers };
  const reply = await fetch(path, { ...options, headers });
  if (reply.ok) return reply;
  throw await reply.json().catch(() => ({ title: `The server answered with the status ${reply.status}`, status: reply.status }));
};
const request = async (path, options) => (await call(path, options)).json();

const fail = (problem, id) => {
  const { type = 'about:blank', title = 'The server does not answer', status = 0, detail = '' } = problem ?? {};
  element('error').textContent = detail || title;
  element('error').hidden = false;
  send('error', { id, problem: type, title, status, detail });
};
const score = (tone, text) => {
  element('score').className = `card verdict tone-${tone}`;
  element('score').textContent = text;
};
const seconds = (ms) => `${state.number.format(ms / 1000)} s`;
const highlight = (quote) => {
  const { id, agent_output: output } = state.last ?? {};
  send('highlight', { id, ranges: quote && typeof output === 'string' ? rangesOf(quote, output) : [] });
};

const changed = () => state.last && score('warn', 'The rules have changed since the evaluation.');
const removed = (card) => {
  state.cards = state.cards.filter((it) => it !== card);
  card.element.remove();
  changed();
  showButtons();
  element('add').focus();
};
const rateOf = (name) => {
  const { decided, passed, weight } = state.rates.get(name) ?? { weight: 0 };
  return weight ? `in production ${state.number.format((100 * passed) / weight)} % of ${state.number.format(decided)}` : '';
};
const ruleCard = (rule) => {
  const saved = state.saved && (state.saved.get(rule.id) ?? null);
  const card = new RuleCard(rule, saved, { readOnly: state.readOnly, highlight, changed, removed });
  card.fact('rate', rateOf(rule.id));
  return card;
};
const showRules = (rules) => {
  state.cards = structuredClone(rules).map(ruleCard);
  element('cards').replaceChildren(...state.cards.map((it) => it.element));
  element('checks').replaceChildren();
  showButtons();
};
const showButtons = () => {
  element('add').hidden = state.readOnly;
  element('save').hidden = state.readOnly || !state.set;
  element('again').hidden = !state.last;
  element('try').hidden = !state.agent;
};

/** Returns the id of a new rule: its first words, and a number if another rule has this id. */
const idOf = (text) => {
  const taken = state.cards.map((it) => it.rule.id);
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? ['rule'];
  let id = words[0].slice(0, LONGEST_ID);
  for (const word of words.slice(1)) {
    if (id.length + word.length >= LONGEST_ID) break;
    id += `_${word}`;
  }
  let number = 1;
  while (taken.includes(number > 1 ? `${id}_${number}` : id)) number++;
  return number > 1 ? `${id}_${number}` : id;
};
const writtenCards = () => state.cards.filter(({ rule }) => [rule.instruction, ...(rule.criteria ?? [])].some((it) => it?.trim()));
/** Returns the checks of the panel. A rule without words is left out. */
const checks = () => {
  const cards = writtenCards();
  for (const card of cards) {
    card.rule.id ||= idOf(card.rule.instruction || card.rule.criteria[0]);
    card.rename(card.rule.id);
  }
  const { assertions: _, ...others } = state.content;
  if (!cards.length && !others.expect) {
    throw { type: 'urn:kindlm:problem:no-checks', title: 'No checks', status: 422, detail: 'the panel has no rule; write one, or send `kindlm:init` with a stored `set` or with `assertions`' };
  }
  return { ...(cards.length && { assertions: cards.map((it) => it.rule) }), ...others };
};

const numbers = (locale) => {
  try {
    return new Intl.NumberFormat(locale, { maximumFractionDigits: 1 });
  } catch {
    return new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
  }
};
const init = async (message) => {
  const { set = '', agent = '', token = '', readOnly = false, locale, assertions } = message;
  Object.assign(state, { set, agent, token, readOnly: readOnly === true, number: numbers(locale), content: {}, digest: '', saved: undefined, rates: new Map() });
  if (message.theme) theme({ tokens: message.theme });
  showRules([]);
  score('none', 'Waiting for an output.');
  element('error').hidden = true;
  await Promise.all([agent && loadRates(), set && loadSet(assertions)]);
  showRules(assertions ?? state.content.assertions ?? []);
};
/** Loads the set. A set that is not stored yet has the rules of the host. */
const loadSet = async (assertions) => {
  let stored = { content: {}, digest: '' };
  try {
    stored = await request(`/v1/assertion-sets/${encodeURIComponent(state.set)}`);
  } catch (problem) {
    if (!assertions || problem.status !== 404) throw problem;
  }
  const rules = structuredClone(stored.content.assertions ?? []);
  Object.assign(state, { content: stored.content, digest: stored.digest, saved: new Map(rules.map((it) => [it.id, it])) });
};
const loadRates = async () => {
  const after = new Date(Date.now() - DAYS * 24 * 60 * 60 * 1000).toISOString();
  try {
    const { items } = await request(`/v1/metrics/assertions?agent=${encodeURIComponent(state.agent)}&period=week&after=${after}`);
    for (const { assertion, passed, failed, pass_rate: rate, weight } of items) {
      // A result of a sample that was chosen with a low rate stands for more samples, so each rate has a weight.
      const sum = state.rates.get(assertion) ?? { decided: 0, passed: 0, weight: 0 };
      state.rates.set(assertion, { decided: sum.decided + passed + failed, passed: sum.passed + rate * weight, weight: sum.weight + weight });
    }
  } catch {
    // The panel works without the rates, so this error is not shown.
  }
};

const evaluate = async (message, signal) => {
  state.last = message;
  if (Array.isArray(message.assertions)) showRules(message.assertions);
  const { id, agent_input = '', agent_output, vars } = message;
  const record = { ...checks(), id, agent_input, agent_output, vars };
  score('none', 'Evaluating …');
  element('error').hidden = true;
  element('checks').replaceChildren();
  for (const it of state.cards) it.begin();
  const start = performance.now();
  const sent = [];
  const receive = (result) => {
    const name = result.id ?? result.label;
    const ms = Math.round(performance.now() - start);
    const reason = result.reasoning ?? result.failure_message ?? '';
    const quotes = typeof agent_output === 'string' ? quotesOf(reason, agent_output) : [];
    const card = cardOf(result, name);
    card.show(result, reason, quotes);
    card.fact('time', seconds(ms));
    sent.push(name);
    send('verdict', { id, assertion: name, pass: result.pass, status: result.status, reasoning: reason || undefined, quotes, ms });
  };
  let evaluation;
  const reply = await call('/v1/evaluate/events', { method: 'POST', body: JSON.stringify(record), signal });
  await readEvents(reply.body, (name, data) => {
    if (name === 'result') receive(JSON.parse(data));
    if (name === 'evaluation') evaluation = JSON.parse(data);
    if (name === 'problem') throw JSON.parse(data);
  });
  if (!evaluation) throw { title: 'The connection to the server was lost' };
  for (const it of evaluation.results) {
    const index = sent.indexOf(it.id ?? it.label);
    if (index < 0) receive(it);
    sent.splice(sent.indexOf(it.id ?? it.label), 1);
  }
  const { outcome, passed, failed, total, results } = evaluation;
  send('result', { id, outcome, score: evaluation.score, passed, failed, total, results });
  const [tone, mark] = look(outcome);
  const errored = total - passed - failed;
  score(tone, `${mark} ${passed} of ${total} passed${errored ? `, ${errored} errored` : ''}, in ${seconds(performance.now() - start)}`);
  if (state.cards.some((it) => it.isStale)) changed();
  showButtons();
};
/** Returns the card of a rule, or a new one for another check. */
const cardOf = (result, name) => {
  const known = result.id && state.cards.find((it) => it.rule.id === result.id);
  if (known) return known;
  const card = new Card(name, highlight);
  card.fact('rate', rateOf(name));
  element('checks').append(card.element);
  return card;
};

/** Evaluates the newest outputs of the agent with the rules of the panel. */
const tryRules = async () => {
  const own = checks();
  score('none', 'Evaluating the newest outputs …');
  element('error').hidden = true;
  const start = performance.now();
  const { items } = await request(`/v1/samples?agent=${encodeURIComponent(state.agent)}&limit=${TRIED}`);
  if (!items.length) return score('none', `There is no output of the agent “${state.agent}”.`);
  const body = items.map(({ id, sample }) => JSON.stringify({ ...sample, ...own, id })).join('\n');
  const reply = await call('/v1/evaluate/batch', { method: 'POST', body, headers: { 'content-type': 'application/x-ndjson' } });
  const lines = (await reply.text()).trim().split('\n').map((it) => JSON.parse(it));
  if (!lines.pop()?.summary) throw { title: 'The connection to the server was lost' };
  const passed = lines.filter((it) => ['passed', 'scored'].includes(it.outcome)).length;
  const results = lines.flatMap((it) => it.results ?? []);
  for (const card of state.cards) {
    const statuses = results.filter((it) => it.id === card.rule.id).map((it) => it.status);
    const held = statuses.filter((it) => it === 'passed').length;
    card.fact('tried', `passed on ${held} of ${lines.length} outputs`);
  }
  const errors = lines.filter((it) => it.error || it.outcome === 'errored').length;
  const [tone, mark] = look(errors ? 'errored' : passed < lines.length ? 'failed' : 'passed');
  score(tone, `${mark} ${passed} of the newest ${lines.length} outputs passed${errors ? `, ${errors} errored` : ''}, in ${seconds(performance.now() - start)}`);
};

const save = async () => {
  const content = checks();
  // The server refuses to replace a version that the panel has not loaded.
  const headers = state.digest ? { 'if-match': `"${state.digest}"` } : {};
  const { name, version, digest } = await request(`/v1/assertion-sets/${encodeURIComponent(state.set)}`, { method: 'PUT', body: JSON.stringify(content), headers });
  element('error').hidden = true;
  Object.assign(state, { content, digest });
  for (const it of writtenCards()) it.save();
  score('none', `Saved as version ${version}.`);
  send('edited', { set: name, version, digest });
};
const add = () => {
  const card = ruleCard({ id: '', instruction: '', criteria: [''] });
  state.cards.push(card);
  element('cards').append(card.element);
  card.element.querySelector('textarea').focus();
};
const cancel = (message) => {
  if (message.id === state.running?.id) state.running?.abort.abort();
};
const theme = (message) => {
  for (const name of colours) {
    const value = message.tokens?.[name];
    if (/^#[0-9a-f]{3,8}$/i.test(value)) document.documentElement.style.setProperty(`--${name}`, value);
  }
};
/** Runs a handler, and shows and sends its error. A cancelled request is no error. */
const handle = async (handler, message, signal) => {
  try {
    await handler(message, signal);
  } catch (problem) {
    if (problem?.name === 'AbortError') {
      score('none', 'Cancelled.');
    } else {
      if ([evaluate, tryRules].includes(handler)) score('trouble', '! Not evaluated.');
      fail(problem, message?.id);
    }
  }
  for (const it of state.cards) it.end();
};

let queue = Promise.resolve();
/** Runs a handler after the earlier ones, so that an evaluation waits for the set. */
const later = (handler) => (message, signal) => {
  queue = queue.then(() => handle(handler, message, signal));
};
/** Starts an evaluation, and cancels the one before. */
const start = (message) => {
  state.running?.abort.abort();
  state.running = { id: message.id, abort: new AbortController() };
  later(evaluate)(message, state.running.abort.signal);
};
const handlers = { 'kindlm:init': later(init), 'kindlm:evaluate': start, 'kindlm:cancel': cancel, 'kindlm:theme': theme };

addEventListener('message', (event) => {
  if (event.source !== parent || event.origin !== host) return;
  const handler = Object.hasOwn(handlers, event.data?.type) && handlers[event.data.type];
  if (handler) handler(event.data);
});
element('again').addEventListener('click', () => start({ ...state.last, assertions: undefined }));
element('add').addEventListener('click', add);
element('try').addEventListener('click', () => later(tryRules)());
element('save').addEventListener('click', () => later(save)());
new ResizeObserver(() => send('resize', { height: Math.ceil(document.body.getBoundingClientRect().height) })).observe(document.body);
send('ready', { capabilities: ['evaluate', 'cancel', 'theme', 'locale', 'edit', 'highlight', 'try'] });
