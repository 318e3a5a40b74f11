// Starts the real binary and what it needs, and gives what a test wants to know of it.
//
// Every process is a child of this one and is ended with it; ports come from the system.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const BINARY = process.env.HEDGEROW_BIN ?? new URL('../../target/debug/hedgerow', import.meta.url).pathname;
const running = new Set();
const folders = new Set();
process.on('exit', () => {
  running.forEach((child) => child.kill('SIGKILL'));
  folders.forEach((folder) => rmSync(folder, { recursive: true, force: true }));
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** Waits until `look` gives something true, and gives that. */
export async function until(what, look, bound = 20_000) {
  for (const end = Date.now() + bound; Date.now() < end; await pause(50)) {
    const found = await look();
    if (found) return found;
  }
  throw new Error(`did not happen in ${bound} ms: ${what}`);
}

/** A child whose output holds `wanted` once it is up: [child, match]. */
function start(program, args, wanted, options = {}) {
  return new Promise((done, failed) => {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
    running.add(child);
    let said = '';
    const hear = (bytes) => {
      said = (said + bytes).slice(-10_000);
      const match = said.match(wanted);
      if (match) done([child, match]);
    };
    child.stdout.on('data', hear);
    child.stderr.on('data', hear);
    child.on('error', failed);
    child.on('exit', (code) => {
      running.delete(child);
      failed(new Error(`${program} ended with ${code}: ${said}`));
    });
  });
}

function ended(child, signal) {
  return new Promise((done) => {
    if (child.exitCode !== null || child.signalCode !== null) return done();
    child.once('exit', done);
    child.kill('SIGCONT');
    child.kill(signal);
  });
}

/** A port nobody listens on. */
export async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await new Promise((done) => server.once('listening', done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

/**
 * A gateway with scripted workers. `extra` is TOML in which {exe} is the binary; `upstream` starts a
 * scripted upstream ({upstream} in the TOML), `redis` a real redis-server ({redis}).
 */
export async function startGateway({ workers = 4, extra = '', upstream = false, redis = false } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'hedgerow-dashboard-'));
  folders.add(folder);
  const children = [];
  const places = { exe: BINARY };
  if (upstream) {
    const [child, match] = await start(BINARY, ['stage', 'upstream', '--name', 'models'], /(http:\/\/\S+)/);
    children.push(child);
    places.upstream = match[1];
  }
  let store = null;
  if (redis) {
    const port = await freePort();
    [store] = await start('redis-server', ['--port', port, '--bind', '127.0.0.1', '--save', '', '--dir', folder], /Ready to accept connections/);
    children.push(store);
    places.redis = `redis://127.0.0.1:${port}`;
  }
  const config = `
[server]
listen = "127.0.0.1:0"
${extra.includes('[admin]') ? '' : '[admin]\nlisten = "127.0.0.1:0"\n'}
[log]
access = false
[worker]
command = "{exe} stage worker"
pool_size = ${workers}
${extra}`.replace(/\{(\w+)\}/g, (whole, name) => places[name] ?? whole);
  const file = join(folder, 'hedgerow.toml');
  writeFileSync(file, config);
  const [gateway, match] = await start(BINARY, ['serve', '-c', file], /listens on (\S+), admin on ([^\s,]+).*\n/);
  const part = (name) => match[0].match(new RegExp(`${name} on ([^\\s,]+)`))?.[1];
  return {
    pid: gateway.pid,
    server: match[1],
    admin: match[2],
    egress: part('egress'),
    cache: part('cache'),
    store,
    /** JSON of the admin listener. */
    async ask(path, headers = {}) {
      const answer = await fetch(match[2] + path, { headers });
      return answer.json();
    },
    async stop() {
      await ended(gateway, 'SIGTERM');
      for (const child of children) await ended(child, 'SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const agent = new http.Agent({ keepAlive: true, maxSockets: 2000 });

/** One request; its status, or 0 where it failed or was let go. */
export function request(url, { headers = {}, signal } = {}) {
  return new Promise((done) => {
    const sent = http.get(url, { agent, headers, signal }, (answer) => {
      answer.resume();
      answer.on('end', () => done(answer.statusCode));
      answer.on('error', () => done(0));
    });
    sent.on('error', () => done(0));
  });
}

/** Does `act(n)` so many times a second, whether or not earlier ones have ended, until it is stopped. */
export function steadily(perSecond, act) {
  const begun = performance.now();
  let n = 0;
  const timer = setInterval(() => {
    for (const due = ((performance.now() - begun) * perSecond) / 1000; n < due; n++) act(n);
  }, 10);
  return () => clearInterval(timer);
}

/** A Redis client of few words, over one connection: `send(words)` gives the first byte of the reply. */
export function redisClient(url) {
  const { hostname, port } = new URL(url.replace('redis:', 'http:'));
  const socket = net.connect(Number(port), hostname);
  const waiting = [];
  let rest = '';
  socket.on('data', (bytes) => {
    rest += bytes.toString('latin1');
    for (let reply; (reply = rest.match(/^(?:\$-1|[+\-:_][^\r]*|\$(\d+))\r\n/)); ) {
      const length = reply[0].length + (reply[1] === undefined ? 0 : Number(reply[1]) + 2);
      if (rest.length < length) break;
      rest = rest.slice(length);
      waiting.shift()?.(reply[0].trim());
    }
  });
  socket.on('error', () => {});
  socket.on('close', () => waiting.splice(0).forEach((done) => done('closed')));
  return {
    send(...words) {
      return new Promise((done) => {
        waiting.push(done);
        socket.write(`*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`);
      });
    },
    close: () => socket.destroy(),
  };
}
