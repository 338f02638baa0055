// The latest look at the store. Asks every two seconds while somebody can see the page and has not paused it; asks less
// often while nobody answers.
import { get } from './api.js';
import { setServerTime } from './time.js';

const interval = 2000;
const longestPause = 30000;
const latencyPoints = 900;

export const live = {
  overview: null, // the last answer
  failure: null, // why there is no newer one
  receivedAt: 0, // by this machine's clock
  nextTryAt: 0,
  paused: false,
  latency: [], // p99 since the page was opened; the server keeps no history of it
};

const listeners = new Set();
let timer = 0;
let failures = 0;
let asking = false;

export function onLook(listener) {
  listeners.add(listener);
}

function tell(recovered) {
  for (const listener of listeners) listener(recovered);
}

// The route with the highest value, which is the one that somebody waits for; none when no route has one.
export function worst(routes, value) {
  return routes.filter((route) => Number.isFinite(value(route))).sort((a, b) => value(b) - value(a))[0];
}

export const p99 = (route) => route.latency_ms?.p99;

function keepLatency({ as_of: at, routes }) {
  if (!at || live.latency.at(-1)?.at === at) return;
  live.latency.push({ at, p99: worst(routes, p99)?.latency_ms.p99 });
  if (live.latency.length > latencyPoints) live.latency.shift();
}

export async function look() {
  if (asking) return;
  asking = true;
  clearTimeout(timer);
  let recovered = false;
  try {
    const overview = await get('/overview');
    recovered = live.failure !== null;
    live.overview = overview;
    live.failure = null;
    live.receivedAt = Date.now();
    failures = 0;
    setServerTime(overview.now);
    keepLatency(overview);
  } catch (failure) {
    live.failure = failure;
    failures += 1;
  }
  asking = false;
  schedule();
  tell(recovered);
}

function schedule() {
  clearTimeout(timer);
  live.nextTryAt = 0;
  if (live.paused || document.hidden) return;
  const pause = failures === 0 ? interval : Math.min(interval * 2 ** (failures - 1), longestPause);
  live.nextTryAt = Date.now() + pause;
  timer = setTimeout(look, pause);
}

export function setPaused(paused) {
  live.paused = paused;
  if (paused) schedule();
  else look();
  tell(false);
}

export function startLooking() {
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) schedule();
    else if (!live.paused) look();
  });
  look();
}
