// The banner that says that what is shown is old, and why. What is shown stays.
import { byId, h, setText } from './dom.js';
import { relative, timeOfDay } from './format.js';
import { live, look } from './live.js';
import { serverNow } from './time.js';

// The server looks every ten seconds at least; after three of them something is the matter even if it says nothing.
const oldAfter = 30;

// How old what is shown is, in seconds.
export function age() {
  if (!live.overview?.as_of) return NaN;
  return Math.max(0, (serverNow() - Date.parse(live.overview.as_of)) / 1000);
}

function bannerText() {
  const seconds = age();
  const shown = Number.isFinite(seconds) ? `What is shown is from ${timeOfDay(new Date(live.overview.as_of))}, ${relative(new Date(live.overview.as_of), serverNow())}.` : 'Nothing has been seen yet.';
  if (live.failure) {
    return [live.failure.reached ? `The dashboard server failed: ${live.failure.message}` : 'The dashboard server cannot be reached.', shown, live.failure.hint];
  }
  const problem = live.overview?.problem;
  if (problem) return [`The last look at the store failed: ${problem.message} (${problem.code}).`, shown, problem.hint];
  if (live.overview && !live.paused && !document.hidden && seconds > oldAfter) return ['The server has not seen the store for a while.', shown, ''];
  return null;
}

// The banner is a live region: its sentence is written once, and only the seconds in it, which are hidden from listeners,
// go on.
export function drawBanner() {
  const banner = byId('banner');
  const text = bannerText();
  document.body.classList.toggle('old', text !== null);
  if (!text) {
    banner.hidden = true;
    banner.replaceChildren();
    return;
  }
  if (banner.dataset.of !== text[0] || !banner.firstChild) {
    banner.dataset.of = text[0];
    banner.replaceChildren(
      h('strong.verbatim', text[0]), ' ', h('span.shown', { 'aria-live': 'off' }), ' ', h('span.next', { 'aria-live': 'off' }), ' ',
      h('button', { click: () => look() }, 'Try now'), h('p.hint.verbatim', text[2] ?? ''));
  }
  setText(banner.querySelector('.shown'), text[1]);
  const wait = live.nextTryAt ? Math.ceil((live.nextTryAt - Date.now()) / 1000) : 0;
  setText(banner.querySelector('.next'), live.failure && wait > 0 ? `Next try in ${wait} s.` : '');
  banner.hidden = false;
}
