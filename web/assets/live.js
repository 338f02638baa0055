// The latest look at the store. Asks every two seconds while somebody can see the page and has not paused it; asks less
// often while nobody answers.
import { get } from './api.js';
import { setServerTime } from './time.js';

const interval = 2000;
const longestPause = 30000;

export const live = {
  overview: null, // the last answer
  failure: null, // why there is no newer one
  receivedAt: 0, // by this machine's clock
  nextTryAt: 0,
  paused: false,
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
