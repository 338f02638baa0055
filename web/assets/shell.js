// What is on every screen: health, search, clock, pause, theme, keys, and the banner when what is shown is old.
import { byId, h, setText } from './dom.js';
import { count, duration, timeOfDay } from './format.js';
import { keep, kept } from './keep.js';
import { live, look, onLook, setPaused } from './live.js';
import { go, goWith, screen } from './router.js';
import { serverNow, showsAges, toggleAges } from './time.js';

const levels = { good: ['✓', 'Good'], notice: ['▲', 'Notice'], wrong: ['✕', 'Wrong'], unknown: ['?', 'Unknown'] };
// The server looks every two seconds; after five of them something is the matter even if it says nothing.
const oldAfter = 10;
const announceEvery = 15000;

let announced = { level: '', sentence: '', at: 0 };

// Listeners hear of every change of the level, but not of every number.
function announce(level, word, sentence) {
  const words = sentence.replace(/[\d.,]+/g, '');
  const soon = Date.now() - announced.at < announceEvery;
  if (level === announced.level && (words === announced.sentence || soon)) return;
  announced = { level, sentence: words, at: Date.now() };
  setText(byId('announce'), `${word}. ${sentence}`);
}

const total = (list, value) => (list ?? []).reduce((sum, item) => sum + value(item), 0);

// Everything that is set aside, also what waits behind something else.
export function asideCount(overview) {
  return total(overview.routes, (route) => route.failed + route.dead + route.waiting) + total(overview.consumers, (consumer) => consumer.parked)
    + (overview.tasks ? overview.tasks.failed + overview.tasks.dead : 0);
}

// What waits for a person.
function deadCount(overview) {
  return total(overview.routes, (route) => route.dead) + total(overview.consumers, (consumer) => consumer.dead) + (overview.tasks?.dead ?? 0);
}

// How old what is shown is, in seconds.
function age() {
  if (!live.overview?.as_of) return NaN;
  return Math.max(0, (serverNow() - Date.parse(live.overview.as_of)) / 1000);
}

function bannerText() {
  const seconds = age();
  const shown = Number.isFinite(seconds) ? `What is shown is from ${timeOfDay(new Date(live.overview.as_of))}, ${duration(Math.floor(seconds))} ago.` : 'Nothing has been seen yet.';
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
function drawBanner() {
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
      h('strong', { class: 'verbatim' }, text[0]), ' ', h('span', { class: 'shown', 'aria-live': 'off' }), ' ', h('span', { class: 'next', 'aria-live': 'off' }), ' ',
      h('button', { type: 'button', click: () => look() }, 'Try now'), h('p', { class: 'hint verbatim' }, text[2] ?? ''));
  }
  setText(banner.querySelector('.shown'), text[1]);
  const wait = live.nextTryAt ? Math.ceil((live.nextTryAt - Date.now()) / 1000) : 0;
  setText(banner.querySelector('.next'), live.failure && wait > 0 ? `Next try in ${wait} s.` : '');
  banner.hidden = false;
}

function drawClock() {
  const clock = byId('clock');
  const seen = live.overview?.as_of;
  setText(clock, seen ? timeOfDay(new Date(seen)) : '--:--:--');
  const seconds = age();
  clock.title = Number.isFinite(seconds) ? `The store was last seen ${duration(Math.floor(seconds))} ago` : 'The store has not been seen yet';
}

function drawPause() {
  byId('live').setAttribute('aria-pressed', String(!live.paused));
  byId('live').classList.toggle('paused', live.paused);
  setText(byId('live-word'), live.paused ? 'Paused' : 'Live');
}

function drawTitle(level) {
  const title = document.querySelector('#main h1')?.textContent ?? '';
  const text = `${level === 'wrong' ? '✕ ' : level === 'notice' ? '▲ ' : ''}${title} · Sealane`;
  if (document.title !== text) document.title = text;
}

function draw() {
  const { overview } = live;
  const health = live.failure && !overview ? { level: 'unknown', sentence: 'The dashboard server cannot be reached.' } : overview?.health;
  if (health) {
    const level = levels[health.level] ? health.level : 'unknown';
    const [mark, word] = levels[level];
    byId('health').className = `health ${level}`;
    setText(byId('health').querySelector('.mark'), mark);
    setText(byId('health-level'), word);
    setText(byId('health-sentence'), health.sentence);
    announce(level, word, health.sentence);
    drawTitle(level);
  }
  if (overview) {
    setText(byId('store'), overview.store);
    byId('store').title = overview.store;
    setText(byId('footer'), `Sealane ${overview.version}. This page only looks.`);
    const dead = deadCount(overview);
    byId('aside-count').hidden = dead === 0;
    setText(byId('aside-count'), `${count(dead)} dead`);
  }
  drawPause();
  drawClock();
  drawBanner();
}

function theme() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
}

function drawTheme() {
  const other = theme() === 'dark' ? 'Light' : 'Dark';
  setText(byId('theme'), other);
  byId('theme').title = `Use the ${other.toLowerCase()} theme`;
}

function switchTheme() {
  const next = theme() === 'dark' ? 'light' : 'dark';
  document.documentElement.dataset.theme = next;
  keep('theme', next);
  drawTheme();
}

function drawTimes() {
  setText(byId('times'), showsAges() ? 'Times' : 'Ages');
  byId('times').title = showsAges() ? 'Show times of day instead of ages' : 'Show ages instead of times of day';
}

const eventId = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

function search(event) {
  event.preventDefault();
  const field = byId('search-text');
  const text = field.value.trim();
  if (!text) return;
  field.value = '';
  if (eventId.test(text)) go(`/messages/${text.toLowerCase()}`);
  else goWith('/messages', { key: text });
}

const places = { o: '/', m: '/messages', a: '/aside', c: '/consumers', t: '/tasks', u: '/audit' };
let goPressedAt = 0;

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.closest?.('input, select, textarea');
  if (typing) {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  if (byId('keys').open) return;
  const afterGo = Date.now() - goPressedAt < 1500;
  goPressedAt = 0;
  if (afterGo && places[event.key]) go(places[event.key]);
  else if (event.key === 'g') goPressedAt = Date.now();
  else if (event.key === '/') byId('search-text').focus();
  else if (event.key === '?') byId('keys').showModal();
  else if (event.key === 'p') setPaused(!live.paused);
  else if (event.key === 'r') screen()?.refresh?.();
  else return;
  event.preventDefault();
}

export function startShell() {
  if (kept('theme') === null) matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawTheme);
  byId('theme').addEventListener('click', switchTheme);
  byId('times').addEventListener('click', () => {
    toggleAges();
    drawTimes();
  });
  byId('live').addEventListener('click', () => setPaused(!live.paused));
  byId('help').addEventListener('click', () => byId('keys').showModal());
  byId('search').addEventListener('submit', search);
  document.addEventListener('keydown', pressed);
  document.addEventListener('sealane:moved', draw);
  onLook(draw);
  setInterval(() => {
    drawClock();
    drawBanner();
  }, 1000);
  drawTheme();
  drawTimes();
}
