<?php

declare(strict_types=1);

namespace Hedgerow\Tests;

/** Streams: what is sent when, and how they end. */
final class StreamTest extends WorkerTestCase
{
    private const STREAM = 'use Hedgerow\StreamResponse; return fn (array $r) => ';

    public function testTheStartWaitsForTheFirstPieceAndComesWithIt(): void
    {
        $file = tempnam(sys_get_temp_dir(), 'hedgerow-fifo-');
        unlink($file);
        posix_mkfifo($file, 0600);
        $client = $this->serving(self::STREAM . "StreamResponse::text((function () { yield 'one'; fopen('$file', 'r'); yield 'two'; })());");
        $client->send(Client::request('GET', '/'));
        self::assertSame('start', $client->receive()['event']);
        self::assertSame('one', $client->receive()['data'], 'while the second piece is not made yet');
        self::assertFalse($client->hasAnswer(0.05));
        fclose(fopen($file, 'w'));
        unlink($file);
        self::assertSame('two', $client->receive()['data']);
        self::assertSame('end', $client->receive()['event']);
    }

    public function testAThrowBeforeTheFirstPieceIsAnOrdinaryFailure(): void
    {
        $client = $this->serving(self::STREAM . 'StreamResponse::sse((function () { throw new RuntimeException("early"); yield 1; })());');
        self::assertFailure('worker_runtime_error', $client->ask('GET', '/'), 'RuntimeException');
    }

    /** @return array<string, array{string, string}> */
    public static function lateFaults(): array
    {
        return [
            'throw' => ['throw new DomainException("x")', 'app_contract_error'],
            'runtime' => ['throw new RuntimeException("x")', 'worker_runtime_error'],
            'object' => ['yield new stdClass()', 'app_contract_error'],
            'null' => ['yield null', 'app_contract_error'],
            'array without fields' => ['yield ["x" => 1]', 'app_contract_error'],
            'line break in id' => ['yield ["id" => "1\ndata: x", "data" => ""]', 'app_contract_error'],
            'line break in event' => ['yield ["event" => "a\rb"]', 'app_contract_error'],
            'retry' => ['yield ["retry" => "soon"]', 'app_contract_error'],
        ];
    }

    /** @dataProvider lateFaults */
    public function testAFaultAfterTheFirstPieceIsAnErrorFrame(string $code, string $class): void
    {
        $client = $this->serving(self::STREAM . "StreamResponse::sse((function () { yield 'one'; $code; })());");
        $frames = $client->stream('GET', '/');
        self::assertSame(['start', 'chunk', 'error'], array_column($frames, 'event'));
        self::assertSame($class, $frames[2]['error_class']);
        self::assertTrue($client->isClosedByWorker());
        self::assertFalse(isset($frames[3]));
    }

    public function testEventsInEveryForm(): void
    {
        $client = $this->serving(self::STREAM . 'StreamResponse::sse((function () {
            yield "plain"; yield "tick" => "named"; yield ["data" => ["a" => "ü/"]]; yield ["id" => 7, "event" => "e", "data" => "d", "retry" => 1500]; yield 5; yield "\xff"; yield ["event" => "empty"];
        })(), 202, ["x-a" => ["1", "2"]]);');
        $frames = $client->stream('GET', '/');
        self::assertSame([202, ['x-a' => ['1', '2']]], [$frames[0]['status'], $frames[0]['headers']]);
        $strip = static fn (array $frame): array => array_diff_key($frame, ['mode' => 1, 'event' => 1, 'id' => 1]);
        self::assertSame([
            ['data' => 'plain'], ['data' => 'named', 'sse_event' => 'tick'], ['data' => '{"a":"ü/"}'],
            ['data' => 'd', 'sse_id' => '7', 'sse_event' => 'e', 'sse_retry' => 1500], ['data' => '5'],
            ['data_base64' => base64_encode("\xff")], ['data' => '', 'sse_event' => 'empty'],
        ], array_map($strip, array_slice($frames, 1, -1)));
    }

    public function testAnEmptyStreamBeginsAndEnds(): void
    {
        $client = $this->serving(self::STREAM . 'StreamResponse::text([]);');
        self::assertSame(['start', 'end'], array_column($client->stream('GET', '/'), 'event'));
    }

    public function testLongTextIsCutIntoFramesThatFit(): void
    {
        $client = $this->serving(self::STREAM . 'StreamResponse::text([str_repeat("\x01\u{fc}", 1 << 20)]);');
        $text = '';
        foreach ($client->stream('GET', '/') as $frame) {
            $text .= $frame['data'] ?? base64_decode($frame['data_base64'] ?? '');
        }
        self::assertSame(sha1(str_repeat("\x01\u{fc}", 1 << 20)), sha1($text));
    }

    public function testAHalfClosedConnectionEndsTheGeneratorAndRunsItsFinally(): void
    {
        $client = $this->serving(self::STREAM . 'StreamResponse::sse((function () {
            try { for ($i = 0; ; $i++) { yield (string) $i; usleep(500); } } finally { fwrite(STDERR, "finally ran\n"); }
        })());');
        $client->send(Client::request('GET', '/'));
        for ($i = 0; $i < 3; $i++) {
            $client->receive();
        }
        $client->halfClose();
        do {
            $frame = $client->receive();
        } while ($frame['event'] === 'chunk');
        self::assertSame('end', $frame['event']);
        self::assertTrue($client->isClosedByWorker());
        self::assertSame(1, substr_count($this->lastWorker()->stderr(), 'finally ran'));
        $again = $this->lastWorker()->connect();
        $again->send(Client::request('GET', '/'));
        self::assertSame('start', $again->receive()['event'], 'the worker is free again');
    }

    public function testAClosedConnectionEndsTheGeneratorToo(): void
    {
        $client = $this->serving(self::STREAM . '$r["path"] === "/" ? "fine" : StreamResponse::text((function () { while (true) { yield str_repeat("x", 1000); } })());');
        $gone = $this->lastWorker()->connect();
        $gone->send(Client::request('GET', '/stream'));
        $gone->receive();
        $gone->close();
        self::assertSame('fine', $client->ask('GET', '/')['body']);
    }

    public function testAThrowInFinallyAfterTheClientLeftDoesNoHarm(): void
    {
        $client = $this->serving(self::STREAM . 'StreamResponse::text((function () { try { while (true) { yield "x"; } } finally { throw new RuntimeException("too late"); } })());');
        $client->send(Client::request('GET', '/'));
        $client->receive();
        $client->halfClose();
        do {
            $frame = $client->receive();
        } while ($frame['event'] === 'chunk');
        self::assertSame('end', $frame['event']);
        self::assertTrue($this->lastWorker()->isRunning());
    }

    public function testABodyOfUnknownLengthIsStreamed(): void
    {
        $client = $this->serving('return fn (array $r) => ["headers" => ["content-type" => "image/png"], "body" => popen("printf a; head -c 300000 /dev/zero", "r")];');
        $frames = $client->stream('GET', '/');
        self::assertSame(['start', 'image/png', 'text'], [$frames[0]['event'], $frames[0]['content_type'], $frames[0]['stream_type']]);
        self::assertSame(300001, strlen(implode('', array_column($frames, 'data'))));
        self::assertSame('end', end($frames)['event']);
    }

    public function testDispatch(): void
    {
        $client = $this->serving('return ["http" => fn (array $r) => "plain", "stream" => function (array $e) {
            if ($e["path"] === "/no") { return null; }
            if ($e["path"] === "/bad") { return ["chunks" => "x"]; }
            if ($e["path"] === "/throw") { throw new RuntimeException("x"); }
            $n = ($e["state"]["n"] ?? 0) + 1;
            return ["chunks" => [["event" => $e["event"], "id" => $n, "data" => "d"], "plain"], "state" => ["n" => $n], "done" => $n > 1];
        }];');
        $ask = static fn (string $path, string $event, array $state = []): array => $client->ask('GET', $path, ['mode' => 'stream', 'strategy' => 'dispatch', 'event' => $event, 'state' => (object) $state]);
        $open = $ask('/s', 'open');
        self::assertTrue($open['handled']);
        self::assertFalse($open['done']);
        self::assertSame([['data' => 'd', 'id' => '1', 'event' => 'open'], ['data' => 'plain']], $open['chunks']);
        self::assertSame(['sse', 'text/event-stream', ['n' => 1]], [$open['stream_type'], $open['content_type'], $open['state']]);
        self::assertTrue($ask('/s', 'next', ['n' => 1])['done']);
        self::assertFalse($ask('/no', 'open')['handled']);
        self::assertFailure('app_contract_error', $ask('/bad', 'open'));
        self::assertFailure('worker_runtime_error', $ask('/throw', 'open'));
        self::assertSame('plain', $client->ask('GET', '/')['body']);
    }

    public function testDispatchWithoutAStreamHandler(): void
    {
        $client = $this->serving('return fn (array $r) => "plain";');
        self::assertFalse($client->ask('GET', '/', ['mode' => 'stream', 'strategy' => 'dispatch', 'event' => 'open'])['handled']);
        self::assertSame('plain', $client->ask('GET', '/')['body']);
    }
}
