// Shows each result of the playground as soon as its check is evaluated. Without this script, the page loads again with
// all results.
import { readEvents } from './events.js';

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

/** Shows the events of a response. Throws if the last one is missing. */
const read = async (body) => {
  let isComplete = false;
  await readEvents(body, (name, data) => {
    show(name, data);
    isComplete ||= ['verdict', 'problem'].includes(name);
  });
  if (!isComplete) throw new Error('the stream has no result');
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
