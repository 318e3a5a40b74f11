<?php
// What Predis gets from a server: the same list of operations as in redis_py.py, printed as JSON.
//
// php predis.php PORT full|embedded
declare(strict_types=1);
error_reporting(E_ALL & ~E_DEPRECATED);
require 'Predis/Autoloader.php';
Predis\Autoloader::register();
require __DIR__ . '/notes.php';

[, $port, $part] = $argv;

function client(array $more = []): Predis\Client
{
    global $port;
    return new Predis\Client(['host' => '127.0.0.1', 'port' => (int) $port, 'read_write_timeout' => 20] + $more);
}

$bytes = every_byte();
$r = client();

note('set', fn () => $r->set('s:plain', 'value'));
note('bytes', fn () => [$r->set('s:bytes', $bytes), $r->get('s:bytes') === $bytes, $r->get('s:bytes')]);
note('bytes in a key', fn () => [$r->set($bytes, 'k'), $r->get($bytes)]);
note('empty', fn () => [$r->set('s:empty', ''), $r->get('s:empty'), $r->get('s:none')]);
$big = str_repeat($bytes, 4000);
note('big', fn () => [$r->set('s:big', $big), $r->get('s:big') === $big]);
note('nx', fn () => [$r->set('s:plain', 'x', 'NX'), $r->set('s:nx', 'x', 'EX', 100, 'NX')]);
note('xx', fn () => [$r->set('s:plain', 'y', 'XX'), $r->set('s:xx', 'x', 'XX')]);
note('set get', fn () => [$r->executeRaw(['SET', 's:plain', 'z', 'GET']), $r->executeRaw(['SET', 's:new', 'z', 'GET'])]);
note('setnx', fn () => [$r->setnx('s:nx', 'x'), $r->getset('s:plain', 'w')]);
note('append', fn () => [$r->append('s:plain', '+'), $r->strlen('s:bytes')]);
note('incr', fn () => [$r->incr('s:n'), $r->incrby('s:n', 41), $r->decr('s:n')]);
note('incr text', fn () => $r->incr('s:plain'));
note('mset', fn () => $r->mset(['m:a' => '1', 'm:b' => $bytes, 'm:c' => '']));
note('mget', fn () => $r->mget(['m:a', 'm:none', 'm:b', 'm:c']));
note('exists', fn () => [$r->exists('m:a'), $r->exists('m:none'), $r->del(['m:a', 'm:none'])]);
note('type', fn () => [$r->type('s:plain'), $r->type('s:none')]);

note('ex', fn () => [$r->set('t:ex', 'v', 'EX', 100), near($r->ttl('t:ex'), 100)]);
note('px', fn () => [$r->set('t:px', 'v', 'PX', 100000), near($r->pttl('t:px'), 100000)]);
note('for ever', fn () => [$r->ttl('s:plain'), $r->ttl('s:none')]);
note('setex', fn () => [$r->setex('t:setex', 100, 'v'), $r->psetex('t:psetex', 100000, 'v')]);
note('expire', fn () => [$r->expire('s:plain', 50), $r->expire('s:none', 50), $r->expireat('t:ex', time() + 60)]);
note('persist', fn () => [$r->persist('t:ex'), $r->persist('t:ex'), $r->ttl('t:ex')]);
note('gone', function () use ($r) {
    $r->psetex('t:short', 1, 'v');
    while ($r->get('t:short') !== null);
    return $r->exists('t:short');
});

note('hset', fn () => [$r->hset('h:a', 'f', '1'), $r->hset('h:a', 'f', '2'), $r->hset('h:a', 'g', $bytes)]);
note('hmset', fn () => $r->hmset('h:a', ['x' => 'y', 'e' => '']));
note('hget', fn () => [$r->hget('h:a', 'f'), $r->hget('h:a', 'none'), $r->hget('h:none', 'f')]);
note('hmget', fn () => $r->hmget('h:a', ['f', 'none', 'g']));
note('hgetall', fn () => [$r->hgetall('h:a'), $r->hgetall('h:none')]);
note('hkeys', fn () => [sorted($r->hkeys('h:a')), sorted($r->hvals('h:a')), $r->hlen('h:a')]);
note('hexists', fn () => [$r->hexists('h:a', 'f'), $r->hexists('h:a', 'none')]);
note('hsetnx', fn () => [$r->hsetnx('h:a', 'f', '3'), $r->hsetnx('h:a', 'n', '3')]);
note('hincrby', fn () => [$r->hincrby('h:a', 'f', 5), $r->hdel('h:a', ['f', 'none'])]);
note('hscan', fn () => iterator_to_array(new Predis\Collection\Iterator\HashKey($r, 'h:a')));

foreach (range(0, 299) as $i) {
    $r->set("scan:$i", (string) $i);
}
note('scan', fn () => sorted(array_unique(iterator_to_array(new Predis\Collection\Iterator\Keyspace($r, 'scan:*', 50), false))));
note('keys', fn () => [sorted($r->keys('scan:1?')), $r->dbsize()]);

note('pipeline', fn () => $r->pipeline(['exceptions' => false], function ($pipe) {
    foreach (range(0, 299) as $i) {
        $pipe->set('p:' . $i % 50, (string) $i);
        $pipe->get('p:' . ($i * 7) % 50);
        $pipe->hset('p:h', "f$i", (string) $i);
    }
    $pipe->mget(array_map(fn ($i) => "p:$i", range(0, 59)));
    $pipe->hgetall('p:h');
}));

note('exec', fn () => $r->transaction()->set('x:a', '1')->incr('x:a')->get('x:a')->execute());
note('exec with an error', fn () => $r->transaction(['exceptions' => false])->set('x:a', 't')->incr('x:a')->get('x:a')->execute());
note('by hand', fn () => [$r->multi(), $r->set('x:b', '1'), $r->get('x:b'), $r->exec()]);
note('discard', fn () => [$r->multi(), $r->set('x:b', '3'), $r->discard(), $r->get('x:b')]);
foreach ([false, true] as $meddle) {
    note('watch ' . ($meddle ? 'in vain' : ''), function () use ($r, $meddle) {
        $all = [$r->watch('x:w'), $r->get('x:w')];
        if ($meddle) {
            client()->set('x:w', 'meddled');
        }
        return [...$all, $r->multi(), $r->set('x:w', 'mine'), $r->exec(), $r->get('x:w')];
    });
}

$r->set('e:s', 'text');
$r->hset('e:h', 'f', 'v');
note('wrong type', fn () => $r->get('e:h'));
note('wrong type of a hash', fn () => $r->hget('e:s', 'f'));
note('arity', fn () => $r->executeRaw(['GET']));
note('syntax', fn () => $r->executeRaw(['SET', 'a', 'b', 'NONSENSE']));
note('no integer', fn () => $r->executeRaw(['EXPIRE', 'e:s', 'soon']));
note('it goes on', fn () => $r->get('e:s'));

if ($part === 'full') {
    note('exec of nothing known', fn () => [$r->multi(), $r->set('x:b', '2'), $r->executeRaw(['NOSUCH']), $r->executeRaw(['EXEC']), $r->get('x:b')]);
    note('unknown', fn () => $r->executeRaw(['NOSUCH', 'a']));
    note('lists', fn () => [$r->rpush('l', ['a', $bytes, 'c']), $r->lrange('l', 0, -1), $r->lpop('l'), $r->lpop('l:none'), $r->llen('l')]);
    note('sets', fn () => [$r->sadd('set', ['a', 'b']), sorted($r->smembers('set')), $r->sismember('set', 'z')]);
    note('sorted', fn () => [$r->zadd('z', ['a' => 1, 'b' => 2.5]), $r->zrange('z', 0, -1, 'WITHSCORES'), $r->zscore('z', 'b'), $r->zincrby('z', 0.5, 'a')]);
    note('dump', fn () => [$r->restore('copy', 0, $r->dump('s:bytes')), $r->get('copy') === $bytes]);
    note('floats', fn () => [$r->incrbyfloat('fl', 0.5), $r->msetnx(['mn:a' => '1']), $r->msetnx(['mn:a' => '2'])]);

    note('eval', fn () => $r->eval("return {KEYS[1], ARGV[1], 7, false, {1, 'x'}}", 1, 'k', $bytes));
    note('eval error', fn () => $r->eval("return redis.error_reply('MINE it failed')", 0));
    note('evalsha none', fn () => $r->evalsha(str_repeat('0', 40), 0));
    note('script', function () use ($r) {
        $sha = $r->script('load', "redis.call('SET', KEYS[1], ARGV[1]); return redis.call('GET', KEYS[1])");
        return [$r->evalsha($sha, 1, 'sc', 'one'), $r->script('exists', $sha, str_repeat('0', 40))];
    });

    note('pubsub', function () use ($r, $bytes) {
        $heard = [];
        $loop = client()->pubSubLoop();
        $loop->subscribe('ch:a', 'ch:b');
        $loop->psubscribe('ch:*');
        foreach ($loop as $message) {
            $heard[] = (array) $message;
            if (count($heard) === 3) {
                $heard[] = [$r->publish('ch:a', $bytes), $r->publish('none', 'n')];
            }
            if (count($heard) === 6) {
                $loop->unsubscribe();
                $loop->punsubscribe();
            }
        }
        return $heard;
    });

    note('blpop there', fn () => [$r->rpush('w:a', ['1', '2']), $r->blpop(['w:none', 'w:a'], 5), $r->brpop(['w:a'], 5)]);
    note('blpop in vain', fn () => $r->executeRaw(['BLPOP', 'w:none', '0.05']));
    note('brpoplpush', fn () => [$r->rpush('w:m', ['v']), $r->brpoplpush('w:m', 'w:n', 5)]);

    $other = client(['database' => 3]);
    note('other database', fn () => [$other->get('s:plain'), $other->set('db', 'three'), $r->get('db'), $other->get('db')]);
    note('no such database', fn () => $other->select(99));
    note('flushdb', fn () => [$other->flushdb(), $other->dbsize(), $r->dbsize() > 0]);

    note('ping', fn () => [$r->ping(), $r->ping('x'), $r->echo('y')]);
    note('name', fn () => [$r->client('setname', 'me'), $r->client('getname')]);
    note('info', fn () => $r->info('server')['Server']['redis_mode']);
}
echo json_encode($said, JSON_THROW_ON_ERROR | JSON_PRESERVE_ZERO_FRACTION), "\n";
