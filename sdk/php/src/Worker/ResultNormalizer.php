<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

use Hedgerow\Batch;
use Hedgerow\Psr7\Carried;
use Hedgerow\StreamResponse;
use Hedgerow\Upstream\Plan;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\StreamInterface;

/**
 * Makes an answer of what the application returned, or throws. What it throws, whoever is its author, is an
 * `app_contract_error`: the result could not be read as a response.
 */
final class ResultNormalizer
{
    private const IN_MEMORY = 256 * 1024;
    private const TEXT = ['content-type' => 'text/plain; charset=utf-8'];

    public static function normalize(mixed $result, string $id): Answer
    {
        if (is_string($result)) {
            return new Answer(200, self::TEXT, $result);
        }
        if (is_array($result)) {
            return self::fromArray($result, $id);
        }
        if ($result instanceof ResponseInterface) {
            return self::fromPsr7($result, $id);
        }
        if ($result instanceof StreamResponse) {
            return self::fromStream($result, $result->status, []);
        }
        if ($result instanceof Plan || $result instanceof Batch) {
            return new Answer(frame: $result->frame($id));
        }
        throw new ContractError('the application returned ' . get_debug_type($result) . ', which is no response');
    }

    /** @param array<array-key, mixed> $result */
    private static function fromArray(array $result, string $id): Answer
    {
        if (isset($result['mode'])) {
            return new Answer(frame: self::frameOf($result, $id));
        }
        if (!isset($result['status']) && !isset($result['headers']) && !isset($result['body'])) {
            throw new ContractError('the application returned an array without status, headers or body');
        }
        $status = Headers::status($result['status'] ?? 200);
        $headers = Headers::of($result['headers'] ?? []);
        if (isset($result['content_type'])) {
            $headers += Headers::of(['content-type' => $result['content_type']]);
        }
        $body = $result['body'] ?? '';
        if (is_string($body)) {
            return new Answer($status, $headers, $body);
        }
        if (is_resource($body) && get_resource_type($body) === 'stream' || $body instanceof StreamInterface) {
            return new Answer($status, $headers, '', new Source($body));
        }
        if ($body instanceof \Stringable) {
            return new Answer($status, $headers, (string) $body);
        }
        throw new ContractError('the body of the response is ' . get_debug_type($body) . ', not a string or stream');
    }

    /**
     * A plan or batch that was written out as an array.
     *
     * @param array<array-key, mixed> $result
     * @return array<array-key, mixed>
     */
    private static function frameOf(array $result, string $id): array
    {
        $plan = $result['mode'] === 'stream' && ($result['strategy'] ?? '') === 'upstream_plan';
        if (!$plan && $result['mode'] !== 'batch') {
            throw new ContractError('the application returned an array whose mode is neither an upstream plan nor a batch');
        }
        foreach (['request_headers', 'response_headers', 'meta', 'requests', 'state'] as $map) {
            if (isset($result[$map]) && is_array($result[$map])) {
                $result[$map] = (object) $result[$map]; // an empty one is a map too
            }
        }
        return ['id' => $id] + $result + ['event' => 'start'];
    }

    private static function fromPsr7(ResponseInterface $response, string $id): Answer
    {
        $body = $response->getBody();
        if ($body instanceof Carried) {
            if ($body->result instanceof StreamResponse) {
                return self::fromStream($body->result, $response->getStatusCode(), $response->getHeaders());
            }
            $frame = $body->result->frame($id);
            if ($body->result instanceof Plan) {
                $frame['response_headers'] = (object) (Headers::of((array) $frame['response_headers']) + Headers::of($response->getHeaders()));
            }
            return new Answer(frame: $frame);
        }
        $status = Headers::status($response->getStatusCode());
        $headers = Headers::of($response->getHeaders());
        $size = $body->getSize();
        if ($size === null || $size > self::IN_MEMORY) {
            return new Answer($status, $headers, '', new Source($body));
        }
        if ($body->isSeekable()) {
            $body->rewind();
        }
        return new Answer($status, $headers, $size === 0 ? '' : $body->getContents());
    }

    /** @param array<array-key, mixed> $more headers that middleware put around the stream */
    private static function fromStream(StreamResponse $stream, int $status, array $more): Answer
    {
        $headers = Headers::of($more) + Headers::of($stream->headers) + ['content-type' => $stream->contentType];
        Headers::of(['content-type' => $headers['content-type']]);
        return new Answer(Headers::status($status), $headers, stream: $stream);
    }
}
