// Numbers and times as people read them.

const whole = new Intl.NumberFormat('en');
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });

/** 1234 → "1,234"; small fractions keep one digit. */
export function count(n) {
  return whole.format(Number.isInteger(n) || n >= 10 ? Math.round(n) : Math.round(n * 10) / 10);
}

/** Milliseconds: "840 ms", "4.2 s", "3 min 20 s", "2 h 5 min". */
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return s % 60 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${s / 60} min`;
  const m = Math.floor(s / 60);
  return m % 60 ? `${Math.floor(m / 60)} h ${m % 60} min` : `${m / 60} h`;
}

/** A time of day from milliseconds since 1970. */
export function time(ms) {
  return clock.format(ms);
}

/** A share: "12 %", "0.4 %". */
export function percent(part, of) {
  if (!of) return '0 %';
  const p = (100 * part) / of;
  return p > 0 && p < 1 ? '< 1 %' : `${Math.round(p)} %`;
}

/** "1 request", "3 requests". */
export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** "a", "a and b", "a, b and c". */
export function list(words) {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}

/** Kibibytes: "38 MiB". */
export function kib(n) {
  return n < 10_240 ? `${count(n)} KiB` : `${count(Math.round(n / 1024))} MiB`;
}
