/** Calls `receive(name, data)` for each server-sent event of a response. An event ends with an empty line. */
export const readEvents = async (body, receive) => {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split('\n\n');
    text = events.pop();
    for (const event of events) {
      const fields = event.split('\n').map((line) => line.match(/^(event|data): ?(.*)$/s)).filter(Boolean);
      const of = (key) => fields.filter((it) => it[1] === key).map((it) => it[2]).join('\n');
      if (of('event')) receive(of('event'), of('data'));
    }
  }
};
