<?php
// What both PHP clients of the tests are asked: names of methods are the same in both, but for capitals,
// which PHP does not mind. Where they differ each brings its own: client(), raw(), set_with(),
// with_error(), and what it says of nothing, NONE.
declare(strict_types=1);

/** What every store of the tests can do. */
function strings_and_hashes(object $r, string $bytes): void
{
    note('set', fn () => $r->set('s:plain', 'value'));
    note('bytes', fn () => [$r->set('s:bytes', $bytes), $r->get('s:bytes') === $bytes, $r->get('s:bytes')]);
    note('bytes in a key', fn () => [$r->set($bytes, 'k'), $r->get($bytes)]);
    note('empty', fn () => [$r->set('s:empty', ''), $r->get('s:empty'), $r->get('s:none')]);
    $big = str_repeat($bytes, 4000);
    note('big', fn () => [$r->set('s:big', $big), $r->get('s:big') === $big]);
    note('nx', fn () => [set_with($r, 's:plain', 'x', ['nx']), set_with($r, 's:nx', 'x', ['nx', 'ex' => 100])]);
    note('xx', fn () => [set_with($r, 's:plain', 'y', ['xx']), set_with($r, 's:xx', 'x', ['xx'])]);
    note('set get', fn () => [raw($r, 'SET', 's:plain', 'z', 'GET'), raw($r, 'SET', 's:new', 'z', 'GET')]);
    note('setnx', fn () => [$r->setnx('s:nx', 'x'), $r->getset('s:plain', 'w')]);
    note('append', fn () => [$r->append('s:plain', '+'), $r->strlen('s:bytes')]);
    note('incr', fn () => [$r->incr('s:n'), $r->incrby('s:n', 41), $r->decr('s:n')]);
    note('incr text', fn () => with_error($r, fn () => $r->incr('s:plain')));
    note('mset', fn () => $r->mset(['m:a' => '1', 'm:b' => $bytes, 'm:c' => '']));
    note('mget', fn () => $r->mget(['m:a', 'm:none', 'm:b', 'm:c']));
    note('exists', fn () => [$r->exists('m:a'), $r->exists('m:none'), $r->del(['m:a', 'm:none'])]);
    note('type', fn () => [$r->type('s:plain'), $r->type('s:none')]);

    note('ex', fn () => [set_with($r, 't:ex', 'v', ['ex' => 100]), near($r->ttl('t:ex'), 100)]);
    note('px', fn () => [set_with($r, 't:px', 'v', ['px' => 100000]), near($r->pttl('t:px'), 100000)]);
    note('for ever', fn () => [$r->ttl('s:plain'), $r->ttl('s:none')]);
    note('setex', fn () => [$r->setex('t:setex', 100, 'v'), $r->psetex('t:psetex', 100000, 'v')]);
    note('expire', fn () => [$r->expire('s:plain', 50), $r->expire('s:none', 50), $r->expireat('t:ex', time() + 60)]);
    note('persist', fn () => [$r->persist('t:ex'), $r->persist('t:ex'), $r->ttl('t:ex')]);
    note('gone', function () use ($r) {
        $r->psetex('t:short', 1, 'v');
        while ($r->get('t:short') !== NONE);
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
    note('hincrby', fn () => [$r->hincrby('h:a', 'f', 5), $r->hdel('h:a', 'f', 'none')]);

    foreach (range(0, 299) as $i) {
        $r->set("scan:$i", (string) $i);
    }
    note('keys', fn () => [sorted($r->keys('scan:1?')), $r->dbsize()]);

    $r->set('e:s', 'text');
    $r->hset('e:h', 'f', 'v');
    note('wrong type', fn () => with_error($r, fn () => $r->get('e:h')));
    note('wrong type of a hash', fn () => with_error($r, fn () => $r->hget('e:s', 'f')));
    note('arity', fn () => with_error($r, fn () => raw($r, 'GET')));
    note('syntax', fn () => with_error($r, fn () => raw($r, 'SET', 'a', 'b', 'NONSENSE')));
    note('no integer', fn () => with_error($r, fn () => raw($r, 'EXPIRE', 'e:s', 'soon')));
    note('it goes on', fn () => $r->get('e:s'));
}

/** What the embedded store cannot do. */
function all_else(object $r, string $bytes): void
{
    note('unknown', fn () => with_error($r, fn () => raw($r, 'NOSUCH', 'a')));
    note('lists', fn () => [$r->rpush('l', 'a', $bytes, 'c'), $r->lrange('l', 0, -1), $r->lpop('l'), $r->lpop('l:none'), $r->llen('l')]);
    note('sets', fn () => [$r->sadd('set', 'a', 'b'), sorted($r->smembers('set')), $r->sismember('set', 'z')]);
    note('dump', fn () => [$r->restore('copy', 0, $r->dump('s:bytes')), $r->get('copy') === $bytes]);
    note('floats', fn () => [$r->incrbyfloat('fl', 0.5), $r->msetnx(['mn:a' => '1']), $r->msetnx(['mn:a' => '2'])]);
    note('publish to nobody', fn () => $r->publish('none', 'n'));

    note('blpop there', fn () => [$r->rpush('w:a', '1', '2'), $r->blpop(['w:none', 'w:a'], 5), $r->brpop(['w:a'], 5)]);
    note('blpop in vain', fn () => raw($r, 'BLPOP', 'w:none', '0.05'));
    note('brpoplpush', fn () => [$r->rpush('w:m', 'v'), $r->brpoplpush('w:m', 'w:n', 5)]);

    $other = client();
    note('other database', fn () => [$other->select(3), $other->get('s:plain'), $other->set('db', 'three'), $r->get('db'), $other->get('db')]);
    note('no such database', fn () => with_error($other, fn () => $other->select(99)));
    note('flushdb', fn () => [$other->flushdb(), $other->dbsize(), $r->dbsize() > 0]);

    note('ping', fn () => [$r->ping(), $r->ping('x'), $r->echo('y')]);
    note('name', fn () => [$r->client('setname', 'me'), $r->client('getname')]);
}
