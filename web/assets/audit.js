// What operators decided, newest first.
import { get } from './api.js';
import { h } from './dom.js';
import { count } from './format.js';
import { Pane } from './pane.js';
import { empty, table } from './parts.js';
import { when } from './time.js';

function draw({ records, more }, limit) {
  if (records.length === 0) return empty(h('p', 'Nobody has decided anything here yet. Every retry, skip, discard, pause and limit leaves a record with its reason.'));
  return [
    table('Decisions, newest first', records, [
      ['When', (r) => when(r.at)],
      ['Who', (r) => r.actor, 'wide'],
      ['Login', (r) => [r.login, r.client, r.application].filter(Boolean).join(' · '), 'wide'],
      ['Did', (r) => r.action, 'head'],
      ['To what', (r) => h('span.verbatim', r.target), 'wide'],
      ['Why', (r) => h('span.verbatim', r.reason), 'wide'],
    ]),
    more && h('p.quiet.after', `The newest ${count(records.length)}. `, limit !== '200' && h('a', { href: '/audit?limit=200' }, 'Show 200')),
  ];
}

export function open(place) {
  const limit = place.query.get('limit');
  const pane = new Pane(place, (signal) => get('/audit', { limit }, signal), (data) => draw(data, limit));
  return pane.screen('Audit');
}
