// The life of one event in wall time, with its waits. Every step was timed by the clock of the machine that made it, so a
// step can seem to come before the one that caused it. That is shown as what it is, clock skew, and not as a negative wait.
import { h } from './dom.js';
import { dated, duration, timeOfDay } from './format.js';
import { serverNow } from './time.js';

const length = (ms) => (ms < 1000 ? `${ms} ms` : duration(ms / 1000));

function parse(text) {
  const at = Date.parse(text ?? '');
  return Number.isFinite(at) ? at : null;
}

// Steps as {lane, text, at, cause, mark, expected}.
function collect({ message, relay = [], receipts = [], consumers = [] }) {
  const steps = [];
  const add = (lane, text, time, cause, mark = 'calm') => {
    const at = parse(time);
    if (at === null) return cause ?? null;
    const step = { lane, text, at, cause, mark, expected: at > serverNow().getTime() };
    steps.push(step);
    return step;
  };
  const addFailures = (lane, item, cause) => {
    const mark = item.state === 'DEAD' ? 'wrong' : 'notice';
    const once = item.last_failed_at === item.first_failed_at;
    const first = add(lane, once ? `failed: ${item.state}` : 'failed for the first time', item.first_failed_at, cause, once ? mark : 'notice');
    return once ? first : add(lane, `failed at attempt ${item.attempts}: ${item.state}`, item.last_failed_at, first, mark);
  };
  const appended = add('outbox', 'appended', message?.appended_at, null);
  if (message?.available_at && message.available_at > message.appended_at) add('outbox', 'available from now on', message.available_at, appended);
  for (const route of message?.routes ?? []) {
    const lane = `route ${route.route}`;
    const letter = relay.find((one) => one.route === route.route);
    if (!letter && route.next_attempt_at) add(lane, 'next attempt', route.next_attempt_at, appended, 'notice');
    add(lane, `noted as published${route.attempts > 1 ? ` at attempt ${route.attempts}` : ''}`, route.published_at, appended, 'good');
  }
  for (const letter of relay) {
    const lane = `route ${letter.route}`;
    const failed = addFailures(lane, letter, appended);
    add(lane, 'next attempt', letter.next_attempt_at, failed, 'notice');
  }
  for (const receipt of receipts) {
    const lane = `consumer ${receipt.consumer}`;
    const received = add(lane, 'received', receipt.received_at, appended);
    add(lane, `finished: ${receipt.state}`, receipt.finished_at, received, ['DEAD', 'FAILED'].includes(receipt.state) ? 'wrong' : 'good');
  }
  for (const parked of consumers) {
    const lane = `consumer ${parked.consumer}`;
    const received = steps.find((step) => step.lane === lane) ?? appended;
    const why = { RECEIVED: 'set aside behind an earlier event', GAP: 'set aside until the version before it comes' }[parked.state];
    const aside = why ? add(lane, why, parked.parked_at, received, 'notice') : addFailures(lane, parked, received);
    add(lane, 'next attempt', parked.next_attempt_at, aside, 'notice');
    add(lane, 'does not wait for the version before it any longer', parked.gap_until, aside, 'notice');
  }
  return steps;
}

// A step stands behind its cause, whatever its clock said. What the same clock says afterwards is moved by as much.
function order(steps) {
  for (const step of steps) {
    const { cause } = step;
    step.skew = cause ? cause.at - step.at : 0;
    const moved = cause && cause.lane === step.lane ? cause.place - cause.at : 0;
    step.place = Math.max(step.at + moved, cause?.place ?? -Infinity);
  }
  return steps.map((step, i) => [step, i]).sort(([a, i], [b, j]) => a.place - b.place || i - j).map(([step]) => step);
}

export function timeline(data) {
  const steps = order(collect(data));
  if (steps.length === 0) return null;
  const longest = Math.max(1, ...steps.map((step, i) => (i ? step.place - steps[i - 1].place : 0)));
  const lines = steps.map((step, i) => {
    const wait = i ? step.place - steps[i - 1].place : 0;
    // CSSOM instead of a style attribute: the latter is forbidden here.
    const bar = h('span.wait-bar', { 'aria-hidden': 'true' });
    bar.style.width = `${Math.max(wait > 0 ? 2 : 0, (wait / longest) * 100)}%`;
    return h('li', { class: `${step.mark}${step.expected ? ' expected' : ''}` },
      i > 0 && h('div.wait', h('span.wait-text', wait > 0 ? length(wait) : 'at once'), h('span.wait-track', bar)),
      h('div.step',
        h('span.at', { title: `${dated(new Date(step.at))} here, ${new Date(step.at).toISOString()}` }, timeOfDay(new Date(step.at), true)),
        h('span.lane.verbatim', step.lane),
        h('span', step.text, step.expected && h('span.quiet', ' (expected)'),
          step.skew > 0 && h('span.skew', ` clock skew: by its own clock ${length(step.skew)} before ${step.cause.text} (${step.cause.lane})`))));
  });
  const end = steps.filter((step) => !step.expected).at(-1);
  return [h('ol.timeline', lines), h('p.quiet',
    end && end !== steps[0] && `${length(end.place - steps[0].place)} so far. `, 'Relays note what is published a few times a second; a consumer can be quicker.')];
}
