// What is wrong right now, in words: from the last rows and what is the case, and nothing else.
//
// A finding: { level: 'bad' | 'warn', rank, short, text, more, panel }. Causes rank before what they cause:
// a cache or an upstream that stalls keeps workers busy, busy workers fill the queue, and a full
// queue fails requests. `short` is for the title of the tab, `text` says what, `more` how much.

import { count, duration, list, percent, plural } from './format.js';

/** Seconds that count as "now". */
const NOW = 30;
/** A worker that has had one request for so long is worth a word; milliseconds. */
export const LONG = 2000;

/** The findings, the worst first. */
export function diagnose(model) {
  if (!model.now) return [];
  const found = [
    starting(model),
    ...circuits(model),
    journal(model),
    cacheTimeouts(model),
    ...[...model.upstreams.keys()].map((name) => upstream(model, name)),
    workers(model),
    backingOff(model),
    queue(model),
    failures(model),
  ].filter(Boolean);
  const level = (finding) => (finding.level === 'bad' ? 0 : 1);
  return found.sort((a, b) => level(a) - level(b) || a.rank - b.rank);
}

/** One sentence where nothing is wrong. */
export function allIsWell(model) {
  const requests = model.sum('http.requests', 60);
  const failed = failedBy(model, 60).reduce((sum, [, n]) => sum + n, 0);
  if (requests === 0 && model.now.requests.total === 0) return 'All is well, and quiet: no request in the last minute.';
  const parts = [plural(requests, 'request') + ' in the last minute', failed === 0 ? 'none failed' : `${count(failed)} failed`];
  const idle = model.now.workers.filter((worker) => worker.state === 'idle').length;
  if (model.now.workers.length > 0) parts.push(`${idle} of ${plural(model.now.workers.length, 'worker')} idle`);
  return `All is well: ${list(parts)}.`;
}

/** Failures of the last `seconds` by class, the most first; a client that left is none. */
export function failedBy(model, seconds) {
  return model
    .names('failed.')
    .filter((name) => name !== 'client_closed')
    .map((name) => [name, model.sum(`failed.${name}`, seconds)])
    .filter(([, n]) => n > 0)
    .sort((a, b) => b[1] - a[1]);
}

/**
 * For how long a worker has owed an answer, in milliseconds; 0 where it owes none. A stream may take as
 * long as it likes. A worker whose client has gone still owes it: it is not free.
 */
export function waits(worker) {
  if (worker.state !== 'busy') return 0;
  if (!worker.on) return worker.state_ms;
  return worker.on.phase === 'working' ? worker.on.phase_ms : 0;
}

/** The workers that owe an answer, those that have for long, and on what path most of them. */
function held(model) {
  const waiting = model.now.workers.filter((worker) => waits(worker) > 0);
  const long = waiting.filter((worker) => waits(worker) >= LONG);
  const paths = new Map();
  for (const { on } of long.length > 0 ? long : waiting) if (on) paths.set(on.path, (paths.get(on.path) ?? 0) + 1);
  const most = [...paths].sort((a, b) => b[1] - a[1])[0]?.[0];
  return { waiting, long, oldest: Math.max(0, ...waiting.map(waits)), path: most, others: paths.size - 1 };
}

/** For how many seconds up to now a column has been zero, but for a second now and then. */
function zeroFor(cells) {
  let seconds = 0;
  for (let misses = 0; seconds < cells.length && misses < 3; seconds++) misses = cells.at(-1 - seconds) === 0 ? 0 : misses + 1;
  return seconds;
}

function starting(model) {
  if (model.now.ready || model.now.workers.length === 0) return null;
  const error = model.events.findLast((event) => event.kind === 'worker.boot_failed' || event.kind === 'worker.exited');
  const why = error ? ` The last one: ${error.detail}.` : '';
  return { level: 'bad', rank: 0, panel: 'workers', short: 'no worker is ready', text: `No worker is ready: no request can be served.${why}` };
}

const CAUSES = {
  rate: (move) => `${count(move.failures)} of ${plural(move.calls, 'call')} had failed`,
  stall: () => 'it answered nothing at all',
  probe_failed: () => 'a probe failed',
  override: () => 'somebody holds it open',
};

function circuits(model) {
  return model.now.breakers.breakers.map((breaker) => {
    const move = model.moves.findLast((move) => move.name === breaker.name && move.to === 'open');
    const first = model.moves.filter((move) => move.name === breaker.name && move.from === 'closed').at(-1);
    const why = move && CAUSES[(first ?? move).cause]?.(first ?? move);
    const because = why ? ` because ${why}` : '';
    if (breaker.state !== 'closed') {
      const since = first ? duration(model.now.at - first.at) : duration(breaker.since_ms);
      const half = breaker.state === 'half_open' ? ', now trying again' : '';
      return breaker.name === 'cache' ? cacheOpen(model, since, because, half) : upstreamOpen(model, breaker.name, since, because, half);
    }
    const closed = model.moves.findLast((move) => move.name === breaker.name && move.to === 'closed');
    if (!closed || !first || model.now.at - closed.at > 60_000) return null;
    const ago = duration(model.now.at - closed.at);
    const text = `${title(breaker.name)} answers again since ${ago}; it was shed for ${duration(closed.at - first.at)}${because}.`;
    return { level: 'warn', rank: 8, panel: 'breakers', short: `${breaker.name} is back`, text };
  });
}

function title(name) {
  return name === 'cache' ? 'The cache' : `The upstream ${name}`;
}

function cacheOpen(model, since, because, half) {
  const shed = model.sum('cache.shed', 60);
  const landed = model.sum('cache.repairs_landed', 60);
  const cache = model.now.cache;
  const parts = [`${plural(shed, 'read')} shed in the last minute`];
  const paid = model.sum('cache.timeout', 60);
  if (paid > 0) parts.push(`${count(paid)} had waited in vain`);
  if (landed > 0) parts.push(`${plural(landed, 'repair')} landed`);
  else if (cache?.repair_gate === 'closed') parts.push('writes are not tried either');
  if (cache?.journal_depth > 0) parts.push(`${plural(cache.journal_depth, 'invalidation')} journalled`);
  const text = `The cache store ${cache?.store ?? ''} does not answer: its circuit has been open for ${since}${because}${half}.`;
  return { level: 'bad', rank: 1, panel: 'cache', short: 'the cache store does not answer', text, more: `${sentence(parts)} Requests go on without it.` };
}

function upstreamOpen(model, name, since, because, half) {
  const own = model.upstreams.has(name) ? name : [...model.upstreams.keys()].find((known) => name.startsWith(`${known} `));
  const shed = own ? model.sum('shed', 60, own) : 0;
  const more = shed > 0 ? `${plural(shed, 'call')} ${shed === 1 ? 'was' : 'were'} refused at once in the last minute.` : '';
  const text = `The upstream ${name} is shed: its circuit has been open for ${since}${because}${half}.`;
  return { level: 'bad', rank: 2, panel: 'breakers', short: `${name} is shed`, text, more };
}

function journal(model) {
  const lost = model.now.cache?.journal_overflowed ?? [];
  if (lost.length === 0) return null;
  const text = `The journal of invalidations overflowed: reads of ${lost.length === 1 ? 'database' : 'databases'} ${list(lost)} stay shed until POST /admin/cache/resume.`;
  return { level: 'bad', rank: 1, panel: 'cache', short: 'the journal overflowed', text };
}

function cacheTimeouts(model) {
  if (!model.now.cache || model.now.cache.state !== 'closed') return null;
  const slow = model.sum('cache.timeout', NOW) + model.sum('cache.error', NOW);
  const reads = ['hit', 'miss', 'stale', 'shed'].reduce((sum, name) => sum + model.sum(`cache.${name}`, NOW), slow);
  if (slow < 3 || slow < reads * 0.05) return null;
  const text = `The cache answers late: ${count(slow)} of ${plural(reads, 'read')} in the last ${NOW} s got no answer in time.`;
  return { level: 'warn', rank: 3, panel: 'cache', short: 'the cache answers late', text };
}

/** A call out that is slow, fails, or needs a twin more often than the budget allows. */
function upstream(model, name) {
  const sum = (column) => model.sum(column, NOW, name);
  const calls = sum('calls');
  const failed = sum('failed');
  const settled = sum('succeeded') + failed;
  const hedges = sum('hedges');
  const refused = sum('suppressed');
  const open = model.last('in_flight', name);
  const [before, now] = pace(model, name);
  const slow = before > 0 && now >= Math.max(2 * before, before + 200);
  const failing = failed >= 3 && failed >= settled * 0.2;
  const twins = calls + open >= 5 && hedges + refused >= Math.max(3, (calls + open) * 0.25);
  if (!slow && !failing && !twins) return null;
  const what = failing ? 'fails' : slow ? 'has become slow' : 'goes quiet';
  const worst = [];
  if (slow) worst.push(`1 call in 20 takes ${duration(now)} or longer, before it was ${duration(before)}`);
  if (failing) worst.push(`${count(failed)} of ${plural(settled, 'call')} failed in the last ${NOW} s`);
  if (worst.length === 0) worst.push(`${count(hedges + refused)} of ${plural(calls, 'call')} wanted a twin in the last ${NOW} s`);
  const parts = [];
  if (hedges > 0) parts.push(`${count(hedges)} of ${plural(calls, 'call')} got a twin in the last ${NOW} s, ${count(sum('hedges_won'))} of which won`);
  if (refused > 0) parts.push(`${plural(refused, 'more twin')} ${refused === 1 ? 'was' : 'were'} refused, mostly for ${reason(model, name)}`);
  if (failed > 0 && !failing) parts.push(`${plural(failed, 'call')} failed`);
  if (open >= 5) parts.push(`${plural(open, 'call')} are open`);
  const text = `The upstream ${name} ${what}: ${list(worst)}.`;
  const level = failing || (slow && twins) || refused >= Math.max(5, calls * 0.2) ? 'bad' : 'warn';
  return { level, rank: 2, panel: 'upstreams', short: `upstream ${name} ${what}`, text, more: sentence(parts) };
}

/** Why most twins were refused, since the start. */
function reason(model, name) {
  const reasons = Object.entries(model.now.usage.upstreams[name]?.suppressed ?? {}).sort((a, b) => b[1] - a[1]);
  const words = { budget: 'want of budget', endpoint: 'want of another endpoint', unsafe: 'being unsafe to repeat' };
  return words[reasons[0]?.[0]] ?? `"${reasons[0]?.[0]}"`;
}

/** The 95th percentile of calls: usual (the median of the seconds before), and of late (the worst). */
function pace(model, name) {
  const cells = model.cells('p95_ms', name);
  const from = model.from(NOW);
  const earlier = cells.slice(0, from).filter((ms) => ms > 0).sort((a, b) => a - b);
  const recent = cells.slice(from).filter((ms) => ms > 0).sort((a, b) => a - b);
  if (earlier.length < 5 || recent.length === 0) return [0, 0];
  return [earlier[earlier.length >> 1], recent[recent.length >> 1]];
}

function workers(model) {
  const all = model.now.workers.length;
  if (all === 0) return null;
  const { waiting, long, oldest, path, others } = held(model);
  const killed = model.sum('restarts.timeout', 60);
  const none = zeroFor(model.cells('workers.idle'));
  const stuck = none >= 3 && waiting.length > 0 && (long.length * 2 >= all || killed > 0);
  if (!stuck && long.length === 0) return null;
  const who = stuck ? waiting.length : long.length;
  const where = path === undefined ? '' : ` on ${path}${others > 0 ? ` and ${plural(others, 'other path')}` : ''}`;
  const those = `${count(who)} of ${plural(all, 'worker')}`;
  const text = stuck
    ? `${those} ${who === 1 ? 'hangs' : 'hang'}${where}: no answer for up to ${duration(oldest)}.`
    : `${those} ${who === 1 ? 'has' : 'have'} been busy${where} for ${duration(oldest)}.`;
  const parts = [];
  if (stuck) parts.push(`no worker has been idle for ${duration(none * 1000)}`);
  const waits = model.now.queue.depth;
  if (waits > 0) parts.push(`${plural(waits, 'request')} ${waits === 1 ? 'waits' : 'wait'} for one`);
  const turned = model.sum('queue.timeouts', 60) + model.sum('queue.rejected', 60);
  if (turned > 0) parts.push(`${count(turned)} gave up waiting or were turned away in the last minute`);
  if (killed > 0) parts.push(`${plural(killed, 'worker')} ${killed === 1 ? 'was' : 'were'} killed for not answering`);
  return { level: stuck ? 'bad' : 'warn', rank: 4, panel: 'workers', short: `${those} ${stuck ? 'hang' : 'are slow'}${where}`, text, more: sentence(parts) };
}

function backingOff(model) {
  const resting = model.now.workers.filter((worker) => worker.state === 'backing_off').length;
  if (resting === 0 || !model.now.ready) return null;
  const error = model.events.findLast((event) => event.kind === 'worker.boot_failed' || event.kind === 'worker.exited');
  const why = error ? ` The last one: ${error.detail}.` : '';
  const text = `${plural(resting, 'worker')} died or did not boot, and will be started again later.${why}`;
  return { level: 'warn', rank: 4, panel: 'workers', short: 'workers die', text };
}

function queue(model) {
  const turned = model.sum('queue.rejected', NOW);
  const late = model.sum('queue.timeouts', NOW);
  const { depth, capacity } = model.now.queue;
  if (turned + late === 0 && (capacity === 0 || depth < capacity * 0.8)) return null;
  const parts = [];
  if (turned > 0) parts.push(`${plural(turned, 'request')} found it full`);
  if (late > 0) parts.push(`${plural(late, 'request')} waited too long`);
  parts.push(`${count(depth)} of ${plural(capacity, 'place')} are taken`);
  const text = `The queue for workers overflows: in the last ${NOW} s ${list(parts)}.`;
  return { level: turned + late > 0 ? 'bad' : 'warn', rank: 5, panel: 'queue', short: 'the queue overflows', text };
}

function failures(model) {
  const all = model.sum('http.requests', NOW);
  const by = failedBy(model, NOW);
  const own = model.sum('http.server_errors', NOW);
  if (own > 0) by.push(['answered 5xx by the application', own]);
  const failed = by.reduce((sum, [, n]) => sum + n, 0);
  if (failed === 0 || failed < all * 0.01) return null;
  const classes = by.slice(0, 4).map(([name, n]) => `${count(n)} ${name}`);
  const text = `${count(failed)} of ${plural(all, 'request')} (${percent(failed, all)}) failed in the last ${NOW} s: ${list(classes)}.`;
  return { level: failed >= all * 0.05 ? 'bad' : 'warn', rank: 6, panel: 'requests', short: `${percent(failed, all)} of requests fail`, text };
}

/** Parts as one sentence; nothing where there are none. */
function sentence(parts) {
  const words = list(parts);
  return words === '' ? '' : `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;
}
