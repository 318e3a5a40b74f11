<?php

declare(strict_types=1);

namespace Hedgerow\Tests;

/** Whatever an application does within a request, the gateway gets one answer of one class. */
final class FailureTest extends WorkerTestCase
{
    /** @return array<string, array{string, string, string}> */
    public static function thrown(): array
    {
        return [
            'TypeError' => ['throw new TypeError("t")', 'app_contract_error', 'TypeError'],
            'ArgumentCountError' => ['(fn ($a) => 1)()', 'app_contract_error', 'ArgumentCountError'],
            'InvalidArgumentException' => ['throw new InvalidArgumentException("i")', 'app_contract_error', 'InvalidArgumentException'],
            'LogicException' => ['throw new LogicException("l")', 'app_contract_error', 'LogicException'],
            'DomainException' => ['throw new DomainException("d")', 'app_contract_error', 'DomainException'],
            'Exception' => ['throw new Exception("e")', 'worker_runtime_error', 'Exception'],
            'RuntimeException' => ['throw new RuntimeException("r")', 'worker_runtime_error', 'RuntimeException'],
            'DivisionByZeroError' => ['1 % 0', 'worker_runtime_error', 'DivisionByZeroError'],
            'Error' => ['missing_function()', 'worker_runtime_error', 'Error'],
            'anonymous' => ['throw new class("a") extends Exception {}', 'worker_runtime_error', 'Exception@anonymous'],
        ];
    }

    /** @dataProvider thrown */
    public function testMapsExceptions(string $code, string $class, string $exception): void
    {
        $client = $this->serving("return fn (array \$r) => \$r['path'] === '/fine' ? 'fine' : $code;");
        $answer = $client->ask('GET', '/');
        self::assertFailure($class, $answer, $exception);
        unset($answer['headers']['x-worker-error']); // goes to the log
        self::assertStringNotContainsString('hedgerow-app-', json_encode($answer), 'no path in the answer');
        self::assertSame('fine', $client->ask('GET', '/fine')['body'], 'the worker goes on');
    }

    /** @return array<string, array{string}> */
    public static function noResponses(): array
    {
        return array_map(static fn (string $code): array => [$code], [
            'null' => 'null', 'int' => '7', 'bool' => 'true', 'object' => 'new stdClass()', 'empty array' => '[]',
            'other array' => '["users" => []]', 'list' => '[200, [], "x"]',
            'status 99' => '["status" => 99]', 'status 600' => '["status" => 600]', 'status 101' => '["status" => 101]',
            'status abc' => '["status" => "abc"]', 'status 2e2' => '["status" => "2e2"]', 'status float' => '["status" => 200.5]',
            'headers string' => '["status" => 200, "headers" => "x: y"]', 'headers list' => '["headers" => ["x: y"]]',
            'header name' => '["headers" => ["x y" => "1"]]', 'header name with line end' => '["headers" => ["x\n" => "1"]]',
            'header split' => '["headers" => ["x" => "1\r\nx-evil: 1"]]', 'header object' => '["headers" => ["x" => new stdClass()]]',
            'header not UTF-8' => '["headers" => ["x" => "\xff"]]',
            'body int' => '["body" => 1]', 'body array' => '["body" => ["a"]]',
            'unknown mode' => '["mode" => "dance"]', 'unknown strategy' => '["mode" => "stream", "strategy" => "x"]',
            'batch without then' => 'Hedgerow\Batch::of([])', 'stream status' => 'Hedgerow\StreamResponse::text(["a"], 99)',
            'stream header' => 'Hedgerow\StreamResponse::text(["a"], 200, ["a" => "\n"])',
        ]);
    }

    /** @dataProvider noResponses */
    public function testRefusesWhatIsNoResponse(string $code): void
    {
        $client = $this->serving("return fn (array \$r) => \$r['path'] === '/fine' ? 'fine' : $code;");
        self::assertFailure('app_contract_error', $client->ask('GET', '/'));
        self::assertSame('fine', $client->ask('GET', '/fine')['body']);
    }

    public function testAThrowWhileReadingTheResultIsAContractError(): void
    {
        $client = $this->serving('return fn (array $r) => ["headers" => ["x" => new class { function __toString(): string { throw new RuntimeException("no"); } }]];');
        self::assertFailure('app_contract_error', $client->ask('GET', '/'), 'RuntimeException');
    }

    public function testBoundsAndCleansTheMessage(): void
    {
        $client = $this->serving('return fn (array $r) => throw new RuntimeException($r["body"]);');
        $message = $client->ask('POST', '/', ['body' => str_repeat("\u{1F33F}\n", 5000)])['headers']['x-worker-error'];
        self::assertLessThanOrEqual(2048, strlen($message));
        self::assertGreaterThan(2000, strlen($message));
        self::assertSame(1, preg_match('//u', $message));
        $message = $client->ask('POST', '/', ['body_length' => 5], "a\xff\0\x1bb")['headers']['x-worker-error'];
        self::assertSame('a? b', $message);
    }

    /** @return array<string, array{string, string}> */
    public static function ends(): array
    {
        return [
            'exit' => ['exit(0)', 'the application called exit()'],
            'die' => ['die("bye")', 'the application called exit()'],
            'out of memory' => ['ini_set("memory_limit", "16M") && str_repeat("x", 32 << 20)', 'Allowed memory size'],
            'out of memory in small steps' => ['(function () { ini_set("memory_limit", "16M"); $a = []; while (true) { $a[] = [1, 2]; } })()', 'Allowed memory size'],
            'E_USER_ERROR' => ['trigger_error("fatal wish", E_USER_ERROR)', 'fatal wish'],
            'compile error' => ['eval("class Hedgerow_Twice {} class Hedgerow_Twice {}")', 'Cannot declare class'],
        ];
    }

    /** @dataProvider ends */
    public function testTheLastWordOfADyingProcessIsA500(string $code, string $message): void
    {
        $worker = $this->worker(WorkerProcess::code("return fn (array \$r) => $code;"));
        $answer = $worker->connect()->ask('GET', '/');
        self::assertFailure('worker_runtime_error', $answer);
        self::assertStringContainsString($message, $answer['headers']['x-worker-error']);
        self::assertTrue($answer['exiting'] ?? false, 'it says that it gets no further request');
        self::assertNotSame(0, $worker->exitCode());
        self::assertFileDoesNotExist($worker->socket);
        self::assertSame('', $worker->stdout());
    }

    public function testExitWithinAStreamIsAnErrorFrame(): void
    {
        $worker = $this->worker(WorkerProcess::code('return fn (array $r) => Hedgerow\StreamResponse::text((function () { yield "one"; exit(0); })());'));
        $frames = $worker->connect()->stream('GET', '/');
        self::assertSame(['start', 'chunk', 'error'], array_column($frames, 'event'));
        self::assertSame('worker_runtime_error', $frames[2]['error_class']);
        self::assertTrue($frames[2]['exiting'] ?? false);
        self::assertSame(1, $worker->exitCode());
    }

    public function testTheShutdownFunctionsOfTheApplicationStillRun(): void
    {
        $worker = $this->worker(WorkerProcess::code('register_shutdown_function(function () { file_put_contents("php://stderr", "mine ran"); }); return fn () => exit;'));
        self::assertFailure('worker_runtime_error', $worker->connect()->ask('GET', '/'));
        self::assertSame(1, $worker->exitCode());
        self::assertStringContainsString('mine ran', $worker->stderr());
    }

    public function testAForkedChildOfTheApplicationHasNoSay(): void
    {
        if (!function_exists('pcntl_fork')) {
            self::markTestSkipped('needs pcntl');
        }
        $worker = $this->worker(WorkerProcess::code('return function (array $r) { $p = pcntl_fork(); if ($p === 0) { exit(0); } pcntl_waitpid($p, $s); return "child $s"; };'));
        $client = $worker->connect();
        self::assertSame('child 0', $client->ask('GET', '/')['body']);
        self::assertSame('child 0', $client->ask('GET', '/')['body']);
        self::assertFileExists($worker->socket);
    }

    public function testAnErrorHandlerThatThrowsOnEverythingDoesNoHarm(): void
    {
        $client = $this->serving('set_error_handler(function ($n, $m) { throw new ErrorException($m); }); return fn (array $r) => $r["path"] === "/warn" ? $undefined : "fine";');
        self::assertSame('fine', $client->ask('GET', '/')['body']);
        self::assertFailure('worker_runtime_error', $client->ask('GET', '/warn'), 'ErrorException');
        $gone = $this->lastWorker()->connect();
        $gone->send(Client::request('GET', '/'));
        $gone->close();
        self::assertSame('fine', $client->ask('GET', '/')['body']);
    }

    public function testOutputBuffersLeftOpenOrTornDownDoNoHarm(): void
    {
        $client = $this->serving('return function (array $r) { if ($r["path"] === "/open") { ob_start(); ob_start(); echo "left open"; } else { while (ob_get_level()) ob_end_clean(); echo "torn down"; } return "x"; };');
        foreach (['/open', '/torn', '/open', '/torn'] as $path) {
            self::assertSame('x', $client->ask('GET', $path)['body']);
        }
    }
}
