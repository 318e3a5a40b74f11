<?php

declare(strict_types=1);

namespace Hedgerow;

/**
 * A response whose body comes piece by piece. The status and headers go out with the first piece, so an
 * exception before it is an ordinary 500. When the client leaves, the iterable is dropped at its next piece
 * and the `finally` blocks of a generator run.
 */
final class StreamResponse
{
    /** @param array<string, string|list<string>> $headers */
    private function __construct(
        public readonly string $type,
        private ?iterable $items,
        public readonly int $status,
        public readonly array $headers,
        public readonly string $contentType,
    ) {
    }

    /**
     * Each item is a string and is sent as it is.
     *
     * @param iterable<string|\Stringable> $chunks
     * @param array<string, string|list<string>> $headers
     */
    public static function text(
        iterable $chunks,
        int $status = 200,
        array $headers = [],
        string $contentType = 'text/plain; charset=utf-8',
    ): self {
        return new self('text', $chunks, $status, $headers, $contentType);
    }

    /**
     * Each item is an event: its data as a string, or an array with `data` and, if wanted, `id`, `event`, `retry`.
     * Data that is an array is written as JSON. A string key of the iterable names the event.
     *
     * @param iterable<string|\Stringable|array{id?: string|int, event?: string, data?: mixed, retry?: int}> $events
     * @param array<string, string|list<string>> $headers
     */
    public static function sse(iterable $events, int $status = 200, array $headers = []): self
    {
        return new self('sse', $events, $status, $headers, 'text/event-stream');
    }

    /**
     * Hands the iterable over, once: the one who sends it must hold the only reference, to be able to end it.
     *
     * @internal
     */
    public function take(): iterable
    {
        $items = $this->items ?? throw new \LogicException('a stream can be sent only once');
        $this->items = null;
        return $items;
    }
}
