// Search and keyboard.
import { byId } from './dom.js';
import { live, setPaused } from './live.js';
import { go, goWith, screen } from './router.js';

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

export function startKeys() {
  byId('search').addEventListener('submit', search);
  byId('help').addEventListener('click', () => byId('keys').showModal());
  document.addEventListener('keydown', pressed);
}
