// What ioredis gets from a server: the same list of operations as in redis_py.py, printed as JSON.
//
// node ioredis.js PORT full|embedded - STORE_PORT
"use strict";
const Redis = require("ioredis");

const [port, part, , storePort] = process.argv.slice(2);
const EVERY_BYTE = Buffer.concat([Buffer.from([...Array(256).keys()]), Buffer.from("\r\n$-1\r\n*3\r\n")]);
const said = [];
const open = [];

function client(more = {}) {
  const made = new Redis({ port: Number(port), lazyConnect: false, ...more });
  open.push(made);
  return made;
}

function plain(value) {
  if (Buffer.isBuffer(value)) return "b:" + value.toString("latin1");
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (Array.isArray(value)) return value.map(plain);
  if (value && typeof value === "object") {
    return { map: Object.entries(value).map(([k, v]) => [k, plain(v)]).sort() };
  }
  return value === undefined ? null : value;
}

async function note(name, ask) {
  let value;
  try {
    value = await ask();
  } catch (error) {
    value = error;
  }
  said.push([name, plain(value)]);
}

const near = (value, most) => value > 0 && value <= most;

async function strings(r) {
  await note("set", () => r.set("s:plain", "value"));
  await note("set bytes", () => r.set("s:bytes", EVERY_BYTE));
  await note("get bytes", () => r.getBuffer("s:bytes"));
  await note("bytes in a key", () => r.set(EVERY_BYTE, "k"));
  await note("get by it", () => r.get(EVERY_BYTE));
  await note("empty", async () => [await r.set("s:empty", ""), await r.get("s:empty"), await r.get("s:none")]);
  const big = Buffer.alloc(1 << 20, EVERY_BYTE);
  await note("big", async () => [await r.set("s:big", big), big.equals(await r.getBuffer("s:big"))]);
  await note("nx", async () => [await r.set("s:plain", "x", "NX"), await r.set("s:nx", "x", "NX")]);
  await note("xx", async () => [await r.set("s:plain", "y", "XX"), await r.set("s:xx", "x", "XX")]);
  await note("set get", async () => [await r.set("s:plain", "z", "GET"), await r.set("s:new", "z", "GET")]);
  await note("setnx", () => r.setnx("s:nx", "x"));
  await note("getset", async () => [await r.getset("s:plain", "w"), await r.getdel("s:new")]);
  await note("append", async () => [await r.append("s:plain", "+"), await r.strlen("s:bytes")]);
  await note("incr", async () => [await r.incr("s:n"), await r.incrby("s:n", 41), await r.decr("s:n")]);
  await note("incr text", () => r.incr("s:plain"));
  await note("mset", () => r.mset({ "m:a": "1", "m:b": EVERY_BYTE, "m:c": "" }));
  await note("mget", () => r.mgetBuffer("m:a", "m:none", "m:b", "m:c"));
  await note("exists", async () => [await r.exists("m:a", "m:none", "m:a"), await r.del("m:a", "m:none")]);
  await note("type", async () => [await r.unlink("m:b"), await r.type("s:plain"), await r.type("s:none")]);
}

async function lives(r) {
  await note("ex", async () => [await r.set("t:ex", "v", "EX", 100), near(await r.ttl("t:ex"), 100)]);
  await note("px", async () => [await r.set("t:px", "v", "PX", 100000), near(await r.pttl("t:px"), 100000)]);
  await note("for ever", async () => [await r.ttl("s:plain"), await r.ttl("s:none")]);
  await note("setex", async () => [await r.setex("t:setex", 100, "v"), await r.psetex("t:psetex", 100000, "v")]);
  await note("expire", async () => [await r.expire("s:plain", 50), await r.expire("s:none", 50)]);
  await note("persist", async () => [await r.persist("t:ex"), await r.persist("t:ex"), await r.ttl("t:ex")]);
  await note("gone", async () => {
    await r.set("t:short", "v", "PX", 1);
    while ((await r.get("t:short")) !== null);
    return r.exists("t:short");
  });
}

async function hashes(r) {
  await note("hset", () => r.hset("h:a", { f: "1", g: EVERY_BYTE, e: "" }));
  await note("hget", async () => [await r.hget("h:a", "f"), await r.hget("h:a", "none"), await r.hget("h:none", "f")]);
  await note("hmget", () => r.hmgetBuffer("h:a", "f", "none", "g"));
  await note("hgetall", async () => [await r.hgetallBuffer("h:a"), await r.hgetall("h:none")]);
  await note("hkeys", async () => [(await r.hkeys("h:a")).sort(), await r.hlen("h:a")]);
  await note("hexists", async () => [await r.hexists("h:a", "f"), await r.hexists("h:a", "none")]);
  await note("hsetnx", async () => [await r.hsetnx("h:a", "f", "3"), await r.hsetnx("h:a", "n", "3")]);
  await note("hincrby", async () => [await r.hincrby("h:a", "f", 5), await r.hdel("h:a", "f", "none")]);
  await note("hmset", () => r.hmset("h:a", "x", "1", "y", "2"));
  await note("hscan", async () => {
    const found = [];
    for await (const some of r.hscanStream("h:a")) found.push(...some);
    return found.sort();
  });
}

async function keys(r) {
  await Promise.all([...Array(300).keys()].map((i) => r.set(`scan:${i}`, i)));
  await note("scan", async () => {
    const found = new Set();
    for await (const some of r.scanStream({ match: "scan:*", count: 50 })) some.forEach((k) => found.add(k));
    return [...found].sort();
  });
  await note("keys", async () => [(await r.keys("scan:1?")).sort(), await r.dbsize()]);
}

async function pipelines(r) {
  await note("pipeline", () => {
    const pipe = r.pipeline();
    for (let i = 0; i < 300; i++) {
      pipe.set(`p:${i % 50}`, i).get(`p:${(i * 7) % 50}`).hset("p:h", `f${i}`, i);
    }
    return pipe.incr("p:h").mget([...Array(60).keys()].map((i) => `p:${i}`)).hgetall("p:h").exec();
  });
  await note("many at once", () => Promise.all([...Array(500).keys()].map((i) => r.get(`scan:${i}`))));
}

async function transactions(r) {
  await note("exec", () => r.multi().set("x:a", 1).incr("x:a").get("x:a").exec());
  await note("exec with an error", () => r.multi().set("x:a", "t").incr("x:a").get("x:a").exec());
  await note("multi by hand", async () => {
    const all = [await r.multi({ pipeline: false }), await r.set("x:b", "1"), await r.get("x:b")];
    return [...all, await r.exec()];
  });
  await note("discard", async () => {
    const all = [await r.multi({ pipeline: false }), await r.set("x:b", "2"), await r.discard()];
    return [...all, await r.get("x:b")];
  });
  for (const meddle of [false, true]) {
    await note(`watch, meddled with: ${meddle}`, async () => {
      await r.watch("x:w");
      const seen = await r.get("x:w");
      if (meddle) await client().set("x:w", "meddled");
      return [seen, await r.multi().set("x:w", "mine").exec(), await r.get("x:w")];
    });
  }
}

async function errors(r) {
  await r.set("e:s", "text");
  await r.hset("e:h", "f", "v");
  await note("wrong type", () => r.get("e:h"));
  await note("wrong type of a hash", () => r.hget("e:s", "f"));
  await note("arity", () => r.call("GET"));
  await note("syntax", () => r.call("SET", "a", "b", "NONSENSE"));
  await note("no integer", () => r.expire("e:s", "soon"));
  await note("it goes on", () => r.get("e:s"));
}

async function collections(r) {
  await note("lists", async () => [await r.rpush("l", "a", EVERY_BYTE, "c"), await r.lrangeBuffer("l", 0, -1), await r.lpop("l", 1), await r.lpop("l:none"), await r.lpop("l:none", 2)]);
  await note("sets", async () => [await r.sadd("set", "a", "b"), (await r.smembers("set")).sort(), await r.sismember("set", "z")]);
  await note("sorted", async () => [await r.zadd("z", 1, "a", 2.5, "b", 1e20, "c"), await r.zrange("z", 0, -1, "WITHSCORES"), await r.zscore("z", "b"), await r.zincrby("z", 0.5, "a"), await r.zpopmin("z")]);
  await note("geo", async () => [await r.geoadd("g", 13.4, 52.5, "b"), await r.geopos("g", "b", "none")]);
  await note("streams", async () => [await r.xadd("st", "1-1", "f", "v"), await r.xadd("st", "2-1", "g", "w"), await r.xrange("st", "-", "+"), await r.xread("STREAMS", "st", "0")]);
  await note("bits", async () => [await r.setbit("bit", 7, 1), await r.bitcount("bit")]);
  await note("dump", async () => [await r.restore("copy", 0, await r.dumpBuffer("s:bytes")), await r.getBuffer("copy")]);
  await note("getex", async () => [await r.getexBuffer("s:bytes", "EX", 100), near(await r.ttl("s:bytes"), 100)]);
  await note("floats", async () => [await r.incrbyfloat("fl", 0.5), await r.msetnx("mn:a", 1), await r.msetnx("mn:a", 2)]);
}

async function scripts(r) {
  await note("eval", () => r.evalBuffer("return {KEYS[1], ARGV[1], 7, false, {1, 'x'}}", 1, "k", EVERY_BYTE));
  await note("eval error", () => r.eval("return redis.error_reply('MINE it failed')", 0));
  await note("evalsha none", () => r.evalsha("0".repeat(40), 0));
  r.defineCommand("both", { numberOfKeys: 1, lua: "redis.call('SET', KEYS[1], ARGV[1]); return redis.call('GET', KEYS[1])" });
  await note("script", async () => [await r.both("sc", "one"), await r.both("sc", "two")]);
  await note("script in a pipeline", () => r.pipeline().both("sc", "three").get("sc").exec());
}

async function messages(r) {
  await note("pubsub", async () => {
    const other = client();
    const heard = [];
    let all;
    const four = new Promise((done) => (all = done));
    const take = (...what) => heard.push(what.map(plain)) === 3 && all();
    other.on("messageBuffer", take);
    other.on("pmessageBuffer", take);
    const counts = [await other.subscribe("ch:a", "ch:b"), await other.psubscribe("ch:*")];
    counts.push(await r.publish("ch:a", EVERY_BYTE), await r.publish("ch:c", "c"), await r.publish("none", "n"));
    await four;
    counts.push(await other.unsubscribe("ch:a", "ch:b"), await other.punsubscribe("ch:*"));
    counts.push(await other.get("s:nx"));
    return [heard, counts];
  });
}

async function waits(r) {
  const store = client({ port: Number(storePort) });
  await note("blpop there", async () => [await r.rpush("w:a", "1", "2"), await r.blpop("w:none", "w:a", 5), await r.brpop("w:a", 5)]);
  await note("blpop in vain", () => r.blpop("w:none", 0.05));
  await note("blpop later", async () => {
    const waiting = client().blpopBuffer("w:later", 20);
    while (!/cmd=blpop/.test(await store.client("LIST")));
    await r.rpush("w:later", EVERY_BYTE);
    return waiting;
  });
  await note("blmove", async () => [await r.rpush("w:m", "v"), await r.blmove("w:m", "w:n", "LEFT", "RIGHT", 5)]);
  await note("bzpopmin", async () => [await r.zadd("w:z", 1.5, "a"), await r.bzpopmin("w:z", 5)]);
  await note("xread block", async () => [await r.xread("BLOCK", 5000, "STREAMS", "st", "1-1"), await r.xread("BLOCK", 30, "STREAMS", "st", "$")]);
}

async function databases(r) {
  const other = client({ db: 3 });
  await note("other database", async () => [await other.get("s:plain"), await other.set("db", "three"), await r.get("db")]);
  await note("select", async () => [await other.select(0), await other.get("s:nx"), await other.select(3), await other.get("db")]);
  await note("no such database", () => other.select(99));
  await note("flushdb", async () => [await other.flushdb(), await other.dbsize(), (await r.dbsize()) > 0]);
}

async function selfTold(r) {
  await note("exec of nothing known", () => r.multi().set("x:a", "t").call("NOSUCH").exec());
  await note("unknown", () => r.call("NOSUCH", "a"));
  await note("ping", async () => [await r.ping(), await r.ping("x"), await r.echo("y")]);
  await note("name", async () => [await r.client("SETNAME", "me"), await r.client("GETNAME")]);
  await note("with a name", async () => client({ connectionName: "other" }).client("GETNAME"));
}

(async () => {
  const r = client();
  for (const run of [strings, lives, hashes, keys, pipelines, transactions, errors]) await run(r);
  if (part === "full") {
    for (const run of [collections, scripts, messages, waits, databases, selfTold]) await run(r);
  }
  console.log(JSON.stringify(said));
  open.forEach((one) => one.disconnect());
})();
