// What the page works out, without a browser: the model, and the findings.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { diagnose } from '../diagnosis.js';
import { count, duration, list, percent } from '../format.js';
import { Model } from '../model.js';
import { spans } from '../pool.js';

const idle = { id: 0, state: 'idle', state_ms: 5, on: null };
const quiet = () => ({
  at: 1_000_000, ready: true, started_at_unix: 0, workers: [idle], queue: { depth: 0, capacity: 8, timeout_ms: 100 },
  requests: { total: 0, requests: [] }, breakers: { breakers: [] }, cache: null, usage: { upstreams: {}, recent: [] },
});

/** Rows from `first` on, a second apart. */
const rows = (first, columns, more = {}) => {
  const length = Object.values(columns)[0].length;
  return { first, t0: 1000 * first, t: Array.from({ length }, (_, i) => 1000 * i), columns, upstreams: {}, events: [], moves: [], now: quiet(), ...more };
};
const of = (told) => {
  const model = new Model();
  model.add(told);
  return model;
};

test('rows are taken in once, and a gap is noticed', () => {
  const model = of(rows(5, { a: [1, 2, 3] }));
  assert.equal(model.add(rows(7, { a: [3, 4], b: [1, 9] })), true);
  assert.deepEqual(model.cells('a'), [1, 2, 3, 4]);
  assert.deepEqual(model.cells('b'), [0, 0, 0, 9], 'what was left out was zero');
  assert.equal(model.add(rows(10, { a: [7] })), false);
  assert.deepEqual(model.cells('c'), [0, 0, 0, 0]);
  assert.equal(model.sum('a', 2), 7);
  assert.equal(model.sum('a', 900), 10);
});

test('a quarter of an hour is kept', () => {
  const model = of(rows(0, { a: new Array(900).fill(1) }, { upstreams: { u: { calls: new Array(900).fill(2) } } }));
  for (let n = 900; n < 1000; n++) model.add(rows(n, { a: [n] }));
  assert.equal(model.t.length, 900);
  assert.equal(model.cells('a').length, 900);
  assert.deepEqual(model.cells('calls', 'u').slice(799, 802), [2, 0, 0]);
  assert.equal(model.sum('a', 1), 999);
});

test('nothing is wrong where nothing is', () => {
  assert.deepEqual(diagnose(of(rows(0, { 'http.requests': [5, 5, 5] }))), []);
});

test('a worker that streams does not hang, one whose client has gone does', () => {
  const busy = (on, state_ms = 9000) => ({ id: 0, state: 'busy', state_ms, on });
  const found = (worker) => {
    const told = rows(0, { 'workers.busy': [1, 1, 1, 1, 1] });
    told.now.workers = [worker];
    return diagnose(of(told)).map((finding) => finding.text);
  };
  assert.deepEqual(found(busy({ phase: 'streaming', phase_ms: 9000, path: '/s' })), []);
  assert.deepEqual(found(busy({ phase: 'working', phase_ms: 100, path: '/s' })), []);
  assert.match(found(busy({ phase: 'working', phase_ms: 9000, path: '/s' }))[0], /^1 of 1 worker hangs on \/s: no answer for up to 9\.0 s/);
  assert.match(found(busy(null))[0], /^1 of 1 worker hangs: no answer/);
});

test('an upstream that was always slow has not become slow', () => {
  const upstream = (p95) => {
    const all = { calls: p95.map(() => 5), succeeded: p95.map(() => 5), p95_ms: p95 };
    return diagnose(of(rows(0, { 'http.requests': p95 }, { upstreams: { u: all } })));
  };
  const steady = new Array(120).fill(3000);
  assert.deepEqual(upstream(steady), []);
  assert.match(upstream([...new Array(90).fill(100), ...new Array(30).fill(3000)])[0].text, /u has become slow: 1 call in 20 takes 3.0 s or longer, before it was 100 ms/);
});

test('a cause ranks before what it causes', () => {
  const told = rows(0, { 'http.requests': [9, 9], 'failed.worker_queue_full': [5, 5], 'queue.rejected': [5, 5] });
  told.now.breakers.breakers = [{ name: 'cache', state: 'open', since_ms: 2000 }];
  told.now.cache = { state: 'open', repair_gate: 'closed', journal_depth: 0, journal_overflowed: [], store: 's' };
  assert.deepEqual(diagnose(of(told)).map((finding) => finding.panel), ['cache', 'queue', 'requests']);
});

test('the spans of a circuit follow each other up to now', () => {
  const told = rows(0, { a: [1] });
  const move = (n, at, from, to) => ({ n, at, name: 'c', from, to, cause: 'rate', episode: 1, calls: 2, failures: 1 });
  told.moves = [move(1, 10, 'closed', 'open'), move(2, 40, 'open', 'half_open'), move(3, 45, 'half_open', 'open'), move(4, 45, 'open', 'closed')];
  const all = spans(of(told), { name: 'c', state: 'closed', since_ms: 1 });
  assert.deepEqual(all.map(({ state, from, to }) => [state, from, to]), [['closed', 0, 10], ['open', 10, 40], ['half_open', 40, 45], ['open', 45, 45], ['closed', 45, 1_000_000]]);
  assert.equal(new Set(all.map((span) => span.n)).size, 5, 'moves of one millisecond are told apart');
});

test('numbers as people read them', () => {
  assert.deepEqual([duration(840), duration(4299), duration(59_999), duration(60_000), duration(7_500_000)], ['840 ms', '4.2 s', '59 s', '1 min', '2 h 5 min']);
  assert.deepEqual([count(1234), percent(1, 1000), percent(1, 3), percent(0, 0), list(['a', 'b', 'c'])], ['1,234', '< 1 %', '33 %', '0 %', 'a, b and c']);
});
