<?php

declare(strict_types=1);

namespace Hedgerow\Tests;

/** The examples do what they say. */
final class ExamplesTest extends WorkerTestCase
{
    private const DIRECTORY = __DIR__ . '/../../../examples';

    public function testHello(): void
    {
        self::assertSame("Hello from /x\n", $this->worker(self::DIRECTORY . '/php-hello/app.php')->connect()->ask('GET', '/x')['body']);
    }

    public function testPsr15(): void
    {
        if (stream_resolve_include_path('Nyholm/Psr7/autoload.php') === false) {
            self::markTestSkipped('needs php-nyholm-psr7');
        }
        $client = $this->worker(self::DIRECTORY . '/php-psr15/app.php')->connect();
        $home = $client->ask('GET', '/');
        self::assertStringContainsString('<form', $home['body']);
        self::assertStringStartsWith('app;dur=', $home['headers']['server-timing']);

        [$more, $raw] = FormTest::upload($file = random_bytes(8 << 20), 'a word');
        $upload = json_decode($client->ask('POST', '/upload', $more, $raw)['body'], true);
        self::assertSame(['field' => 'a word', 'filename' => 'f.bin', 'size' => 8 << 20, 'sha1' => sha1($file)], $upload);
        self::assertSame(422, $client->ask('POST', '/upload')['status']);

        self::assertSame(201, $client->ask('POST', '/api/items', ['body' => '{"name":"elder"}'])['status']);
        self::assertSame(422, $client->ask('POST', '/api/items', ['body' => '{'])['status']);
        self::assertSame(['hazel', 'hawthorn', 'elder'], array_column(json_decode($client->ask('GET', '/api/items')['body'], true)['items'], 'name'));

        $frames = $client->stream('GET', '/events');
        self::assertCount(42, $frames);
        self::assertSame(['40', 'tick', '{"n":40,"of":40}'], [$frames[40]['sse_id'], $frames[40]['sse_event'], $frames[40]['data']]);
        self::assertSame('no-store', $frames[0]['headers']['cache-control']);

        self::assertSame(20 << 20, strlen($client->ask('GET', '/download')['body']));
        self::assertSame([404, 405], [$client->ask('GET', '/nowhere')['status'], $client->ask('PUT', '/upload')['status']]);
    }
}
