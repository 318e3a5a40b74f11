<?php

declare(strict_types=1);

namespace Hedgerow\Tests;

/** The conformance application through a real worker: every route keeps the promise it stands for. */
final class ConformTest extends WorkerTestCase
{
    private Client $client;

    protected function setUp(): void
    {
        $worker = $this->worker(dirname(__DIR__) . '/conform/app.php');
        self::assertSame(['ready' => true, 'capabilities' => ['keep_alive', 'raw_body', 'cancel', 'lean']], $worker->ready);
        $this->client = $worker->connect();
    }

    public function testAnswersAndEchoesTheId(): void
    {
        $answer = $this->client->ask('GET', '/conform', ['id' => 'abc']);
        self::assertSame('abc', $answer['id']);
        self::assertSame(200, $answer['status']);
        self::assertSame(['conform' => 1], json_decode($answer['body'], true));
    }

    public function testEchoesBytesHoweverTheyTravelled(): void
    {
        $bytes = implode('', array_map(chr(...), range(0, 255)));
        $type = ['headers' => ['content-type' => 'image/x-odd']];
        $ways = [
            'raw' => [['body_length' => 256] + $type, $bytes],
            'base64' => [['body' => base64_encode($bytes), 'body_encoding' => 'base64'] + $type, ''],
        ];
        foreach ($ways as $way => [$more, $raw]) {
            $answer = $this->client->ask('POST', '/conform/echo', $more, $raw);
            self::assertSame($bytes, $answer['body'], $way);
            self::assertSame('image/x-odd', $answer['headers']['content-type'], $way);
        }
        $answer = $this->client->ask('POST', '/conform/echo', ['body' => "gr\u{fc}n \u{1F33F}"]);
        self::assertSame("gr\u{fc}n \u{1F33F}", $answer['body']);
        self::assertSame('', $this->client->ask('POST', '/conform/echo', ['body_length' => 0])['body']);
    }

    public function testHashesAnEightMebibyteUploadOnItsFirstRequest(): void
    {
        $body = random_bytes(8 << 20);
        $answer = $this->client->ask('POST', '/conform/sha1', ['body_length' => strlen($body)], $body);
        self::assertSame(sha1($body), $answer['body']);
    }

    public function testShowsTheEnvelope(): void
    {
        $answer = $this->client->ask('GET', '/conform/envelope?trace_id=worker', ['cookies' => ['c' => '1']]);
        $envelope = json_decode($answer['body'], true);
        self::assertSame('/conform/envelope', $envelope['path']);
        self::assertSame(['trace_id' => 'worker'], $envelope['query']);
        self::assertSame(['c' => '1'], $envelope['cookies']);
        self::assertArrayNotHasKey('body', $envelope);
        self::assertCount(14, $envelope);
    }

    public function testToleratesEveryFieldMissing(): void
    {
        $this->client->send(['path' => '/conform/envelope']);
        $envelope = json_decode($this->client->receive()['body'], true);
        self::assertCount(14, $envelope);
        self::assertSame(['GET', 'http', '1.1'], [$envelope['method'], $envelope['scheme'], $envelope['protocol_version']]);
        $this->client->send(['method' => ['x'], 'headers' => 'no', 'id' => 7, 'path' => '/conform', 'query' => null]);
        self::assertSame(200, $this->client->receive()['status']);
    }

    public function testKeepsTwoCookiesApart(): void
    {
        $cookies = $this->client->ask('GET', '/conform/cookies')['headers']['set-cookie'];
        self::assertSame(['a=1; Path=/; Expires=Wed, 21 Oct 2099 07:28:00 GMT', 'b=2'], $cookies);
    }

    public function testAnswersWithBinary(): void
    {
        $answer = $this->client->ask('GET', '/conform/binary');
        self::assertSame(256, $answer['body_length']);
        self::assertSame(implode('', array_map(chr(...), range(0, 255))), $answer['body']);
    }

    public function testStreamsText(): void
    {
        $frames = $this->client->stream('GET', '/conform/stream/text');
        self::assertSame(['start', 'chunk', 'chunk', 'chunk', 'end'], array_column($frames, 'event'));
        self::assertSame(['one', 'two', 'three'], array_column($frames, 'data'));
        self::assertSame(['trace-1'], array_unique(array_column($frames, 'id')));
        self::assertSame('text', $frames[0]['stream_type']);
        self::assertSame('text/plain; charset=utf-8', $frames[0]['content_type']);
        self::assertSame(200, $this->client->ask('GET', '/conform')['status'], 'the connection is kept');
    }

    public function testStreamsEvents(): void
    {
        $frames = $this->client->stream('GET', '/conform/stream/sse');
        self::assertSame(['start', 'chunk', 'chunk', 'chunk', 'end'], array_column($frames, 'event'));
        self::assertSame(['one', 'two', 'three'], array_column($frames, 'data'));
        self::assertSame(['1', '2', '3'], array_column($frames, 'sse_id'));
        self::assertSame(['count', 'count', 'count'], array_column($frames, 'sse_event'));
        self::assertSame('sse', $frames[0]['stream_type']);
        self::assertSame('text/event-stream', $frames[0]['content_type']);
    }

    public function testReportsErrors(): void
    {
        $runtime = $this->client->ask('GET', '/conform/error/runtime');
        self::assertFailure('worker_runtime_error', $runtime, 'RuntimeException');
        self::assertSame('boom x-evil: 1', $runtime['headers']['x-worker-error']);
        self::assertStringNotContainsString('app.php', json_encode($runtime));
        self::assertFailure('app_contract_error', $this->client->ask('GET', '/conform/error/contract'), 'InvalidArgumentException');
    }

    public function testReportsAnErrorWithinAStream(): void
    {
        $frames = $this->client->stream('GET', '/conform/error/late');
        self::assertSame(['start', 'chunk', 'error'], array_column($frames, 'event'));
        self::assertSame(['worker_runtime_error', 'late'], [$frames[2]['error_class'], $frames[2]['error']]);
        self::assertTrue($this->client->isClosedByWorker());
        self::assertSame(200, $this->lastWorker()->connect()->ask('GET', '/conform')['status']);
    }

    public function testNoiseStaysOutOfTheAnswer(): void
    {
        self::assertSame('quiet', $this->client->ask('GET', '/conform/noise')['body']);
        self::assertSame('quiet', $this->client->ask('GET', '/conform/noise')['body']);
        $this->lastWorker()->signal(SIGTERM);
        self::assertSame(0, $this->lastWorker()->exitCode());
        $stderr = $this->lastWorker()->stderr();
        foreach (['noise on stdout', 'noise on stderr', 'noise from PHP'] as $noise) {
            self::assertSame(2, substr_count($stderr, $noise), $noise);
        }
        self::assertSame('', $this->lastWorker()->stdout());
    }

    public function testMakesAStreamInSteps(): void
    {
        $ask = fn (string $event, array $state): array => $this->client->ask(
            'GET',
            '/conform/dispatch',
            ['mode' => 'stream', 'strategy' => 'dispatch', 'event' => $event, 'state' => (object) $state],
        );
        $step = $ask('open', []);
        $seen = $step['chunks'];
        while (!$step['done']) {
            $step = $ask('next', $step['state']);
            array_push($seen, ...$step['chunks']);
        }
        self::assertSame(['one', 'two', 'three'], array_column($seen, 'data'));
        self::assertTrue($ask('close', ['n' => 1])['handled']);
    }
}
