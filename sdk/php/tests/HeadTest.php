<?php

declare(strict_types=1);

namespace Hedgerow\Tests;

/** HEAD: the head that GET would get, and nothing of its body. */
final class HeadTest extends WorkerTestCase
{
    /** @return array<string, array{string, string|null}> */
    public static function bodies(): array
    {
        return [
            'text' => ['str_repeat("x", 100)', '100'],
            'large text' => ['str_repeat("x", 1 << 20)', '1048576'],
            'file' => ['(function () { $f = tmpfile(); fwrite($f, str_repeat("x", 1 << 20)); return $f; })()', '1048576'],
            'pipe' => ['popen("yes", "r")', null],
            'left out' => ['""', '7'],
        ];
    }

    /** @dataProvider bodies */
    public function testTheLengthIsToldAndNoBodySent(string $body, ?string $length): void
    {
        $declared = $body === '""' ? '"Content-Length" => 7,' : '';
        $client = $this->serving("return fn (array \$r) => ['status' => 206, 'headers' => [$declared 'content-type' => 'a/b', 'x-a' => '1'], 'body' => $body];");
        $answer = $client->ask('HEAD', '/');
        self::assertSame([206, ''], [$answer['status'], $answer['body']]);
        $expected = ['content-type' => 'a/b', 'x-a' => '1'] + ($length === null ? [] : ['content-length' => $length]);
        ksort($expected);
        ksort($answer['headers']);
        self::assertSame($expected, $answer['headers']);
        self::assertSame('', $client->ask('HEAD', '/')['body'], 'the connection is as good as before');
    }

    public function testAStreamIsDroppedAndItsFinallyRuns(): void
    {
        $client = $this->serving('return function (array $r) {
            if ($r["path"] === "/next") { return "next"; }
            $items = (function () { try { while (true) { yield "x"; } } finally { fwrite(STDERR, "finally ran\n"); throw new RuntimeException("too late"); } })();
            $items->current();
            return Hedgerow\StreamResponse::sse($items, 202, ["x-a" => "1"]);
        };');
        $answer = $client->ask('HEAD', '/');
        self::assertSame([202, '', ['x-a' => '1', 'content-type' => 'text/event-stream']], [$answer['status'], $answer['body'], $answer['headers']]);
        self::assertSame('next', $client->ask('GET', '/next')['body']);
        self::assertSame(1, substr_count($this->lastWorker()->stderr(), 'finally ran'));
    }

    public function testAFailureIsStillAFailure(): void
    {
        self::assertFailure('worker_runtime_error', $this->serving('return fn (array $r) => throw new RuntimeException("x");')->ask('HEAD', '/'));
    }
}
