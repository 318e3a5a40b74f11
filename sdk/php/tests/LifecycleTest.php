<?php

declare(strict_types=1);

namespace Hedgerow\Tests;

/** Connections, signals and parents: what a worker does between and around requests. */
final class LifecycleTest extends WorkerTestCase
{
    private const HELLO = 'return fn (array $r) => $r["path"];';

    /** No php.ini, so no extension but those compiled in; and of those, none of what a worker might use. */
    private const NO_EXTENSION = ['-n', '-d', 'disable_functions=pcntl_async_signals,pcntl_signal,pcntl_fork,posix_getppid,posix_kill'];

    public function testKeepsConnectionsAndServesWhicheverHasAFrame(): void
    {
        $first = $this->serving(self::HELLO);
        $second = $this->lastWorker()->connect();
        for ($i = 0; $i < 20; $i++) {
            self::assertSame("/a$i", $first->ask('GET', "/a$i")['body']);
            self::assertSame("/b$i", $second->ask('GET', "/b$i")['body']);
        }
    }

    public function testHalfAFrameHoldsNobodyUp(): void
    {
        $slow = $this->serving(self::HELLO);
        $bytes = Client::frame(Client::request('POST', '/slow', ['body_length' => 6]));
        $slow->write(substr($bytes, 0, 2));
        $other = $this->lastWorker()->connect();
        self::assertSame('/1', $other->ask('GET', '/1')['body']);
        $slow->write(substr($bytes, 2, 20));
        self::assertSame('/2', $other->ask('GET', '/2')['body']);
        $slow->write(substr($bytes, 22) . 'abc');
        self::assertSame('/3', $other->ask('GET', '/3')['body']);
        $slow->write('def');
        self::assertSame('/slow', $slow->receive()['body']);
    }

    public function testTwoFramesInOneWriteAreTwoRequests(): void
    {
        $client = $this->serving(self::HELLO);
        $client->write(Client::frame(Client::request('POST', '/1', ['body_length' => 3])) . 'abc' . Client::frame(Client::request('GET', '/2')));
        self::assertSame(['/1', '/2'], [$client->receive()['body'], $client->receive()['body']]);
    }

    /** @return array<string, array{string}> */
    public static function garbage(): array
    {
        $framed = static fn (string $json): array => [pack('N', strlen($json)) . $json];
        return [
            'length 0' => [pack('N', 0)], 'length over the limit' => [pack('N', 16 * 1024 * 1024 + 1) . 'x'], 'HTTP' => ["GET / HTTP/1.1\r\n\r\n"],
            'not JSON' => $framed('hello'), 'a list' => $framed('[1]'), 'a number' => $framed('7'), 'not UTF-8' => $framed("{\"id\":\"\xff\"}"),
            'half an object' => $framed('{"id":'), 'blank' => $framed('  '), 'negative body' => $framed('{"body_length":-1}'),
            'body_length text' => $framed('{"body_length":"1"}'), 'not base64' => $framed('{"body":"***","body_encoding":"base64"}'),
            'deep' => $framed(str_repeat('{"a":', 600) . '1' . str_repeat('}', 600)),
        ];
    }

    /** @dataProvider garbage */
    public function testGarbageClosesItsConnectionAndNothingElse(string $bytes): void
    {
        $good = $this->serving(self::HELLO);
        $good->ask('GET', '/');
        $bad = $this->lastWorker()->connect();
        $bad->write($bytes);
        self::assertTrue($bad->isClosedByWorker());
        self::assertSame('/still', $good->ask('GET', '/still')['body']);
    }

    public function testAFrameOfExactlySixteenMebibytes(): void
    {
        $client = $this->serving('return fn (array $r) => (string) strlen($r["body"]);');
        $frame = Client::request('POST', '/');
        $body = 16 * 1024 * 1024 - (strlen(Client::frame($frame)) - 4);
        self::assertSame((string) $body, $client->ask('POST', '/', ['body' => str_repeat('x', $body)])['body']);
    }

    public function testAClientThatLeavesDuringAnAnswerDoesNoHarm(): void
    {
        $client = $this->serving('return fn (array $r) => $r["path"] === "/big" ? str_repeat("x", 8 << 20) : "fine";');
        $gone = $this->lastWorker()->connect();
        $gone->send(Client::request('GET', '/big'));
        self::assertTrue($gone->hasAnswer(5));
        $gone->close();
        self::assertSame('fine', $client->ask('GET', '/')['body']);
    }

    public function testTermFinishesTheRequestInHand(): void
    {
        if (!function_exists('pcntl_signal')) {
            self::markTestSkipped('needs pcntl');
        }
        $worker = $this->worker(WorkerProcess::code('return function (array $r) { posix_kill(getmypid(), SIGTERM); return "done"; };'));
        $idle = $worker->connect();
        self::assertSame('done', $worker->connect()->ask('GET', '/')['body']);
        self::assertSame(0, $worker->exitCode());
        self::assertFileDoesNotExist($worker->socket);
        self::assertTrue($idle->isClosedByWorker());
    }

    public function testTermEndsAnIdleWorker(): void
    {
        $worker = $this->worker(WorkerProcess::code(self::HELLO));
        $worker->connect()->ask('GET', '/');
        $worker->signal(SIGTERM);
        self::assertSame(0, $worker->exitCode());
        self::assertFileDoesNotExist($worker->socket);
    }

    public function testEndsWhenItsParentIsGone(): void
    {
        $shell = proc_open(['sh', '-c', 'exec sleep 100'], [], $pipes);
        $pid = proc_get_status($shell)['pid'];
        $worker = $this->worker(WorkerProcess::code(self::HELLO), ['VHTTPD_PARENT_PID' => (string) $pid]);
        self::assertSame('/', $worker->connect()->ask('GET', '/')['body']);
        proc_terminate($shell, 9);
        proc_close($shell);
        self::assertSame(0, $worker->exitCode());
        self::assertFileDoesNotExist($worker->socket);
    }

    public function testStaysWhileItsParentLives(): void
    {
        $parent = ['VHTTPD_PARENT_PID' => (string) getmypid()];
        $client = $this->worker(WorkerProcess::code(self::HELLO), $parent)->connect();
        $bare = $this->worker(WorkerProcess::code(self::HELLO), $parent, self::NO_EXTENSION)->connect();
        self::assertFalse($client->hasAnswer(1.2), 'longer than one look at the parent');
        self::assertSame('/', $client->ask('GET', '/')['body']);
        self::assertSame('/', $bare->ask('GET', '/')['body'], 'the parent is found without posix too');
    }

    public function testTakesOverASocketThatNobodyAnswersOn(): void
    {
        $worker = $this->worker(WorkerProcess::code(self::HELLO));
        $worker->signal(SIGKILL);
        $worker->exitCode();
        self::assertFileExists($worker->socket);
        $command = [PHP_BINARY, dirname(__DIR__) . '/bin/hedgerow-worker', '--socket', $worker->socket];
        $second = proc_open($command, [1 => ['pipe', 'w'], 3 => ['pipe', 'w']], $pipes, null, ['VHTTPD_APP' => WorkerProcess::code(self::HELLO), 'HEDGEROW_READY_FD' => '3'] + getenv());
        self::assertStringContainsString('true', fgets($pipes[3]));
        self::assertSame('/', (new Client($worker->socket))->ask('GET', '/')['body']);
        proc_terminate($second);
        proc_close($second);
    }

    public function testNeedsNoExtension(): void
    {
        $worker = $this->worker(dirname(__DIR__) . '/conform/app.php', [], self::NO_EXTENSION);
        $client = $worker->connect();
        self::assertSame(200, $client->ask('GET', '/conform')['status']);
        self::assertCount(5, $client->stream('GET', '/conform/stream/sse'));
        [$more, $raw] = FormTest::upload('x');
        self::assertSame($raw, $client->ask('POST', '/conform/echo', $more, $raw)['body']);
        $worker->signal(SIGTERM);
        self::assertSame(128 + SIGTERM, $worker->exitCode(), 'without pcntl the signal ends it at once');
    }

    public function testTheSocketStaysWhereItWasAskedFor(): void
    {
        $app = WorkerProcess::code('chdir("/"); return fn () => "x";');
        $directory = sys_get_temp_dir() . '/hedgerow-cwd-' . bin2hex(random_bytes(4));
        mkdir($directory);
        $command = [PHP_BINARY, dirname(__DIR__) . '/bin/hedgerow-worker', '--socket=w.sock', "--app=$app"];
        $process = proc_open($command, [3 => ['pipe', 'w']], $pipes, $directory, ['HEDGEROW_READY_FD' => '3'] + getenv());
        self::assertStringContainsString('true', fgets($pipes[3]));
        self::assertSame('x', (new Client("$directory/w.sock"))->ask('GET', '/')['body']);
        proc_terminate($process);
        fgets($pipes[3]);
        proc_close($process);
        self::assertTrue(rmdir($directory), 'the socket is gone');
    }

    public function testALargeDownloadUsesLittleMemory(): void
    {
        $file = tempnam(sys_get_temp_dir(), 'hedgerow-big-');
        file_put_contents($file, $bytes = random_bytes(20 << 20));
        try {
            $client = $this->serving("return fn (array \$r) => ['headers' => ['content-type' => 'application/zip'], 'body' => fopen('$file', 'rb')];");
            $client->ask('GET', '/');
            $before = $this->lastWorker()->peakMemory();
            $answer = $client->ask('GET', '/');
            self::assertSame(20 << 20, $answer['body_length']);
            self::assertSame(sha1($bytes), sha1($answer['body']));
            self::assertLessThan(64 << 20, $before);
            self::assertLessThan(2 << 20, $this->lastWorker()->peakMemory() - $before);
        } finally {
            unlink($file);
        }
    }

    public function testALargeUploadIsHeldOnce(): void
    {
        $client = $this->serving('return fn (array $r) => sha1($r["body"]);');
        $client->ask('GET', '/');
        $before = $this->lastWorker()->peakMemory();
        $body = str_repeat(random_bytes(1 << 20), 40);
        self::assertSame(sha1($body), $client->ask('POST', '/', ['body_length' => strlen($body)], $body)['body']);
        self::assertLessThan(50 << 20, $this->lastWorker()->peakMemory() - $before);
    }
}
