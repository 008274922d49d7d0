// @ts-check
// The script that only some pages need: the comparison, and the data source and the history of a server.
//
// The page runs this script before `app.js`. `app.js` calls `kindlm.open` first, reads data through `kindlm.source`,
// and calls the other functions to show data. `npm run build` in `tests/browser` makes `more.min.js` of this file.
(() => {
  /** @typedef {Record<string, any>} Json */

  /** @param {string} id @returns {any} */
  const byId = (id) => document.getElementById(id);
  // A file has its data in the page; the page of a server is empty.
  const isServed = !byId('head');
  /** The functions of `app.js`. @type {Json} */
  let app = {};

  // ---- Server -------------------------------------------------------------------------------------------------------

  const run = new URLSearchParams(location.search).get('run') || '';
  let token = '';
  /** @param {string} path @param {Record<string, string>} [params] */
  const url = (path, params) => `/wire/${path}?${new URLSearchParams({ ...(run && { run }), ...params })}`;
  /** @param {string} path @param {Record<string, string>} [params] @returns {Promise<any>} */
  const get = async (path, params) => {
    const response = await fetch(url(path, params), { headers: { 'x-kindlm-token': token } });
    if (!response.ok) throw new Error(await response.text());
    return response.json();
  };
  /** Takes the token out of the URL, and stores it until the tab is closed. */
  const takeToken = () => {
    const [given, found] = location.hash.match(/token=([^&]*)&?/) || [];
    if (given) history.replaceState(null, '', location.pathname + location.search + location.hash.replace(given, ''));
    try {
      if (found) sessionStorage.kindlmToken = found;
      return found || sessionStorage.kindlmToken || '';
    } catch {
      return found || '';
    }
  };
  /** Loads the page of the run. The browser parses the response, and runs no script in it. @returns {Promise<Document>} */
  const loadPage = () =>
    new Promise((done) => {
      /** @param {string} why */
      const fail = (why) => (byId('loading').textContent = why);
      const request = new XMLHttpRequest();
      request.open('GET', url('page'));
      request.responseType = 'document';
      request.setRequestHeader('x-kindlm-token', token);
      request.onerror = () => fail('The server does not answer. Start `kindlm view` again, and open the link that it prints.');
      request.onload = () => {
        const { status, response } = request;
        if (status === 200) done(response);
        else fail(status === 401 || status === 403 ? 'Open the link that `kindlm view` prints. It has a token that this page needs.' : 'This run cannot be read. It may have been removed.');
      };
      request.send();
    });
  const open = async () => {
    if (!isServed) return;
    token = takeToken();
    const page = await loadPage();
    document.title = page.title;
    document.head.append(/** @type {any} */ (page.getElementById('head')));
    document.body.replaceChildren(...page.body.children);
  };
  const source = isServed && { index: () => get('index'), chunk: (/** @type {number} */ n) => get('chunk/' + n) };

  // ---- History ------------------------------------------------------------------------------------------------------

  /** The totals of the runs, oldest first. @type {Json[]} */
  let heads = [];
  /** @param {string} time */
  const when = (time) => time.slice(0, 16).replace('T', ' ');
  /** A rate just below 1 is never shown as 100%. @param {number | null} rate */
  const percent = (rate) => (rate == null ? 'nothing checked' : `${Math.min(Math.round(rate * 1000) / 10, rate < 1 ? 99.9 : 100)}%`);
  const TONES = ['good', 'bad'];
  /** @param {number | null} usd */
  const money = (usd) => usd != null && (usd && usd < 5e-5 ? '<$0.0001' : '$' + (usd && usd.toFixed(usd < 1 ? 4 : 2)));
  /** @param {number} code */
  const toneOf = (code) => TONES[code] || 'trouble';
  /** @param {number} code */
  const wordOf = (code) => ['passed', 'failed'][code] || (code === 130 ? 'interrupted' : 'errored');
  /** @param {string} id */
  const openRun = (id, hash = '') => `/?run=${encodeURIComponent(id)}${hash}`;
  /** Draws the share of cases that held in each run, with its interval. @param {Json[]} list */
  const trend = (list) => {
    const { svg } = app;
    const width = Math.max(240, Math.min(1360, document.body.clientWidth - 80));
    const known = list.filter((it) => !it.partial && it.held.rate != null);
    const low = Math.floor(10 * Math.min(0.9, ...known.map((it) => it.held.low))) / 10;
    const x = (/** @type {number} */ i) => Math.round(12 + ((width - 24) * i) / Math.max(1, known.length - 1));
    const y = (/** @type {number} */ rate) => Math.round(10 + (100 * (1 - rate)) / (1 - low));
    const points = (/** @type {string} */ key) => known.map((it, i) => `${x(i)},${y(it.held[key])}`);
    return [
      svg('svg', { class: 'trend', viewBox: `0 0 ${width} 120`, role: 'img', 'aria-label': `Cases that held in the last ${known.length} runs: ${known.map((it) => percent(it.held.rate)).join(', ')}` },
        [1, (1 + low) / 2, low].map((at) => svg('line', { class: 'grid', x1: 0, x2: width, y1: y(at), y2: y(at) })),
        svg('polygon', { class: 'band', points: [...points('high'), ...points('low').reverse()].join(' ') }),
        svg('polyline', { class: 'curve', points: points('rate').join(' ') }),
        known.map((it, i) => svg('circle', { class: 'fill-' + toneOf(it.exitCode), cx: x(i), cy: y(it.held.rate), r: it.run === current() ? 7 : 4.5 }, svg('title', `${when(it.startedAt)}: ${percent(it.held.rate)}`)))),
      app.h('p.soft.small', `The lines are 100%, ${percent((1 + low) / 2)} and ${percent(low)}. The band is Wilson's 95% interval; the large dot is this run.${list.some((it) => it.partial) ? ' Runs of a part of the suite are left out.' : ''}`),
    ];
  };
  const current = () => JSON.parse(byId('head').textContent).run;
  const showHistory = () => {
    const { h, duration } = app;
    if (heads.length < 2) return;
    const rows = [...heads].reverse().map((it) => {
      const isThis = it.run === current();
      return h('tr', h('th', { scope: 'row' }, isThis ? when(it.startedAt) : h('a', { href: openRun(it.run) }, when(it.startedAt))),
        h('td', h('span.pill.tone-' + toneOf(it.exitCode), wordOf(it.exitCode))),
        h('td.num', { 'data-name': 'Held' }, `${it.held.count} of ${it.held.total}`, it.partial && ' (part of the suite)'),
        h('td.num', { 'data-name': 'Cost' }, money(it.totals.cost.usd) || 'unknown'), h('td.num', { 'data-name': 'Took' }, duration(it.durationMs)),
        h('td', h('code', it.gitCommit?.slice(0, 9)), it.gitDirty && ' changed'), h('td', isThis ? 'this run' : h('a', { href: '#compare&base=' + encodeURIComponent(it.run), 'aria-label': 'compare with ' + when(it.startedAt) }, 'compare')));
    });
    const table = h('table.stack', h('thead', h('tr', ['Started (UTC)', 'Result', 'Held', 'Cost', 'Took', 'Commit', ''].map((it, i) => h(i > 1 && i < 5 ? 'th.num' : 'th', { scope: 'col' }, it || h('span.off', 'Comparison'))))), h('tbody', rows));
    const section = h('section', { 'aria-labelledby': 'history' }, h('h2', { id: 'history' }, 'Last runs'), h('div.card.pad', trend(heads)),
      app.fold(`All ${heads.length} runs`, h('div.card.scroll', { tabindex: 0, role: 'group', 'aria-labelledby': 'history' }, table), heads.length < 6));
    (byId('overview').querySelector('.notes') || byId('overview').querySelector('.verdict')).after(section);
  };
  /** Shows the link to the editor, and the outcomes of a case in the last runs. @param {any} panel @param {string} name @param {string} model @param {Json} view */
  const caseHistory = async (panel, name, model, view) => {
    if (!isServed) return;
    const { h, WORDS, MARKS, TONES: tones } = app;
    if (view.editor) document.querySelector('.command')?.append(h('a.chip', { href: view.editor }, 'Open in the editor'));
    let list = [];
    try {
      list = await get('history', { case: name, model });
    } catch (err) {
      panel.append(h('p.soft', `The history cannot be read: ${/** @type {Error} */ (err).message}`));
    }
    // The user may have opened another case meanwhile.
    if (list.length < 2 || !panel.isConnected) return;
    const hash = '#' + new URLSearchParams({ case: name, model }).toString().replaceAll('+', '%20');
    panel.append(h('h3', 'In the last runs'), h('div.tabs', list.map((/** @type {Json} */ it) => {
      const look = WORDS.indexOf(it.outcome);
      const words = `${when(it.startedAt)}: ${it.outcome}${it.of > 1 ? `, ${it.held} of ${it.of} repeats held` : ''}`;
      return h('a.mini.tone-' + tones[look], { href: openRun(it.run, hash), title: words, 'aria-label': words, 'aria-current': it.run === current() || null }, MARKS[look]);
    })));
  };

  // ---- Comparison ---------------------------------------------------------------------------------------------------

  /** @param {number} share */
  const hundredths = (share) => `${Math.round(share * 1000) / 10}`.replace('-', '−');
  /** @param {number} share */
  const points = (share) => `${hundredths(share)} percentage point${Math.abs(share) === 0.01 ? '' : 's'}`;
  /** @param {Json} it @returns {[string, string]} A tone and words. */
  const verdictOf = (it) => {
    switch (it.kind) {
      case 'regression': return ['bad', 'Regression: the pass rate fell, and chance does not explain it'];
      case 'improved': return ['good', 'Improved: the pass rate rose, and chance does not explain it'];
      case 'noRegressionBeyond': return ['good', `No regression beyond ${points(it.margin)}`];
      case 'notEnoughData': return ['warn', 'Not enough data to exclude a regression' + (it.detectable ? `; runs of this size show a fall of ${points(it.detectable)}` : '')];
      default: return ['trouble', 'The runs cannot be compared: ' + it.reason];
    }
  };
  /** The kinds of changes in the order of the page: a tone, a sign, a word, and the group of the filter. @type {Record<string, string[]>} */
  const KINDS = {
    regression: ['bad', '✗', 'regression', 'Worse'], fell: ['bad', '↓', 'fell', 'Worse'], fix: ['good', '✓', 'fix', 'Better'], rose: ['good', '↑', 'rose', 'Better'],
    new: ['warn', '+', 'new', 'New'], gone: ['warn', '−', 'gone', 'Gone'], unknown: ['trouble', '!', 'not judged', 'Not compared'],
    notComparable: ['trouble', '≠', 'not comparable', 'Not compared'], unchanged: ['none', '=', 'unchanged', 'Unchanged'],
  };
  /** @param {Json} it */
  const kindOf = (it) => KINDS[it.kind === 'changed' ? (it.after.rate < it.before.rate ? 'fell' : 'rose') : it.kind];
  /** @param {Json} [it] */
  const rateOf = (it) => (it ? `${it.passed} of ${it.judged}` : '–');
  /** Formats the mean of the rates of several cases. @param {Json} it */
  const meanOf = (it) => `${percent(it.rate)} (${rateOf(it)})`;
  /** @param {number} share */
  const change = (share) => (share > 0 ? '+' : '') + points(share);
  /** Shows a case in one run: the outcome, the reasons and the output. @param {string} title @param {Json | null} it */
  const side = (title, it) => {
    const { h, pill, WORDS, MARKS } = app;
    const look = it ? WORDS.indexOf(it.outcome) : 4;
    return h('div', h('p', h('b', title), ' ', pill(look, [MARKS[look], ' ', it ? it.outcome : 'not run']), it && it.repeats > 1 && h('span.soft', ` repeat ${it.repeat} of ${it.repeats}`)),
      it?.reasons[0] && h('ul.found', it.reasons.map((/** @type {string} */ text) => h('li', { dir: 'auto' }, text))), it && (it.output == null ? h('p.soft', 'not run') : app.block(it.output)));
  };
  /** Shows a case in both runs, with the differences. @param {Json} it @param {string} base */
  const sides = async (it, base) => {
    const { h } = app;
    const toCase = h('p', h('a', { href: app.link({ case: it.case, model: it.model }) }, 'All checks of this case'));
    if (!isServed) {
      const prompt = inFile.prompts.find((/** @type {Json} */ one) => one.case === it.case && one.model === it.model);
      return [it.kind === 'gone' ? h('p.soft', 'This run has no such case.') : toCase,
        prompt && [h('h3', `Difference of the prompts of ${prompt.against} and ${it.model}`), app.diffOf(prompt.lines, `− ${prompt.against}  + ${it.model}`)]];
    }
    const found = await get('difference', { base, case: it.case, model: it.model });
    return [h('div.sides', side('Before', found.before), side('After', found.after)),
      found.output && [h('h3', 'Difference of the outputs'), app.diffOf(found.output, '− before  + after')],
      found.prompt && [h('h3', 'Difference of the prompts'), app.diffOf(found.prompt, '− before  + after')], found.after && toCase];
  };
  /** @param {Json} it @param {string} base */
  const row = (it, base) => {
    const { h } = app;
    const [tone, mark, word] = kindOf(it);
    const node = h('details.change', h('summary', h('span.pill.tone-' + tone, mark, ' ', word), h('b', { dir: 'auto' }, it.case), h('span.soft', it.model), it.reason && h('span.soft', it.reason), h('span.num', `${rateOf(it.before)} → ${rateOf(it.after)}`, it.pValue != null && h('span.soft', ` p = ${it.pValue.toPrecision(2)}`))));
    node.ontoggle = async () => {
      if (!node.open || node.children[1]) return;
      const body = node.appendChild(h('div.pad'));
      try {
        app.fill(body, await sides(it, base));
      } catch (err) {
        app.fill(body, `The case cannot be shown: ${/** @type {Error} */ (err).message}`);
      }
    };
    return node;
  };
  const MOST = 500;
  /** Shows the rows of a group. @param {any} place @param {Json[]} cases @param {string} base */
  const rows = (place, cases, base) => {
    const { h, button, plural } = app;
    /** @type {Record<string, Json[]>} */
    const groups = { Changed: cases.filter((it) => it.kind !== 'unchanged' && kindOf(it)[3] !== 'Not compared') };
    for (const it of cases) (groups[kindOf(it)[3]] ||= []).push(it);
    const list = h('div.card.changes');
    /** @param {string} name */
    const pick = (name) => {
      const found = groups[name];
      list.replaceChildren(...found.slice(0, MOST).map((it) => row(it, base)));
      if (!found[0]) app.fill(list, h('p.empty', 'No case changed.'));
      if (found[MOST]) app.fill(list, h('p.cut.pad', `… and ${plural(found.length - MOST, 'more case')}; \`kindlm compare --json\` has all of them.`));
      for (const it of chips) it.setAttribute('aria-pressed', it.name === name);
    };
    const chips = Object.keys(groups).map((name) => {
      const chip = button('', () => pick(name));
      chip.name = name;
      return app.fill(chip, name, ' ', h('b', groups[name].length));
    });
    app.fill(place, h('h2', 'Cases'), h('div.bar-row', chips), list);
    pick('Changed');
  };
  /** The comparison in the page. A server sends it only if the report has one. @type {Json} */
  let inFile = {};
  /** The changed and new cases of [`inFile`] by their name and model. @type {Map<string, Json>} */
  const changes = new Map();
  /** @param {string} name @param {string} model */
  const changeOf = (name, model) => changes.get(name + '\n' + model);
  /** @param {Json | undefined} it */
  const difference = (it) => (it?.before && it.after ? it.after.rate - it.before.rate : 0);
  /** Adds the change of a case to its cell in the matrix. @param {any} cell @param {string} name @param {string} model */
  const compared = (cell, name, model) => {
    const it = changeOf(name, model);
    if (!it || !cell) return;
    const [tone, , word] = kindOf(it);
    const share = difference(it);
    const words = share ? change(share) : word;
    cell.append(app.h('span.delta.tone-' + tone, { title: `${word}: ${words}` }, share ? words.split(' ')[0] : word));
    cell.ariaLabel += `, ${words} against ${inFile.before.name}`;
  };
  /** Reads the comparison of the page, and adds the order and the filter `changed` to the matrix. */
  const loadComparison = () => {
    const text = byId('comparison')?.textContent;
    if (!text) return;
    inFile = JSON.parse(text);
    for (const it of inFile.cases) if (/^(regression|fix|changed|new)$/.test(it.kind)) changes.set(it.case + '\n' + it.model, it);
    /** @param {number} at */
    const of = (at) => {
      const it = app.place(at);
      return changeOf(it.case, it.model);
    };
    app.STATES.changed = (/** @type {number} */ at) => !!of(at);
    app.SORTS.changed = (/** @type {Json} */ row) => -Math.max(...row.list.map((/** @type {number} */ at) => Math.abs(difference(of(at)))));
  };
  /** @param {Json} it */
  const conditions = (it) => {
    const { h } = app;
    const short = (/** @type {string} */ text) => h('code', text ? text.slice(0, 120) : 'none');
    return it.differences?.[0] && h('div', h('h2', 'What differs between the runs'), h('div.card.pad', app.facts(it.differences.map((/** @type {Json} */ one) => [[one.condition, one.name && ` ${one.name}`], [short(one.before), ' → ', short(one.after)]]))));
  };
  /** Names the row of an assertion. @param {Json} row @param {Json} it */
  const nameOf = (row, it) => row.label ? `${row.assertion}: ${row.label}`
    : row.assertion + (it.assertions.some((/** @type {Json} */ one) => one.label && one.assertion === row.assertion) ? ' (other checks)' : '');
  /** @param {Json} it */
  const assertions = (it) => {
    const { h } = app;
    const changed = (it.assertions || []).filter((/** @type {Json} */ one) => one.change.difference).slice(0, 20);
    const NAMES = ['Check', 'Before', 'After', 'Difference', 'Adjusted p'];
    return changed[0] && h('div', h('h2', { id: 'changed-checks' }, 'Checks that changed'), h('div.card.scroll', { tabindex: 0, role: 'group', 'aria-labelledby': 'changed-checks' }, h('table.stack',
      h('thead', h('tr', NAMES.map((name, i) => h(i ? 'th.num' : 'th', { scope: 'col' }, name)))),
      h('tbody', changed.map((/** @type {Json} */ one) => h('tr', h('th', { scope: 'row' }, nameOf(one, it)), [meanOf(one.change.before), meanOf(one.change.after), change(one.change.difference), one.adjustedPValue.toPrecision(2)].map((text, i) => h('td.num', { 'data-name': NAMES[i + 1] }, text))))))));
  };
  /** @param {Json} it @param {string} base */
  const comparison = (it, base) => {
    const { h } = app;
    const order = Object.values(KINDS);
    /** @param {Json} one */
    const rank = (one) => order.indexOf(kindOf(one));
    it.cases.sort((/** @type {Json} */ a, /** @type {Json} */ b) => rank(a) - rank(b));
    /** @type {Record<string, number>} */
    const counts = {};
    for (const one of it.cases) if (one.kind !== 'unchanged') counts[kindOf(one)[3]] = (counts[kindOf(one)[3]] || 0) + 1;
    const changes = Object.entries(counts).map(([name, n]) => `${n} ${name.toLowerCase()}`).join(', ') || 'no case changed';
    const [tone, words] = verdictOf(it.verdict);
    const rate = it.passRate;
    const place = h('div', h('div.card.verdict.tone-' + tone, h('p.line', h('span.word', words)),
      rate && h('p', `Pass rate ${percent(rate.before.rate)} → ${percent(rate.after.rate)}: ${change(rate.difference)} (95% interval ${hundredths(rate.low)} to ${hundredths(rate.high)}; p = ${rate.pValue.toPrecision(2)}) over ${app.plural(rate.cases, 'case')}.`),
      h('p', `Cases: ${changes}.`),
      h('p.soft', `Before: ${it.before.name}, ${when(it.before.startedAt || '')} · After: ${it.after.name}, ${when(it.after.startedAt || '')}`.replaceAll('`', '')),
      !isServed && h('p.soft', 'The prompts and outputs before are not in this file; ', h('code', 'kindlm view'), ' compares those of stored runs.')),
      conditions(it), assertions(it));
    rows(place, it.cases, base);
    return place;
  };
  let shown = '';
  /** Shows the view `compare`, if the state selects it. @param {Record<string, string>} state */
  const show = async (state) => {
    if (state.view !== 'compare') return;
    const { h, fill, link } = app;
    const page = byId('compare');
    const others = heads.filter((it) => it.run !== current());
    const at = heads.findIndex((it) => it.run === current());
    const base = state.base || heads[at < 0 ? heads.length - 1 : at - 1]?.run || others[0]?.run || '';
    if (shown === base + '\n') return;
    shown = base + '\n';
    const choice = h('select', { id: 'base', onchange: () => (location.hash = link({ view: 'compare', base: choice.value })) }, [...others].reverse().map((it) => h('option', { value: it.run, selected: it.run === base && '' }, `${when(it.startedAt)} · ${percent(it.held.rate)} held · ${it.run}`)));
    page.replaceChildren(...(isServed && others[0] ? [h('div.bar-row', h('label', { for: 'base' }, 'Compare with the run of'), choice)] : []));
    if (isServed && !base) return fill(page, h('p.card.empty', 'There is no other run of this suite to compare with.'));
    const waits = page.appendChild(h('p.empty', { role: 'status' }, 'Comparing …'));
    try {
      const it = isServed ? (await get('compare', { base })).comparison : inFile;
      waits.replaceWith(comparison(it, base));
    } catch (err) {
      waits.textContent = `The runs cannot be compared: ${/** @type {Error} */ (err).message}`;
    }
  };
  /** Starts with the functions of `app.js`. @param {Json} functions */
  const start = async (functions) => {
    app = functions;
    loadComparison();
    if (!isServed) return;
    try {
      heads = await get('heads');
      showHistory();
    } catch (err) {
      byId('overview').append(app.h('p.notes', `The history cannot be read: ${/** @type {Error} */ (err).message}`));
    }
  };
  /** @type {any} */ (globalThis).kindlm = { open, source, start, show, caseHistory, compared };
})();
