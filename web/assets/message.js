// Everything that is known about one event. Its payload is not: this page can be left open on a screen that others see.
import { get } from './api.js';
import { inboxCommands, relayCommands, showCommand } from './commands.js';
import { h } from './dom.js';
import { bytes, count } from './format.js';
import { Pane } from './pane.js';
import { command, empty, error, facts, section, state, table } from './parts.js';
import { when } from './time.js';
import { timeline } from './timeline.js';

function header(m) {
  const aggregate = [m.aggregate_type, m.aggregate_id, m.aggregate_version !== undefined && `version ${m.aggregate_version}`].filter(Boolean).join(' ');
  return facts([
    ['State', state(m.status)],
    ['Id', m.id, m.id],
    ['Topic', m.topic, m.topic],
    ['Key', m.key, m.key],
    ['Type', `${m.type} version ${m.schema_version}${m.kind && m.kind !== 'event' ? ` (${m.kind})` : ''}`],
    ['Tenant', m.tenant],
    ['Seq', `${count(m.seq)}, lane ${count(m.lane)}`],
    ['Appended', when(m.appended_at)],
    ['Occurred', m.occurred_at && when(m.occurred_at)],
    ['Available from', m.available_at && when(m.available_at)],
    ['Aggregate', aggregate],
    ['Correlation', m.correlation_id && h('a', { href: `/messages?correlation_id=${encodeURIComponent(m.correlation_id)}` }, m.correlation_id), m.correlation_id],
    ['Causation', m.causation_id, m.causation_id],
    ['Trace', m.traceparent, m.traceparent],
    ['Trace state', m.tracestate, m.tracestate],
    ['Producer', m.producer],
    ['Schema', m.schema_id],
  ]);
}

function routes(m) {
  return section('Routes', table('Where the event stands on each route', m.routes, [
    ['Route', (r) => r.route, 'head'],
    ['State', (r) => state(r.status)],
    ['Attempts', (r) => count(r.attempts), 'number'],
    ['Published', (r) => when(r.published_at)],
    ['Next attempt', (r) => when(r.next_attempt_at)],
    ['Last error', (r) => error(r.last_error_code, r.last_error_message), 'wide'],
  ]));
}

function consumers(receipts) {
  if (receipts.length === 0) return section('Consumers', empty(h('p', 'No consumer has a receipt for it in this store.')));
  return section('Consumers', table('What consumers did with the event', receipts, [
    ['Consumer', (r) => h('a', { href: `/consumers?consumer=${encodeURIComponent(r.consumer)}` }, r.consumer), 'head'],
    ['State', (r) => state(r.state)],
    ['From', (r) => `${r.topic}[${r.partition}] at ${count(r.offset)}`, 'wide'],
    ['Received', (r) => when(r.received_at)],
    ['Finished', (r) => when(r.finished_at)],
    ['Reason', (r) => error(r.code, r.message), 'wide'],
  ]));
}

// What a relay or a consumer has set aside, and the commands that decide about it.
function decide(item) {
  return h('article.decide',
    h('h3', item.consumer ? `Consumer ${item.consumer} ` : `Route ${item.route} `, state(item.state, item.skipped && 'skipped')),
    h('p', item.state === 'RECEIVED' || item.state === 'WAITING' ? 'It waits behind an earlier event of its key. Decide about that one; this one follows.' : error(item.error_code, item.error_message)),
    facts([['Key', item.unit], ['Attempts', count(item.attempts)], ['Waiting behind it', count(item.followers)], ['Since', when(item.parked_at ?? item.first_failed_at)],
      ['Next attempt', item.next_attempt_at && when(item.next_attempt_at)], ['Waits for the gap until', item.gap_until && when(item.gap_until)]]),
    (item.consumer ? inboxCommands : relayCommands)(item).map(command));
}

function headers(m) {
  const list = Object.entries(m.headers ?? {});
  if (list.length === 0) return null;
  return section('Headers', table('Headers', list, [['Name', ([name]) => name, 'head wide'], ['Value', ([, value]) => h('span.verbatim', value), 'wide']]));
}

function payload(m) {
  return section('Payload',
    facts([['Size', bytes(m.payload_size)], ['Content type', m.content_type], ['SHA-256', m.payload_sha256, m.payload_sha256]]),
    h('p', 'Payloads are not shown here. This command shows it to those who may read the store:'), command(showCommand(m.id)));
}

function draw(data, id) {
  const { message, relay = [], receipts = [], consumers: parked = [] } = data;
  const open = [...relay, ...parked].map(decide);
  return [
    message ? header(message) : empty(h('p', 'The log does not have this event, or not any more. What relays and consumers know about it is below.'), facts([['Id', id, id]])),
    open.length > 0 && section('Set aside', open),
    section('Life', timeline(data) ?? empty(h('p', 'Nothing is known about when.'))),
    message && routes(message),
    consumers(receipts),
    message && headers(message),
    message && payload(message),
  ];
}

export function open(place) {
  const pane = new Pane(place, (signal) => get(`/messages/${place.id}`, null, signal), (data) => draw(data, place.id));
  return pane.screen(['Message ', h('span.mono', place.id)]);
}
