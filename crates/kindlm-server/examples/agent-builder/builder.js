// Sends the conversation to the panel, and shows what the panel answers.
const element = (id) => document.getElementById(id);
const panel = document.querySelector('kindlm-panel');

element('check').addEventListener('click', () => {
  element('verdict').textContent = 'Checking …';
  panel.evaluate({ id: crypto.randomUUID(), agent_input: element('input').textContent, agent_output: element('output').value });
});
panel.addEventListener('kindlm:highlight', ({ detail }) => {
  const text = element('output').value;
  const marked = document.createElement('p');
  let end = 0;
  for (const range of detail.ranges) {
    marked.append(text.slice(end, range[0]), Object.assign(document.createElement('mark'), { textContent: text.slice(...range) }));
    end = range[1];
  }
  marked.append(text.slice(end));
  element('quoted').replaceChildren(...marked.childNodes);
  element('quoted').hidden = !detail.ranges.length;
});
panel.addEventListener('kindlm:result', ({ detail }) => {
  element('verdict').textContent = `${detail.passed} of ${detail.total} rules passed.`;
});
panel.addEventListener('kindlm:edited', ({ detail }) => {
  element('verdict').textContent = `Version ${detail.version} of the rules is saved.`;
});
panel.addEventListener('kindlm:error', ({ detail }) => {
  element('verdict').textContent = detail.detail || detail.title;
});
