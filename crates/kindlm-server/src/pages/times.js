// Shows the times of a page in the time zone of the reader. The tooltip has the time in UTC, which is also the text of
// a page without this script.
const options = { year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZoneName: 'short' };
const format = new Intl.DateTimeFormat('en', options);

const local = (time, hasZone) => {
  const parts = Object.fromEntries(format.formatToParts(time).map((it) => [it.type, it.value]));
  return `${parts.year}-${parts.month}-${parts.day} ${parts.hour}:${parts.minute}${hasZone ? ` ${parts.timeZoneName}` : ''}`;
};

export const localize = (root) => {
  for (const it of root.querySelectorAll('time:not([title])')) {
    it.title = it.textContent;
    // The narrow tables beside charts have no space for the time zone, which the texts below them name.
    it.textContent = local(new Date(it.dateTime), !it.closest('.chart-row'));
  }
};
localize(document);
