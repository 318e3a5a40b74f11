<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/**
 * One request being answered: on which connection, under which id, and how far the answer has come. Whoever
 * fails in the middle of it reads here what may still be said: a 500, an error frame, or nothing.
 */
final class Exchange
{
    /** Nothing was written yet. */
    public const OPEN = 0;
    /** A stream has begun. */
    public const STREAMING = 1;
    /** A body of a promised length has begun: nothing but its bytes may follow. */
    public const RAW = 2;
    /** The answer is complete. */
    public const DONE = 3;

    public int $state = self::OPEN;

    public function __construct(
        public readonly Connection $connection,
        public readonly string $id,
        private readonly Incoming $incoming,
    ) {
    }

    /** Whether the client wants the head of the answer alone. */
    public function isHead(): bool
    {
        return ($this->incoming->frame['method'] ?? '') === 'HEAD';
    }

    /** The request, for the log: method, path and trace. */
    public function what(): string
    {
        $part = fn (string $name): string => is_string($this->incoming->frame[$name] ?? null) ? $this->incoming->frame[$name] : '';
        return Failure::clean($part('method') . ' ' . $part('path') . ' trace=' . $part('id'));
    }

    /**
     * Reports a failure as far as that is still possible. An answer cut short ends its connection. A worker that is
     * `$exiting` says so, and gets no further request.
     */
    public function fail(Failure $failure, bool $exiting = false): void
    {
        $last = $exiting ? ['exiting' => true] : [];
        if ($this->state === self::OPEN) {
            $this->connection->send(Frame::encode($failure->response($this->id) + $last));
        } else {
            if ($this->state === self::STREAMING) {
                $this->connection->send(Frame::encode($failure->inStream($this->id) + $last));
            }
            $this->connection->close();
        }
        $this->state = self::DONE;
    }
}
