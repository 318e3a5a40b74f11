<?php

/**
 * The application that the worker conformance suite (`hedgerow conform`) drives. Each route shows one promise of
 * the wire contract; it needs no package.
 */

declare(strict_types=1);

use Hedgerow\StreamResponse;

$http = static function (array $request): array|StreamResponse {
    $json = static fn (mixed $value): array => [
        'status' => 200,
        'headers' => ['content-type' => 'application/json'],
        'body' => json_encode($value, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE),
    ];
    $text = static fn (string $body): array => [
        'status' => 200,
        'headers' => ['content-type' => 'text/plain; charset=utf-8'],
        'body' => $body,
    ];
    switch ($request['method'] . ' ' . $request['path']) {
        case 'GET /conform':
            return $json(['conform' => 1]);
        case 'POST /conform/echo':
            return [
                'status' => 200,
                'headers' => ['content-type' => $request['headers']['content-type'] ?? 'application/octet-stream'],
                'body' => $request['body'],
            ];
        case 'POST /conform/sha1':
            return $text(sha1($request['body']));
        case 'GET /conform/envelope':
            unset($request['body']);
            foreach (['query', 'headers', 'cookies', 'attributes', 'server'] as $map) {
                $request[$map] = (object) $request[$map];
            }
            return $json($request);
        case 'GET /conform/cookies':
            return [
                'status' => 200,
                'headers' => ['set-cookie' => ['a=1; Path=/; Expires=Wed, 21 Oct 2099 07:28:00 GMT', 'b=2']],
                'body' => '',
            ];
        case 'GET /conform/binary':
            return [
                'status' => 200,
                'headers' => ['content-type' => 'application/octet-stream'],
                'body' => implode('', array_map(chr(...), range(0, 255))),
            ];
        case 'GET /conform/stream/text':
            return StreamResponse::text(['one', 'two', 'three']);
        case 'GET /conform/stream/sse':
            return StreamResponse::sse([
                ['id' => '1', 'event' => 'count', 'data' => 'one'],
                ['id' => '2', 'event' => 'count', 'data' => 'two'],
                ['id' => '3', 'event' => 'count', 'data' => 'three'],
            ]);
        case 'GET /conform/error/runtime':
            throw new RuntimeException("boom\r\nx-evil: 1");
        case 'GET /conform/error/contract':
            throw new InvalidArgumentException('not an argument');
        case 'GET /conform/error/late':
            return StreamResponse::sse((static function (): Generator {
                yield ['id' => '1', 'event' => 'count', 'data' => 'one'];
                throw new RuntimeException('late');
            })());
        case 'GET /conform/noise':
            echo "noise on stdout\n";
            file_put_contents('php://stderr', "noise on stderr\n");
            trigger_error('noise from PHP', E_USER_WARNING);
            return $text('quiet');
    }
    return ['status' => 404, 'headers' => ['content-type' => 'text/plain; charset=utf-8'], 'body' => 'Not Found'];
};

$stream = static function (array $envelope): ?array {
    if ($envelope['path'] !== '/conform/dispatch') {
        return null;
    }
    $n = ($envelope['state']['n'] ?? 0) + 1;
    $chunk = ['event' => 'count', 'id' => $n, 'data' => ['one', 'two', 'three'][$n - 1] ?? ''];
    return ['chunks' => [$chunk], 'state' => ['n' => $n], 'done' => $n >= 3 || $envelope['event'] === 'close'];
};

return ['http' => $http, 'stream' => $stream];
