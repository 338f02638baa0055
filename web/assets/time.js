// Times on the page: ages that tick, or times of day when the reader prefers them. Ages are measured with the server's
// clock, because the reader's may be wrong.
import { h } from './dom.js';
import { absolute, dash, dated, relative } from './format.js';
import { keep, kept } from './keep.js';

let offset = 0;
let ages = kept('times') !== 'absolute';

export function setServerTime(text) {
  const server = Date.parse(text);
  if (Number.isFinite(server)) offset = server - Date.now();
}

export function serverNow() {
  return new Date(Date.now() + offset);
}

export function showsAges() {
  return ages;
}

export function toggleAges() {
  ages = !ages;
  keep('times', ages ? 'ages' : 'absolute');
  tick();
}

function words(date) {
  return ages ? relative(date, serverNow()) : absolute(date, serverNow());
}

// A <time> that ticks; a dash when there is none.
export function when(text) {
  if (!text) return dash;
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) return String(text);
  return h('time', { datetime: text, title: `${dated(date)} here, ${text}` }, words(date));
}

function tick() {
  for (const element of document.querySelectorAll('time[datetime]')) {
    const text = words(new Date(element.dateTime));
    if (element.textContent !== text) element.textContent = text;
  }
}

export function startTicking() {
  setInterval(tick, 1000);
}
