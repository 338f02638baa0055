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

// The slowest route is the one that somebody waits for.
export function worstLatency(overview) {
  let worst = null;
  for (const route of overview.routes ?? []) {
    if (route.latency_ms && (!worst || route.latency_ms.p99 > worst.latency_ms.p99)) worst = route;
  }
  return worst;
}

function keepLatency(overview) {
  const last = live.latency.at(-1);
  if (!overview.as_of || last?.at === overview.as_of) return;
  live.latency.push({ at: overview.as_of, p99: worstLatency(overview)?.latency_ms.p99 });
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
