// The log, newest first, by filter. The filter is in the URL.
import { address, get } from './api.js';
import { h } from './dom.js';
import { bytes, count, dash, plural } from './format.js';
import { live } from './live.js';
import { Pane } from './pane.js';
import { asked, copyButton, empty, filter, idLink, rowsField, state, table } from './parts.js';
import { serverNow, when } from './time.js';

const time = '15m, or 2026-11-17 16:50';
const common = [['status', 'State', ['PENDING', 'PUBLISHING', 'PUBLISHED', 'FAILED', 'DEAD', 'DISCARDED']], ['topic', 'Topic'], ['key', 'Key'], ['type', 'Type']];
const rare = [['tenant', 'Tenant'], ['route', 'Route'], ['aggregate_type', 'Aggregate type'], ['aggregate_id', 'Aggregate id'],
  ['correlation_id', 'Correlation id'], ['since', 'Since', time], ['until', 'Until', time], rowsField];
const example = () => (live.overview?.store.startsWith('sqlite:')
  ? `insert into sealane_emit (topic, key, type, payload) values ('orders', 'o-1', 'OrderPlaced', '{"total":4200}')`
  : `select sealane.emit(topic => 'orders', key => 'o-1', type => 'OrderPlaced', payload => '{"total":4200}')`);

const seconds = { s: 1, m: 60, h: 3600, d: 86400 };

// `15m` is fifteen minutes ago, as on the command line; a time without a zone is one of here. What is neither goes to the
// server as it is, which says what it expects.
function moment(text) {
  if (!text) return '';
  const ago = /^(\d{1,9})([smhd])$/.exec(text.trim());
  if (ago) return new Date(serverNow() - ago[1] * seconds[ago[2]] * 1000).toISOString();
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? text : date.toISOString();
}

// What an operator wants to know first about an event that is not published.
function note(message) {
  const routes = message.routes.filter((route) => route.last_error_code || route.next_attempt_at);
  return routes.length ? routes.map((route) => [route.last_error_code ?? 'waits', route.next_attempt_at && [', next try ', when(route.next_attempt_at)], ' ']) : dash;
}

function list(messages) {
  return table('Messages, newest first', messages, [
    ['State', (m) => state(m.status)],
    ['Appended', (m) => when(m.appended_at)],
    ['Topic', (m) => m.topic, 'clip'],
    ['Key', (m) => m.key, 'clip'],
    ['Type', (m) => m.type, 'clip'],
    ['Tenant', (m) => m.tenant, 'clip'],
    ['Size', (m) => bytes(m.payload_size), 'number'],
    ['Note', note, 'wide'],
    ['Seq', (m) => count(m.seq), 'number'],
    ['Event', (m) => idLink('messages', m.id), 'head'],
  ]);
}

function nothing(filtered, older) {
  if (older) return empty(h('p', 'There are no older events.'));
  if (filtered) {
    return empty(h('p', 'No event matches. Every field is compared exactly, with all that is in the log.'), h('p', h('a', { href: '/messages' }, 'Show all events')));
  }
  return empty(h('p', 'The log is empty. This makes a first event, in the transaction it is run in:'),
    h('div.line', h('code', { tabindex: '0' }, example()), copyButton(example(), 'the statement')));
}

export function open(place) {
  const { query } = place;
  const wanted = asked(query, common, rare);
  const before = query.get('before');
  const filtered = Object.entries(wanted).some(([name, value]) => value && name !== 'limit');
  let seen = null; // the newest number of the log when the list was read
  const page = (value) => address('/messages', { ...wanted, before: value });
  const pane = new Pane(place,
    async (signal) => {
      const high = live.overview?.seq_high ?? 0;
      const answer = await get('/messages', { ...wanted, since: moment(wanted.since), until: moment(wanted.until), before }, signal);
      seen = Math.max(high, answer.messages[0]?.seq ?? 0);
      return answer;
    },
    ({ messages, next_before: next }) => [
      messages.length ? list(messages) : nothing(filtered, before),
      h('nav.pages', { 'aria-label': 'Pages' },
        before && h('a', { href: page() }, '← Newest'),
        messages.length > 0 && h('span.quiet', plural(messages.length, 'event'), ', newest first'),
        next !== undefined && h('a', { href: page(next), rel: 'next' }, 'Older →')),
    ]);
  // Numbers of transactions that were rolled back are missing in the log, so this is an upper bound.
  return pane.screen('Messages', [filter('/messages', query, common, rare)], ({ seq_high: high }) => {
    if (!before && seen !== null && high > seen) pane.offer(`${high - seen === 1 ? '1' : `Up to ${count(high - seen)}`} new, show`);
  });
}
