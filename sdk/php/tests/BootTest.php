<?php

declare(strict_types=1);

namespace Hedgerow\Tests;

/** An application that does not boot is said so, at once or to every request, and never replaced by anything. */
final class BootTest extends WorkerTestCase
{
    /** @return array<string, array{string, string}> */
    public static function failures(): array
    {
        return [
            'syntax error' => ['return fn( => ;', 'syntax error'],
            'throw' => ['throw new RuntimeException("no database");', 'no database'],
            'missing class' => ['return new Nowhere();', 'Class "Nowhere" not found'],
            'exit' => ['exit(0);', 'called exit()'],
            'fatal' => ['function hedgerow_twice() {} eval("function hedgerow_twice() {}");', 'Cannot redeclare'],
            'memory' => ['ini_set("memory_limit", "16M"); $a = str_repeat("x", 32 << 20);', 'Allowed memory size'],
            'returns nothing' => ['$app = fn () => "x";', 'returns nothing'],
            'null' => ['return null;', 'expected a callable'],
            'string' => ['return "<h1>Hello</h1>";', 'expected a callable'],
            'object' => ['return new stdClass();', 'expected a callable'],
            'empty list' => ['return [];', 'expected a callable'],
            'stage' => ['return [fn ($r, $n) => $n($r), 7];', 'entry 1'],
            'key' => ['return ["http" => fn () => "x", "htpp" => 1];', 'htpp'],
            'stream' => ['return ["stream" => 7];', 'stream handler'],
        ];
    }

    /** @dataProvider failures */
    public function testAFailedBootIsReported(string $code, string $why): void
    {
        $worker = $this->worker(WorkerProcess::code($code));
        self::assertFalse($worker->ready['ready']);
        self::assertStringContainsString($why, $worker->ready['error']);
        self::assertSame(1, $worker->exitCode());
        self::assertFileDoesNotExist($worker->socket);
    }

    /** @dataProvider failures */
    public function testWithoutAReadyPipeEveryRequestIsToldSo(string $code, string $why): void
    {
        $worker = $this->unwatched(WorkerProcess::code($code));
        foreach ([1, 2] as $time) {
            $answer = $worker->connect()->ask('GET', '/');
            self::assertFailure('worker_runtime_error', $answer);
            self::assertStringContainsString($why, $answer['headers']['x-worker-error']);
        }
        $worker->signal(SIGTERM);
        $worker->exitCode();
        self::assertFileDoesNotExist($worker->socket);
    }

    public function testAMissingFileOrNone(): void
    {
        self::assertStringContainsString('cannot be read', $this->worker('/nowhere/app.php')->ready['error']);
        self::assertStringContainsString('VHTTPD_APP', $this->worker('')->ready['error']);
        self::assertStringContainsString('cannot be read', $this->worker(__DIR__)->ready['error']);
    }

    public function testAPsr15ApplicationWithoutPsr7Packages(): void
    {
        $code = 'return fn (Psr\Http\Message\ServerRequestInterface $r) => "x";';
        $worker = $this->worker(WorkerProcess::code($code), ['HEDGEROW_PSR17' => 'none']);
        self::assertStringContainsString('no PSR-17 factory', $worker->ready['error']);
    }

    public function testWhatTheFilePrintsGoesToStderr(): void
    {
        $worker = $this->worker(WorkerProcess::code('echo "printed at boot"; echo $undefined; return fn () => "x";'));
        self::assertTrue($worker->ready['ready']);
        self::assertSame('x', $worker->connect()->ask('GET', '/')['body']);
        self::assertStringContainsString('printed at boot', $worker->stderr());
        self::assertSame('', $worker->stdout());
    }

    public function testAWorkerOfTheFirstGatewayTellsItsCapabilitiesWithItsAnswers(): void
    {
        $worker = $this->unwatched(WorkerProcess::code('return fn (array $r) => "x";'));
        $client = $worker->connect();
        self::assertSame(['keep_alive', 'raw_body', 'cancel', 'lean'], $client->ask('GET', '/')['capabilities']);
        self::assertArrayNotHasKey('capabilities', $client->ask('GET', '/'));
        $client->close();
        self::assertSame('x', $worker->connect()->ask('GET', '/')['body']);
    }

    public function testBadArgumentsAndASocketThatCannotBe(): void
    {
        $run = static function (string ...$arguments): array {
            $command = [PHP_BINARY, dirname(__DIR__) . '/bin/hedgerow-worker', ...$arguments];
            $process = proc_open($command, [1 => ['pipe', 'w'], 2 => ['pipe', 'w']], $pipes, null, ['VHTTPD_APP' => WorkerProcess::code('return fn () => "x";')] + getenv());
            $said = stream_get_contents($pipes[1]) . stream_get_contents($pipes[2]);
            return [proc_close($process), $said];
        };
        self::assertSame(2, $run()[0]);
        self::assertSame(2, $run('--sokket', 'x')[0]);
        self::assertSame(2, $run('--socket')[0]);
        self::assertSame(0, $run('--help')[0]);
        [$code, $said] = $run('--socket', sys_get_temp_dir() . '/' . str_repeat('s', 120));
        self::assertSame(2, $code);
        self::assertStringContainsString('longer than 107 bytes', $said);
        [$code, $said] = $run('--socket', '/nowhere/at/all.sock');
        self::assertSame(2, $code);
        self::assertStringContainsString('cannot be opened', $said);
    }
}
