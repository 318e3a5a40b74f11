<?php

declare(strict_types=1);

namespace Hedgerow\Upstream;

/**
 * An answer that is no response but a plan: "stream this upstream to the client". The worker is free at once,
 * the gateway does the call. This class only says what is wanted; the gateway decides what it allows.
 */
final class Plan
{
    /** @param array<string, mixed> $fields */
    private function __construct(private readonly array $fields)
    {
    }

    /**
     * One HTTP call: either a `url`, or the name of a configured `upstream` with a `path`.
     *
     * @param string $codec `ndjson`, `sse` or `raw`: what the upstream sends
     * @param string $mapper `ndjson_text_field`, `ndjson_sse_field`, `sse_text_field`, `sse_passthrough` or `raw`
     * @param array<string, string> $requestHeaders
     * @param string|null $outputStreamType `text` or `sse`; null: what the mapper makes
     * @param array<string, string|list<string>> $responseHeaders
     * @param string|null $fieldPath dotted, with array indices: `choices.0.delta.content`
     * @param array<string, mixed> $meta further fields of `meta`, as the gateway spells them
     * @param array<string, mixed> $hedge as in the gateway's configuration
     */
    public static function http(
        ?string $url = null,
        string $codec = 'raw',
        string $mapper = 'raw',
        ?string $upstream = null,
        ?string $path = null,
        string $method = 'GET',
        array $requestHeaders = [],
        string $body = '',
        ?string $outputStreamType = null,
        ?string $outputContentType = null,
        array $responseHeaders = [],
        ?string $name = null,
        ?string $fieldPath = null,
        ?string $fallbackFieldPath = null,
        ?string $sseEvent = null,
        array $meta = [],
        ?string $fixturePath = null,
        array $hedge = [],
    ): self {
        if (($url === null) === ($upstream === null)) {
            throw new \InvalidArgumentException('a plan needs either a url or an upstream');
        }
        $sse = str_ends_with($mapper, '_sse_field') || $mapper === 'sse_passthrough';
        $meta += array_filter([
            'field_path' => $fieldPath,
            'fallback_field_path' => $fallbackFieldPath,
            'sse_event' => $sseEvent,
        ], static fn (?string $value): bool => $value !== null);
        $fields = [
            'transport' => 'http',
            'url' => $url,
            'upstream' => $upstream,
            'path' => $path,
            'method' => $method,
            'request_headers' => (object) $requestHeaders,
            'body' => $body,
            'codec' => $codec,
            'mapper' => $mapper,
            'output_stream_type' => $outputStreamType ?? ($sse ? 'sse' : 'text'),
            'output_content_type' => $outputContentType,
            'response_headers' => (object) $responseHeaders,
            'name' => $name,
            'meta' => (object) $meta,
            'fixture_path' => $fixturePath,
            'hedge' => $hedge === [] ? null : $hedge,
        ];
        return new self(array_filter($fields, static fn (mixed $value): bool => $value !== null));
    }

    /** @return array<string, mixed> the frame of the wire contract */
    public function frame(string $id): array
    {
        return ['mode' => 'stream', 'strategy' => 'upstream_plan', 'event' => 'start', 'id' => $id] + $this->fields;
    }
}
