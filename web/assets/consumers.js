// How each consumer stands, where it is in its partitions, and what it did last.
import { get } from './api.js';
import { resumeCommand } from './commands.js';
import { h, morph } from './dom.js';
import { count, counted, plural } from './format.js';
import { live } from './live.js';
import { consumersSummary } from './overview.js';
import { Pane } from './pane.js';
import { asked, command, empty, error, filter, idLink, refused, rowsField, state, table } from './parts.js';
import { when } from './time.js';

const fields = [['state', 'State', ['PROCESSED', 'IGNORED', 'RECEIVED', 'GAP', 'FAILED', 'DEAD', 'SKIPPED']], ['topic', 'Topic'], ['aggregate_type', 'Aggregate type'], ['aggregate_id', 'Aggregate id'], rowsField];

const standings = { reads: 'reads', no_position: 'no position yet' };

function partitions(consumer) {
  const list = consumer.partitions;
  if (list.length === 0) return empty(h('p', 'It has no partition on record.'));
  const rows = table(`Partitions of ${consumer.consumer}`, list, [
    ['Topic', (p) => p.topic, 'head wide'],
    ['Partition', (p) => count(p.partition), 'number'],
    ['Epoch', (p) => count(p.epoch), 'number'],
    ['Next offset', (p) => count(p.next_offset), 'number'],
    ['Attached', (p) => (p.attached ? 'yes' : 'no')],
    ['State', (p) => (p.state === 'stopped' ? h('b', 'stopped') : standings[p.state] ?? `resumes from ${p.resume_from}`), 'wide'],
  ], (p) => p.state === 'stopped' && [h('p', error(p.stop_code, p.stop_message)), command(resumeCommand(p))]);
  return list.length <= 8 || consumer.stopped ? rows : h('details', h('summary', plural(list.length, 'partition')), rows);
}

function byState(consumer) {
  const list = Object.entries(consumer.receipts);
  if (list.length === 0) return null;
  return h('ul.counts', list.map(([name, number]) => h('li',
    h('a', { href: `/consumers?consumer=${encodeURIComponent(consumer.consumer)}&state=${encodeURIComponent(name)}` }, state(name), ' ', h('b', counted(number, !consumer.more_receipts))))));
}

function receipts({ receipts: list, more }) {
  if (list.length === 0) return empty(h('p', 'No receipt matches.'));
  return [
    table('Receipts, newest first', list, [
      ['State', (r) => state(r.state)],
      ['Received', (r) => when(r.received_at)],
      ['Finished', (r) => when(r.finished_at)],
      ['From', (r) => `${r.topic}[${r.partition}] at ${count(r.offset)}`, 'wide'],
      ['Type', (r) => r.type, 'wide'],
      ['Aggregate', (r) => [r.aggregate_type, r.aggregate_id, r.aggregate_version !== undefined && `v${r.aggregate_version}`].filter(Boolean).join(' '), 'wide'],
      ['Reason', (r) => error(r.code, r.message), 'wide'],
      ['Event', (r) => idLink('messages', r.id), 'head'],
    ]),
    more && h('p.quiet.after', `The newest ${count(list.length)}. There are more; a filter finds them.`),
  ];
}

export function open(place) {
  const { query } = place;
  let chosen = query.get('consumer');
  let read = false;
  let seen = null;
  const summary = h('div', h('p.loading', 'Reading…'));
  const detail = h('div');
  const pane = new Pane(place, (signal) => {
    seen = null;
    return get('/receipts', { ...asked(query, fields), consumer: chosen }, signal);
  }, receipts);
  const title = h('h2', 'Newest receipts');
  const list = h('section', { hidden: true }, h('div.head', title, pane.tools), pane.root);
  const look = (overview) => {
    if (!overview.as_of) return;
    if (overview.consumers_problem) {
      morph(summary, h('div', refused(overview.consumers_problem)));
      return;
    }
    const consumers = overview.consumers ?? [];
    if (consumers.length === 0) {
      morph(summary, h('div', empty(h('p', 'No consumer keeps an inbox in this store. ', h('code', 'sealane consume'), ' starts one.'))));
      return;
    }
    chosen ??= consumers[0].consumer;
    const consumer = consumers.find((one) => one.consumer === chosen);
    morph(summary, h('div', consumersSummary(consumers, chosen)));
    morph(detail, h('div', consumer
      ? [h('h2', consumer.consumer, ' by partition'), partitions(consumer), byState(consumer)]
      : empty(h('p', `This store has no inbox of a consumer named ${chosen}.`))));
    if (!consumer) return;
    title.textContent = `Newest receipts of ${chosen}`;
    list.hidden = false;
    if (consumer.mode === 'offsets') {
      pane.tools.hidden = true;
      pane.content.replaceChildren(empty(h('p', 'This consumer keeps positions of partitions instead of a receipt per event.')));
      return;
    }
    if (!read) {
      read = true;
      list.insertBefore(filter('/consumers', query, fields, [], { consumer: chosen }), pane.root);
      pane.read();
    }
    const total = Object.values(consumer.receipts).reduce((sum, number) => sum + number, 0);
    seen ??= total;
    if (total !== seen) pane.offer('New receipts, show');
  };
  return {
    nodes: [h('h1', 'Consumers'), summary, detail, list],
    look,
    refresh: () => pane.read(),
    recovered: () => pane.recovered(),
    start: () => live.overview && look(live.overview),
  };
}
