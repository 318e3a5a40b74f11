// From the gateway to the page: the history once, then a stream, second by second. Rows that were
// missed are asked for. Where no stream is to be had, the history is asked for every two seconds.
//
// The token is sent as a header and kept for this tab alone. It is no cookie: a cookie would go to
// every port of this host, and so to the application that the gateway serves.

const TOKEN = 'hedgerow-token';
const SILENCE = 5000;

export class Feed {
  /** `on`: second(told), link(state, since), denied(wrong). */
  constructor(model, on) {
    this.model = model;
    this.on = on;
    this.heard = 0;
    this.run = 0;
    document.addEventListener('visibilitychange', () => (document.hidden ? this.stop() : this.start()));
    setInterval(() => this.watch(), 1000);
  }

  /** Begins, or begins anew. */
  async start() {
    if (document.hidden) return; // until somebody looks
    const run = ++this.run;
    this.ended?.abort();
    const ended = (this.ended = new AbortController());
    for (let failures = 0; run === this.run; ) {
      const begun = Date.now();
      const end = await this.follow(ended.signal).catch(() => 'lost');
      if (run !== this.run || end === 'denied') return;
      if (end === 'lost') this.on.link('lost', this.heard);
      // Streams end in good order after some minutes.
      failures = end === 'poll' || Date.now() - begun > 30_000 ? 0 : failures + 1;
      const wait = end === 'poll' ? 2000 : Math.min(5000, 250 * 2 ** failures);
      await new Promise((done) => setTimeout(done, wait));
    }
  }

  /** Lets go of the stream: a page nobody sees costs nothing. */
  stop() {
    this.run++;
    this.ended?.abort();
    this.on.link('paused', this.heard);
  }

  /** Whether a link, which shows no token, would be refused. */
  get guarded() {
    return sessionStorage.getItem(TOKEN) !== null;
  }

  /** Sends a request with the token. */
  ask(path, options = {}) {
    const token = sessionStorage.getItem(TOKEN);
    const headers = token ? { 'x-vhttpd-admin-token': token } : {};
    return fetch(path, { ...options, headers, cache: 'no-store', credentials: 'omit' });
  }

  /** Uses this token from now on. */
  token(token) {
    sessionStorage.setItem(TOKEN, token);
    return this.start();
  }

  async follow(signal) {
    if (!(await this.load(signal))) return 'denied';
    const answer = await this.ask('/admin/stream', { signal });
    if (answer.status === 503) return 'poll';
    if (!answer.ok) return 'lost';
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ''; ; ) {
      const { done, value } = await reader.read();
      if (done) return 'over';
      const events = (rest + value).split('\n\n');
      rest = events.pop();
      for (const event of events) {
        const data = event.split('\n').find((line) => line.startsWith('data: '));
        if (!data) continue;
        const told = JSON.parse(data.slice(6));
        if (!this.model.add(told)) await this.load(signal);
        this.tell();
      }
    }
  }

  /** Takes in the rows that are not there yet. False where the token is not right. */
  async load(signal) {
    const after = this.model.next === null ? '' : `?after=${this.model.next - 1}`;
    const answer = await this.ask(`/admin/history${after}`, { signal });
    if (answer.status === 403) {
      this.on.denied(sessionStorage.getItem(TOKEN) !== null);
      sessionStorage.removeItem(TOKEN);
      return false;
    }
    if (!answer.ok) throw new Error(`history: ${answer.status}`);
    const told = await answer.json();
    // Another process, or an absence longer than the history: what is here does not go on.
    if (this.model.next !== null && (told.now.started_at_unix !== this.model.now.started_at_unix || !this.model.add(told))) {
      this.model.clear();
      return this.load(signal);
    }
    if (this.model.next === null) this.model.add(told);
    this.tell();
    return true;
  }

  tell() {
    this.heard = Date.now();
    this.on.link('live', this.heard);
    this.on.second();
  }

  watch() {
    if (this.heard && !document.hidden && Date.now() - this.heard > SILENCE) this.on.link('lost', this.heard);
  }
}
