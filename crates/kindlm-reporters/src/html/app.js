// @ts-check
// The script of the HTML report: the matrix of cases, the query language, the case view, the keys and the links.
//
// It never builds HTML from text: every text goes into a text node. It reads its data only through `source`, so that a
// server can give another implementation. `npm run build` in `tests/browser` makes `app.min.js` of it.

/** @typedef {Record<string, any>} Json */
/** @typedef {{i: number, name: string, low: string, cells: (number | undefined)[], tags: string, worst: number}} Row */
/** @typedef {{start: number, end: number, title: string, kind: string}} Span */

// ---- Elements -------------------------------------------------------------------------------------------------------

/** @param {string} id @returns {any} */
const byId = (id) => document.getElementById(id);

/**
 * Shows control characters and characters that reorder or hide text as escapes, like `visible` in Rust.
 * @param {any} text
 */
const visible = (text) =>
  String(text)
    .replace(/\r\n/g, '\n')
    .replace(
      /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\u{e0000}-\u{e007f}]/gu,
      (c) => '\\u{' + /** @type {number} */ (c.codePointAt(0)).toString(16) + '}',
    );

/** @param {Element} node @param {Json} attributes @param {any[]} children @returns {any} */
const fill = (node, attributes, children) => {
  for (const key in attributes) {
    const value = attributes[key];
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (value != null && value !== false) node.setAttribute(key, value === true ? '' : value);
  }
  for (const child of children.flat(9)) {
    if (child != null && child !== false && child !== '') node.append(child instanceof Node ? child : visible(child));
  }
  return node;
};

/** Creates an element. A name such as `b.soft` has a class. @param {string} name @param {Json} [attributes] @param {...any} children @returns {any} */
const h = (name, attributes = {}, ...children) => {
  const [tag, ...classes] = name.split('.');
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(' ');
  return fill(node, attributes, children);
};

/** @param {string} tag @param {Json} attributes @param {...any} children @returns {any} */
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

/** @param {number} n */
const count = (n) => n.toLocaleString('en');
/** @param {number} n @param {string} word */
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? '' : 's'}`;
/** @param {number | null | undefined} ms */
const duration = (ms) => (ms == null ? '' : ms < 999.5 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);
/** @param {number | null | undefined} usd */
const money = (usd) => (usd == null ? '' : usd > 0 && usd < 5e-5 ? '<$0.0001' : `$${usd.toFixed(usd < 1 && usd ? 4 : 2)}`);
/** @param {any[]} parts */
const joined = (parts) => parts.filter(Boolean).join(' · ');
/** @param {any} value */
const pretty = (value) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));

const MARKS = '✓~✗!–';
const WORDS = ['passed', 'scored', 'failed', 'errored', 'skipped'];
const TONES = ['good', 'warn', 'bad', 'trouble', 'none'];
/** @param {number} outcome */
const pill = (outcome) => h(`span.pill.tone-${TONES[outcome]}`, {}, MARKS[outcome], ' ', WORDS[outcome]);

// ---- Data -----------------------------------------------------------------------------------------------------------

/** @param {string} id @returns {Promise<any>} */
const unpack = async (id) => {
  const binary = atob(byId(id).textContent);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).json();
};

/** The data of the page. A server implements the same three functions. */
const source = {
  /** @returns {Promise<Json>} */
  head: async () => JSON.parse(byId('head').textContent),
  /** @returns {Promise<Json>} */
  index: () => unpack('index'),
  /** @param {number} n @returns {Promise<{case: Json, diffs?: Json}[]>} */
  chunk: (n) => unpack('chunk-' + n),
};

/** The chunks that were used last. @type {Map<number, Promise<any>>} */
const chunks = new Map();
/** @param {number} n */
const chunk = (n) => {
  const found = chunks.get(n) || source.chunk(n);
  chunks.delete(n);
  chunks.set(n, found);
  if (chunks.size > 16) chunks.delete(/** @type {number} */ (chunks.keys().next().value));
  return found;
};

const [head, index] = await Promise.all([source.head(), source.index()]);
const { columns: col, models, tests } = index;
/** @param {number} at @returns {Promise<{case: Json, diffs?: Json}>} */
const load = async (at) => (await chunk(col.at[at][0]))[col.at[at][1]];

/** The tests as rows, with a case for each model. @type {Row[]} */
const rows = tests.map((/** @type {string} */ name, /** @type {number} */ i) => ({
  i, name, low: name.toLowerCase(), cells: [], tags: '', worst: -1,
}));
for (let at = 0; at < index.count; at++) {
  const row = rows[col.test[at]];
  row.cells[col.model[at]] = at;
  row.tags = col.tags[at].map((/** @type {number} */ it) => index.tags[it].toLowerCase()).join('\n');
  row.worst = Math.max(row.worst, [0, 1, 3, 2, -1][col.outcome[at]]);
}
/** @param {number} at */
const isFlaky = (at) => /[01]/.test(col.repeats[at]) && col.repeats[at].includes('2');
/** @param {number} at */
const isOpen = (at) => col.outcome[at] > 0 && col.outcome[at] < 4;
/** @param {Row} row */
const cases = (row) => /** @type {number[]} */ (row.cells.filter((it) => it != null));
/** @param {Row} row */
const differs = (row) => new Set(cases(row).map((it) => col.outcome[it] > 1)).size > 1;

// ---- Query ----------------------------------------------------------------------------------------------------------

/** Returns a function that finds a word, a phrase or a regular expression. @param {string} text @returns {(text: string) => boolean} */
const finder = (text) => {
  const [, pattern, flags] = text.match(/^\/(.+)\/([a-z]*)$/) || [];
  if (pattern) {
    try {
      const regex = new RegExp(pattern, flags.includes('i') ? 'i' : '');
      return (it) => regex.test(it);
    } catch { /* An incomplete expression is searched as a text. */ }
  }
  const low = text.replace(/^"|"$/g, '').toLowerCase();
  return (it) => it.toLowerCase().includes(low);
};

/** @type {Record<string, (at: number) => number | null>} */
const NUMBERS = {
  score: (at) => col.score[at], cost: (at) => col.usd[at], ms: (at) => col.ms[at],
  tokens: (at) => col.tokens[at], turns: (at) => col.turns[at],
};
/** @type {Record<string, (at: number) => string[]>} */
const LISTS = {
  code: (at) => col.codes[at].map((/** @type {number} */ it) => index.codes[it]),
  rule: (at) => col.rules[at].map((/** @type {number} */ it) => index.rules[it]),
  tool: (at) => col.tools[at].map((/** @type {number} */ it) => index.tools[it]),
  t: (at) => col.tags[at].map((/** @type {number} */ it) => index.tags[it]),
  m: (at) => [models[col.model[at]]],
  file: (at) => [index.files[col.file[at]] || ''],
};

/**
 * Returns a predicate for cases, and the texts that must be searched in the chunks.
 * @param {string} query
 */
const parse = (query) => {
  /** @type {((at: number) => boolean)[]} */
  const terms = [];
  /** @type {((text: string) => boolean)[]} */
  const deep = [];
  const place = (query.match(/(?:^|\s)in:(output|prompt|reason)\b/) || [])[1] || '';
  for (let word of query.match(/!?(?:[a-z]+:)?(?:"[^"]*"?|\/(?:[^/\\]|\\.)+\/[a-z]*|\S+)/g) || []) {
    const not = word[0] === '!' && word.length > 1;
    if (not) word = word.slice(1);
    const [, number, sign, value] = word.match(/^([a-z]+)(<=|>=|<|>|=)(-?[\d.]+)$/) || [];
    const [, key, text = ''] = word.match(/^([a-z]+):(.*)$/) || [];
    /** @type {(at: number) => boolean} */
    let term;
    if (key === 'in') continue;
    if (number && NUMBERS[number]) {
      const limit = Number(value);
      term = (at) => {
        const it = NUMBERS[number](at);
        return it != null && (sign === '<' ? it < limit : sign === '>' ? it > limit : sign === '<=' ? it <= limit : sign === '>=' ? it >= limit : it === limit);
      };
    } else if (key === 's') {
      term = (at) => text === 'open' ? isOpen(at) : text === 'flaky' ? isFlaky(at) : text === 'different' ? differs(rows[col.test[at]]) : WORDS[col.outcome[at]] === text;
    } else if (key === 'cause') {
      term = (at) => col.causes[at].includes(Number(text));
    } else if (key && LISTS[key]) {
      const find = finder(text);
      term = (at) => LISTS[key](at).some(find);
    } else {
      const find = finder(word);
      if (place) {
        deep.push((it) => find(it) !== not);
        continue;
      }
      term = (at) => find(tests[col.test[at]]) || find(rows[col.test[at]].tags);
    }
    terms.push((at) => term(at) !== not);
  }
  return { place, deep, matches: (/** @type {number} */ at) => terms.every((it) => it(at)) };
};

/** Returns the texts of a case in which `in:` searches. @param {string} place @param {Json} it */
const texts = (place, it) =>
  it.executions.flatMap((/** @type {Json} */ run) =>
    place === 'output' ? [run.output, ...(run.turns || []).map((/** @type {Json} */ turn) => turn.text)]
    : place === 'prompt' ? run.input.map((/** @type {Json} */ it) => it.content)
    : run.results.flatMap((/** @type {Json} */ it) => [it.failureMessage, it.reasoning]),
  ).filter(Boolean).join('\n');

// ---- State in the URL -----------------------------------------------------------------------------------------------

/** @type {Record<string, string>} */
let state = {};
const KEYS = ['q', 'sort', 'case', 'model', 'repeat'];
const readUrl = () => {
  const hash = new URLSearchParams(location.hash.slice(1).replace(/\+/g, '%2B'));
  state = { view: ['cases', 'run'].find((it) => hash.has(it)) || 'overview' };
  for (const key of KEYS) state[key] = hash.get(key) || '';
  if (state.case || state.q) state.view = 'cases';
};
/** @param {Record<string, string>} to */
const link = (to) => {
  const parts = KEYS.filter((key) => to[key]).map((key) => `${key}=${encodeURIComponent(to[key])}`);
  return '#' + [to.view || 'cases', ...parts].join('&');
};
/** Changes the URL without a new entry in the history. @param {Record<string, string>} to */
const go = (to) => {
  Object.assign(state, to);
  history.replaceState(null, '', link(state));
  show();
};
/** @param {number} at @param {Record<string, string>} [more] */
const linkTo = (at, more = {}) =>
  link({ q: state.q, sort: state.sort, case: tests[col.test[at]], model: models[col.model[at]], ...more });

// ---- Matrix ---------------------------------------------------------------------------------------------------------

/** @type {Row[]} */
let view = [];
/** The cases that match the query. @type {(at: number) => boolean} */
let matches = () => true;
/** The number of the search in the chunks that is running. */
let search = 0;
/** @param {Row} row @param {(string & keyof any)} key */
const sum = (row, key) => cases(row).reduce((all, it) => all + (col[key][it] || 0), 0);
/** @type {Record<string, [string, (row: Row) => number]>} */
const SORTS = {
  worst: ['Worst first', (row) => -row.worst],
  plan: ['In the order of the suite', (row) => row.i],
  flaky: ['Flakiest first', (row) => -Math.max(0, ...cases(row).filter(isFlaky).map((it) => Math.min(col.held[it], col.of[it] - col.held[it]) / col.of[it]))],
  score: ['Lowest score first', (row) => Math.min(9, ...cases(row).map((it) => col.score[it] ?? 9))],
  slow: ['Slowest first', (row) => -sum(row, 'ms')],
  cost: ['Most expensive first', (row) => -sum(row, 'usd')],
};

const input = h('input', { type: 'search', id: 'query', 'aria-label': 'Filter the tests', placeholder: 'Filter: refund  s:failed  m:gpt  !smoke', autocomplete: 'off', spellcheck: 'false', oninput: () => go({ q: input.value, case: '' }) });
const sorting = h('select', { 'aria-label': 'Sort', onchange: () => go({ sort: sorting.value }) }, Object.entries(SORTS).map(([key, [name]]) => h('option', { value: key }, name)));
const status = h('span.soft', { role: 'status' });
const space = h('div.space', { role: 'presentation' });
const port = h('div.port', { role: 'rowgroup', tabindex: '0', 'aria-label': 'Tests' }, space);
/** @param {string} model */
const modelHead = (model) => {
  const held = head.models.find((/** @type {Json} */ it) => it.model === model)?.held;
  const range = held?.total && `${Math.round(100 * held.rate)}% [${Math.round(100 * held.low)}–${Math.round(100 * held.high)}]`;
  return h('div', { role: 'columnheader' }, h('span', {}, model), range && h('span.soft', { title: "Cases that held, with Wilson's 95% interval" }, range));
};
const table = h('div.matrix', { role: 'table', 'aria-label': 'Tests by model' },
  h('div', { role: 'rowgroup' }, h('div.heads', { role: 'row' }, h('div', { role: 'columnheader' }, 'Test'), models.map(modelHead))), port);
const detail = h('section.card.detail', { 'aria-label': 'Case', hidden: true });
/** @param {string} query @param {string} word @param {(row: Row) => boolean} has */
const chip = (query, word, has) => {
  const number = rows.filter(has).length;
  return (number > 0 || !query) && h('button.chip', { type: 'button', 'data-q': query, onclick: () => go({ q: query, case: '' }) }, word, ' ', h('b', {}, count(number)));
};
const chips = [
  chip('', 'All', () => true),
  chip('s:open', 'Needs a look', (row) => row.worst > 0),
  chip('s:failed', 'Failed', (row) => cases(row).some((it) => col.outcome[it] === 2)),
  chip('s:errored', 'Errored', (row) => cases(row).some((it) => col.outcome[it] === 3)),
  chip('s:flaky', 'Flaky', (row) => cases(row).some(isFlaky)),
  models.length > 1 && chip('s:different', 'Models differ', differs),
].filter(Boolean);

/** Draws the repeats of a case: a high bar for one that held, a low bar for one that did not. @param {string} repeats */
const bars = (repeats) => {
  const many = Math.min(repeats.length, 20);
  const paths = ['', '', '', '', ''];
  for (let i = 0; i < many; i++) paths[+repeats[i]] += repeats[i] < '2' ? `M${i * 5} 1h4v12h-4z` : `M${i * 5} 7h4v6h-4z`;
  return svg('svg', { class: 'bars', viewBox: `0 0 ${many * 5} 14`, width: many * 5, height: 14, 'aria-hidden': 'true' },
    paths.map((d, i) => d && svg('path', { d, class: 'fill-' + TONES[i] })));
};
/** @param {number | undefined} at @param {boolean} isOn */
const cell = (at, isOn) => {
  if (at == null) return h('div.cell', { role: 'cell' });
  const [outcome, repeats] = [col.outcome[at], col.repeats[at]];
  const words = `${models[col.model[at]]}: ${WORDS[outcome]}` + (repeats ? `, ${col.held[at]} of ${plural(col.of[at], 'repeat')} held` : '');
  return h('div.cell', { role: 'cell' }, h('a' + (isOn ? '' : '.off-query'), { href: linkTo(at), tabindex: '-1', 'aria-label': words },
    h(`span.pill.tone-${TONES[outcome]}`, {}, MARKS[outcome]), repeats && bars(repeats), repeats && h('span.n', {}, `${col.held[at]}/${col.of[at]}`)));
};

/** @type {any[]} */
const pool = [];
let rowHeight = 36;
const paint = () => {
  rowHeight = matchMedia('(max-width:760px)').matches ? 56 : 36;
  space.style.height = view.length * rowHeight + 'px';
  const first = Math.max(0, Math.floor(port.scrollTop / rowHeight) - 4);
  const visibleRows = Math.ceil(port.clientHeight / rowHeight) + 8;
  while (pool.length < visibleRows) pool.push(space.appendChild(h('div.row', { role: 'row' })));
  pool.forEach((node, i) => {
    const row = i < visibleRows ? view[first + i] : undefined;
    node.hidden = !row;
    if (!row) return;
    node.style.transform = `translateY(${(first + i) * rowHeight}px)`;
    node.setAttribute('aria-rowindex', first + i + 2);
    node.classList.toggle('current', row.name === state.case);
    const key = row.i + ' ' + state.q + ' ' + state.sort;
    if (node.key === key) return;
    node.key = key;
    const best = row.cells.findIndex((it) => it != null && matches(it) && (isOpen(it) || !row.worst));
    const at = /** @type {number} */ (row.cells[best] ?? cases(row).find(matches) ?? cases(row)[0]);
    node.replaceChildren(
      h('div.test', { role: 'rowheader' }, h('a', { href: linkTo(at), tabindex: first + i ? '-1' : '0' }, row.name)),
      ...models.map((/** @type {string} */ _, /** @type {number} */ m) => cell(row.cells[m], row.cells[m] != null && matches(/** @type {number} */ (row.cells[m])))),
    );
  });
};
/** @param {string} [note] */
const list = (note = '') => {
  const isSearch = !!state.q.trim();
  view = isSearch ? rows.filter((row) => cases(row).some(matches)) : rows.slice();
  const order = (SORTS[state.sort] || SORTS.worst)[1];
  const keys = new Map(view.map((row) => [row, order(row)]));
  view.sort((a, b) => /** @type {number} */ (keys.get(a)) - /** @type {number} */ (keys.get(b)) || a.i - b.i);
  table.setAttribute('aria-rowcount', view.length + 1);
  status.textContent = `${count(view.length)} of ${plural(rows.length, 'test')}${note}`;
  paint();
};
let shown = '';
/** Applies the query. Texts of cases are searched chunk by chunk. */
const filter = async () => {
  const { place, deep, matches: plain } = parse(state.q);
  const mine = ++search;
  matches = plain;
  if (!deep.length) return list();
  /** @type {Set<number>} */
  const found = new Set();
  const byChunk = Array.from({ length: index.chunks }, () => /** @type {number[]} */ ([]));
  for (let at = 0; at < index.count; at++) if (plain(at)) byChunk[col.at[at][0]].push(at);
  matches = (at) => found.has(at);
  for (let n = 0; n < index.chunks; n++) {
    if (byChunk[n].length) {
      const all = await chunk(n);
      if (mine !== search) return;
      for (const at of byChunk[n]) {
        const text = texts(place, all[col.at[at][1]].case);
        if (deep.every((it) => it(text))) found.add(at);
      }
    }
    list(n + 1 < index.chunks ? `, searched ${Math.round((100 * (n + 1)) / index.chunks)}%` : '');
    await new Promise((done) => setTimeout(done));
    if (mine !== search) return;
  }
};

// ---- Texts ----------------------------------------------------------------------------------------------------------

/** Returns a text with marked spans. The spans count characters. @param {string} text @param {Span[]} spans */
const marked = (text, spans) => {
  if (!spans.length) return [text];
  const chars = Array.from(text);
  const out = [];
  let at = 0;
  for (const it of [...spans].sort((a, b) => a.start - b.start)) {
    if (it.start < at || it.end > chars.length) continue;
    out.push(chars.slice(at, it.start).join(''), h('mark.' + it.kind, { title: visible(it.title) }, chars.slice(it.start, it.end).join('')));
    at = it.end;
  }
  return [...out, chars.slice(at).join('')];
};
/** Finds all places of words in a text. @param {string} text @param {string} word @param {string} title @param {string} kind @returns {Span[]} */
const places = (text, word, title, kind) => {
  const found = [];
  for (let at = text.indexOf(word); at >= 0 && found.length < 99; at = text.indexOf(word, at + word.length)) {
    const start = Array.from(text.slice(0, at)).length;
    found.push({ start, end: start + Array.from(word).length, title, kind });
  }
  return found;
};
const LINES = 40;
/** Shows a text; folds a long one. @param {string} text @param {string} label @param {Span[]} [spans] */
const block = (text, label, spans = []) => {
  if (!text) return h('p.soft', {}, 'nothing');
  const node = h('pre.text', { dir: 'auto' });
  const end = text.split('\n', LINES).join('\n').slice(0, 6000);
  const all = () => node.replaceChildren(...fill(h('div'), {}, marked(text, spans)).childNodes);
  if (end.length === text.length || (spans.length && text.length < 20000)) {
    all();
    return node;
  }
  node.append(visible(end));
  const more = h('button.more', { type: 'button', onclick: () => { all(); more.remove(); } }, `Show all ${count(text.length)} characters`);
  return [node, more];
};
/** @param {string} sign */
const lineClass = (sign) => (sign === '+' ? 'div.added' : sign === '-' ? 'div.removed' : 'div');
/** Shows a difference of the chunk. @param {any[][]} lines */
const diffOf = (lines) => {
  const node = h('div.diff', {}, h('p.soft', {}, '− expected  + actual'));
  for (let i = 0; i < lines.length; i++) {
    let same = i;
    while (same < lines.length && lines[same][0] === ' ') same++;
    if (same - i > 7) {
      const hidden = lines.slice(i + 3, same - 3);
      node.append(...lines.slice(i, i + 3).map(diffLine));
      const more = h('button.more', { type: 'button', onclick: () => more.replaceWith(...hidden.map(diffLine)) }, `${plural(hidden.length, 'equal line')}`);
      node.append(more);
      i = same - 3;
    }
    node.append(diffLine(lines[i]));
  }
  return node;
};
/** @param {any[]} line */
const diffLine = ([sign, ...parts]) =>
  h(lineClass(sign), {}, h('span.sign', {}, sign === '-' ? '−' : sign), parts.map((it, i) => (i % 2 ? h('mark', {}, it) : it)), parts.join('') ? '' : ' ');
/** Shows a unified diff. @param {string} text */
const patch = (text) => h('div.diff', {}, text.split('\n').slice(0, 2000).map((it) => h(lineClass(/^(\+\+\+|---)/.test(it) ? '' : it[0]), {}, it || ' ')));
/** @param {string} title @param {any} body @param {boolean} [open] */
const fold = (title, body, open = false) => h('details', { open }, h('summary', {}, title), body);
/** @param {[any, any][]} pairs */
const facts = (pairs) => h('dl.facts', {}, pairs.filter(([, it]) => it != null && it !== '').map(([key, it]) => [h('dt', {}, key), h('dd', {}, it)]));

// ---- Checks ---------------------------------------------------------------------------------------------------------

const STATUSES = ['passed', 'scored', 'failed', 'errored', 'skipped'];
/** @param {Json} it */
const lookOf = (it) => it.status === 'failed' && it.severity === 'soft' ? 1 : STATUSES.indexOf(it.status);
/** @param {Json} it @returns {number | undefined} */
const wanted = (it) => it.metadata?.threshold ?? it.metadata?.minScore ?? it.metadata?.assertionSet?.threshold;
/** @param {Json[]} errors @param {string} first */
const mismatches = (errors, first) =>
  h('div.scroll', { tabindex: '0', role: 'region', 'aria-label': 'Differences' }, h('table', {}, h('thead', {}, h('tr', {}, [first, 'Expected', 'Actual'].map((it) => h('th', { scope: 'col' }, it)))),
    h('tbody', {}, errors.map((it) => h('tr', {}, h('th', { scope: 'row' }, h('code', {}, it.pointer || '(all)')), h('td', {}, h('code', {}, it.expected)), h('td.tone-bad', {}, h('code', {}, it.actual ?? 'nothing')))))));
/** Shows a number and its limit as a bar. @param {Json} it */
const measure = (it) => {
  const most = Math.max(it.actual ?? 0, it.limit) * 1.15 || 1;
  const unit = it.unit ? ' ' + it.unit : '';
  return h('div.measure', {}, `${it.name}: ${it.actual ?? 'unknown'}${unit}, ${it.bound === 'atMost' ? 'at most' : 'at least'} ${it.limit}${unit}`,
    svg('svg', { class: 'bullet', viewBox: '0 0 1000 14', preserveAspectRatio: 'none', 'aria-hidden': 'true' },
      svg('rect', { class: 'track', y: 3, width: 1000, height: 8 }), svg('rect', { class: 'value', y: 3, width: (1000 * (it.actual ?? 0)) / most, height: 8 }),
      svg('rect', { class: 'limit', x: Math.min(995, (1000 * it.limit) / most), width: 5, height: 14 })));
};
/** Shows one piece of evidence. @param {Json} it @param {Json} run @param {any} diff */
const evidence = (it, run, diff) => {
  if (diff) return diffOf(diff);
  switch (it.kind) {
    case 'matches': {
      const isOutput = it.of.text === 'output';
      const chars = Array.from(run.output || '');
      return h('ul.found', {}, it.spans.slice(0, 20).map((/** @type {Json} */ span) => h('li', {}, span.what,
        isOutput ? [': ', '…' + chars.slice(Math.max(0, span.start - 30), span.start).join(''), h('mark.bad', {}, chars.slice(span.start, span.end).join('')), chars.slice(span.end, span.end + 30).join('') + '…'] : ` in ${it.of.name}, at character ${span.start + 1}`)));
    }
    case 'absent': return h('ul.found', {}, it.expected.map((/** @type {string} */ text) => h('li', {}, h('code', {}, text), ` is not in ${it.of.name || 'the output'}`)));
    case 'schema': return mismatches(it.errors, 'Place');
    case 'toolCall': return mismatches(it.mismatches, it.tool);
    case 'command': return [h('p', {}, it.exitCode == null ? 'no exit code' : `exit code ${it.exitCode}`), it.stdout && fold('stdout', block(it.stdout, 'stdout'), true), it.stderr && fold('stderr', block(it.stderr, 'stderr'), true)];
    case 'tests': return [h('p', {}, `${plural(it.passed, 'test')} passed`), h('ul.found', {}, it.failed.map((/** @type {Json} */ test) => h('li', {}, h('b', {}, test.name), test.message && block(test.message, test.name))))];
    case 'measure': return measure(it);
    default: return fold(it.kind, block(pretty(it), it.kind));
  }
};
/** Draws scores from 0 to 1 as dots, with the threshold. @param {{score: number, look: number}[]} dots @param {number | undefined} limit */
const strip = (dots, limit) => {
  /** @type {Record<number, number>} */
  const used = {};
  return svg('svg', { class: 'strip', viewBox: '0 0 220 30', width: 220, height: 30, role: 'img', 'aria-label': `scores ${dots.map((it) => it.score).join(', ')}${limit == null ? '' : `, required ${limit}`}` },
    svg('rect', { class: 'track', x: 10, y: 19, width: 200, height: 2 }), limit != null && svg('rect', { class: 'limit', x: 9 + 200 * limit, y: 8, width: 2, height: 18 }),
    dots.map((it) => {
      const x = Math.round(10 + 200 * it.score);
      const level = (used[Math.round(x / 9)] = (used[Math.round(x / 9)] || 0) + 1);
      return svg('circle', { class: 'fill-' + TONES[it.look], cx: x, cy: 20 - Math.min(level - 1, 2) * 6, r: 5 });
    }));
};
/** Shows who judged, with every vote. @param {Json} it */
const judged = (it) => {
  const data = it.metadata || {};
  const votes = data.panel?.votes || [];
  const dots = (votes.length ? votes : it.class === 'probabilistic' ? [it] : []).filter((/** @type {Json} */ vote) => vote.score != null)
    .map((/** @type {Json} */ vote) => ({ score: vote.score, look: STATUSES.indexOf(vote.status) }));
  const passes = votes.filter((/** @type {Json} */ vote) => vote.status === 'passed').length;
  const facts = joined([
    votes.length && `${passes} of ${plural(votes.length, 'vote')} pass`,
    data.panel?.agreement != null && `${Math.round(100 * data.panel.agreement)}% agree`,
    data.panel?.spread && `scores ${data.panel.spread.toFixed(2)} apart`,
    data.judgeModel && `judge ${data.judgeModel}`, data.answeredModel && `answered by ${data.answeredModel}`,
    data.asked > 1 && `asked ${data.asked} times`, data.tie && 'tie', data.promptDigest && `instructions ${data.promptDigest.slice(0, 8)}`,
  ]);
  if (!dots.length && !facts) return null;
  return h('div.judged', {}, (data.borderline || data.panel?.borderline) && h('span.pill.tone-warn', {}, 'borderline'), dots.length > 0 && strip(dots, wanted(it)), facts && h('p.soft', {}, facts),
    votes.length > 0 && h('ul.votes', {}, votes.map((/** @type {Json} */ vote) => h('li', {},
      h(`span.pill.tone-${TONES[STATUSES.indexOf(vote.status)]}`, {}, joined([vote.status, vote.score?.toFixed(2)])), ' ', h('b', {}, vote.judge || 'judge'), vote.sample != null && h('span.soft', {}, ` answer ${vote.sample + 1}`), vote.reasoning && h('p', { dir: 'auto' }, vote.reasoning)))));
};
const SHOWN_ELSEWHERE = ['panel', 'judgeModel', 'answeredModel', 'asked', 'tie', 'borderline', 'threshold', 'minScore', 'promptDigest'];
/** Shows a check with its evidence. @param {Json} it @param {Json} run @param {Json} diffs @param {string} path @returns {any} */
const check = (it, run, diffs, path) => {
  const look = lookOf(it);
  const key = `${run.repeat}/${path}/`;
  const byData = diffs[key + 'metadata'];
  const score = it.score != null && (it.severity === 'soft' || (it.score > 0 && it.score < 1)) && it.score.toFixed(2) + (wanted(it) == null ? '' : ` (wants ${wanted(it)})`);
  const rest = Object.entries(it.metadata || {}).filter(([name, value]) => !SHOWN_ELSEWHERE.includes(name) && value !== it.reasoning && !(byData && (name === 'expected' || name === 'actual')));
  const fails = look > 0 && look < 4;
  const says = it.failureMessage || it.skipReason;
  return h(`li.check.tone-${TONES[look]}`, {},
    h('div.headline', {}, h('span.mark', { 'aria-hidden': 'true' }, MARKS[look]), h('span.off', {}, WORDS[look] + ': '), score && h('b.score', {}, score), h('span.label', { dir: 'auto' }, it.label),
      it.failureCode && h('code.code', {}, it.failureCode), h('span.soft', {}, joined([it.turn && 'turn ' + it.turn, it.weight !== 1 && 'weight ' + it.weight, it.metric && 'counts for ' + it.metric, it.source && `${it.source.file}:${it.source.line}`]))),
    says && h('p.says', { dir: 'auto' }, says.slice(0, 4000)), it.reasoning && it.reasoning !== says && h('p.says.soft', { dir: 'auto' }, it.reasoning),
    h('div.evidence', {}, (it.evidence || []).map((/** @type {Json} */ piece, /** @type {number} */ n) => (fails || piece.kind === 'measure') && evidence(piece, run, diffs[key + n])), byData && diffOf(byData),
      (fails || it.metadata?.panel || it.severity === 'soft') && judged(it),
      rest.length > 0 && fold('Data', facts(rest.map(([name, value]) => [name, pretty(value).slice(0, 2000)])))),
    (it.componentResults || []).length > 0 && path.length < 16 && h('ul.checks', {}, it.componentResults.map((/** @type {Json} */ part, /** @type {number} */ n) => check(part, run, diffs, `${path}.${n}`))));
};

// ---- Timeline -------------------------------------------------------------------------------------------------------

/** Shows JSON of a call; marks the lines of failed pointers. @param {any} value @param {Json[]} wrong */
const argumentsOf = (value, wrong) => {
  /** @type {Record<string, Json>} */
  const byPointer = {};
  for (const it of wrong) byPointer[it.pointer] = it;
  const out = h('pre.text');
  /** @param {any} it @param {string} pointer @param {string} indent @param {string} before @param {string} after */
  const write = (it, pointer, indent, before, after) => {
    const error = byPointer[pointer];
    delete byPointer[pointer];
    const isList = Array.isArray(it);
    const inner = it && typeof it === 'object' && !error ? Object.entries(it) : [];
    const open = inner.length ? (isList ? '[' : '{') : JSON.stringify(it) ?? 'null';
    out.append(h(error ? 'div.wrong' : 'div', {}, indent + before + open + (inner.length ? '' : after), error && h('span.flag', {}, ` ✗ expected ${error.expected}`)));
    inner.forEach(([key, value], n) => write(value, pointer + '/' + key.replace(/~/g, '~0').replace(/\//g, '~1'), indent + '  ', isList ? '' : JSON.stringify(key) + ': ', n + 1 < inner.length ? ',' : ''));
    if (inner.length) out.append(h('div', {}, indent + (isList ? ']' : '}') + after));
  };
  write(value, '', '', '', '');
  for (const it of Object.values(byPointer)) out.append(h('div.wrong', {}, h('span.flag', {}, `✗ ${it.pointer}: expected ${it.expected}`)));
  return out;
};
/** @param {Json} run */
const findings = (run) => {
  /** @type {Json[]} */
  const all = [];
  /** @param {Json} it */
  const add = (it) => {
    if (it.status === 'failed' || it.status === 'errored') all.push(it);
    (it.componentResults || []).forEach(add);
  };
  run.results.forEach(add);
  return all;
};
/** @param {Json} it */
const flag = (it) => h('p.flag', {}, MARKS[lookOf(it)] + ' ' + it.label);
/** Shows a tool call, with its simulated or recorded response. @param {Json} call @param {Json[]} failed @param {string} response */
const toolCall = (call, failed, response) => {
  const about = failed.flatMap((it) => (it.evidence || []).filter((/** @type {Json} */ piece) => piece.kind === 'toolCall' && (piece.callId ? piece.callId === call.id : piece.tool === call.name)).map((/** @type {Json} */ piece) => [it, piece]));
  const wrong = about.flatMap(([, piece]) => piece.mismatches);
  const text = call.response === undefined ? '' : pretty(call.response);
  return h('div.call' + (about.length ? '.failed' : ''), {}, h('p.who', {}, h('code', {}, call.name), call.failed && h('span.pill.tone-bad', {}, call.failed)),
    call.malformedArguments != null ? [h('p.flag', {}, 'malformed arguments'), block(call.malformedArguments, 'arguments')] : call.arguments != null && argumentsOf(call.arguments, wrong),
    about.map(([it]) => flag(it)),
    call.response !== undefined && (text.split('\n').length > 12 || text.length > 1200 ? fold(response + ', ' + plural(text.length, 'character'), block(text, response)) : h('div.response', {}, h('span.tag', {}, response), block(text, response))));
};
/** Shows one recorded event. @param {Json} it @param {Json} results @param {Json[]} failed @returns {any} */
const eventOf = (it, results, failed) => {
  switch (it.type) {
    case 'message': return say(it.role, it.text, [], it.role);
    case 'action.called': case 'subagent.called': {
      const result = results[it.callId];
      return toolCall({ id: it.callId, name: (it.type[0] === 's' ? 'agent ' : '') + it.name, arguments: it.input, response: result?.output, failed: result && result.status !== 'completed' ? result.status : '' }, failed, 'response');
    }
    case 'action.result': case 'subagent.completed': case 'usage': return null;
    case 'thinking': return fold('thinking', block(it.text, 'thinking'));
    case 'skill.loaded': return h('p.event', {}, 'loaded the skill ', h('code', {}, it.skill));
    case 'input.requested': return h('p.event', {}, 'asked: ', it.request?.prompt || it.request?.action || '');
    case 'compaction': return h('p.event', {}, 'compacted its history ', it.reason && `(${it.reason})`);
    case 'error': return h('p.event.flag', {}, it.message);
    default: return fold(it.type, block(pretty(it), it.type));
  }
};
/** @param {string} who @param {string} text @param {Span[]} spans @param {string} kind @param {any} [aside] */
const say = (who, text, spans, kind, aside) => h('div.say.' + kind, {}, h('p.who', {}, who, aside), block(text, who, spans));
/** Returns the spans of the output that checks and judges point at. @param {Json} run @param {Json[]} failed */
const outputSpans = (run, failed) => {
  /** @type {Span[]} */
  const spans = failed.flatMap((it) => (it.evidence || []).filter((/** @type {Json} */ piece) => piece.kind === 'matches' && piece.of.text === 'output').flatMap((/** @type {Json} */ piece) => piece.spans.map((/** @type {Json} */ span) => ({ start: span.start, end: span.end, title: span.what, kind: 'bad' }))));
  for (const it of run.results) {
    const said = [it.reasoning, ...(it.metadata?.panel?.votes || []).map((/** @type {Json} */ vote) => vote.reasoning)].filter(Boolean).join('\n');
    for (const [, quote] of said.matchAll(/["“'‘`]([^"”'’`\n]{6,200})["”'’`]/g)) spans.push(...places(run.output, quote, 'quoted by the judge: ' + it.label, 'quote'));
  }
  return spans;
};
/** Shows what happened: the prompt, the turns, the calls, the output. @param {Json} run */
const timeline = (run) => {
  const failed = findings(run);
  const isSimulated = run.exitCode == null && !(run.events || []).length && run.model !== 'command';
  const response = isSimulated ? 'simulated response' : 'response';
  /** @type {Json} */
  const results = {};
  for (const it of run.events || []) if (/result|completed/.test(it.type)) results[it.callId] = it;
  /** @param {string} text */
  const variables = (text) => Object.entries(run.vars || {}).filter(([, it]) => /^(string|number)$/.test(typeof it) && String(it).length > 1).flatMap(([name, it]) => places(text, String(it), 'variable ' + name, 'var'));
  const asked = run.input.map((/** @type {Json} */ it) => say(it.role === 'system' ? 'system prompt' : it.role, it.content, variables(it.content), it.role));
  const [calls, events, turns] = [run.toolCalls || [], run.events || [], run.turns || []];
  const spans = outputSpans(run, failed);
  const total = turns.reduce((/** @type {number} */ all, /** @type {Json} */ it) => all + it.latencyMs, 0) || 1;
  let before = 0;
  const body = turns.map((/** @type {Json} */ turn, /** @type {number} */ n) => {
    const start = before;
    before += turn.latencyMs;
    const broke = failed.filter((it) => it.turn === turn.label);
    const seen = events.slice(turn.events?.start ?? 0, turn.events?.end ?? 0);
    const isLast = n + 1 === turns.length;
    return h('li' + (broke.length ? '.broke' : ''), {}, h('p.who', {}, 'turn ' + turn.label, h('span.soft', {}, joined([duration(turn.latencyMs), turn.usage?.totalTokens && plural(turn.usage.totalTokens, 'token')])),
      svg('svg', { class: 'span', viewBox: '0 0 1000 6', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, svg('rect', { x: (1000 * start) / total, width: Math.max(8, (1000 * turn.latencyMs) / total), height: 6 }))),
      turn.user != null && say('user', turn.user, variables(turn.user), 'user'),
      seen.length ? seen.map((/** @type {Json} */ it) => eventOf(it, results, failed)) : calls.slice(turn.toolCalls.start, turn.toolCalls.end).map((/** @type {Json} */ it) => toolCall(it, failed, response)),
      turn.text && say('assistant', turn.text, isLast && turn.text === run.output ? spans : [], 'assistant'), turn.unread && h('p.event', {}, 'incomplete: ' + turn.unread), turn.outputJson !== undefined && fold('answer as JSON', block(pretty(turn.outputJson), 'JSON')), broke.map(flag));
  });
  const first = turns.length ? [] : [h('li', {}, events.length ? events.map((/** @type {Json} */ it) => eventOf(it, results, failed)) : calls.map((/** @type {Json} */ it) => toolCall(it, failed, response)))].filter((it) => it.childNodes.length);
  const isShown = turns.some((/** @type {Json} */ it) => it.text === run.output);
  const others = failed.filter((it) => !it.turn && !(it.evidence || []).some((/** @type {Json} */ piece) => piece.kind === 'toolCall'));
  const last = run.error ? [] : [h('li' + (others.length ? '.broke' : ''), {}, !isShown && say('output', run.output, spans, 'assistant', h('span.soft', {}, joined([!turns.length && duration(run.latencyMs), run.usage?.totalTokens && plural(run.usage.totalTokens, 'token')]))),
    run.outputJson !== undefined && fold('output as JSON', block(pretty(run.outputJson), 'JSON')), run.stderr && fold('stderr', block(run.stderr, 'stderr')), others.map(flag))];
  return h('ol.timeline', {}, asked.length > 0 && h('li', {}, asked), body, first, last.filter((it) => it.childNodes.length));
};
/** @param {Json} run */
const workspace = (run) => (run.workspace?.changes || []).map((/** @type {Json} */ it) => fold(`${it.change}: ${it.path}`, it.patch ? patch(it.patch) : it.text != null ? patch(it.text.replace(/^/gm, '+')) : h('p.soft', {}, joined([it.binary && 'binary', it.cut && 'too large to store', it.link && 'a link to ' + it.link, plural(it.bytes, 'byte')]))));

// ---- Case -----------------------------------------------------------------------------------------------------------

/** Quotes a word for a shell. @param {string} text */
const quoted = (text) => (/^[\w./:@=,+-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`);
/** Returns the command that runs a case again. @param {number} at */
const command = (at) => {
  const name = tests[col.test[at]];
  const isPlain = !/[*?[\]{}\p{C}\n]|^[/-]/u.test(name) && !rows.some((row) => row.name !== name && row.name.includes(name));
  const pattern = isPlain ? name : '/^' + name.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&').replace(/[\p{C}\n]/gu, '.') + '$/';
  const config = head.configPath && head.configPath !== 'kindlm.yaml' ? ` -c ${quoted(head.configPath)}` : '';
  return `kindlm test${config} --test ${quoted(pattern)} --models ${quoted(models[col.model[at]])}`;
};
/** @param {string} label @param {() => string} text */
const copier = (label, text) => {
  const button = h('button.chip', { type: 'button', onclick: async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'Copying is not allowed';
    }
    setTimeout(() => (button.textContent = label), 1500);
  } }, label);
  return button;
};
/** @param {Json} error */
const broken = (error) => h('ul.checks', {}, h('li.check.tone-trouble', {}, h('div.headline', {}, h('span.mark', {}, '!'), h('span.label', {}, { provider: 'The provider failed', internal: 'KindLM failed' }[/** @type {string} */ (error.kind)] || 'Not run'), error.failureCode && h('code.code', {}, error.failureCode), error.attempts > 1 && h('span.soft', {}, `after ${error.attempts} attempts`)), h('p.says', {}, error.message || error.reason || '')));
/** Shows one repeat. @param {Json} run @param {Json} diffs @param {boolean} isPrinted */
const execution = (run, diffs, isPrinted) => {
  const all = run.results.map((/** @type {Json} */ it, /** @type {number} */ n) => ({ it, n, look: lookOf(it) }));
  /** @param {any[]} list */
  const checks = (list) => h('ul.checks', {}, list.map(({ it, n }) => check(it, run, diffs, String(n))));
  const open = all.filter((/** @type {Json} */ it) => it.look > 0 && it.look < 4 || it.it.severity === 'soft').sort((/** @type {Json} */ a, /** @type {Json} */ b) => [0, 2, 4, 3][b.look] - [0, 2, 4, 3][a.look]);
  const held = all.filter((/** @type {Json} */ it) => !open.includes(it));
  const files = workspace(run);
  return [
    run.error && broken(run.error),
    open.length > 0 && checks(open),
    held.length > 0 && (isPrinted ? h('p.soft', {}, `${plural(held.length, 'further check')} held or did not apply`) : fold(`${plural(held.length, open.length ? 'further check' : 'check')} held or did not apply`, checks(held), !open.length && held.length < 9)),
    h('h3', {}, 'What happened'), timeline(run),
    files.length > 0 && [h('h3', {}, 'Changes in the workspace'), files],
    Object.keys(run.vars || {}).length > 0 && !isPrinted && fold('Variables', facts(Object.entries(run.vars).map(([name, it]) => [name, pretty(it).slice(0, 2000)]))),
    h('p.soft', {}, joined([
      run.truncated && 'the conversation was ended by `maxTurns`', run.finishReason && run.finishReason !== 'stop' && `finished by ${run.finishReason}`,
      run.exitCode != null && `exit code ${run.exitCode}`, run.cached && 'answered from the response store', run.unread && `incomplete: ${run.unread}`, ...(run.gaps || []),
      run.usage?.totalTokens && `${plural(run.usage.inputTokens || 0, 'input token')}, ${plural(run.usage.outputTokens || 0, 'output token')}`, money(run.costUsd), run.judgeCostUsd && `judges ${money(run.judgeCostUsd)}`,
    ])),
  ];
};
/** @param {Json[]} runs */
const explaining = (runs) => runs.find((it) => !it.pass && !it.error) || runs.find((it) => !it.pass) || runs[0];
/** Groups the repeats by their output. @param {Json[]} runs @param {number} at */
const distinct = (runs, at) => {
  /** @type {Map<string, Json[]>} */
  const groups = new Map();
  for (const it of runs) groups.set(it.output, [...(groups.get(it.output) || []), it]);
  if (runs.length < 2) return null;
  return fold(`${plural(groups.size, 'distinct output')} in ${runs.length} repeats`, h('ol.outputs', {}, [...groups].sort((a, b) => b[1].length - a[1].length).map(([text, list]) =>
    h('li', {}, h('b', {}, `${list.length}×`), ' ', list.slice(0, 20).map((it) => h('a.mini.tone-' + TONES[WORDS.indexOf(it.outcome)], { href: linkTo(at, { repeat: String(it.repeat + 1) }), 'aria-label': `repeat ${it.repeat + 1}, ${it.outcome}` }, MARKS[WORDS.indexOf(it.outcome)])), ' ', (text || 'no output').slice(0, 160)))));
};
/** Returns the case beside this one in the list. @param {number} step @param {boolean} failing */
const neighbour = (step, failing) => {
  const here = view.findIndex((it) => it.name === state.case);
  for (let i = here < 0 ? (step > 0 ? 0 : view.length - 1) : here + step; i >= 0 && i < view.length; i += step) {
    const at = failing ? cases(view[i]).find((it) => matches(it) && isOpen(it)) : cases(view[i]).find(matches) ?? cases(view[i])[0];
    if (at != null) return { i, at };
  }
  return null;
};
/** @param {number} step @param {boolean} failing */
const walk = (step, failing) => {
  const to = neighbour(step, failing);
  if (!to) return;
  port.scrollTop = Math.max(0, to.i * rowHeight - port.clientHeight / 2);
  go({ view: 'cases', case: tests[col.test[to.at]], model: models[col.model[to.at]], repeat: '' });
};
/** @param {number} at */
const headOf = (at) => {
  const row = rows[col.test[at]];
  const place = col.file[at] >= 0 && `${index.files[col.file[at]]}:${col.line[at]}`;
  return [
    h('div.actions', {}, h('button.chip', { type: 'button', onclick: () => close() }, '← All cases'), h('button.chip', { type: 'button', onclick: () => walk(-1, true) }, 'Previous failing'), h('button.chip', { type: 'button', onclick: () => walk(1, true) }, 'Next failing')),
    h('h2', { tabindex: '-1', dir: 'auto' }, row.name),
    h('p.soft', {}, pill(col.outcome[at]), ' ', joined([place, ...col.tags[at].map((/** @type {number} */ it) => index.tags[it]), duration(col.ms[at]), money(col.usd[at])])),
    models.length > 1 && h('div.tabs', { role: 'group', 'aria-label': 'Models' }, cases(row).map((it) => h('a.chip', { href: linkTo(it), 'aria-current': it === at ? 'true' : null }, h('span.tone-' + TONES[col.outcome[it]], {}, MARKS[col.outcome[it]]), ' ', models[col.model[it]]))),
    h('div.command', {}, h('code', {}, command(at)), copier('Copy', () => command(at)), copier('Copy link', () => location.href)),
  ];
};
/** Shows a case in the panel. */
const openCase = async () => {
  const test = tests.indexOf(state.case);
  const row = rows[test];
  const at = row && (row.cells[models.indexOf(state.model)] ?? cases(row).find(isOpen) ?? cases(row)[0]);
  document.body.classList.toggle('open', !!state.case);
  detail.hidden = !state.case;
  const key = state.case + '\n' + state.model + '\n' + state.repeat;
  if (!state.case || detail.key === key) return;
  detail.key = key;
  if (at == null) return detail.replaceChildren(h('h2', {}, 'There is no such case'), h('p', {}, state.case));
  let it;
  try {
    it = await load(at);
  } catch (err) {
    return detail.replaceChildren(...headOf(at).filter(Boolean), h('p.flag', {}, `cannot read the case: ${err}`));
  }
  if (detail.key !== key) return;
  const runs = it.case.executions;
  const run = runs.find((/** @type {Json} */ one) => String(one.repeat + 1) === state.repeat) || explaining(runs);
  const repeats = runs.length > 1 && h('div.tabs', { role: 'group', 'aria-label': 'Repeats' }, runs.map((/** @type {Json} */ one) => {
    const look = WORDS.indexOf(one.outcome);
    return h('a.mini.tone-' + TONES[look], { href: linkTo(at, { repeat: String(one.repeat + 1) }), 'aria-current': one === run ? 'true' : null, 'aria-label': `repeat ${one.repeat + 1}, ${one.outcome}` }, MARKS[look]);
  }), h('span.soft', {}, `repeat ${run.repeat + 1} of ${runs.length}; ${col.held[at]} held`));
  detail.replaceChildren(...fill(h('div'), {}, [headOf(at), repeats, distinct(runs, at), run ? execution(run, it.diffs || {}, false) : h('p', {}, 'Not run.')]).childNodes);
  detail.scrollTop = 0;
  if (document.activeElement !== input) detail.querySelector('h2').focus({ preventScroll: true });
};
const close = () => {
  const name = state.case;
  go({ case: '', model: '', repeat: '' });
  const node = pool.find((it) => !it.hidden && view[it.getAttribute('aria-rowindex') - 2]?.name === name);
  (node?.querySelector('a') || port).focus();
};

// ---- Page -----------------------------------------------------------------------------------------------------------

const show = () => {
  for (const it of document.querySelectorAll('.view')) it.toggleAttribute('data-on', it.id === state.view);
  for (const it of document.querySelectorAll('nav a')) {
    if (it.getAttribute('href') === '#' + state.view) it.setAttribute('aria-current', 'page');
    else it.removeAttribute('aria-current');
  }
  if (document.activeElement !== input) input.value = state.q;
  sorting.value = SORTS[state.sort] ? state.sort : 'worst';
  for (const it of chips) it.setAttribute('aria-pressed', it.dataset.q === state.q.trim());
  if (state.view !== 'cases') return;
  openCase();
  const key = state.q + '\n' + state.sort;
  if (shown === key) return paint();
  shown = key;
  port.scrollTop = 0;
  filter();
};

const STORED = 'kindlm-keys';
let keysOn = true;
try { keysOn = localStorage.getItem(STORED) !== 'off'; } catch { /* The browser stores nothing. */ }
const HELP = [
  ['/', 'search'], ['j k', 'next and previous row'], ['n p', 'next and previous failing case'], ['Enter', 'open the row'], ['Esc', 'back'], ['[ ]', 'previous and next repeat'], ['m', 'next model'], ['c', 'copy the command'], ['?', 'this help'],
];
const QUERIES = [
  ['word "a phrase" /regex/', 'in the name or the tags'], ['s:failed', 'passed, scored, failed, errored, skipped, open, flaky, different'], ['m:gpt t:smoke', 'model, tag'],
  ['code:PII rule:tone tool:refund', 'failure code, violated rule, called tool'], ['score<0.7 cost>0.01 ms>2000 turns>4', 'numbers'], ['in:output refund', 'search the output, prompt or reason'], ['!word', 'not'],
];
const help = h('dialog', { 'aria-label': 'Help' }, h('h2', {}, 'Filter'), facts(/** @type {any} */ (QUERIES.map(([key, it]) => [h('code', {}, key), it]))), h('h2', {}, 'Keys'), facts(/** @type {any} */ (HELP.map(([key, it]) => [h('kbd', {}, key), it]))),
  h('p', {}, h('label', {}, h('input', { type: 'checkbox', checked: keysOn, onchange: (/** @type {any} */ event) => {
    keysOn = event.target.checked;
    try { localStorage.setItem(STORED, keysOn ? 'on' : 'off'); } catch { /* The choice lasts until the page is closed. */ }
  } }), ' Keys without Ctrl or Alt are on')), h('button.chip', { type: 'button', onclick: () => help.close() }, 'Close'));

/** @param {number} step */
const repeat = (step) => {
  const links = [...detail.querySelectorAll('.tabs .mini')];
  const to = links[links.findIndex((it) => it.hasAttribute('aria-current')) + step];
  if (to) location.hash = to.getAttribute('href');
};
/** @type {Record<string, () => void>} */
const ACTIONS = {
  '/': () => { go({ view: 'cases' }); input.focus(); input.select(); },
  j: () => walk(1, false), k: () => walk(-1, false), n: () => walk(1, true), p: () => walk(-1, true),
  '[': () => repeat(-1), ']': () => repeat(1),
  m: () => {
    const tabs = [...detail.querySelectorAll('.tabs .chip')];
    const at = tabs.findIndex((it) => it.hasAttribute('aria-current'));
    if (tabs.length) location.hash = tabs[(at + 1) % tabs.length].getAttribute('href');
  },
  c: () => detail.querySelector('.command button')?.click(),
  '?': () => help.showModal(),
};
addEventListener('keydown', (event) => {
  const target = /** @type {any} */ (event.target);
  if (event.key === 'Escape' && !help.open) {
    if (target === input) input.blur();
    else if (state.case) close();
    return;
  }
  if (!keysOn || help.open || event.ctrlKey || event.altKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
  if (event.key === 'Enter' && target === port) return walk(state.case ? 0 : 1, false);
  const action = Object.hasOwn(ACTIONS, event.key) && ACTIONS[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});
addEventListener('hashchange', () => { readUrl(); show(); });
port.addEventListener('scroll', () => requestAnimationFrame(paint), { passive: true });
addEventListener('resize', () => paint());

// ---- Print ----------------------------------------------------------------------------------------------------------

// The first failing cases are loaded when the browser is idle, because `beforeprint` cannot wait.
const FAILING = 20;
const ROWS = 200;
/** @type {Map<number, {case: Json, diffs?: Json}>} */
const loaded = new Map();
const failing = () => view.flatMap((row) => cases(row).filter((it) => matches(it) && col.outcome[it] > 1 && col.outcome[it] < 4)).slice(0, FAILING);
const preload = async () => { for (const at of failing()) if (!loaded.has(at)) loaded.set(at, await load(at)); };
addEventListener('beforeprint', () => {
  byId('print')?.remove();
  const details = failing().flatMap((at) => {
    const it = loaded.get(at);
    const run = it && explaining(it.case.executions);
    return it && run ? h('section', {}, h('h3', {}, `${tests[col.test[at]]} (${models[col.model[at]]})`), execution(run, it.diffs || {}, true)) : [];
  });
  const lines = view.slice(0, ROWS).map((row) => h('tr', {}, h('th', { scope: 'row' }, row.name), models.map((/** @type {string} */ _, /** @type {number} */ m) => {
    const at = row.cells[m];
    return h('td', {}, at != null && joined([MARKS[col.outcome[at]] + ' ' + WORDS[col.outcome[at]], col.repeats[at] && `${col.held[at]}/${col.of[at]}`]));
  })));
  byId('cases').after(h('section', { id: 'print' }, h('h2', {}, 'Cases'), h('table', {}, h('thead', {}, h('tr', {}, h('th', {}, 'Test'), models.map((/** @type {string} */ it) => h('th', {}, it)))), h('tbody', {}, lines)),
    view.length > ROWS && h('p', {}, `… and ${plural(view.length - ROWS, 'more test')}`), details.length > 0 && h('h2', {}, 'Failing cases'), details));
});
addEventListener('afterprint', () => byId('print')?.remove());

// ---- Start ----------------------------------------------------------------------------------------------------------

byId('app').append(
  h('div.bar-row', {}, input, sorting, h('button.chip', { type: 'button', 'aria-label': 'Help: filter and keys', onclick: () => help.showModal() }, '?')),
  h('div.bar-row', {}, chips, status), h('div.panes', {}, h('div.card.list-pane', {}, table), detail), help);
table.style.setProperty('--models', models.length);
table.classList.toggle('many', models.length > 4);
document.documentElement.classList.add('scripted');
readUrl();
list();
show();
document.documentElement.dataset.ready = String(Math.round(performance.now()));
(window.requestIdleCallback || setTimeout)(preload);
