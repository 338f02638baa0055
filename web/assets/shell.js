// What is on every screen: health, clock, pause, theme, and how many are dead.
import { age, drawBanner } from './banner.js';
import { byId, setText } from './dom.js';
import { count, duration, timeOfDay } from './format.js';
import { keep, kept } from './keep.js';
import { live, onLook, setPaused } from './live.js';
import { showsAges, toggleAges } from './time.js';

const levels = { good: ['✓', 'Good'], notice: ['▲', 'Notice'], wrong: ['✕', 'Wrong'], unknown: ['?', 'Unknown'] };
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

function drawClock() {
  const clock = byId('clock');
  const seen = live.overview?.as_of;
  setText(clock, seen ? timeOfDay(new Date(seen)) : '--:--:--');
  const seconds = age();
  clock.title = Number.isFinite(seconds) ? `The store was last seen ${duration(Math.floor(seconds))} ago` : 'The store has not been seen yet';
}

function drawPause() {
  byId('live').className = live.paused ? 'paused' : live.failure ? 'away' : '';
  setText(byId('live-word'), live.paused ? 'Paused' : live.failure ? 'Away' : 'Live');
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

export function startShell() {
  if (kept('theme') === null) matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawTheme);
  byId('theme').addEventListener('click', switchTheme);
  byId('times').addEventListener('click', () => {
    toggleAges();
    drawTimes();
  });
  byId('live').addEventListener('click', () => setPaused(!live.paused));
  document.addEventListener('sealane:moved', draw);
  onLook(draw);
  setInterval(() => {
    drawClock();
    drawBanner();
  }, 1000);
  drawTheme();
  drawTimes();
}
