<?php

declare(strict_types=1);

namespace Hedgerow\Tests;

use PHPUnit\Framework\TestCase;

/** A test that starts workers; they end with it. */
abstract class WorkerTestCase extends TestCase
{
    /** @var list<WorkerProcess> */
    private array $workers = [];

    /**
     * @param array<string, string> $environment
     * @param list<string> $php
     */
    protected function worker(string $app, array $environment = [], array $php = []): WorkerProcess
    {
        return $this->workers[] = WorkerProcess::start($app, $environment, $php);
    }

    /** @param array<string, string> $environment */
    protected function serving(string $code, array $environment = []): Client
    {
        return $this->worker(WorkerProcess::code($code), $environment)->connect();
    }

    protected function unwatched(string $app): WorkerProcess
    {
        return $this->workers[] = WorkerProcess::startUnwatched($app);
    }

    protected function lastWorker(): WorkerProcess
    {
        return end($this->workers);
    }

    protected function tearDown(): void
    {
        foreach ($this->workers as $worker) {
            $worker->stop();
        }
        $this->workers = [];
    }

    /** @param array<string, mixed> $answer */
    protected static function assertFailure(string $class, array $answer, ?string $exception = null): void
    {
        self::assertSame(500, $answer['status'] ?? null);
        self::assertSame($class, $answer['headers']['x-worker-error-class'] ?? null);
        self::assertSame('Internal Server Error', $answer['body']);
        if ($exception !== null) {
            self::assertSame($exception, $answer['headers']['x-worker-exception'] ?? null);
        }
    }
}
