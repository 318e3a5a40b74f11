<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/**
 * The loop: waits on the listener and on the kept connections at once, and serves one request at a time. It
 * ends when it is told to stop, or when the gateway is gone; a request that has begun to arrive is answered first.
 */
final class Server
{
    /** No wait is longer: a signal that comes just before the wait begins does not end it, and the gateway may be gone. */
    private const WAIT_SECONDS = 1;
    private const CONNECTIONS = 256;
    /** A signal ends a wait early, but not that often in a row; a file descriptor too high for select always does. */
    private const SELECT_FAILURES = 1000;

    private bool $stopping = false;
    /** @var array<int, Connection> */
    private array $connections = [];
    /** @var array<int, resource> the listener under 0, then the stream of each connection */
    private array $streams;

    public function __construct(
        private readonly Listener $listener,
        private readonly Service $service,
        private readonly ?ParentWatch $parent,
    ) {
        $this->streams = [0 => $listener->stream];
    }

    public function stop(): void
    {
        $this->stopping = true;
    }

    public function run(): void
    {
        $failures = 0;
        while (true) {
            $ready = $this->streams;
            $count = self::select($ready, $this->stopping && !$this->isMidway() ? 0 : self::WAIT_SECONDS);
            $failures = $count < 0 ? $failures + 1 : 0;
            if ($failures > self::SELECT_FAILURES) {
                throw new \RuntimeException('waiting for connections fails again and again');
            }
            if ($count === 0) {
                if ($this->stopping || $this->parent?->isGone()) {
                    return;
                }
                continue;
            }
            foreach ($ready as $key => $stream) {
                if ($key === 0) {
                    $this->accept();
                } else {
                    $this->serve($key, $this->connections[$key]);
                }
            }
        }
    }

    /**
     * @param array<int, resource> $ready
     * @return int how many are ready; -1 after a signal
     */
    private static function select(array &$ready, int $wait): int
    {
        $none = null;
        try {
            $count = @stream_select($ready, $none, $none, $wait);
        } catch (\Throwable) { // an error handler of the application that throws on suppressed warnings
            $count = false;
        }
        if ($count === false) {
            $ready = [];
            return -1;
        }
        return $count;
    }

    private function accept(): void
    {
        $stream = Quiet::run(fn (): mixed => stream_socket_accept($this->listener->stream, 0));
        if ($stream === false) {
            return;
        }
        if (count($this->connections) >= self::CONNECTIONS) {
            $this->drop(array_key_first($this->connections)); // kept longest without being closed
        }
        $key = (int) $stream;
        $this->connections[$key] = new Connection($stream);
        $this->streams[$key] = $stream;
        $this->serve($key, $this->connections[$key]); // its first frame is mostly there already
    }

    private function serve(int $key, Connection $connection): void
    {
        $request = $connection->receive();
        while ($request !== null) {
            $this->service->serve($connection, $request);
            $request = $connection->buffered();
        }
        if ($connection->over) {
            $this->drop($key);
        }
    }

    private function drop(int $key): void
    {
        $this->connections[$key]->close();
        unset($this->connections[$key], $this->streams[$key]);
    }

    private function isMidway(): bool
    {
        foreach ($this->connections as $connection) {
            if ($connection->midway()) {
                return true;
            }
        }
        return false;
    }
}
