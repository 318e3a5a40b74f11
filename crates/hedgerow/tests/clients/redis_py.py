"""What redis-py gets from a server: the same list of operations, printed as JSON.

python3 redis_py.py PORT full|embedded [2|3]

The test compares what a real server answers with what it answers through the port.
"""
import json
import sys
import threading
import time

import redis

PORT, PART, PROTOCOL = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
EVERY_BYTE = bytes(range(256)) + b"\r\n$-1\r\n*3\r\n"
said = []


def plain(value):
    """The value as JSON can hold it, types kept apart."""
    if isinstance(value, (bytes, bytearray)):
        return "b:" + bytes(value).decode("latin-1")
    if isinstance(value, dict):
        return {"map": sorted([plain(k), plain(v)] for k, v in value.items())}
    if isinstance(value, (set, frozenset)):
        return {"set": sorted(plain(v) for v in value)}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {value}"
    if isinstance(value, float):
        return f"f:{value!r}"
    return value


def note(name, ask):
    try:
        value = ask()
    except redis.RedisError as error:
        value = error
    said.append([name, plain(value)])


def client(**more):
    return redis.Redis(port=PORT, protocol=PROTOCOL, socket_timeout=20, **more)


def near(value, most):
    """A time to live, as whether it is where it should be."""
    return 0 < value <= most


def strings(r):
    note("set", lambda: r.set("s:plain", "value"))
    note("set bytes", lambda: r.set("s:bytes", EVERY_BYTE))
    note("get bytes", lambda: r.get("s:bytes"))
    note("bytes in a key", lambda: r.set(EVERY_BYTE, "k"))
    note("get by it", lambda: r.get(EVERY_BYTE))
    note("set empty", lambda: r.set("s:empty", b""))
    note("get empty", lambda: r.get("s:empty"))
    note("get none", lambda: r.get("s:none"))
    big = EVERY_BYTE * 4000
    note("set big", lambda: r.set("s:big", big))
    note("get big", lambda: r.get("s:big") == big)
    note("nx there", lambda: r.set("s:plain", "x", nx=True))
    note("nx new", lambda: r.set("s:nx", "x", nx=True))
    note("xx there", lambda: r.set("s:plain", "y", xx=True))
    note("xx none", lambda: r.set("s:xx", "x", xx=True))
    note("set get", lambda: r.set("s:plain", "z", get=True))
    note("set get none", lambda: r.set("s:new", "z", get=True))
    note("setnx", lambda: r.setnx("s:nx", "x"))
    note("getset", lambda: r.getset("s:plain", "w"))
    note("getdel", lambda: r.getdel("s:new"))
    note("append", lambda: r.append("s:plain", "+"))
    note("strlen", lambda: r.strlen("s:bytes"))
    note("incr", lambda: [r.incr("s:n"), r.incrby("s:n", 41), r.decr("s:n")])
    note("incr text", lambda: r.incr("s:plain"))
    note("mset", lambda: r.mset({"m:a": "1", "m:b": EVERY_BYTE, "m:c": ""}))
    note("mget", lambda: r.mget("m:a", "m:none", "m:b", "m:c"))
    note("exists", lambda: r.exists("m:a", "m:none", "m:a"))
    note("del", lambda: r.delete("m:a", "m:none"))
    note("unlink", lambda: r.unlink("m:b"))
    note("type", lambda: [r.type("s:plain"), r.type("s:none")])


def lives(r):
    note("ex", lambda: r.set("t:ex", "v", ex=100))
    note("ttl", lambda: near(r.ttl("t:ex"), 100))
    note("px", lambda: r.set("t:px", "v", px=100_000))
    note("pttl", lambda: near(r.pttl("t:px"), 100_000))
    note("ttl for ever", lambda: [r.ttl("s:plain"), r.ttl("s:none")])
    note("setex", lambda: r.setex("t:setex", 100, "v"))
    note("psetex", lambda: r.psetex("t:psetex", 100_000, "v"))
    note("expire", lambda: [r.expire("s:plain", 50), r.expire("s:none", 50)])
    note("expireat", lambda: r.expireat("t:ex", int(time.time()) + 60))
    note("persist", lambda: [r.persist("t:ex"), r.persist("t:ex"), r.ttl("t:ex")])
    note("short", lambda: r.set("t:short", "v", px=1))
    note("gone", lambda: wait_gone(r, "t:short"))


def wait_gone(r, key):
    while r.get(key) is not None:
        pass
    return r.exists(key)


def hashes(r):
    note("hset", lambda: r.hset("h:a", mapping={"f": "1", "g": EVERY_BYTE, "": "empty"}))
    note("hset again", lambda: r.hset("h:a", "f", "2"))
    note("hget", lambda: [r.hget("h:a", "f"), r.hget("h:a", "none"), r.hget("h:none", "f")])
    note("hmget", lambda: r.hmget("h:a", "f", "none", "g"))
    note("hgetall", lambda: [r.hgetall("h:a"), r.hgetall("h:none")])
    note("hkeys", lambda: sorted(r.hkeys("h:a")))
    note("hvals", lambda: sorted(r.hvals("h:a")))
    note("hlen", lambda: r.hlen("h:a"))
    note("hexists", lambda: [r.hexists("h:a", "f"), r.hexists("h:a", "none")])
    note("hsetnx", lambda: [r.hsetnx("h:a", "f", "3"), r.hsetnx("h:a", "n", "3")])
    note("hincrby", lambda: r.hincrby("h:a", "f", 5))
    note("hdel", lambda: r.hdel("h:a", "f", "none"))
    note("hscan", lambda: dict(r.hscan_iter("h:a")))


def keys(r):
    for i in range(300):
        r.set(f"scan:{i}", i)
    note("scan", lambda: sorted(set(r.scan_iter(match="scan:*", count=50))))
    note("keys", lambda: sorted(r.keys("scan:1?")))
    note("dbsize", lambda: r.dbsize())


def pipelines(r):
    def filled():
        pipe = r.pipeline(transaction=False)
        for i in range(300):
            pipe.set(f"p:{i % 50}", i).get(f"p:{(i * 7) % 50}").hset("p:h", f"f{i}", i)
        pipe.incr("p:h").mget([f"p:{i}" for i in range(60)]).hgetall("p:h")
        return pipe.execute(raise_on_error=False)

    note("pipeline", filled)


def transactions(r):
    note("exec", lambda: r.pipeline().set("x:a", 1).incr("x:a").get("x:a").execute())
    note(
        "exec with an error",
        lambda: r.pipeline().set("x:a", "t").incr("x:a").get("x:a").execute(raise_on_error=False),
    )

    def watched(meddle):
        with r.pipeline() as pipe:
            pipe.watch("x:w")
            seen = pipe.get("x:w")
            if meddle:
                other = client()
                other.set("x:w", "meddled")
                other.close()
            pipe.multi()
            pipe.set("x:w", "mine")
            return [seen, pipe.execute()]

    note("watch", lambda: watched(False))
    note("watch in vain", lambda: watched(True))
    note("after it", lambda: r.get("x:w"))


def errors(r):
    r.set("e:s", "text")
    r.hset("e:h", "f", "v")
    note("wrong type", lambda: r.get("e:h"))
    note("wrong type of a hash", lambda: r.hget("e:s", "f"))
    note("arity", lambda: r.execute_command("GET"))
    note("syntax", lambda: r.execute_command("SET", "a", "b", "NONSENSE"))
    note("no integer", lambda: r.execute_command("EXPIRE", "e:s", "soon"))
    note("it goes on", lambda: r.get("e:s"))


def collections(r):
    note("rpush", lambda: r.rpush("l", "a", EVERY_BYTE, "c"))
    note("lists", lambda: [r.lrange("l", 0, -1), r.llen("l"), r.lindex("l", 5), r.lpop("l", 2)])
    note("lpop none", lambda: [r.lpop("l:none"), r.lpop("l:none", 2)])
    note("sadd", lambda: r.sadd("set", "a", "b", EVERY_BYTE))
    note("sets", lambda: [r.smembers("set"), r.scard("set"), r.sismember("set", "z")])
    note("sscan", lambda: set(r.sscan_iter("set")))
    note("zadd", lambda: r.zadd("z", {"a": 1, "b": 2.5, "c": 1e20}))
    note("zrange", lambda: [r.zrange("z", 0, -1), r.zrange("z", 0, -1, withscores=True)])
    note("zset", lambda: [r.zscore("z", "b"), r.zscore("z", "n"), r.zincrby("z", 0.5, "a")])
    note("zscan", lambda: sorted(r.zscan_iter("z")))
    note("zpopmin", lambda: r.zpopmin("z"))
    note("geo", lambda: [r.geoadd("g", (13.4, 52.5, "b")), r.geopos("g", "b", "none")])
    note("xadd", lambda: [r.xadd("st", {"f": "v"}, id="1-1"), r.xadd("st", {"g": EVERY_BYTE}, id="2-1")])
    note("xrange", lambda: r.xrange("st"))
    note("xread", lambda: r.xread({"st": "0"}))
    note("xinfo", lambda: r.xinfo_stream("st")["length"])
    note("bits", lambda: [r.setbit("bit", 7, 1), r.bitcount("bit"), r.getbit("bit", 7)])
    note("pf", lambda: [r.pfadd("pf", "a", "b"), r.pfcount("pf")])
    note("sort", lambda: [r.rpush("so", 3, 1, 2), r.sort("so")])
    note("object", lambda: r.object("encoding", "s:n"))
    note("dump", lambda: r.restore("copy", 0, r.dump("s:bytes")))
    note("copy", lambda: [r.get("copy"), r.copy("copy", "copy2"), r.rename("copy2", "copy3")])
    note("getrange", lambda: [r.getrange("s:bytes", 2, 9), r.setrange("s:bytes", 1, "!!")])
    note("incrbyfloat", lambda: [r.incrbyfloat("fl", 0.5), r.hincrbyfloat("flh", "f", 1.25)])
    note("getex", lambda: [r.getex("s:bytes", ex=100), near(r.ttl("s:bytes"), 100)])
    note("keepttl", lambda: [r.set("s:bytes", "v", keepttl=True), near(r.ttl("s:bytes"), 100)])
    note("msetnx", lambda: [r.msetnx({"mn:a": 1, "mn:b": 2}), r.msetnx({"mn:b": 1, "mn:c": 2})])
    note("touch", lambda: r.touch("s:bytes", "none"))


def scripts(r):
    note("eval", lambda: r.eval("return {KEYS[1], ARGV[1], 7, false, {1, 'x'}}", 1, "k", EVERY_BYTE))
    note("eval error", lambda: r.eval("return redis.error_reply('MINE it failed')", 0))
    note("eval wrong", lambda: r.eval("return redis.call('INCR', KEYS[1])", 1, "e:s"))
    note("eval status", lambda: r.eval("return redis.status_reply('FINE')", 0))
    note("evalsha none", lambda: r.evalsha("0" * 40, 0))
    script = r.register_script("redis.call('SET', KEYS[1], ARGV[1]); return redis.call('GET', KEYS[1])")
    note("script", lambda: [script(keys=["sc"], args=["one"]), script(keys=["sc"], args=["two"])])
    note("script exists", lambda: r.script_exists(script.sha, "0" * 40))


def messages(r):
    def heard():
        other = client().pubsub()
        other.subscribe("ch:a", "ch:b")
        other.psubscribe("ch:*")
        got = [other.get_message(timeout=10) for _ in range(3)]
        counts = [r.publish("ch:a", EVERY_BYTE), r.publish("ch:b", "b"), r.publish("none", "n")]
        got += [other.get_message(timeout=10) for _ in range(4)]
        other.unsubscribe("ch:a")
        other.unsubscribe("ch:b")
        other.punsubscribe("ch:*")
        got += [other.get_message(timeout=10) for _ in range(3)]
        other.close()
        return [got, counts]

    note("pubsub", heard)


def waits(r):
    note("blpop there", lambda: [r.rpush("w:a", "1", "2"), r.blpop(["w:none", "w:a"], timeout=5)])
    note("brpop there", lambda: r.brpop("w:a", timeout=5))
    note("blpop in vain", lambda: r.blpop("w:none", timeout=0.05))

    def handed():
        result = []
        waiting = threading.Thread(target=lambda: result.append(client().blpop("w:later", timeout=20)))
        waiting.start()
        while not any("blpop" == c["cmd"] for c in blocked(r)):
            time.sleep(0.002)
        r.rpush("w:later", EVERY_BYTE)
        waiting.join()
        return result

    note("blpop later", handed)
    note("blmove", lambda: [r.rpush("w:m", "v"), r.blmove("w:m", "w:n", 5), r.lrange("w:n", 0, -1)])
    note("bzpopmin", lambda: [r.zadd("w:z", {"a": 1.5}), r.bzpopmin("w:z", 5)])
    note("xread block", lambda: [r.xread({"st": "1-1"}, block=5000), r.xread({"st": "$"}, block=30)])


def blocked(r):
    # The real server is asked: the guard's own list of clients is not the store's.
    store = redis.Redis(port=int(sys.argv[4]))
    found = store.client_list()
    store.close()
    return found


def databases(r):
    other = client(db=3)
    note("other database", lambda: [other.get("s:plain"), other.set("db", "three"), r.get("db")])
    note("select", lambda: [other.select(0), other.get("s:nx"), other.select(3), other.get("db")])
    note("no such database", lambda: other.select(99))
    note("flushdb", lambda: [other.flushdb(), other.dbsize(), r.dbsize() > 0])
    other.close()


def self_told(r):
    note("exec of nothing known", lambda: r.pipeline().execute_command("NOSUCH").execute())
    note("unknown", lambda: r.execute_command("NOSUCH", "a"))
    note("ping", lambda: [r.ping(), r.echo(EVERY_BYTE)])
    note("name", lambda: r.execute_command("CLIENT", "SETNAME", "me"))
    note("info", lambda: r.info("server")["redis_mode"])
    note("hello", lambda: sorted(map(str, hello(r))))


def hello(r):
    """What it says of itself, but for the number of this client."""
    answer = r.execute_command("HELLO", PROTOCOL)
    pairs = answer.items() if isinstance(answer, dict) else zip(answer[::2], answer[1::2])
    return [pair for pair in pairs if pair[0] not in (b"id", "id", b"version", "version")]


r = client(single_connection_client=True)
for part in [strings, lives, hashes, keys, pipelines, transactions, errors]:
    part(r)
if PART == "full":
    for part in [collections, scripts, messages, waits, databases, self_told]:
        part(r)
print(json.dumps(said))
