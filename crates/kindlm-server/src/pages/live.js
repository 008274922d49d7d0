// Follows a run: loads the live part of the page again when an event arrives. Without this script, the page reloads.
import { localize } from './times.js';

const live = document.getElementById('live');
if (live?.dataset.events) {
  const status = document.getElementById('status');
  let busy = false;
  let stale = false;
  const refresh = async () => {
    stale = busy;
    if (busy) return;
    busy = true;
    try {
      const reply = await fetch(live.dataset.part);
      if (reply.ok) {
        const part = new DOMParser().parseFromString(await reply.text(), 'text/html');
        live.replaceChildren(...part.body.childNodes);
        localize(live);
        status.textContent = live.querySelector('.word')?.textContent ?? '';
        if (live.querySelector('[data-over]')) document.getElementById('cancel')?.remove();
      }
    } catch {
      // The connection was lost. The next event loads the part.
    }
    // At most four times a second, however fast the cases end.
    setTimeout(() => {
      busy = false;
      if (stale) refresh();
    }, 250);
  };
  const events = new EventSource(live.dataset.events);
  for (const name of ['progress', 'case', 'gate', 'done']) events.addEventListener(name, refresh);
  events.addEventListener('done', () => events.close());
}
