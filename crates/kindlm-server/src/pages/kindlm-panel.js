// The element `<kindlm-panel set="…" agent="…" locale="…">`: shows the panel of the server that this script comes from.
//
// `init({assertions, token, …})` sets it up, and `evaluate({id, agent_input, agent_output})` checks an output. The
// messages of the panel are events of the element, such as `kindlm:result` and `kindlm:highlight`.
(() => {
  const server = new URL(document.currentScript.src).origin;
  customElements.define('kindlm-panel', class extends HTMLElement {
    #frame = document.createElement('iframe');
    #waiting = [];
    #isReady = false;
    #listen = (event) => {
      const message = event.data;
      if (event.source !== this.#frame.contentWindow || event.origin !== server) return;
      if (typeof message?.type !== 'string' || !message.type.startsWith('kindlm:')) return;
      if (message.type === 'kindlm:ready') {
        this.#isReady = true;
        for (const it of this.#waiting.splice(0)) this.#send(it);
      }
      if (message.type === 'kindlm:resize') this.#frame.style.height = `${Number(message.height) || 0}px`;
      this.dispatchEvent(new CustomEvent(message.type, { detail: message }));
    };
    #send(message) {
      if (this.#isReady) this.#frame.contentWindow.postMessage(message, server);
      else this.#waiting.push(message);
    }
    connectedCallback() {
      addEventListener('message', this.#listen);
      Object.assign(this.#frame, { title: 'KindLM assertions', src: `${server}/embed/panel?origin=${encodeURIComponent(location.origin)}` });
      this.#frame.setAttribute('sandbox', 'allow-scripts allow-same-origin allow-forms');
      Object.assign(this.#frame.style, { width: '100%', height: '160px', border: '0', colorScheme: this.getAttribute('theme') ?? '' });
      this.append(this.#frame);
      const settings = Object.fromEntries(['set', 'agent', 'locale'].map((it) => [it, this.getAttribute(it) ?? undefined]));
      if (settings.set) this.init(settings);
    }
    disconnectedCallback() {
      removeEventListener('message', this.#listen);
      this.#isReady = false;
      this.#frame.remove();
    }
    init(settings) { this.#send({ ...settings, type: 'kindlm:init', v: 1 }); }
    evaluate(record) { this.#send({ ...record, type: 'kindlm:evaluate' }); }
    cancel(id) { this.#send({ type: 'kindlm:cancel', id }); }
    theme(tokens) { this.#send({ type: 'kindlm:theme', tokens }); }
  });
})();
