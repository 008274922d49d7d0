// The cards of the panel: one for each rule, which can be edited, and one for each other check.
const looks = { passed: ['good', '✓'], scored: ['good', '~'], failed: ['bad', '✗'], errored: ['trouble', '!'], skipped: ['none', '–'] };
export const look = (status) => looks[status] ?? looks.errored;

const make = (name, className = '', text = '') => Object.assign(document.createElement(name), { className, textContent: text });
const button = (text, act) => {
  const made = Object.assign(make('button', 'plain', text), { type: 'button' });
  made.addEventListener('click', act);
  return made;
};

/** Returns the passages of an output that a reason quotes word by word. The HTML report finds them in the same way. */
export const quotesOf = (reason, output) => {
  const isQuote = (it) => [...it].length >= 6 && it.length <= 300 && it.length < reason.length && output.includes(it);
  return [...new Set(reason.split(/["“”‘’'`]/).filter(isQuote))];
};

/** Returns the places of a quote in an output: pairs of a start and an end, in UTF-16 code units. */
export const rangesOf = (quote, output) => {
  const ranges = [];
  for (let at = output.indexOf(quote); at >= 0; at = output.indexOf(quote, at + quote.length)) ranges.push([at, at + quote.length]);
  return ranges;
};

/** A check and its result. `highlight` is called with a quote, and with nothing when the reader leaves it. */
export class Card {
  element = make('li', 'card result tone-none');
  #pill = make('span', 'pill', '… not evaluated');
  #name = make('span', 'name');
  #reason = make('p', 'reason');
  #quotes = make('p', 'quotes');
  #facts = make('p', 'soft');
  #known = {};
  #highlight;

  constructor(name, highlight) {
    this.#highlight = highlight;
    this.#name.textContent = name;
    const head = make('h2');
    head.append(this.#pill, ' ', this.#name);
    for (const it of [this.#reason, this.#quotes, this.#facts]) it.hidden = true;
    this.element.append(head, this.#reason, this.#quotes, this.#facts);
  }

  rename(name) {
    this.#name.textContent = name;
  }

  /** Inserts the words of a rule before the reason. */
  insert(...parts) {
    this.#reason.before(...parts);
  }

  mark(tone, text) {
    this.element.className = `card result tone-${tone}`;
    this.#pill.textContent = text;
  }

  show({ status }, reason, quotes) {
    const [tone, sign] = look(status);
    this.mark(tone, `${sign} ${status}`);
    this.#reason.textContent = reason;
    this.#reason.hidden = !reason;
    this.#quotes.hidden = !quotes.length;
    this.#quotes.replaceChildren(...quotes.map((it) => this.#quote(it)));
  }

  /** Shows a fact beside the result, such as the time that it took; an empty text removes it. */
  fact(name, text) {
    this.#known[name] = text;
    const shown = Object.values(this.#known).filter(Boolean);
    this.#facts.textContent = shown.join(' · ');
    this.#facts.hidden = !shown.length;
  }

  #quote(text) {
    const made = button(`“${text}”`, () => this.#highlight(text));
    made.title = 'Shows the passage in the output';
    for (const type of ['mouseenter', 'focus']) made.addEventListener(type, () => this.#highlight(text));
    for (const type of ['mouseleave', 'blur']) made.addEventListener(type, () => this.#highlight());
    return made;
  }
}

/** Returns the words and criteria of a rule, without repetitions. */
const linesOf = (rule) => [...new Set([rule?.instruction, ...(rule?.criteria ?? [])].filter(Boolean))];
/** Returns true if no criterion differs from the words of the rule, so the judge decides by the words. */
const hasOnlyWords = ({ instruction = '', criteria = [] }) => criteria.every((it) => it === instruction);

/** A rule, and the result of it. `host` has `readOnly`, `highlight`, `changed` and `removed`. */
export class RuleCard extends Card {
  #tag = make('span', 'tag');
  #hint = make('p', 'note', 'The criteria have not changed. The judge decides by them.');
  #diff = make('div', 'diff');
  #saved;
  #fields = [];
  /** True if the rule waits for its result. */
  #isPending = false;
  #hasResult = false;
  /** True if the rule was changed after its evaluation began. */
  isStale = false;

  /** `saved` is the rule in the stored version of the set; `null` for a new rule, and `undefined` without a set. */
  constructor(rule, saved, host) {
    super(rule.id || 'new rule', host.highlight);
    this.rule = rule;
    this.#saved = saved;
    const { weight, when } = rule;
    this.fact('weight', weight === undefined ? '' : `weight ${weight}`);
    this.fact('when', when === undefined ? '' : `only when ${typeof when === 'string' ? when : JSON.stringify(when)}`);
    if (host.readOnly) this.#showWords();
    else this.#showFields(host);
  }

  /** Records that the rule was saved, so that it does not differ from the stored one. */
  save() {
    this.#saved = structuredClone(this.rule);
    this.#compare();
  }

  rename(name) {
    super.rename(name);
    for (const [field, label] of this.#fields) field.setAttribute('aria-label', `${label} ${name}`);
  }

  begin() {
    this.isStale = false;
    this.#isPending = true;
    this.mark('none', '… evaluating');
  }

  /** Ends the evaluation, also if this rule has no result. */
  end() {
    if (this.#isPending) this.mark('none', '… not evaluated');
    this.#isPending = false;
  }

  show(...result) {
    super.show(...result);
    this.#isPending = false;
    this.#hasResult = true;
    if (this.isStale) this.#markStale();
  }

  #showWords() {
    const list = make('ul', 'criteria');
    if (!hasOnlyWords(this.rule)) list.append(...this.rule.criteria.map((it) => make('li', '', it)));
    this.insert(make('p', '', this.rule.instruction ?? ''), ...(list.children.length ? [list] : []));
  }

  #showFields(host) {
    const { rule } = this;
    const field = (label, value) => {
      const made = Object.assign(make('textarea'), { value, rows: 2 });
      made.setAttribute('aria-label', `${label} ${rule.id || 'without an id'}`);
      this.#fields.push([made, label]);
      return made;
    };
    const words = field('Rule', rule.instruction ?? '');
    const criteria = field('Criteria of', (rule.criteria ?? []).join('\n'));
    const title = make('p', 'soft', 'Criteria, one per line. All must be met.');
    const write = button('Write criteria', () => (open(true), criteria.focus()));
    const open = (isOpen) => {
      criteria.hidden = title.hidden = !isOpen;
      write.hidden = isOpen;
    };
    const changed = () => {
      this.isStale = this.#isPending || this.#hasResult;
      if (this.#hasResult && !this.#isPending) this.#markStale();
      this.#compare();
      host.changed();
    };
    words.addEventListener('input', () => {
      // If the criteria only repeat the words, they change with the words.
      if (rule.criteria?.length && hasOnlyWords(rule)) {
        rule.criteria = [words.value];
        criteria.value = words.value;
      }
      rule.instruction = words.value;
      changed();
    });
    criteria.addEventListener('input', () => {
      rule.criteria = criteria.value.split('\n').map((it) => it.trim()).filter(Boolean);
      changed();
    });
    open(!hasOnlyWords(rule));
    const buttons = make('p', 'buttons');
    buttons.append(write, button('Remove', () => host.removed(this)));
    this.insert(words, title, criteria, this.#hint, this.#diff);
    this.element.querySelector('h2').append(' ', this.#tag);
    this.element.append(buttons);
    this.#compare();
  }

  #markStale() {
    this.mark('warn', '~ changed');
  }

  /** Shows the difference to the stored rule. */
  #compare() {
    const [saved, now] = [linesOf(this.#saved), linesOf(this.rule)];
    const line = (kind, sign) => (text) => {
      const made = make('div', kind);
      made.append(make('span', 'sign', sign), text);
      return made;
    };
    const isNew = this.#saved === null;
    const removed = isNew || !this.#saved ? [] : saved.filter((it) => !now.includes(it));
    const added = isNew || !this.#saved ? [] : now.filter((it) => !saved.includes(it));
    const hasChanged = removed.length + added.length > 0;
    this.#tag.textContent = isNew ? 'new' : 'not saved';
    this.#tag.hidden = !isNew && !hasChanged;
    this.#diff.replaceChildren(...removed.map(line('removed', '−')), ...added.map(line('added', '+')));
    this.#diff.hidden = !hasChanged;
    const { instruction, criteria } = this.#saved ?? {};
    const isOnlyWords = String(criteria) === String(this.rule.criteria) && instruction !== this.rule.instruction;
    this.#hint.hidden = !hasChanged || hasOnlyWords(this.rule) || !isOnlyWords;
  }
}
