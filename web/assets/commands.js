// The commands that an operator would run next. They are pasted into a shell, so everything that comes from a store is
// quoted for it.
import { live } from './live.js';

export function shellWord(text) {
  const word = String(text);
  if (/^[A-Za-z0-9_@%+=:,.\/-]+$/.test(word)) return word;
  // A control character would act on the terminal that it is pasted into.
  if (/[\0-\x1f\x7f-\x9f]/.test(word)) {
    return `$'${word.replace(/[\\']/g, '\\$&').replace(/[\0-\x1f\x7f-\x9f]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)}'`;
  }
  return `'${word.replaceAll("'", "'\\''")}'`;
}

function sealane(words) {
  const flags = live.overview?.command_flags;
  return `sealane ${words}${flags ? ` ${flags}` : ''}`;
}

const reason = '--reason "..."';
const again = 'now, its attempts counted from zero; those behind it follow in order';

export function showCommand(id) {
  return { text: sealane(`messages get ${shellWord(id)}`) };
}

export function relayCommands(letter) {
  const place = `${shellWord(letter.id)} --route ${shellWord(letter.route)} ${reason}`;
  // What waits behind another event is not the one to decide about.
  if (letter.state === 'WAITING') return [];
  return [
    { label: 'Retry', note: again, text: sealane(`dead retry ${place}`) },
    letter.state !== 'DISCARDED' && { label: 'Discard', note: 'it is never published; those behind it go on', text: sealane(`dead discard ${place}`) },
    letter.state !== 'DISCARDED' && !letter.skipped && { label: 'Skip', note: 'it stays dead and can be retried later, out of order; those behind it go on', text: sealane(`dead skip ${place}`) },
  ].filter(Boolean);
}

export function inboxCommands(parked) {
  const place = `${shellWord(parked.id)} --consumer ${shellWord(parked.consumer)} ${reason}`;
  if (parked.state === 'SKIPPED' && parked.error_code === 'too_old') {
    return [{ label: 'Retry', note: 'it may have been applied before: check its effect first', text: sealane(`inbox retry ${place} --may-apply-twice`) }];
  }
  if (parked.state === 'RECEIVED' || parked.state === 'SKIPPED') return [];
  return [
    { label: 'Retry', note: parked.state === 'GAP' ? 'it goes on waiting while the earlier version is missing' : again, text: sealane(`inbox retry ${place}`) },
    { label: 'Skip', note: 'it is never applied and counts as seen; those behind it go on', text: sealane(`inbox skip ${place}`) },
  ];
}

export function resumeCommand(position) {
  const place = `--consumer ${shellWord(position.consumer)} --topic ${shellWord(position.topic)} --partition ${position.partition}`;
  return { label: 'Resume', note: 'everything that the topic still has is read again; other places: now, group, an offset, a time', text: sealane(`inbox resume ${place} --from beginning ${reason}`) };
}

export function taskCommands(task) {
  const place = `${shellWord(task.id)} ${reason}`;
  if (task.state !== 'FAILED' && task.state !== 'DEAD' && task.state !== 'PENDING') return [];
  return [
    { label: 'Retry', note: 'now, its attempts counted from zero, with the same key', text: sealane(`tasks retry ${place}`) },
    { label: 'Discard', note: 'it is never sent again; those behind it in its order go on', text: sealane(`tasks discard ${place}`) },
  ].slice(task.state === 'PENDING' ? 1 : 0);
}

export function taskShowCommand(id) {
  return { text: sealane(`tasks show ${shellWord(id)}`) };
}
