// The page: takes in what comes, and shows it.

import { allIsWell, diagnose } from './diagnosis.js';
import { chosenWindow } from './charts.js';
import { figures, makeCharts } from './curves.js';
import { at, el, keep, mark, say } from './dom.js';
import { Feed } from './feed.js';
import { duration, plural } from './format.js';
import { Model } from './model.js';
import { breakers, workers } from './pool.js';
import { events, live, upstreams, usage } from './tables.js';

/** A screen reader hears the verdict when it changes, and its numbers no more often than this. */
const SPEAK = 30_000;

const model = new Model();
let drawCharts = null;
let spoken = { what: '', at: 0 };

const feed = new Feed(model, { second: show, link, denied });

function show() {
  at('login').hidden = true;
  at('main').hidden = false;
  at('links').hidden = feed.guarded;
  const { now } = model;
  const seconds = chosenWindow();
  at('cache').hidden = now.cache === null;
  const calls = Object.keys(now.usage.upstreams).length > 0;
  at('upstreams').hidden = !calls;
  at('usage').hidden = !calls && now.usage.recent.length === 0;
  say(at('about'), `${location.host} · ${now.version} · up ${duration(now.at - now.started_at_unix * 1000)}`);
  headline();
  figures(model, seconds);
  workers(model);
  breakers(model, seconds);
  live(model, cancel);
  if (calls) upstreams(model, seconds);
  usage(model);
  events(model);
  drawCharts ??= makeCharts();
  drawCharts(model, seconds);
}

function headline() {
  const findings = diagnose(model);
  const [worst, ...rest] = findings;
  const level = worst?.level ?? 'ok';
  mark(at('headline'), 'data-level', level);
  const words = worst?.text ?? allIsWell(model);
  say(at('verdict'), words);
  say(at('more'), worst?.more ?? '');
  const item = () => el('li', {}, el('a', {}));
  keep(at('findings'), rest, (finding) => finding.panel + finding.rank + finding.short.split(' ')[0], item, (li, finding) => {
    mark(li, 'data-level', finding.level);
    mark(li.firstChild, 'href', `#${finding.panel}`);
    say(li.firstChild, `${finding.text} ${finding.more ?? ''}`);
  });
  for (const panel of document.querySelectorAll('.panel')) {
    const own = findings.find((finding) => finding.panel === panel.id);
    const open = panel.id === 'breakers' && model.now.breakers.breakers.some((breaker) => breaker.state !== 'closed');
    mark(panel, 'data-level', own?.level ?? (open ? 'bad' : ''));
  }
  const sign = { bad: '✕ ', warn: '! ', ok: '' }[level];
  document.title = `${sign}${worst?.short ?? 'all is well'} – Hedgerow`;
  const what = `${level} ${findings.map((finding) => finding.panel).join()}`;
  if (what !== spoken.what || (level !== 'ok' && Date.now() - spoken.at > SPEAK)) {
    spoken = { what, at: Date.now() };
    say(at('spoken'), words);
  }
}

function link(state, heard) {
  const words = {
    live: 'live, a second apart',
    paused: 'paused while nobody looks',
    lost: heard ? `no news for ${duration(Date.now() - heard)}: what is shown is old` : 'cannot reach the gateway',
  };
  mark(at('link'), 'data-link', state);
  mark(document.body, 'data-link', state);
  say(at('link-text'), words[state]);
}

function denied(wrong) {
  at('main').hidden = true;
  at('login').hidden = false;
  say(at('login-error'), wrong ? 'That is not the token.' : '');
  at('token').focus();
}

async function cancel(trace, button) {
  button.disabled = true;
  try {
    const answer = await feed.ask(`/admin/requests/${encodeURIComponent(trace)}/cancel`, { method: 'POST' });
    const told = await answer.json();
    if (answer.ok) say(at('done'), `Cancelled: ${plural(told.cancelled, 'request')} of trace ${trace}.`);
    else say(at('done'), answer.status === 404 ? `Trace ${trace} had ended already.` : `Trace ${trace} was not cancelled: ${told.error}.`);
  } catch {
    say(at('done'), `Trace ${trace} was not cancelled: the gateway cannot be reached.`);
  }
  button.disabled = false;
}

at('login').addEventListener('submit', (event) => {
  event.preventDefault();
  const field = at('token');
  feed.token(field.value);
  field.value = '';
});
at('window').addEventListener('change', () => model.now && show());

feed.start();
