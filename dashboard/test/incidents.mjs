// Three incidents, each as it happens to people: what is configured, what goes on before, what then
// goes wrong. `begin` starts the ordinary traffic, `strike` the incident; `calm` ends all traffic, `end` the
// gateway too.

import { redisClient, request, startGateway, steadily } from './gateway.mjs';

/** A route of the application that never answers takes one worker after the other. */
export async function hungPool() {
  const gateway = await startGateway({
    extra: 'read_timeout_ms = 6000\nqueue_capacity = 40\nqueue_timeout_ms = 1500\n',
  });
  const stops = [];
  return {
    gateway,
    begin() {
      stops.push(steadily(40, () => request(`${gateway.server}/hello`)));
      stops.push(steadily(6, () => request(`${gateway.server}/sleep?ms=60`)));
    },
    strike() {
      stops.push(steadily(2, () => request(`${gateway.server}/hang`)));
    },
    calm: () => stops.splice(0).forEach((stop) => stop()),
    async end() {
      this.calm();
      await gateway.stop();
    },
  };
}

/** The store of the cache stops answering, and is alive. */
export async function stalledCache() {
  const gateway = await startGateway({
    redis: true,
    extra: `
queue_capacity = 16
queue_timeout_ms = 500
[cache]
store = "{redis}"
call_timeout_ms = 100
breaker = { open_ms = 5000, min_throughput = 20 }
[cache.resp]
listen = "127.0.0.1:0"
`,
  });
  const stops = [];
  const client = redisClient(gateway.cache);
  return {
    gateway,
    begin() {
      stops.push(steadily(20, () => request(`${gateway.server}/hello`)));
      // What an application does: read, and where there is nothing, save what it worked out.
      stops.push(
        steadily(120, async (n) => {
          const key = `item:${Math.floor(1 / (((n * 7919) % 997) / 997 + 0.004))}`;
          if ((await client.send('GET', key)) === '$-1') client.send('SET', key, `value ${n}`, 'EX', '5');
        }),
      );
    },
    strike() {
      gateway.store.kill('SIGSTOP');
    },
    heal() {
      gateway.store.kill('SIGCONT');
    },
    calm: () => stops.splice(0).forEach((stop) => stop()),
    async end() {
      this.calm();
      client.close();
      await gateway.stop();
    },
  };
}

/** A service that is called becomes slow, and then fails some calls. */
export async function brownOut() {
  const gateway = await startGateway({
    upstream: true,
    extra: `
queue_capacity = 16
queue_timeout_ms = 500
[egress]
listen = "127.0.0.1:0"
[upstream.models]
url = "{upstream}"
hedge = { after_ms = 250 }
budget = { ratio = 0.1, burst = 3 }
breaker = { window_ms = 10000, failure_ratio = 0.5, min_throughput = 20, open_ms = 5000 }
price = { per_call = 0.01 }
`,
  });
  const stops = [];
  let brown = false;
  return {
    gateway,
    begin() {
      stops.push(steadily(15, () => request(`${gateway.server}/hello`)));
      // Most take 40 to 100 ms; one in thirty goes quiet, and its twin does not.
      stops.push(
        steadily(12, (n) => {
          const [path, usual] = n % 30 === 29 ? ['silent?attempt=1&', ''] : ['answer?', `first=${40 + (n % 7) * 10}`];
          if (!brown) return request(`${gateway.egress}/models/${path}${usual}`);
          return request(`${gateway.egress}/models/${n % 5 === 4 ? 'status/503?first=900' : `answer?first=${900 + (n % 9) * 150}`}`);
        }),
      );
    },
    strike() {
      brown = true;
    },
    calm: () => stops.splice(0).forEach((stop) => stop()),
    async end() {
      this.calm();
      await gateway.stop();
    },
  };
}
