<?php
// What phpredis gets from a server: the same list of operations as in redis_py.py, printed as JSON.
//
// php phpredis.php PORT full|embedded
declare(strict_types=1);
require __DIR__ . '/notes.php';

[, $port, $part] = $argv;

function client(): Redis
{
    global $port;
    $made = new Redis();
    $made->connect('127.0.0.1', (int) $port, 5.0);
    return $made;
}

/** An answer, and what the client says went wrong. */
function with_error(Redis $r, callable $ask): array
{
    $r->clearLastError();
    return [$ask(), $r->getLastError()];
}

$bytes = every_byte();
$r = client();

note('set', fn () => $r->set('s:plain', 'value'));
note('bytes', fn () => [$r->set('s:bytes', $bytes), $r->get('s:bytes') === $bytes, $r->get('s:bytes')]);
note('bytes in a key', fn () => [$r->set($bytes, 'k'), $r->get($bytes)]);
note('empty', fn () => [$r->set('s:empty', ''), $r->get('s:empty'), $r->get('s:none')]);
$big = str_repeat($bytes, 4000);
note('big', fn () => [$r->set('s:big', $big), $r->get('s:big') === $big]);
note('nx', fn () => [$r->set('s:plain', 'x', ['nx']), $r->set('s:nx', 'x', ['nx', 'ex' => 100])]);
note('xx', fn () => [$r->set('s:plain', 'y', ['xx']), $r->set('s:xx', 'x', ['xx'])]);
note('set get', fn () => [$r->rawCommand('SET', 's:plain', 'z', 'GET'), $r->rawCommand('SET', 's:new', 'z', 'GET')]);
note('setnx', fn () => [$r->setnx('s:nx', 'x'), $r->getSet('s:plain', 'w')]);
note('append', fn () => [$r->append('s:plain', '+'), $r->strlen('s:bytes')]);
note('incr', fn () => [$r->incr('s:n'), $r->incrBy('s:n', 41), $r->decr('s:n')]);
note('incr text', fn () => with_error($r, fn () => $r->incr('s:plain')));
note('mset', fn () => $r->mset(['m:a' => '1', 'm:b' => $bytes, 'm:c' => '']));
note('mget', fn () => $r->mget(['m:a', 'm:none', 'm:b', 'm:c']));
note('exists', fn () => [$r->exists('m:a', 'm:none', 'm:a'), $r->del('m:a', 'm:none'), $r->unlink('m:b')]);
note('type', fn () => [$r->type('s:plain'), $r->type('s:none')]);

note('ex', fn () => [$r->set('t:ex', 'v', 100), near($r->ttl('t:ex'), 100)]);
note('px', fn () => [$r->set('t:px', 'v', ['px' => 100000]), near($r->pttl('t:px'), 100000)]);
note('for ever', fn () => [$r->ttl('s:plain'), $r->ttl('s:none')]);
note('setex', fn () => [$r->setex('t:setex', 100, 'v'), $r->psetex('t:psetex', 100000, 'v')]);
note('expire', fn () => [$r->expire('s:plain', 50), $r->expire('s:none', 50), $r->expireAt('t:ex', time() + 60)]);
note('persist', fn () => [$r->persist('t:ex'), $r->persist('t:ex'), $r->ttl('t:ex')]);
note('gone', function () use ($r) {
    $r->psetex('t:short', 1, 'v');
    while ($r->get('t:short') !== false);
    return $r->exists('t:short');
});

note('hset', fn () => [$r->hSet('h:a', 'f', '1'), $r->hSet('h:a', 'f', '2'), $r->hSet('h:a', 'g', $bytes)]);
note('hmset', fn () => $r->hMSet('h:a', ['x' => 'y', 'e' => '']));
note('hget', fn () => [$r->hGet('h:a', 'f'), $r->hGet('h:a', 'none'), $r->hGet('h:none', 'f')]);
note('hmget', fn () => $r->hMGet('h:a', ['f', 'none', 'g']));
note('hgetall', fn () => [$r->hGetAll('h:a'), $r->hGetAll('h:none')]);
note('hkeys', fn () => [sorted($r->hKeys('h:a')), sorted($r->hVals('h:a')), $r->hLen('h:a')]);
note('hexists', fn () => [$r->hExists('h:a', 'f'), $r->hExists('h:a', 'none')]);
note('hsetnx', fn () => [$r->hSetNx('h:a', 'f', '3'), $r->hSetNx('h:a', 'n', '3')]);
note('hincrby', fn () => [$r->hIncrBy('h:a', 'f', 5), $r->hDel('h:a', 'f', 'none')]);
note('hscan', function () use ($r) {
    [$found, $at] = [[], null];
    while ($some = $r->hScan('h:a', $at)) {
        $found += $some;
    }
    return $found;
});

foreach (range(0, 299) as $i) {
    $r->set("scan:$i", (string) $i);
}
note('scan', function () use ($r) {
    [$found, $at] = [[], null];
    while (($some = $r->scan($at, 'scan:*', 50)) !== false) {
        $found = [...$found, ...$some];
    }
    return sorted(array_unique($found));
});
note('keys', fn () => [sorted($r->keys('scan:1?')), $r->dbSize()]);

note('pipeline', function () use ($r) {
    $pipe = $r->pipeline();
    foreach (range(0, 299) as $i) {
        $pipe->set('p:' . $i % 50, (string) $i)->get('p:' . ($i * 7) % 50)->hSet('p:h', "f$i", (string) $i);
    }
    return $pipe->incr('p:h')->mget(array_map(fn ($i) => "p:$i", range(0, 59)))->hGetAll('p:h')->exec();
});

note('exec', fn () => $r->multi()->set('x:a', '1')->incr('x:a')->get('x:a')->exec());
note('exec with an error', fn () => with_error($r, fn () => $r->multi()->set('x:a', 't')->incr('x:a')->get('x:a')->exec()));
note('discard', fn () => [$r->multi()->set('x:a', 'd')->discard(), $r->get('x:a')]);
foreach ([false, true] as $meddle) {
    note('watch ' . ($meddle ? 'in vain' : ''), function () use ($r, $meddle) {
        $all = [$r->watch('x:w'), $r->get('x:w')];
        if ($meddle) {
            client()->set('x:w', 'meddled');
        }
        return [...$all, $r->multi()->set('x:w', 'mine')->exec(), $r->get('x:w')];
    });
}

$r->set('e:s', 'text');
$r->hSet('e:h', 'f', 'v');
note('wrong type', fn () => with_error($r, fn () => $r->get('e:h')));
note('wrong type of a hash', fn () => with_error($r, fn () => $r->hGet('e:s', 'f')));
note('arity', fn () => with_error($r, fn () => $r->rawCommand('GET')));
note('syntax', fn () => with_error($r, fn () => $r->rawCommand('SET', 'a', 'b', 'NONSENSE')));
note('no integer', fn () => with_error($r, fn () => $r->rawCommand('EXPIRE', 'e:s', 'soon')));
note('it goes on', fn () => $r->get('e:s'));

if ($part === 'full') {
    note('exec of nothing known', fn () => with_error($r, fn () => array_map([$r, 'rawCommand'], ['MULTI', 'NOSUCH', 'EXEC'])));
    note('unknown', fn () => with_error($r, fn () => $r->rawCommand('NOSUCH', 'a')));
    note('lists', fn () => [$r->rPush('l', 'a', $bytes, 'c'), $r->lRange('l', 0, -1), $r->lPop('l'), $r->lPop('l:none'), $r->lLen('l')]);
    note('sets', fn () => [$r->sAdd('set', 'a', 'b'), sorted($r->sMembers('set')), $r->sIsMember('set', 'z')]);
    note('sorted', fn () => [$r->zAdd('z', 1, 'a', 2.5, 'b', 1e20, 'c'), $r->zRange('z', 0, -1, true), $r->zScore('z', 'b'), $r->zIncrBy('z', 0.5, 'a'), $r->zPopMin('z')]);
    note('geo', fn () => [$r->geoAdd('g', 13.4, 52.5, 'b'), $r->geoPos('g', 'b', 'none')]);
    note('streams', fn () => [$r->xAdd('st', '1-1', ['f' => 'v']), $r->xAdd('st', '2-1', ['g' => 'w']), $r->xRange('st', '-', '+'), $r->xRead(['st' => '0'])]);
    note('dump', fn () => [$r->restore('copy', 0, $r->dump('s:bytes')), $r->get('copy') === $bytes]);
    note('floats', fn () => [$r->incrByFloat('fl', 0.5), $r->msetnx(['mn:a' => '1']), $r->msetnx(['mn:a' => '2'])]);

    note('eval', fn () => $r->eval("return {KEYS[1], ARGV[1], 7, false, {1, 'x'}}", ['k', $bytes], 1));
    note('eval error', fn () => with_error($r, fn () => $r->eval("return redis.error_reply('MINE it failed')")));
    note('evalsha none', fn () => with_error($r, fn () => $r->evalSha(str_repeat('0', 40))));
    note('script', function () use ($r) {
        $sha = $r->script('load', "redis.call('SET', KEYS[1], ARGV[1]); return redis.call('GET', KEYS[1])");
        return [$r->evalSha($sha, ['sc', 'one'], 1), $r->script('exists', $sha, str_repeat('0', 40))];
    });

    note('pubsub', function () use ($r, $bytes) {
        $heard = [];
        $other = client();
        $other->setOption(Redis::OPT_READ_TIMEOUT, '20');
        // subscribe() does not return: a child sends the messages once somebody listens.
        $child = pcntl_fork();
        if ($child === 0) {
            $r = client();
            while ($r->publish('ch:a', $bytes) === 0);
            $r->publish('ch:a', 'last');
            posix_kill(getmypid(), SIGKILL);
        }
        try {
            $other->subscribe(['ch:a', 'ch:b'], function ($redis, $channel, $message) use (&$heard) {
                $heard[] = [$channel, $message];
                if (count($heard) === 2) {
                    $redis->close();
                }
            });
        } catch (RedisException) {
            // So it says that the connection was closed, which is the only way out.
        }
        pcntl_waitpid($child, $status);
        return $heard;
    });
    note('publish to nobody', fn () => $r->publish('none', 'n'));

    note('blpop there', fn () => [$r->rPush('w:a', '1', '2'), $r->blPop(['w:none', 'w:a'], 5), $r->brPop(['w:a'], 5)]);
    note('blpop in vain', fn () => $r->rawCommand('BLPOP', 'w:none', '0.05'));
    note('brpoplpush', fn () => [$r->rPush('w:m', 'v'), $r->bRPopLPush('w:m', 'w:n', 5)]);
    note('bzpopmin', fn () => [$r->zAdd('w:z', 1.5, 'a'), $r->bzPopMin(['w:z'], 5)]);

    $other = client();
    note('other database', fn () => [$other->select(3), $other->get('s:plain'), $other->set('db', 'three'), $r->get('db'), $other->get('db')]);
    note('no such database', fn () => with_error($other, fn () => $other->select(99)));
    note('flushdb', fn () => [$other->flushDB(), $other->dbSize(), $r->dbSize() > 0]);

    note('ping', fn () => [$r->ping(), $r->ping('x'), $r->echo('y')]);
    note('name', fn () => [$r->client('setname', 'me'), $r->client('getname')]);
    note('info', fn () => $r->info('server')['redis_mode']);
}
echo json_encode($said, JSON_THROW_ON_ERROR | JSON_PRESERVE_ZERO_FRACTION), "\n";
