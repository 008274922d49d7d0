// Shows each result of the playground as soon as its check is evaluated. Without this script, the page loads again with
// all results.
const form = document.getElementById('record');
const results = document.getElementById('results');
const problem = document.getElementById('problem');
const status = document.getElementById('status');

const show = (name, data) => {
  const part = new DOMParser().parseFromString(data, 'text/html').body;
  if (name === 'result') results.querySelector('ul').append(...part.childNodes);
  if (name === 'verdict') results.replaceChildren(...part.childNodes);
  if (name === 'problem') problem.textContent = data;
  results.hidden = name === 'problem';
  problem.hidden = name !== 'problem';
};

/** Splits server-sent events, each of which ends with an empty line. Throws if the last event is missing. */
const read = async (body) => {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  let isComplete = false;
  for (;;) {
    const { value, done } = await reader.read();
    if (done && !isComplete) throw new Error('the stream has no result');
    if (done) return;
    text += value;
    const events = text.split('\n\n');
    text = events.pop();
    for (const event of events) {
      const fields = event.split('\n').map((line) => line.match(/^(event|data): ?(.*)$/s)).filter(Boolean);
      const of = (key) => fields.filter((it) => it[1] === key).map((it) => it[2]).join('\n');
      if (of('event')) show(of('event'), of('data'));
      isComplete ||= ['verdict', 'problem'].includes(of('event'));
    }
  }
};

form.addEventListener('submit', async (event) => {
  const button = event.submitter;
  if (button?.hasAttribute('formaction')) return;
  event.preventDefault();
  if (button) button.disabled = true;
  problem.hidden = true;
  results.replaceChildren(Object.assign(document.createElement('ul'), { className: 'results' }));
  status.textContent = 'Evaluating';
  try {
    const reply = await fetch(form.action, { method: 'POST', headers: { accept: 'text/event-stream' }, body: new URLSearchParams(new FormData(form)) });
    // The page of an error, such as the login, replaces this one.
    if (!reply.headers.get('content-type')?.startsWith('text/event-stream')) return form.submit();
    await read(reply.body);
  } catch {
    show('problem', 'The connection to the server was lost. Press Evaluate again.');
  }
  status.textContent = results.querySelector('.word')?.textContent ?? '';
  if (button) button.disabled = false;
});
