<?php
// What Predis gets from a server: the same list of operations as in redis_py.py, printed as JSON.
//
// php predis.php PORT full|embedded
declare(strict_types=1);
error_reporting(E_ALL & ~E_DEPRECATED);
require 'Predis/Autoloader.php';
Predis\Autoloader::register();
require __DIR__ . '/notes.php';
require __DIR__ . '/operations.php';

[, $port, $part] = $argv;

function client(array $more = []): Predis\Client
{
    global $port;
    return new Predis\Client(['host' => '127.0.0.1', 'port' => (int) $port, 'read_write_timeout' => 20] + $more);
}

/** What it says of nothing. */
const NONE = null;

function raw(Predis\Client $r, string ...$words): mixed
{
    return $r->executeRaw($words);
}

function set_with(Predis\Client $r, string $key, string $value, array $options): mixed
{
    $words = [];
    foreach ($options as $name => $option) {
        array_push($words, ...(is_int($name) ? [strtoupper($option)] : [strtoupper($name), $option]));
    }
    return $r->set($key, $value, ...$words);
}

/** An answer: errors are thrown, or are answers themselves. */
function with_error(Predis\Client $r, callable $ask): mixed
{
    return $ask();
}

$bytes = every_byte();
$r = client();

strings_and_hashes($r, $bytes);

note('hscan', fn () => iterator_to_array(new Predis\Collection\Iterator\HashKey($r, 'h:a')));

note('scan', fn () => sorted(array_unique(iterator_to_array(new Predis\Collection\Iterator\Keyspace($r, 'scan:*', 50), false))));

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

if ($part === 'full') {
    all_else($r, $bytes);
    note('exec of nothing known', fn () => [$r->multi(), $r->set('x:b', '2'), $r->executeRaw(['NOSUCH']), $r->executeRaw(['EXEC']), $r->get('x:b')]);
    note('sorted', fn () => [$r->zadd('z', ['a' => 1, 'b' => 2.5]), $r->zrange('z', 0, -1, 'WITHSCORES'), $r->zscore('z', 'b'), $r->zincrby('z', 0.5, 'a')]);

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

    $third = client(['database' => 3]);
    note('a client of a database', fn () => [$third->set('db', 'three'), $r->get('db'), $third->get('db')]);
    note('info', fn () => $r->info('server')['Server']['redis_mode']);
}
echo json_encode($said, JSON_THROW_ON_ERROR | JSON_PRESERVE_ZERO_FRACTION), "\n";
