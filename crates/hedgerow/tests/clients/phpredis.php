<?php
// What phpredis gets from a server: the same list of operations as in redis_py.py, printed as JSON.
//
// php phpredis.php PORT full|embedded
declare(strict_types=1);
require __DIR__ . '/notes.php';
require __DIR__ . '/operations.php';

[, $port, $part] = $argv;

function client(): Redis
{
    global $port;
    $made = new Redis();
    $made->connect('127.0.0.1', (int) $port, 5.0);
    return $made;
}

/** What it says of nothing. */
const NONE = false;

function raw(Redis $r, string ...$words): mixed
{
    return $r->rawCommand(...$words);
}

function set_with(Redis $r, string $key, string $value, array $options): mixed
{
    return $r->set($key, $value, $options);
}

/** An answer, and what the client says went wrong. */
function with_error(Redis $r, callable $ask): array
{
    $r->clearLastError();
    return [$ask(), $r->getLastError()];
}

$bytes = every_byte();
$r = client();

strings_and_hashes($r, $bytes);

note('ex as a number', fn () => [$r->set('t:ex', 'v', 100), near($r->ttl('t:ex'), 100)]);
note('several', fn () => [$r->exists('m:b', 'm:none', 'm:b'), $r->unlink('m:b')]);
note('hscan', function () use ($r) {
    [$found, $at] = [[], null];
    while ($some = $r->hScan('h:a', $at)) {
        $found += $some;
    }
    return $found;
});

note('scan', function () use ($r) {
    [$found, $at] = [[], null];
    while (($some = $r->scan($at, 'scan:*', 50)) !== false) {
        $found = [...$found, ...$some];
    }
    return sorted(array_unique($found));
});

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

if ($part === 'full') {
    all_else($r, $bytes);
    note('exec of nothing known', fn () => with_error($r, fn () => array_map([$r, 'rawCommand'], ['MULTI', 'NOSUCH', 'EXEC'])));
    note('sorted', fn () => [$r->zAdd('z', 1, 'a', 2.5, 'b', 1e20, 'c'), $r->zRange('z', 0, -1, true), $r->zScore('z', 'b'), $r->zIncrBy('z', 0.5, 'a'), $r->zPopMin('z')]);
    note('geo', fn () => [$r->geoAdd('g', 13.4, 52.5, 'b'), $r->geoPos('g', 'b', 'none')]);
    note('streams', fn () => [$r->xAdd('st', '1-1', ['f' => 'v']), $r->xAdd('st', '2-1', ['g' => 'w']), $r->xRange('st', '-', '+'), $r->xRead(['st' => '0'])]);

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

    note('bzpopmin', fn () => [$r->zAdd('w:z', 1.5, 'a'), $r->bzPopMin(['w:z'], 5)]);

    note('info', fn () => $r->info('server')['redis_mode']);
}
echo json_encode($said, JSON_THROW_ON_ERROR | JSON_PRESERVE_ZERO_FRACTION), "\n";
