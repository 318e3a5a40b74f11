<?php

declare(strict_types=1);

namespace Example;

use Hedgerow\Psr7\Carried;
use Hedgerow\StreamResponse;
use Nyholm\Psr7\Response;
use Nyholm\Psr7\Stream;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;

/** Responses that take their time. */
final class Streams
{
    private const EVENTS = 40;
    private const DOWNLOAD = 20 * 1024 * 1024;

    /** Forty events; `?pause_ms=` waits between them. */
    public static function events(ServerRequestInterface $request): ResponseInterface
    {
        $pause = min(1000, max(0, (int) ($request->getQueryParams()['pause_ms'] ?? 0)));
        $events = (static function () use ($pause): \Generator {
            for ($n = 1; $n <= self::EVENTS; $n++) {
                yield ['id' => $n, 'event' => 'tick', 'data' => ['n' => $n, 'of' => self::EVENTS]];
                if ($pause > 0 && $n < self::EVENTS) {
                    usleep($pause * 1000);
                }
            }
        })();
        return Carried::response(StreamResponse::sse($events))->withHeader('Cache-Control', 'no-store');
    }

    /** Twenty mebibytes from a file: the worker holds a piece of it at a time. */
    public static function download(ServerRequestInterface $request): ResponseInterface
    {
        $file = tmpfile();
        $block = implode('', array_map(chr(...), range(0, 255)));
        for ($written = 0; $written < self::DOWNLOAD; $written += 65536) {
            fwrite($file, str_repeat($block, 256));
        }
        return new Response(200, [
            'Content-Type' => 'application/octet-stream',
            'Content-Length' => (string) self::DOWNLOAD,
            'Content-Disposition' => 'attachment; filename="twenty.bin"',
        ], Stream::create($file));
    }
}
