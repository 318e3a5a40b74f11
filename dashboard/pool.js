// Workers as a strip, and circuits with their episodes.

import { LONG, waits } from './diagnosis.js';
import { at, el, keep, mark, say } from './dom.js';
import { count, duration, kib, percent, plural, time } from './format.js';

/** Workers that are shown one by one. */
const SHOWN = 64;
const WORDS = { idle: 'idle', busy: 'busy', starting: 'starting', backing_off: 'backing off' };

export function workers(model) {
  const { now } = model;
  const cell = () => el('li', {}, el('b', { class: 'number' }), el('span', { class: 'state' }), el('span', { class: 'on' }), el('span', { class: 'small' }));
  keep(at('worker-strip'), now.workers.slice(0, SHOWN), (worker) => worker.id, cell, (item, worker) => {
    const [number, state, on, small] = item.children;
    const long = waits(worker) >= LONG;
    const doing = worker.draining ? 'draining' : WORDS[worker.state] ?? worker.state;
    mark(item, 'data-state', worker.draining ? 'draining' : worker.state);
    mark(item, 'data-long', long);
    say(number, worker.id);
    say(state, `${doing} for ${duration(worker.state_ms)}`);
    say(on, worker.on ? `${worker.on.method} ${worker.on.path}` : worker.state === 'busy' ? 'its client has gone' : '');
    on.classList.toggle('gone', !worker.on);
    const wait = worker.next_retry_ts > now.at ? `starts in ${duration(worker.next_retry_ts - now.at)}` : '';
    const size = worker.rss_kb ? kib(worker.rss_kb) : '';
    say(small, [wait, plural(worker.served_requests, 'served', 'served'), worker.restart_count > 0 ? plural(worker.restart_count, 'restart') : '', size].filter(Boolean).join(' · '));
    mark(item, 'title', worker.on ? `${worker.on.method} ${worker.on.path}` : worker.pid ? `process ${worker.pid}` : '');
  });
  const states = ['busy', 'idle', 'starting', 'backing_off'].map((state) => [now.workers.filter((worker) => worker.state === state).length, WORDS[state]]);
  const parts = states.filter(([n]) => n > 0).map(([n, word]) => `${count(n)} ${word}`);
  if (now.retiring > 0) parts.push(`${count(now.retiring)} replaced, finishing their work`);
  const more = now.workers.length > SHOWN ? ` The first ${SHOWN} are shown.` : '';
  say(at('workers-facts'), now.workers.length > 0 ? `${parts.join(', ')}.${more}` : 'This gateway has no workers.');
}

/** The states of a circuit over time: [{ state, from, to, episode, cause, failures, calls }]. */
export function spans(model, breaker) {
  const moves = model.moves.filter((move) => move.name === breaker.name);
  const end = model.now.at;
  const start = model.now.started_at_unix * 1000;
  if (moves.length === 0) return [{ state: breaker.state, from: Math.max(start, end - breaker.since_ms), to: end }];
  const all = [{ state: moves[0].from, from: start, to: moves[0].at }];
  moves.forEach((move, i) => all.push({ ...move, state: move.to, from: move.at, to: moves[i + 1]?.at ?? end }));
  return all;
}

const STATES = { closed: 'closed', open: 'open', half_open: 'half-open' };
const CAUSES = { rate: 'too many failures', stall: 'no answer at all', time_over: 'its time was over', probe_failed: 'a probe failed', probes: 'probes succeeded', early_end: 'the canary got through', override: 'by hand' };

export function breakers(model, seconds) {
  const all = model.now.breakers.breakers;
  const start = model.now.at - seconds * 1000;
  at('breakers').hidden = all.length === 0;
  const line = () => el('div', { class: 'breaker' }, el('p', {}, el('b'), el('span', { class: 'badge' }), el('span', { class: 'small' })), el('div', { class: 'lane', role: 'img' }));
  keep(at('breaker-lines'), all, (breaker) => breaker.name, line, (item, breaker) => {
    const [words, lane] = item.children;
    const [name, badge, small] = words.children;
    say(name, breaker.name);
    mark(badge, 'data-state', breaker.state);
    say(badge, `${STATES[breaker.state] ?? breaker.state} for ${duration(breaker.since_ms)}`);
    const cause = model.moves.findLast((move) => move.name === breaker.name)?.cause;
    const failed = `${count(breaker.failures)} of ${plural(breaker.calls, 'call')} failed lately (${percent(breaker.failures, breaker.calls)})`;
    say(small, `${breaker.state === 'closed' ? failed : CAUSES[cause] ?? ''}, ${plural(breaker.episode, 'episode')}`);
    const shown = spans(model, breaker).filter((span) => span.to >= start);
    const made = () => el('i');
    keep(lane, shown, (span) => span.n ?? 0, made, (bar, span) => {
      const left = Math.max(0, (span.from - start) / (seconds * 10));
      mark(bar, 'data-state', span.state);
      bar.style.left = `${left}%`;
      bar.style.width = `${Math.max(0.4, (span.to - start) / (seconds * 10) - left)}%`;
    });
    const open = shown.filter((span) => span.state === 'open');
    mark(lane, 'aria-label', `${breaker.name}: ${open.length === 0 ? 'closed all the time' : `opened ${open.map((span) => time(span.from)).join(', ')}`}, now ${STATES[breaker.state] ?? breaker.state}`);
  });
  episodes(model, all);
}

/** Every opening with its cause and its end, the newest first. */
function episodes(model, all) {
  const rows = all.flatMap((breaker) => spans(model, breaker).filter((span) => span.state !== 'closed' && span.to - span.from >= 0 && span.cause).map((span) => ({ ...span, over: span.to !== model.now.at, name: breaker.name })));
  rows.sort((a, b) => b.from - a.from);
  const item = () => el('p', {});
  keep(at('episodes'), rows.slice(0, 40), (span) => span.n, item, (p, span) => {
    const failed = span.cause === 'rate' && span.calls > 0 ? ` (${count(span.failures)} of ${plural(span.calls, 'call')} had failed)` : '';
    say(p, `${time(span.from)} ${span.name} ${STATES[span.state]}: ${CAUSES[span.cause] ?? span.cause}${failed}, episode ${span.episode}, ${span.over ? 'for' : 'since'} ${duration(span.to - span.from)}`);
  });
  if (rows.length === 0) {
    keep(at('episodes'), ['No circuit has opened.'], (words) => words, (words) => el('p', {}, words), () => {});
  }
}
