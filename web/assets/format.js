// Numbers, lengths and times as text. English with grouped digits, the same as the command line prints.

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat('en-US', { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const dash = '–';

export function count(value) {
  return Number.isFinite(value) ? whole.format(value) : dash;
}

// A number that is only known to be a lower bound says so.
export function counted(value, exact) {
  return exact === false ? `≥ ${count(value)}` : count(value);
}

export function rate(value) {
  if (!Number.isFinite(value)) return dash;
  return value >= 99.95 || value === 0 ? whole.format(value) : tenth.format(value);
}

export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function bytes(value) {
  if (!Number.isFinite(value)) return dash;
  if (value < 1024) return plural(value, 'byte');
  const kib = value / 1024;
  return kib < 1024 ? `${tenth.format(kib)} KiB` : `${tenth.format(kib / 1024)} MiB`;
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return dash;
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds < 0.0995) return `${whole.format(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${tenth.format(seconds)} s`;
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min${s % 60 ? ` ${s % 60} s` : ''}`;
  const m = Math.round(seconds / 60);
  if (m < 1440) return `${Math.floor(m / 60)} h${m % 60 ? ` ${m % 60} min` : ''}`;
  const hours = Math.round(seconds / 3600);
  return `${whole.format(Math.floor(hours / 24))} d${hours % 24 ? ` ${hours % 24} h` : ''}`;
}

export function milliseconds(value) {
  if (!Number.isFinite(value)) return dash;
  return value < 9.95 ? `${tenth.format(value)} ms` : duration(value / 1000);
}

const two = (value) => String(value).padStart(2, '0');

// The time of day here, where the reader is.
export function timeOfDay(date, precise = false) {
  const text = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return precise ? `${text}.${String(date.getMilliseconds()).padStart(3, '0')}` : text;
}

function day(date) {
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

// Today's times need no date.
export function absolute(date, now) {
  return day(date) === day(now) ? timeOfDay(date) : `${day(date)} ${timeOfDay(date)}`;
}

export function dated(date) {
  return `${day(date)} ${timeOfDay(date, true)}`;
}

// Ages are coarse, so that a list does not flicker.
export function relative(date, now) {
  const seconds = (now - date) / 1000;
  const ago = Math.abs(seconds);
  if (ago < 1) return 'now';
  const text = ago < 60 ? `${Math.floor(ago)} s`
    : ago < 3600 ? `${Math.floor(ago / 60)} min`
    : ago < 86400 ? `${Math.floor(ago / 3600)} h`
    : `${count(Math.floor(ago / 86400))} d`;
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}
