// The charts of the page, and the row of figures above them.

import { Chart } from './charts.js';
import { failedBy } from './diagnosis.js';
import { at, el, keep, mark, say } from './dom.js';
import { count, duration, percent, plural } from './format.js';

/** Series of columns: [name, label, colour, more]. */
function columns(model, all) {
  return all.map(([name, label, colour, more]) => ({ key: name, label, colour, cells: model.cells(name), ...more }));
}

const gauge = { gauge: true, always: true };
const CLASSES = ['red', 'orange', 'purple', 'brown', 'yellow', 'blue', 'grey', 'sky'];
/** Failures that mean the same thing have the same colour in each incident. */
const COLOUR_OF = { timeout: 'red', worker_queue_timeout: 'orange', worker_queue_full: 'yellow', worker_pool_exhausted: 'brown', upstream_error: 'purple', upstream_timeout: 'purple', circuit_open: 'blue', client_closed: 'grey' };

function answered(model) {
  const failed = model.names('failed.').map((name) => model.cells(`failed.${name}`));
  const [all, client, server] = ['http.requests', 'http.client_errors', 'http.server_errors'].map((name) => model.cells(name));
  const lost = all.map((_, i) => failed.reduce((sum, cells) => sum + cells[i], 0));
  const good = all.map((n, i) => Math.max(0, n - client[i] - server[i] - lost[i]));
  return [
    { key: 'failed', label: 'failed', colour: 'red', cells: lost, always: true },
    { key: 'server', label: '5xx of the application', colour: 'orange', cells: server },
    { key: 'client', label: '4xx of the application', colour: 'grey', cells: client },
    { key: 'good', label: 'answered', colour: 'green', cells: good, always: true },
  ];
}

function classes(model) {
  const names = model.names('failed.').sort();
  const free = CLASSES.filter((colour) => !names.some((name) => COLOUR_OF[name] === colour));
  return names.map((name) => ({ key: name, label: name, colour: COLOUR_OF[name] ?? free.shift() ?? 'grey', cells: model.cells(`failed.${name}`) }));
}

function restarts(model) {
  const colour = { timeout: 'red', fault: 'orange', exit: 'purple', boot_failed: 'brown', start_timeout: 'yellow' };
  return model.names('restarts.').sort().map((name) => ({ key: name, label: name.replace('_', ' '), colour: colour[name] ?? 'grey', cells: model.cells(`restarts.${name}`) }));
}

/** The sum of a column over all upstreams. */
function summed(model, name) {
  const all = [...model.upstreams.keys()].map((upstream) => model.cells(name, upstream));
  return model.t.map((_, i) => all.reduce((sum, cells) => sum + cells[i], 0));
}

function hedges(model) {
  const series = (name, label, colour, more) => ({ key: name, label, colour, cells: summed(model, name), ...more });
  return [
    series('calls', 'calls', 'grey', { always: true, area: true }),
    series('hedges', 'twins started', 'blue', { always: true }),
    series('hedges_won', 'twins that won', 'green', { always: true }),
    series('suppressed', 'twins refused', 'orange', { always: true }),
    series('failed', 'calls that failed', 'red'),
    series('shed', 'calls shed', 'purple'),
  ];
}

function paces(model) {
  const colour = ['blue', 'orange', 'green', 'purple', 'brown', 'sky', 'yellow', 'grey'];
  return [...model.upstreams.keys()].sort().map((name, i) => ({ key: name, label: name, colour: colour[i], cells: model.cells('p95_ms', name), ...gauge }));
}

/** Every chart, made once. */
export function makeCharts() {
  const made = {
    requests: { title: 'Requests a second', stacked: true, series: answered },
    duration: {
      title: 'How long they took', unit: 'ms',
      series: (model) => columns(model, [['http.p95_ms', '95 % within', 'blue', gauge], ['http.p50_ms', 'half within', 'sky', gauge]]),
    },
    failures: { title: 'Failures a second', stacked: true, series: classes, empty: 'no failure' },
    workers: {
      title: 'What workers did', stacked: true,
      series: (model) => columns(model, [
        ['workers.busy', 'busy', 'orange', gauge], ['workers.starting', 'starting', 'sky', { gauge: true }],
        ['workers.backing_off', 'backing off', 'red', { gauge: true }], ['workers.idle', 'idle', 'green', gauge],
      ]),
    },
    restarts: { title: 'Workers replaced, by reason', stacked: true, series: restarts, empty: 'no worker was replaced' },
    queue: {
      title: 'Requests that wait for a worker',
      series: (model) => columns(model, [['queue.depth', 'waiting', 'blue', { ...gauge, area: true }], ['queue.rejected', 'found it full', 'red'], ['queue.timeouts', 'waited too long', 'orange']]),
    },
    waits: {
      title: 'How long they waited, of those that got a worker', unit: 'ms', empty: 'nobody had to wait',
      series: (model) => columns(model, [['queue.wait_p95_ms', '95 % within', 'blue', { gauge: true }]]),
    },
    reads: {
      title: 'Reads a second, by how they were answered', stacked: true, empty: 'no read',
      series: (model) => columns(model, [
        ['cache.timeout', 'no answer in time', 'red'], ['cache.error', 'error', 'brown'], ['cache.shed', 'shed', 'orange'],
        ['cache.stale', 'stale copy', 'yellow'], ['cache.miss', 'miss', 'grey'], ['cache.hit', 'hit', 'green'],
      ]),
    },
    repairs: {
      title: 'Writes while the circuit is open, and canaries', empty: 'no repair and no canary',
      series: (model) => columns(model, [
        ['cache.repairs_landed', 'repairs landed', 'green'], ['cache.repairs_failed', 'repairs failed', 'red'],
        ['cache.repairs_refused', 'repairs refused', 'purple'], ['cache.writes_skipped', 'writes not sent', 'orange'],
        ['cache.canaries_good', 'canaries good', 'sky'], ['cache.canaries_failed', 'canaries failed', 'brown'],
      ]),
    },
    hedges: { title: 'Calls and twins a second', series: hedges },
    calls: { title: '95 % of calls took at most', unit: 'ms', series: paces },
  };
  const charts = Object.entries(made).map(([name, made]) => new Chart(name, made));
  return (model, seconds) => charts.filter((chart) => !chart.place.closest('[hidden]')).forEach((chart) => chart.draw(model, seconds));
}

/** The row of figures, and the facts below the charts. */
export function figures(model, seconds) {
  const { now } = model;
  const failed = failedBy(model, 10).reduce((sum, [, n]) => sum + n, 0);
  const requests = model.sum('http.requests', 10);
  const busy = now.workers.filter((worker) => worker.state === 'busy').length;
  const shown = [
    ['requests a second', count(requests / Math.min(10, Math.max(1, model.t.length))), ''],
    ['failing', percent(failed, requests), failed === 0 ? '' : failed >= requests * 0.05 ? 'bad' : 'warn'],
    ['in flight', count(now.requests.total), ''],
    ['workers busy', `${busy} of ${now.workers.length}`, busy === now.workers.length && busy > 0 ? 'warn' : ''],
    ['waiting', count(now.queue.depth), now.queue.depth > 0 ? 'warn' : ''],
  ];
  if (now.cache) {
    const reads = ['hit', 'miss', 'shed', 'stale', 'timeout', 'error'].map((name) => model.sum(`cache.${name}`, 10));
    const all = reads.reduce((a, b) => a + b, 0);
    shown.push(['cache hits', all === 0 ? '–' : percent(reads[0], all), now.cache.state === 'closed' ? '' : 'bad']);
  }
  if (model.upstreams.size > 0) {
    const saved = summed(model, 'saved_ms').slice(model.from(seconds)).reduce((a, b) => a + b, 0);
    shown.push(['saved by twins', duration(saved), '']);
  }
  keep(at('figures'), shown, ([name]) => name, ([name]) => el('div', {}, el('dt', {}, name), el('dd')), (item, [, value, level]) => {
    say(item.lastChild, value);
    mark(item, 'data-level', level);
  });
  facts(model);
}

function facts(model) {
  const { now } = model;
  const { totals } = now;
  say(at('requests-facts'), `Since the start: ${plural(totals.http_requests_total, 'request')}, ${plural(totals.http_errors_total, 'failure')}, of which ${plural(totals.http_timeouts_total, 'timeout')}, and ${plural(totals.http_streams_total, 'stream')}.`);
  const by = failedBy(model, 60).map(([name, n]) => `${count(n)} ${name}`);
  say(at('failures-facts'), by.length > 0 ? `Failed in the last minute: ${by.join(', ')}.` : 'None failed in the last minute.');
  const { depth, capacity, timeout_ms: limit } = now.queue;
  const places = capacity > 0 ? `${count(depth)} of ${plural(capacity, 'place')} taken; a request waits at most ${duration(limit)}.` : 'There is no queue: a request that finds no idle worker fails.';
  say(at('queue-facts'), `${places} Since the start ${count(totals.worker_queue_waits_total)} waited, ${count(totals.worker_queue_timeouts_total)} too long, and ${count(totals.worker_queue_rejected_total)} found it full.`);
  const queued = model.sum('queue.waits', 900) + model.sum('queue.rejected', 900);
  document.querySelector('#queue .charts').hidden = capacity === 0 && queued === 0;
  if (!now.cache) return;
  const { store, repair_gate: gate, lanes, journal_depth: journal, reconnects, reads, repairs } = now.cache;
  const owed = lanes.reduce((sum, lane) => sum + lane.pending, 0);
  const parts = [`Store ${store}`, `gate for repairs ${gate}`, `${plural(owed, 'reply', 'replies')} owed`, `${plural(journal, 'invalidation')} journalled`, `${plural(reconnects, 'reconnect')}`];
  say(at('cache-facts'), `${parts.join(' · ')}. Since the start: ${count(reads.hit)} hits, ${count(reads.miss)} misses, ${count(reads.shed)} shed, ${count(reads.timeout)} without an answer in time; ${count(repairs.landed)} repairs landed.`);
}
