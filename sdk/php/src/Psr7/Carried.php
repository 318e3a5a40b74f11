<?php

declare(strict_types=1);

namespace Hedgerow\Psr7;

use Hedgerow\Batch;
use Hedgerow\StreamResponse;
use Hedgerow\Upstream\Plan;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\StreamInterface;

/**
 * Lets a PSR-15 handler, which must return a PSR-7 response, answer with a stream, a plan or a batch:
 * `return Carried::response(StreamResponse::sse($events));`. Headers that middleware adds to the response
 * reach the client. The body is a placeholder: who reads it finds it empty.
 *
 * (No parameter types below: so the class fits both versions of psr/http-message.)
 */
final class Carried implements StreamInterface
{
    private function __construct(public readonly StreamResponse|Plan|Batch $result)
    {
    }

    public static function response(StreamResponse|Plan|Batch $result): ResponseInterface
    {
        $factories = Factories::find() ?? throw new \RuntimeException('no PSR-17 factory is installed');
        $response = $factories->responses->createResponse($result instanceof StreamResponse ? $result->status : 200);
        return $response->withBody(new self($result));
    }

    public function __toString(): string
    {
        return '';
    }

    public function close(): void
    {
    }

    public function detach()
    {
        return null;
    }

    public function getSize(): ?int
    {
        return null;
    }

    public function tell(): int
    {
        return 0;
    }

    public function eof(): bool
    {
        return true;
    }

    public function isSeekable(): bool
    {
        return false;
    }

    public function seek($offset, $whence = SEEK_SET): void
    {
        throw new \RuntimeException('this body cannot be moved in');
    }

    public function rewind(): void
    {
        throw new \RuntimeException('this body cannot be moved in');
    }

    public function isWritable(): bool
    {
        return false;
    }

    public function write($string): int
    {
        throw new \RuntimeException('this body cannot be written to');
    }

    public function isReadable(): bool
    {
        return false;
    }

    public function read($length): string
    {
        return '';
    }

    public function getContents(): string
    {
        return '';
    }

    public function getMetadata($key = null)
    {
        return $key === null ? [] : null;
    }
}
