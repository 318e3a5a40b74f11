<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

use Hedgerow\StreamResponse;

/**
 * What an application's result comes down to. Exactly one of these holds the body: `body` (bytes in memory),
 * `source` (bytes to be read), `stream` (pieces that the application still makes), `frame` (a plan or a batch).
 */
final class Answer
{
    /**
     * @param array<string, string|list<string>> $headers lower-cased
     * @param array<string, mixed>|null $frame
     */
    public function __construct(
        public readonly int $status = 200,
        public readonly array $headers = [],
        public readonly string $body = '',
        public readonly ?Source $source = null,
        public readonly ?StreamResponse $stream = null,
        public readonly ?array $frame = null,
    ) {
    }
}
