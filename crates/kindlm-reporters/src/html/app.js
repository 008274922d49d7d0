// @ts-check
// The script of the HTML report: the matrix of cases, the query language, the case view, keyboard commands and links.
//
// The script never builds HTML from text: every text goes into a text node. All data comes through `source`. On the
// page of a server, `more.js` replaces `source`. `npm run build` in `tests/browser` makes `app.min.js` of this file.

/** @typedef {Record<string, any>} Json */
/** @typedef {{i: number, name: string, cells: number[], list: number[]}} Row */

// ---- Elements -------------------------------------------------------------------------------------------------------

/** @param {string} id @returns {any} */
const byId = (id) => document.getElementById(id);
/** @param {string} selector @returns {any} */
const all = (selector) => document.querySelectorAll(selector);
const root = document.documentElement;
const focused = () => document.activeElement;

/**
 * Shows control characters and characters that reorder or hide text as escapes, like `visible` in Rust.
 * @param {any} text
 */
const visible = (text) =>
  String(text)
    .replace(/\r\n/g, '\n')
    .replace(
      /[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\u{e0000}-\u{e007f}]/gu,
      (c) => (c < '\x80' ? '\\x' + c.charCodeAt(0).toString(16).padStart(2, '0') : `\\u{${c.codePointAt(0)?.toString(16)}}`),
    );

/** Adds texts and elements. False values are left out. @param {any} node @param {any[]} children @returns {any} */
const fill = (node, ...children) => {
  for (const it of children.flat(9)) if (it || it === 0) node.append(it instanceof Node ? it : visible(it));
  return node;
};
/** @param {any} node @param {any[]} children Attributes, if the first one is a plain object. */
const attributed = (node, children) => {
  if (children[0]?.constructor === Object) {
    const attributes = children.shift();
    for (const key in attributes) {
      const value = attributes[key];
      if (typeof value === 'function') node[key] = value;
      else if (value != null && value !== false) node.setAttribute(key, value);
    }
  }
  return fill(node, children);
};
/** Creates an element. A name such as `b.soft` has a class. @param {string} name @param {...any} children @returns {any} */
const h = (name, ...children) => {
  const [tag, ...classes] = name.split('.');
  const node = document.createElement(tag);
  if (classes[0]) node.className = classes.join(' ');
  return attributed(node, children);
};
/** @param {string} tag @param {...any} children @returns {any} */
const svg = (tag, ...children) => attributed(document.createElementNS('http://www.w3.org/2000/svg', tag), children);
/** @param {number} x @param {number} width @param {string} name @param {number} [y] @param {number} [height] */
const rect = (x, width, name, y = 3, height = 8) => svg('rect', { x, y, width, height, class: name });
/** Draws a bar that stretches to any width. @param {string} name @param {number} height @param {any[]} parts Rectangles, in thousandths of the width. */
const wide = (name, height, ...parts) => svg('svg', { class: name, viewBox: '0 0 1000 ' + height, preserveAspectRatio: 'none', 'aria-hidden': 'true' }, parts);

/** @param {number} n @param {string} word */
const plural = (n, word) => `${n.toLocaleString('en')} ${word}${n === 1 ? '' : 's'}`;
/** @param {number | null} ms */
const duration = (ms) => (ms == null ? '' : ms < 999.5 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);
/** @param {any[]} parts */
const soft = (...parts) => h('span.soft', parts.filter(Boolean).join(' · '));
/** @param {any} value */
const pretty = (value) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));
/** @param {string} title @param {any} body @param {boolean} [open] */
const fold = (title, body, open) => h('details', { open }, h('summary', title), body);
/** @param {string} words @param {(event: any) => void} onclick */
const button = (words, onclick) => h('button.chip', { onclick }, words);
/** @param {[any, any][]} pairs */
const facts = (pairs) => h('dl.facts', pairs.map(([key, it]) => [h('dt', key), h('dd', it)]));
/** Folds named values. @param {string} title @param {[string, any][]} pairs */
const data = (title, pairs) => pairs[0] && fold(title, facts(pairs.map(([name, it]) => [name, pretty(it).slice(0, 2000)])));
/** @param {Json} it A turn or an execution. */
const took = (it) => soft(duration(it.latencyMs), it.usage && plural(it.usage.totalTokens, 'token'));

const AUTO = { dir: 'auto' };
/** Shows words in backticks as code. @param {string} text */
const coded = (text) => text.split(/`([^`\s][^`\n]*)`/).map((it, i) => (i % 2 ? h('code', it) : it));
const MARKS = '✓~✗!–';
const WORDS = ['passed', 'scored', 'failed', 'errored', 'skipped'];
const TONES = ['good', 'warn', 'bad', 'trouble', 'none'];
/** @param {string} word */
const lookOf = (word) => WORDS.indexOf(word);
/** @param {number} look @param {any} words */
const pill = (look, words) => h('span.pill.tone-' + TONES[look], words);

// ---- Data -----------------------------------------------------------------------------------------------------------

/** @param {string} id @returns {Promise<any>} */
const unpack = (id) => {
  // Five characters are four bytes, see `base85.rs`. Missing characters of the last group count as `~`.
  const text = byId(id).textContent;
  const bytes = new DataView(new ArrayBuffer(text.length + 4));
  for (let i = 0; i < text.length; i += 5) {
    let number = 0;
    for (let k = i; k < i + 5; k++) number = number * 85 + (text[k] === '!' ? 60 : text.charCodeAt(k) || 126) - 42;
    bytes.setUint32((i / 5) * 4, number);
  }
  const size = (text.length * 4) / 5;
  return new Response(new Blob([bytes.buffer.slice(0, size)]).stream().pipeThrough(new DecompressionStream('gzip'))).json();
};

/** The functions of `more.js`; undefined on pages without that script. @type {any} */
const more = /** @type {any} */ (globalThis).kindlm;
await more?.open();
/** The data of the page. */
const source = more?.source || {
  /** @returns {Promise<Json>} */
  index: () => unpack('index'),
  /** @param {number} n @returns {Promise<{case: Json, view: Json}[]>} */
  chunk: (n) => unpack('chunk-' + n),
};

/** The most recently used chunks. @type {Map<number, Promise<any>>} */
const cache = new Map();
/** @param {number} n */
const chunk = (n) => {
  const found = cache.get(n) || source.chunk(n);
  cache.delete(n);
  cache.set(n, found);
  if (cache.size > 16) cache.delete(/** @type {number} */ (cache.keys().next().value));
  return found;
};

const index = await source.index();
const { models, tests } = index;
const head = JSON.parse(byId('head').textContent);
/** The columns of the index: one entry for each case. @type {Record<string, any[]>} */
const { test = [], model, outcome, held, of, repeats, score, means, ms, tokens, usd, turns, tags, codes, causes, rules, tools, file, at } = index.columns;
/** @param {number} it @returns {Promise<{case: Json, view: Json}>} */
const load = async (it) => (await chunk(at[it][0]))[at[it][1]];

/** The tests as rows, with a case for each model. @type {Row[]} */
const rows = tests.map((/** @type {string} */ name, /** @type {number} */ i) => ({ i, name, cells: [], list: [] }));
test.forEach((row, it) => {
  rows[row].cells[model[it]] = it;
  rows[row].list.push(it);
});
/** @param {number} it */
const isFlaky = (it) => /[01].*2|2.*[01]/.test(repeats[it]);
/** @param {number} it */
const isOpen = (it) => outcome[it] > 0 && outcome[it] < 4;
/** @param {number} it */
const fails = (it) => outcome[it] > 1 && isOpen(it);
/** The share of repeats that did not hold. @param {number} it */
const lost = (it) => of[it] && 1 - held[it] / of[it];
/** @param {Row} row */
const differs = (row) => new Set(row.list.map((it) => outcome[it] > 1)).size > 1;
/** @param {number[]} places @param {string[]} names */
const named = (places, names) => places.map((it) => names[it]);

// ---- Query ----------------------------------------------------------------------------------------------------------

/** Returns a function that finds a word, a phrase or a regular expression. @param {string} text @returns {(text: string) => boolean} */
const finder = (text) => {
  const [, pattern, flags] = text.match(/^\/(.+)\/(i?)$/) || [];
  try {
    if (pattern) return RegExp.prototype.test.bind(new RegExp(pattern, flags));
  } catch { /* An incomplete expression is searched as a text. */ }
  const low = text.replace(/^"|"$/g, '').toLowerCase();
  return (it) => it.toLowerCase().includes(low);
};
/** @type {Record<string, any[]>} */
const NUMBERS = { score, cost: usd, ms, tokens, turns };
/** @type {Record<string, undefined | ((it: number) => string[])>} */
const LISTS = {
  code: (it) => named(codes[it], index.codes), rule: (it) => named(rules[it], index.rules), tool: (it) => named(tools[it], index.tools),
  t: (it) => named(tags[it], index.tags), m: (it) => [models[model[it]]], file: (it) => [index.files[file[it]] || ''],
};

/** The words after `s:` that are not outcomes. @type {Record<string, (it: number) => boolean>} */
const STATES = { open: isOpen, flaky: isFlaky, different: (it) => differs(rows[test[it]]) };
/** Returns a predicate for cases, predicates for texts in the chunks, and the error of a term. @param {string} query */
const parse = (query) => {
  /** @type {((it: number) => boolean)[]} */
  const terms = [];
  /** @type {((text: string) => boolean)[]} */
  const deep = [];
  let wrong = '';
  const [, place] = query.match(/(?:^|\s)in:(output|prompt|reason)\b/) || [];
  for (let word of query.match(/!?(?:[a-z]+:)?(?:"[^"]*"?|\/(?:[^/\\]|\\.)+\/i?|\S+)/g) || []) {
    const not = word[0] === '!' && word.length > 1;
    if (not) word = word.slice(1);
    const [, key, sign, text = ''] = word.match(/^([a-z]+)(:|[<>]=?|=)(.*)$/) || [];
    const numbers = sign !== ':' && NUMBERS[key];
    const isKnown = !sign || (numbers ? text && !isNaN(+text) : key === 's' ? STATES[text] || WORDS.includes(text) : key === 'in' ? place : LISTS[key] || key === 'cause' || sign === '=');
    if (!isKnown) wrong = `; “${word}” ${numbers ? 'needs a number' : 'is no filter'}`;
    /** @type {(it: number) => boolean} */
    let term;
    if (key === 'in') continue;
    if (numbers) {
      term = (it) => {
        const above = numbers[it] - +text;
        return numbers[it] != null && (above ? sign[0] === (above < 0 ? '<' : '>') : above === 0 && sign.includes('='));
      };
    } else if (key === 's') {
      term = STATES[text] || ((it) => WORDS[outcome[it]] === text);
    } else if (key === 'cause') {
      term = (it) => causes[it].includes(+text);
    } else {
      const list = LISTS[key];
      const find = finder(list ? text : word);
      if (!list && place) {
        deep.push((it) => find(it) !== not);
        continue;
      }
      term = list ? (it) => list(it).some(find) : (it) => find(tests[test[it]]) || named(tags[it], index.tags).some(find);
    }
    terms.push((it) => term(it) !== not);
  }
  return { place, deep, wrong, plain: (/** @type {number} */ it) => terms.every((term) => term(it)) };
};

// ---- State in the URL -----------------------------------------------------------------------------------------------

/** @type {Record<string, string>} */
let state = {};
const KEYS = ['q', 'sort', 'group', 'case', 'model', 'repeat', 'base'];
const readUrl = () => {
  const hash = new URLSearchParams(location.hash.slice(1).replace(/\+/g, '%2B'));
  state = { view: ['run', 'compare'].find((it) => hash.has(it)) || 'overview' };
  for (const key of KEYS) state[key] = hash.get(key) || '';
  if (hash.has('cases') || state.case || state.q) state.view = 'cases';
};
/** @param {Record<string, string>} to */
const link = (to) => '#' + [to.view || 'cases', ...KEYS.filter((key) => to[key]).map((key) => `${key}=${encodeURIComponent(to[key])}`)].join('&');
/** Changes the URL without a new entry in the history. @param {Record<string, string>} to */
const go = (to) => {
  Object.assign(state, to);
  history.replaceState(null, '', link(state));
  show();
};
/** @param {number} it @param {number} [repeat] */
const place = (it, repeat = 0) => ({ ...state, view: 'cases', base: '', case: tests[test[it]], model: models[model[it]], repeat: repeat ? `${repeat}` : '' });
/** @param {number} it @param {number} [repeat] */
const linkTo = (it, repeat) => link(place(it, repeat));

// ---- Matrix ---------------------------------------------------------------------------------------------------------

const [input, sorting, grouping, status, space, port, detail, help] = ['query', 'sort', 'group', 'status', 'space', 'port', 'detail', 'help'].map(byId);
/** @type {Row[]} */
let view = [];
/** The cases that match the query. @type {(it: number) => boolean} */
let matches = () => true;
/** @param {any[]} column @returns {(row: Row) => number} */
const most = (column) => (row) => -row.list.reduce((all, it) => all + (column[it] || 0), 0);
/** @type {Record<string, (row: Row) => number>} */
const SORTS = {
  // By the outcome, then by the number of models that fail, then by the least share of repeats that held.
  worst: ({ list }) => -2 * list.filter(fails).length - Math.max(...list.map((it) => [0, 1e4, 3e4, 2e4, -1e4][outcome[it]] + lost(it))),
  plan: () => 0, slow: most(ms), cost: most(usd),
  flaky: ({ list }) => -Math.max(...list.map((it) => isFlaky(it) ? Math.min(lost(it), 1 - lost(it)) : 0)),
  score: (row) => Math.min(...row.list.map((it) => score[it] ?? 9)),
};
/** The names by which rows are grouped. A row is only in the group of its first name, so that keyboard commands visit it once. */
/** @type {typeof LISTS} */
const GROUPS = { file: LISTS.file, tag: LISTS.t, cause: (it) => causes[it].map((/** @type {number} */ n) => head.causes[n]?.title || 'other causes') };

/** Draws a bar for each repeat: a high bar if the repeat held, else a low bar. @param {string} all */
const bars = (all) => {
  const paths = ['', '', '', '', ''];
  [...all].slice(0, 20).forEach((look, i) => (paths[+look] += look < '2' ? `M${i * 5} 1h4v12h-4z` : `M${i * 5} 7h4v6h-4z`));
  const width = Math.min(all.length, 20) * 5;
  return svg('svg', { class: 'bars', viewBox: `0 0 ${width} 14`, width, height: 14, 'aria-hidden': 'true' }, paths.map((d, i) => d && svg('path', { d, class: 'fill-' + TONES[i] })));
};
/** @param {Row} row */
const cells = (row) => models.map((/** @type {string} */ name, /** @type {number} */ m) => {
  const it = row.cells[m];
  const share = repeats[it] && `${held[it]}/${of[it]}`;
  const mean = means[it];
  // The label has the texts of the cell in their order.
  const node = h('div.cell', { role: 'cell' }, it != null && h(matches(it) ? 'a' : 'a.off-query', { href: linkTo(it), tabindex: -1, 'aria-label': `${name}: ${WORDS[outcome[it]]}${share && ', repeats held'}${mean && ', score'}${share && ' ' + share}${mean && ' ' + mean}` },
    pill(outcome[it], MARKS[outcome[it]]), share && [bars(repeats[it]), h('span.n', share)], mean && h('span.mean', ' ', mean)));
  more?.compared(node.firstChild, row.name, name);
  return node;
});
/** Returns the case of a row that should be opened. @param {Row} row */
const best = (row) => row.list.find((it) => matches(it) && isOpen(it)) ?? row.list.find(matches) ?? row.list[0];

/** The elements of the visible rows, in order. Scrolling reuses the elements. @type {any[]} */
const pool = [];
let before = 0;
const height = () => (matchMedia('(max-width:760px)').matches ? 66 : 36);
const paint = () => {
  const high = height();
  space.style.height = view.length * high + 'px';
  const first = Math.max(0, Math.floor(port.scrollTop / high) - 4);
  const number = Math.ceil(port.clientHeight / high) + 8;
  while (pool.length < number) pool.push(space.appendChild(h('div.row', { role: 'row' })));
  // Reuse the elements that left on one side for the other side, so that the other elements need no change.
  const step = first - before;
  before = first;
  if (step && Math.abs(step) < pool.length) {
    const moved = pool.splice(Math.min(step, 0), Math.abs(step));
    if (step > 0) space.append(...moved);
    else space.prepend(...moved);
    pool.splice(step > 0 ? pool.length : 0, 0, ...moved);
  }
  pool.forEach((node, i) => {
    const row = i < number ? view[first + i] : null;
    node.hidden = !row;
    if (!row) return;
    node.style.transform = `translateY(${(first + i) * high}px)`;
    node.ariaRowIndex = first + i + 2;
    node.classList.toggle('current', row.name === state.case);
    const key = [row.i, row.name, state.q, state.sort].join();
    if (node.key !== key) node.replaceChildren(h('div.test', { role: 'rowheader' }, row.i < 0 ? h('b', row.name) : h('a', { href: linkTo(best(row)) }, row.name)), ...cells(row));
    node.key = key;
    for (const it of node.querySelectorAll('.test a')) it.tabIndex = i ? -1 : 0;
  });
};
/** Sorts and shows the rows with a matching case. @param {string} [note] */
const list = (note = '') => {
  const order = SORTS[state.sort] || SORTS.worst;
  const keys = rows.filter((row) => row.list.some(matches)).map((row) => ({ row, key: order(row) }));
  view = keys.sort((a, b) => a.key - b.key).map((it) => it.row);
  const { length } = view;
  const group = GROUPS[state.group];
  // A heading is a row without cases.
  if (group) view = [...Map.groupBy(view, (row) => row.list.flatMap(group)[0] || 'no ' + state.group)].flatMap(([name, list]) => [{ i: -1, name: `${name} (${list.length})`, cells: [], list: [] }, ...list]);
  byId('matrix').ariaRowCount = view.length + 1;
  status.textContent = `${length.toLocaleString('en')} of ${plural(rows.length, 'test')}${note}`;
  paint();
};
/** The number of the latest search. An older search stops. */
let search = 0;
/** Applies the query. Texts of cases are searched chunk by chunk, until the query changes. */
const filter = async () => {
  const { place, deep, wrong, plain } = parse(state.q);
  const mine = ++search;
  matches = plain;
  if (!deep[0]) return list(wrong);
  const found = new Set();
  const wanted = test.map((_, it) => it).filter(plain);
  matches = (it) => found.has(it);
  for (let n = 0; n < index.chunks; n++) {
    const all = await chunk(n);
    for (const it of wanted.filter((it) => at[it][0] === n)) {
      const text = all[at[it][1]].case.executions.flatMap((/** @type {Json} */ run) =>
        place === 'output' ? [run.output, ...(run.turns || []).map((/** @type {Json} */ turn) => turn.text)]
        : place === 'prompt' ? run.input.map((/** @type {Json} */ message) => message.content)
        : run.results.flatMap((/** @type {Json} */ result) => [result.failureMessage, result.reasoning])).join('\n');
      if (deep.every((has) => has(text))) found.add(it);
    }
    await new Promise((done) => setTimeout(done));
    if (mine !== search) return;
    list(n + 1 < index.chunks ? `, searched ${Math.round((100 * (n + 1)) / index.chunks)}%` : wrong);
  }
};

// ---- Texts ----------------------------------------------------------------------------------------------------------

/** Returns a text with marks: start and end in characters, kind, title. @param {string} text @param {any[][]} [marks] */
const marked = (text, marks = []) => {
  const chars = [...text];
  let last = 0;
  return [marks.map(([start, end, kind, title]) => {
    const before = chars.slice(last, start).join('');
    last = end;
    return [before, h('mark.' + kind, { title: visible(title) }, chars.slice(start, end).join(''))];
  }), chars.slice(last).join('')];
};
/** Shows a text; folds a long one. @param {string} text @param {any[][]} [marks] */
const block = (text, marks) => {
  if (!text) return h('p.soft', 'nothing');
  const start = text.split('\n', 40).join('\n').slice(0, 6000);
  const node = h('pre.text', AUTO);
  if (start === text || (marks && text.length < 20000)) return fill(node, marked(text, marks));
  const more = button(`Show all ${plural(text.length, 'character')}`, () => more.replaceWith(visible(text.slice(start.length))));
  return fill(node, start, '\n', more);
};
/** @param {any[]} line A sign, and parts that are plain and emphasised in turn. */
const diffLine = ([sign, ...parts]) => h(sign === '+' ? 'div.added' : sign === '-' ? 'div.removed' : 'div', h('span.sign', sign === '-' ? '−' : sign), parts.map((it, i) => (i % 2 ? h('mark', it) : it)));
/** Shows a difference; folds equal lines. @param {any[][]} lines */
const diffOf = (lines, words = '− expected  + actual') => {
  const node = h('div.diff', h('p.soft', words));
  for (let i = 0; i < lines.length; i++) {
    let end = i;
    while (lines[end]?.[0] === ' ') end++;
    if (end - i > 7) {
      const hidden = lines.slice(i + 3, end - 3);
      const more = button(plural(hidden.length, 'equal line'), () => more.replaceWith(...hidden.map(diffLine)));
      fill(node, lines.slice(i, i + 3).map(diffLine), more);
      i = end - 3;
    }
    fill(node, diffLine(lines[i]));
  }
  return node;
};
/** Shows a unified diff. @param {string} text */
const patch = (text) => h('div.diff', text.split('\n').slice(0, 2000).map((it) => diffLine(/^(\+\+\+|---|[^+-])/.test(it) ? ['', it] : [it[0] || '', it.slice(1)])));

// ---- Checks ---------------------------------------------------------------------------------------------------------

/** @param {Json} it */
const lookAt = (it) => (it.status === 'failed' && it.severity === 'soft' ? 1 : lookOf(it.status));
/** @param {Json[]} errors @param {string} first */
const mismatches = (errors, first) => h('table', h('thead', h('tr', [first, 'Expected', 'Actual'].map((it) => h('th', { scope: 'col' }, it)))),
  h('tbody', errors.map((it) => h('tr', h('th', { scope: 'row' }, h('code', it.pointer || '(all)')), h('td', coded(it.expected)), h('td.tone-bad', h('code', !it.pointer && it.actual ? 'the whole value' : it.actual ?? 'nothing'))))));
/** @param {any[]} list @param {(it: any) => any} show */
const bullets = (list, show) => h('ul.found', list.map((it) => h('li', show(it))));
/** Shows one piece of evidence. @param {Json} it @param {string[][]} [places] The first matches: a description, and the text before, in and after the match. */
const evidence = (it, places = []) => {
  switch (it.kind) {
    case 'matches': return [bullets(places, ([what, before, found, after]) => [what, found && [': ', before, h('mark.bad', found), after]]), it.spans[places.length] && soft('… ' + plural(it.spans.length - places.length, 'more place'))];
    case 'absent': return bullets(it.expected, (text) => [h('code', text), ` is not in ${it.of.name || 'the output'}`]);
    case 'schema': return mismatches(it.errors, 'Place');
    case 'toolCall': return mismatches(it.mismatches, it.tool);
    case 'command': return ['stdout', 'stderr'].map((name) => it[name] && fold(name, block(it[name]), true));
    case 'tests': return bullets(it.failed, (one) => [h('b', one.name), one.message && block(one.message)]);
    case 'measure': {
      const scale = 1000 / (Math.max(it.actual ?? 0, it.limit) * 1.15 || 1);
      return wide('bullet', 14, rect(0, 1000, 'track'), rect(0, scale * (it.actual ?? 0), 'value'), rect(Math.min(995, scale * it.limit), 5, 'limit', 0, 14));
    }
    // The message or the votes already show the reason.
    case 'reason': return;
    default: return block(pretty(it));
  }
};
/** Draws the scores of votes from 0 to 1 as dots, with the threshold. @param {Json[]} votes @param {number} [limit] */
const strip = (votes, limit) => {
  /** @type {Record<number, number>} */
  const used = {};
  return svg('svg', { class: 'strip', viewBox: '0 0 220 30', width: 220, height: 30, role: 'img', 'aria-label': `scores ${votes.map((it) => it.score)}, required ${limit ?? 'nothing'}` },
    rect(10, 200, 'track', 19, 2), limit != null && rect(9 + 200 * limit, 2, 'limit', 8, 18),
    votes.map((it) => {
      const cx = Math.round(10 + 200 * it.score);
      const key = Math.round(cx / 9);
      used[key] = (used[key] || 0) + 1;
      return svg('circle', { class: 'fill-' + TONES[lookOf(it.status)], cx, cy: 26 - Math.min(used[key], 3) * 6, r: 5 });
    }));
};
/** Shows the judges, their scores and their votes. @param {Json} it @param {Json} row */
const judged = (it, row) => {
  const votes = it.metadata?.panel?.votes || [];
  const scores = (votes[0] ? votes : it.class === 'probabilistic' ? [it] : []).filter((/** @type {Json} */ vote) => vote.score != null);
  return [scores[0] && strip(scores, row.wanted), row.judges && h('p.soft', row.judges),
    votes[0] && h('ul.votes', votes.map((/** @type {Json} */ vote) => h('li', pill(lookOf(vote.status), [vote.status, ' ', vote.score?.toFixed(2)]), ' ', h('b', vote.judge || 'judge'), vote.sample != null && soft(` answer ${vote.sample + 1}`), h('p', AUTO, vote.reasoning))))];
};
/** Shows a check with its evidence. @param {Json} it @param {Json} run @param {Json} view @param {string} key @returns {any} */
const check = (it, run, view, key) => {
  const look = lookAt(it);
  const row = view.rows?.[key] || {};
  const diffs = view.diffs || {};
  const byData = diffs[key + '/metadata'];
  return h('li.check.tone-' + TONES[look],
    h('div.headline', h('span.mark', { 'aria-hidden': 'true' }, MARKS[look]), h('span.off', WORDS[look] + ': '), row.score && h('b.score', row.score), h('span.label', AUTO, it.label),
      h('code.code', it.failureCode), soft(row.facts)),
    row.says && h('p.says', AUTO, coded(row.says)), row.reason && h('p.says.soft', AUTO, row.reason),
    h('div.evidence', (it.evidence || []).map((/** @type {Json} */ piece, /** @type {number} */ n) => diffs[`${key}/${n}`] ? diffOf(diffs[`${key}/${n}`]) : evidence(piece, view.found?.[`${key}/${n}`])), byData && diffOf(byData), judged(it, row),
      row.data && data('Data', row.data.map((/** @type {string} */ name) => [name, it.metadata[name]]))),
    it.componentResults && key.length < 24 && h('ul.checks', it.componentResults.map((/** @type {Json} */ part, /** @type {number} */ n) => check(part, run, view, `${key}.${n}`))));
};

// ---- Timeline -------------------------------------------------------------------------------------------------------

/** @param {Json} it */
const flag = (it) => h('p.flag', MARKS[lookAt(it)] + ' ' + it.label);
/** Returns the evidence about a call; without `call`, about any call. `at` is the index of a call among all calls. @param {Json} it @param {Json} [call] @returns {Json[]} */
const aboutCall = (it, call) => (it.evidence || []).filter((/** @type {Json} */ piece) => (call ? piece.at === call.at : piece.at != null));
/** Shows JSON, and marks wrong values. A value is found by the last key and the depth of its pointer. @param {any} value @param {Json[]} wrong */
const argumentsOf = (value, wrong) => {
  const open = new Set(wrong);
  const node = h('pre.text', pretty(value ?? {}).split('\n').map((text) => {
    const [, indent, key] = text.match(/^( *)"(.*?)":/) || [];
    const error = [...open].find((it) => key && it.pointer.endsWith('/' + key) && it.pointer.split('/').length * 2 - 2 === indent.length);
    open.delete(/** @type {Json} */ (error));
    return h(error ? 'div.wrong' : 'div', text, error && h('b', ` ✗ expected ${error.expected}`));
  }));
  return fill(node, [...open].map((it) => h('div.wrong', h('b', `✗ ${it.pointer}: expected ${it.expected}`))));
};
/** Shows a call with its response. @param {Json} call @param {Json[]} failed @param {string} word */
const toolCall = (call, failed, word) => {
  const about = failed.filter((it) => aboutCall(it, call).length);
  const text = call.response !== undefined && pretty(call.response);
  return h(about[0] ? 'div.call.failed' : 'div.call', h('p.who', h('code', call.name), call.failed && pill(2, call.failed)),
    call.malformedArguments ? [h('p.flag', 'malformed arguments'), block(call.malformedArguments)] : argumentsOf(call.arguments, about.flatMap((it) => aboutCall(it, call).flatMap((piece) => piece.mismatches))),
    about.map(flag), text !== false && fold(word, block(text), text.split('\n').length < 13 && text.length < 1200));
};
/** @param {string} who @param {string} text @param {any[][]} [marks] @param {any} [aside] */
const say = (who, text, marks, aside) => h('div.' + who, h('p.who', who === 'system' ? 'system prompt' : who, aside), block(text, marks));
/** Shows one recorded event. @param {Json} it @param {Json[]} failed @param {string} word @returns {any} */
const eventOf = (it, failed, word) => {
  const { type, callId, name, result = {} } = it;
  if (type === 'message') return say(it.role, it.text);
  if (name) return toolCall({ at: it.at, name: type[0] === 's' ? 'agent ' + name : name, arguments: it.input, response: result.output, failed: result.status !== 'completed' && result.status }, failed, word);
  return !callId && type !== 'usage' && fold(type, block(it.text || it.message || pretty(it)), type === 'error');
};
/** Shows what happened: the prompt, the turns, the calls, the output. @param {Json} run @param {Json} view */
const timeline = (run, view) => {
  /** @type {Json[]} */
  const failed = [];
  /** @param {Json} it @param {string} key */
  const collect = (it, key) => {
    if (/failed|errored/.test(it.status)) failed.push(it);
    it.evidence?.forEach((/** @type {Json} */ piece, /** @type {number} */ n) => (piece.at = view.calls?.[`${key}/${n}`]));
    it.componentResults?.forEach((/** @type {Json} */ part, /** @type {number} */ n) => collect(part, `${key}.${n}`));
  };
  run.results.forEach((/** @type {Json} */ it, /** @type {number} */ n) => collect(it, `${run.repeat}/${n}`));
  const { events = [], turns = [], toolCalls = [], output } = run;
  /** The last call with each id. A later call may have the id of an earlier one. @type {Json} */
  const called = {};
  let at = 0;
  for (const it of events) {
    if (it.name) (called[it.callId] = it).at = it.type[0] === 's' ? -1 : at++;
    if (it.status && called[it.callId]) called[it.callId].result = it;
  }
  toolCalls.forEach((/** @type {Json} */ it, /** @type {number} */ n) => (it.at = n));
  /** @param {string} key */
  const marks = (key) => view.marks?.[`${run.repeat}/${key}`];
  /** Shows the events, without the messages `user` and `answer`; without events, shows the calls. @param {Json[]} events @param {Json[]} calls @param {string | undefined} user @param {string} answer */
  const actions = (events, calls, user, answer) => {
    const before = events.find((it) => it.role === 'user' && [user, run.input.at(-1)?.content].includes(it.text));
    const after = events.findLast((it) => it.role === 'assistant' && it.text === answer);
    return events[0] ? events.map((it) => it !== before && it !== after && eventOf(it, failed, view.answer)) : calls.map((it) => toolCall(it, failed, view.answer));
  };
  /** @param {Json[]} list @param {...any} children */
  const item = (list, ...children) => h(list[0] ? 'li.broke' : 'li', children, list.map(flag));
  const others = failed.filter((it) => !it.turn && !aboutCall(it)[0]);
  const total = turns.reduce((/** @type {number} */ all, /** @type {Json} */ it) => all + it.latencyMs, 0) || 1;
  const isShown = turns.at(-1)?.text === output;
  let start = 0;
  const items = turns.map((/** @type {Json} */ turn, /** @type {number} */ n) => {
    const x = (1000 * start) / total;
    start += turn.latencyMs;
    const isLast = isShown && n + 1 === turns.length;
    const calls = toolCalls.slice(turn.toolCalls.start, turn.toolCalls.end);
    const broke = failed.filter((it) => it.turn === turn.label && !calls.some((/** @type {Json} */ call) => aboutCall(it, call)[0]));
    return item([...broke, ...(isLast ? others : [])], h('p.who', 'turn ' + turn.label, took(turn),
      wide('span', 6, rect(x, Math.max(8, (1000 * turn.latencyMs) / total), '', 0, 6))),
      turn.user != null && say('user', turn.user, marks('turn/' + n)), actions(turn.events ? events.slice(turn.events.start, turn.events.end) : [], calls, turn.user, turn.text),
      turn.text && say('assistant', turn.text, isLast ? marks('output') : undefined), turn.unread && h('p.soft', 'incomplete: ' + turn.unread), turn.outputJson !== undefined && fold('answer as JSON', block(pretty(turn.outputJson))));
  });
  const asked = run.input.map((/** @type {Json} */ it, /** @type {number} */ n) => it.content !== turns[0]?.user && say(it.role, it.content, marks('input/' + n)));
  const acted = turns[0] ? [] : actions(events, toolCalls, undefined, output).filter(Boolean);
  return h('ol.timeline', item([], asked), acted[0] && item([], acted), items,
    !run.error && !isShown && item(others, say('output', output, marks('output'), !turns[0] && took(run))));
};

// ---- Case -----------------------------------------------------------------------------------------------------------

/** @param {Json[]} runs */
const explaining = (runs) => runs.find((it) => !it.pass && !it.error) || runs.find((it) => !it.pass) || runs[0];
/** Shows one repeat. @param {Json} run @param {Json} view @param {boolean} [isPrinted] */
const execution = (run, view, isPrinted) => {
  const { outputJson, stderr, vars, workspace } = run;
  const error = view.errors?.[run.repeat];
  const all = run.results.map((/** @type {Json} */ it, /** @type {number} */ n) => ({ it, n, rank: [0, 2, 4, 3, 0][lookAt(it)] || +(it.severity === 'soft') }));
  const [open, held] = [all.filter((/** @type {Json} */ it) => it.rank).sort((/** @type {Json} */ a, /** @type {Json} */ b) => b.rank - a.rank), all.filter((/** @type {Json} */ it) => !it.rank)];
  /** @param {Json[]} list */
  const checks = (list) => h('ul.checks', list.map(({ it, n }) => check(it, run, view, `${run.repeat}/${n}`)));
  const words = `${plural(held.length, 'check')} held or did not apply`;
  return [
    error && h('ul.checks', h('li.check.tone-trouble', h('div.headline', h('span.mark', '!'), h('b.label', error[0]), h('code.code', error[1])), h('p.says', coded(error[2])))),
    open[0] && checks(open), held[0] && (isPrinted ? h('p.soft', words) : fold(words, checks(held), !open[0] && held.length < 9)),
    h('h3', 'What happened'), timeline(run, view), outputJson !== undefined && fold('output as JSON', block(pretty(outputJson))), stderr && fold('stderr', block(stderr)),
    workspace?.changes && [h('h3', 'Changes in the workspace'), workspace.changes.map((/** @type {Json} */ it) => fold(`${it.change}: ${it.path}`, it.patch ? patch(it.patch) : it.text ? patch(it.text.replace(/^/gm, '+')) : soft(it.binary && 'binary', plural(it.bytes, 'byte')), true))],
    vars && !isPrinted && data('Variables', Object.entries(vars)), h('p.soft', coded(view.notes[run.repeat])),
  ];
};
/** Shows a link for each repeat, and the distinct outputs with their counts. @param {Json[]} runs @param {Json} run @param {number} at */
const repeatsOf = (runs, run, at) => {
  const groups = Map.groupBy(runs, (it) => it.output);
  /** @param {Json} it */
  const mini = (it) => h('a.mini.tone-' + TONES[lookOf(it.outcome)], { href: linkTo(at, it.repeat + 1), 'aria-current': it === run, 'aria-label': `repeat ${it.repeat + 1}, ${it.outcome}` }, MARKS[lookOf(it.outcome)]);
  return runs[1] && [h('div.tabs', runs.map(mini), soft(`repeat ${run.repeat + 1} of ${runs.length}; ${held[at]} held`)),
    fold(plural(groups.size, 'distinct output'), h('ol.outputs', [...groups].sort((a, b) => b[1].length - a[1].length).map(([text, list]) => h('li', h('b', `${list.length}× `), list.slice(0, 20).map(mini), ' ', (text || 'no output').slice(0, 160)))))];
};
/** Shows the answers of all models side by side, when the fold opens. @param {number[]} list */
const beside = (list) => {
  const body = h('div.sides');
  const node = fold('All models side by side', body);
  node.ontoggle = async () => {
    node.ontoggle = null;
    for (const it of list) {
      const { case: { executions }, view } = await load(it);
      fill(body, h('div', h('p.who', pill(outcome[it], WORDS[outcome[it]]), models[model[it]], soft(view.spent)), block(explaining(executions)?.output)));
    }
  };
  return node;
};
/** Opens the next case in a direction. @param {number} step @param {boolean} [failing] */
const walk = (step, failing) => {
  const here = view.findIndex((it) => it.name === state.case);
  for (let i = here < 0 ? (step > 0 ? 0 : view.length - 1) : here + step; view[i]; i += step) {
    const it = best(view[i]);
    if (it == null || (failing && !isOpen(it))) continue;
    port.scrollTop = i * height() - port.clientHeight / 2;
    return go(place(it));
  }
};
const close = () => {
  const node = pool.find((it) => !it.hidden && it.matches('.current'));
  go({ case: '', model: '', repeat: '' });
  (node?.querySelector('a') || port).focus();
};
/** @param {string} words @param {() => string} text */
const copier = (words, text) => {
  const node = button(words, () => navigator.clipboard.writeText(text()).then(() => (node.textContent = 'Copied'), () => (node.textContent = 'Not allowed')));
  return node;
};
/** Shows a case in the panel. */
const openCase = async () => {
  const row = rows.find((it) => it.name === state.case);
  document.body.classList.toggle('open', !(detail.hidden = !state.case));
  const key = [state.case, state.model, state.repeat].join('\n');
  if (!state.case || detail.key === key) return;
  detail.key = key;
  const it = row && (row.cells[models.indexOf(state.model)] ?? best(row));
  const found = it != null && (await load(it));
  if (detail.key !== key) return;
  detail.replaceChildren();
  fill(detail, h('div.actions', button('← All cases', close), button('Previous failing', () => walk(-1, true)), button('Next failing', () => walk(1, true))), h('h2', { tabindex: -1, dir: 'auto' }, state.case));
  if (!row || it == null || !found) return fill(detail, 'There is no such case.');
  const runs = found.case.executions;
  const run = runs.find((/** @type {Json} */ one) => one.repeat + 1 === +state.repeat) || explaining(runs);
  const command = found.view.command;
  fill(detail, h('p', pill(outcome[it], [MARKS[outcome[it]], ' ', WORDS[outcome[it]]]), ' ', soft(found.view.place, ...named(tags[it], index.tags), found.view.spent)),
    row.list[1] && [h('div.tabs', row.list.map((one) => h('a.chip', { href: linkTo(one), 'aria-current': one === it }, MARKS[outcome[one]], ' ', models[model[one]]))), beside(row.list)],
    h('div.command', h('code', command), copier('Copy', () => command), copier('Copy link', () => location.href)),
    run ? [repeatsOf(runs, run, it), execution(run, found.view)] : h('p', 'Not run.'));
  more?.caseHistory(detail.appendChild(h('div')), state.case, models[model[it]], found.view);
  detail.scrollTop = 0;
  if (focused() !== input) all('#detail h2')[0].focus({ preventScroll: true });
};

// ---- Page -----------------------------------------------------------------------------------------------------------

let shown = '';
const show = () => {
  for (const it of all('.view')) it.toggleAttribute('data-on', it.id === state.view);
  for (const it of all('nav a,#chips a')) {
    const href = it.getAttribute('href');
    const isOn = href === '#' + state.view ? it.parentElement?.id !== 'chips' || !state.q : href === '#cases&q=' + state.q;
    it.ariaCurrent = isOn ? 'page' : null;
  }
  if (focused() !== input) input.value = state.q;
  sorting.value = state.sort;
  grouping.value = state.group;
  more?.show(state);
  if (state.view !== 'cases') return;
  openCase();
  const key = [state.q, state.sort, state.group].join('\n');
  if (shown === key) return paint();
  shown = key;
  port.scrollTop = 0;
  filter();
};
/** Follows the link that is `step` links after the current link of a group. @param {string} group @param {number} step @param {boolean} [isRound] */
const follow = (group, step, isRound) => {
  const links = [...all('#detail .tabs ' + group)];
  const to = links.findIndex((it) => it.ariaCurrent) + step;
  links[isRound ? to % links.length : to]?.click();
};
/** @type {Record<string, () => void>} */
const ACTIONS = {
  '/': () => { go({ view: 'cases' }); input.select(); },
  j: () => walk(1), k: () => walk(-1), n: () => walk(1, true), p: () => walk(-1, true),
  '[': () => follow('.mini', -1), ']': () => follow('.mini', 1), m: () => follow('.chip', 1, true),
  c: () => all('.command button')[0]?.click(), d: () => all('.diff button').forEach((/** @type {any} */ it) => it.click()), '?': () => help.showModal(),
};
const keys = byId('keys');
addEventListener('keydown', (event) => {
  const { key, target } = /** @type {any} */ (event);
  if (help.open) return;
  if (key === 'Escape') return target === input ? input.blur() : state.case && close();
  if (!keys.checked || event.ctrlKey || event.altKey || event.metaKey || /INPUT|SELECT/.test(target.tagName)) return;
  if (key === 'Enter' && target === port) return walk(state.case ? 0 : 1);
  if (!ACTIONS[key]) return;
  event.preventDefault();
  ACTIONS[key]();
});
try {
  keys.checked = localStorage.kindlmKeys !== 'off';
  keys.onchange = () => (localStorage.kindlmKeys = keys.checked ? 'on' : 'off');
} catch { /* The browser stores nothing; the choice lasts until the page is closed. */ }
input.oninput = () => go({ q: input.value, case: '' });
sorting.onchange = grouping.onchange = () => go({ sort: sorting.value, group: grouping.value });
byId('help-open').onclick = ACTIONS['?'];
port.onscroll = () => requestAnimationFrame(paint);
onresize = paint;
onhashchange = () => { readUrl(); show(); };

// ---- Print ----------------------------------------------------------------------------------------------------------

// The first failing cases are loaded when the browser is idle, because `beforeprint` cannot wait.
/** @type {Map<number, {case: Json, view: Json}>} */
const loaded = new Map();
const failing = () => view.flatMap((row) => row.list.filter((it) => matches(it) && fails(it))).slice(0, 20);
onbeforeprint = () => fill(byId('print'), h('h2', 'Cases'), h('table', h('tr', h('th', 'Test'), models.map((/** @type {string} */ it) => h('th', it))), view.slice(0, 200).map((row) => h('tr', h('th', row.name), cells(row).map((/** @type {Node} */ it) => h('td', it))))),
  failing().map((it) => {
    const found = loaded.get(it);
    return h('section', h('h3', `${tests[test[it]]} (${models[model[it]]})`), found && execution(explaining(found.case.executions), found.view, true));
  }));
onafterprint = () => byId('print').replaceChildren();

// ---- Start ----------------------------------------------------------------------------------------------------------

byId('matrix').style.setProperty('--models', models.length || 1);
root.classList.add('scripted');
await more?.start({ h, svg, fill, fold, button, facts, pill, plural, duration, block, diffOf, link, place, SORTS, STATES, MARKS, WORDS, TONES });
readUrl();
list();
show();
root.dataset.ready = `${performance.now() | 0}`;
setTimeout(async () => { for (const it of failing()) loaded.set(it, await load(it)); }, 300);
