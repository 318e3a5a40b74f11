// Requests in flight, upstreams, the ledger, and what happened.

import { at, el, head, keep, mark, say } from './dom.js';
import { count, duration, list, percent, plural, time } from './format.js';

const row = (cells, kinds = []) => el('tr', {}, Array.from({ length: cells }, (_, i) => el('td', { class: kinds[i] })));
const write = (tr, words) => words.forEach((word, i) => word !== null && say(tr.cells[i], word));
const PHASES = { receiving: 'body is read', queued: 'waits for a worker', working: 'with a worker', sending: 'answer is sent', streaming: 'streams' };

/** `cancel(trace)` is called where somebody asks for it. */
export function live(model, cancel) {
  const { total, requests } = model.now.requests;
  const body = head(at('live-table'), 'Requests in flight, the oldest first', [['Age', 'n'], ['Request'], ['Cancel'], ['Phase'], ['Worker', 'n'], ['Time left', 'n'], ['Trace']]);
  const make = (request) => {
    const button = el('button', { type: 'button', onclick: () => cancel(request.trace_id, button) }, 'Cancel');
    button.setAttribute('aria-label', `Cancel ${request.method} ${request.path}, trace ${request.trace_id}`);
    const tr = row(7, ['n', 'path', '', '', 'n', 'n', 'trace']);
    tr.cells[2].append(button);
    return tr;
  };
  keep(body, requests, (request) => request.request_id, make, (tr, request) => {
    // The deadline is that of the answer; a stream that has begun is not held to it.
    const left = request.phase === 'streaming' ? null : request.deadline_ms;
    mark(tr, 'data-late', left !== null && left < 0);
    write(tr, [duration(request.age_ms), `${request.method} ${request.path}`, null, `${PHASES[request.phase] ?? request.phase} ${duration(request.phase_ms)}`, request.worker_id ?? '–', left === null ? '–' : left < 0 ? 'over' : duration(left), request.trace_id]);
  });
  at('live-table').hidden = requests.length === 0;
  const paths = new Map();
  for (const { path } of requests) paths.set(path, (paths.get(path) ?? 0) + 1);
  const most = [...paths].sort((a, b) => b[1] - a[1]).slice(0, 3).map(([path, n]) => `${count(n)} × ${path}`);
  const shown = total > requests.length ? `The oldest ${requests.length} of ${count(total)} are listed. ` : `${plural(total, 'request')}. `;
  say(at('live-facts'), total === 0 ? 'None.' : total === 1 ? shown : `${shown}Mostly ${list(most)}.`);
}

export function upstreams(model, seconds) {
  const body = head(at('upstream-table'), 'Upstreams', [['Upstream'], ['Calls', 'n'], ['Failed', 'n'], ['Open', 'n'], ['Twin after', 'n'], ['Twins', 'n'], ['Won', 'n'], ['Refused', 'n'], ['Retries', 'n'], ['Saved', 'n'], ['Budget left', 'n'], ['Cost', 'n']]);
  const all = Object.entries(model.now.usage.upstreams);
  keep(body, all, ([name]) => name, () => row(12, ['', ...new Array(11).fill('n')]), (tr, [name, sums]) => {
    const refused = Object.entries(sums.suppressed).filter(([, n]) => n > 0);
    const cost = sums.cost === null ? '–' : `${sums.cost.toFixed(2)}${sums.cost_unknown > 0 ? ` and ${count(sums.cost_unknown)} unknown` : ''}`;
    write(tr, [name, count(sums.calls), count(model.sum('failed', seconds, name)), count(model.last('in_flight', name)), sums.threshold_ms === null ? '–' : duration(sums.threshold_ms), `${count(sums.hedges_fired)} (${percent(sums.hedges_fired, sums.calls)})`, count(sums.hedges_won), refused.length === 0 ? '0' : refused.map(([why, n]) => `${count(n)} ${why}`).join(', '), count(sums.retries), duration(sums.seconds_saved * 1000), count(sums.budget_left), cost]);
  });
  const saved = all.reduce((sum, [, sums]) => sum + sums.seconds_saved, 0);
  const fired = all.reduce((sum, [, sums]) => sum + sums.hedges_fired, 0);
  say(at('upstreams-facts'), `All numbers since the start, but failed: in the time shown. ${plural(fired, 'twin')} have saved ${duration(saved * 1000)}, at least.`);
}

export function usage(model) {
  const body = head(at('usage-table'), 'The newest calls out', [['Ended'], ['Upstream'], ['Key'], ['Took', 'n'], ['Winner'], ['Attempts'], ['Cost', 'n'], ['Trace']]);
  const make = () => row(8, ['', '', '', 'n', '', 'attempts', 'n', 'trace']);
  keep(body, model.now.usage.recent, (entry) => `${entry.trace_id} ${entry.key} ${entry.ended_at}`, make, (tr, entry) => {
    if (tr.told) return;
    tr.told = true; // an entry of the ledger never changes
    mark(tr, 'data-retry', entry.retry === true);
    const known = entry.attempts.filter((attempt) => attempt.cost !== null);
    const cost = known.length === 0 ? '–' : known.reduce((sum, attempt) => sum + attempt.cost, 0).toFixed(2);
    const unknown = known.length > 0 && known.length < entry.attempts.length ? ' and more' : '';
    write(tr, [time(entry.ended_at * 1000), entry.upstream, entry.key ?? '–', duration(entry.duration_ms), entry.winner ?? 'none, it failed', null, cost + unknown, entry.trace_id]);
    if (entry.retry) tr.cells[4].append(' ', el('b', { class: 'flag' }, 'retry'));
    const all = Math.max(1, entry.duration_ms, ...entry.attempts.map((attempt) => attempt.end_ms ?? 0));
    tr.cells[5].append(...entry.attempts.map((attempt) => bar(attempt, all, entry.duration_ms)));
  });
}

/** One attempt: a bar over the time of its call, and the same in words. */
function bar(attempt, all, took) {
  const end = attempt.end_ms ?? took;
  const bar = el('i', { 'data-outcome': attempt.outcome });
  bar.style.left = `${(100 * attempt.start_ms) / all}%`;
  bar.style.width = `${Math.max(2, (100 * (end - attempt.start_ms)) / all)}%`;
  const words = `${attempt.role} ${attempt.outcome}${attempt.status ? ` ${attempt.status}` : ''}, ${duration(attempt.start_ms)} to ${duration(end)}`;
  return el('div', { class: 'attempt', title: attempt.endpoint }, el('span', { class: 'track', 'aria-hidden': 'true' }, bar), el('span', {}, words));
}

const SAID = {
  'worker.ready': 'ready', 'worker.boot_failed': 'did not boot', 'worker.exited': 'ended by itself', 'worker.killed': 'killed',
  'worker.retired': 'replaced', 'worker.restart_scheduled': 'start put off', 'reload.done': 'Reload: new workers serve',
  'reload.abandoned': 'Reload given up', 'upstream.endpoint_demoted': 'Endpoint passed over for a while', 'cache.repair': 'Repairs',
  'cache.connected': 'Cache connected again', 'cache.lost': 'Cache connection lost', 'cache.journal_overflowed': 'Journal overflowed',
  'cache.journal_failed': 'Journal file failed', 'admin.action': 'Somebody did',
};

/** Milliseconds. */
const TOGETHER = 2000;

/** What happened, the newest first; what happened to several workers at a time is one line. */
export function events(model) {
  const body = head(at('event-table'), 'What happened, the newest first', [['When'], ['What'], ['Details']]);
  const rows = [];
  for (const event of model.events) {
    const like = (other) => other.kind === event.kind && other.detail === event.detail && event.at - other.at < TOGETHER;
    const same = event.worker === undefined ? null : rows.slice(-8).find(like);
    if (same) same.workers.push(event.worker);
    else rows.push({ ...event, workers: event.worker === undefined ? [] : [event.worker] });
  }
  for (const move of model.moves) {
    rows.push({ n: move.n, at: move.at, kind: `Circuit of ${move.name}: ${move.from} to ${move.to}`, detail: move.cause, workers: [], level: move.to === 'open' ? 'bad' : 'ok' });
  }
  rows.sort((a, b) => b.n - a.n);
  keep(body, rows.slice(0, 80), (event) => event.n, () => row(3, ['', '', 'path']), (tr, event) => {
    const numbers = [...new Set(event.workers)].sort((a, b) => a - b);
    const who = numbers.length > 0 ? `${numbers.length === 1 ? 'Worker' : 'Workers'} ${list(numbers)} ` : '';
    mark(tr, 'data-level', event.level ?? (/killed|failed|lost|abandoned|overflowed|exited/.test(event.kind) ? 'bad' : ''));
    write(tr, [time(event.at), `${who}${SAID[event.kind] ?? event.kind}`, event.detail ?? '']);
  });
  if (rows.length === 0) keep(body, [0], () => 'none', () => el('tr', {}, el('td', { colspan: 3 }, 'Nothing out of the ordinary.')), () => {});
}
