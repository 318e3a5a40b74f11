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
     * @param array<string, mixed>|false $hedge as in the gateway's configuration; false: this call has no twin
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
        array|false $hedge = [],
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

    /**
     * Rows of JSON: the text at `fieldPath` of each row goes to the client.
     *
     * @param string $fieldPath dotted, with array indices; empty: the row itself, where that is a text
     * @param string $output `text` (the pieces one after another) or `sse` (an event a piece)
     * @param array<array-key, mixed>|string $body an array is sent as JSON; with a body the method is POST
     * @param array<string, string> $requestHeaders
     * @param array<string, string|list<string>> $responseHeaders
     * @param array<string, mixed>|false $hedge
     */
    public static function ndjson(
        ?string $url = null,
        ?string $upstream = null,
        ?string $path = null,
        string $fieldPath = '',
        ?string $fallbackFieldPath = null,
        string $output = 'text',
        ?string $sseEvent = null,
        ?string $method = null,
        array $requestHeaders = [],
        array|string $body = '',
        array $responseHeaders = [],
        ?string $name = null,
        array|false $hedge = [],
    ): self {
        self::checkOutput($output);
        return self::http(
            url: $url,
            upstream: $upstream,
            path: $path,
            method: $method ?? self::method($body),
            requestHeaders: self::headers('application/x-ndjson', $body, $requestHeaders),
            body: self::json($body),
            codec: 'ndjson',
            mapper: "ndjson_{$output}_field",
            outputStreamType: $output,
            fieldPath: $fieldPath,
            fallbackFieldPath: $fallbackFieldPath,
            sseEvent: $sseEvent,
            responseHeaders: $responseHeaders,
            name: $name,
            hedge: $hedge,
        );
    }

    /**
     * An event stream. Without a `fieldPath` the events go to the client as they are. With one, the data of each is
     * JSON and the text at that place goes to the client, as `text` or as events of its own (`sse`).
     *
     * @param string|null $output `text` or `sse`; null: `sse` without a `fieldPath`, `text` with one
     * @param array<array-key, mixed>|string $body an array is sent as JSON; with a body the method is POST
     * @param array<string, string> $requestHeaders
     * @param array<string, string|list<string>> $responseHeaders
     * @param array<string, mixed>|false $hedge
     */
    public static function sse(
        ?string $url = null,
        ?string $upstream = null,
        ?string $path = null,
        ?string $fieldPath = null,
        ?string $fallbackFieldPath = null,
        ?string $output = null,
        ?string $sseEvent = null,
        ?string $method = null,
        array $requestHeaders = [],
        array|string $body = '',
        array $responseHeaders = [],
        ?string $name = null,
        array|false $hedge = [],
    ): self {
        $output ??= $fieldPath === null ? 'sse' : 'text';
        self::checkOutput($output);
        if ($fieldPath === null && $output === 'text') {
            throw new \InvalidArgumentException('events become text only with a fieldPath');
        }
        return self::http(
            url: $url,
            upstream: $upstream,
            path: $path,
            method: $method ?? self::method($body),
            requestHeaders: self::headers('text/event-stream', $body, $requestHeaders),
            body: self::json($body),
            codec: 'sse',
            mapper: $fieldPath === null ? 'sse_passthrough' : 'sse_text_field',
            outputStreamType: $output,
            fieldPath: $fieldPath,
            fallbackFieldPath: $fallbackFieldPath,
            sseEvent: $sseEvent,
            responseHeaders: $responseHeaders,
            name: $name,
            hedge: $hedge,
        );
    }

    /**
     * A model behind Ollama's API: `messages` go to `/api/chat`, a `prompt` to `/api/generate`.
     *
     * A `url` is the whole address, path included. A model changes nothing by answering twice, so a `hedge` that is
     * given here holds for this POST without `non_idempotent`.
     *
     * @param list<array<string, mixed>>|null $messages
     * @param array<string, mixed> $parameters further members of the request: `options`, `format`, `keep_alive`, …
     * @param string $output `text` or `sse`
     * @param array<string, string> $requestHeaders
     * @param array<string, string|list<string>> $responseHeaders
     * @param array<string, mixed>|false $hedge
     */
    public static function ollama(
        string $model,
        ?array $messages = null,
        ?string $prompt = null,
        ?string $url = null,
        ?string $upstream = null,
        ?string $path = null,
        array $parameters = [],
        string $output = 'text',
        ?string $sseEvent = null,
        array $requestHeaders = [],
        array $responseHeaders = [],
        ?string $name = null,
        array|false $hedge = [],
    ): self {
        if (($messages === null) === ($prompt === null)) {
            throw new \InvalidArgumentException('a model needs either messages or a prompt');
        }
        $said = $messages === null ? ['prompt' => $prompt] : ['messages' => $messages];
        return self::ndjson(
            url: $url,
            upstream: $upstream,
            path: $path ?? ($url !== null ? null : ($messages === null ? '/api/generate' : '/api/chat')),
            fieldPath: $messages === null ? 'response' : 'message.content',
            output: $output,
            sseEvent: $sseEvent,
            requestHeaders: $requestHeaders,
            body: ['model' => $model, ...$said, 'stream' => true] + $parameters,
            responseHeaders: $responseHeaders,
            name: $name ?? $model,
            hedge: self::repeatable($hedge),
        );
    }

    /**
     * A model behind OpenAI's chat API, or one of the many that speak it: `/v1/chat/completions`.
     *
     * A `url` is the whole address, path included; the key goes into `requestHeaders` as `authorization`. A `hedge`
     * that is given here holds for this POST, as with `ollama`.
     *
     * @param list<array<string, mixed>> $messages
     * @param array<string, mixed> $parameters further members of the request: `temperature`, `max_tokens`, …
     * @param string $output `text` or `sse`
     * @param array<string, string> $requestHeaders
     * @param array<string, string|list<string>> $responseHeaders
     * @param array<string, mixed>|false $hedge
     */
    public static function openAiChat(
        string $model,
        array $messages,
        ?string $url = null,
        ?string $upstream = null,
        ?string $path = null,
        array $parameters = [],
        string $output = 'text',
        ?string $sseEvent = null,
        array $requestHeaders = [],
        array $responseHeaders = [],
        ?string $name = null,
        array|false $hedge = [],
    ): self {
        return self::sse(
            url: $url,
            upstream: $upstream,
            path: $path ?? ($url !== null ? null : '/v1/chat/completions'),
            fieldPath: 'choices.0.delta.content',
            output: $output,
            sseEvent: $sseEvent,
            requestHeaders: $requestHeaders,
            body: ['model' => $model, 'messages' => $messages, 'stream' => true] + $parameters,
            responseHeaders: $responseHeaders,
            name: $name ?? $model,
            hedge: self::repeatable($hedge),
        );
    }

    /** @return array<string, mixed> the frame of the wire contract */
    public function frame(string $id): array
    {
        return ['mode' => 'stream', 'strategy' => 'upstream_plan', 'event' => 'start', 'id' => $id] + $this->fields;
    }

    private static function checkOutput(string $output): void
    {
        if ($output !== 'text' && $output !== 'sse') {
            throw new \InvalidArgumentException("the output of a plan is text or sse, not '$output'");
        }
    }

    /** @param array<array-key, mixed>|string $body */
    private static function method(array|string $body): string
    {
        return $body === '' ? 'GET' : 'POST';
    }

    /** @param array<array-key, mixed>|string $body */
    private static function json(array|string $body): string
    {
        return is_string($body) ? $body : json_encode($body, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE);
    }

    /**
     * What the call says by itself, where the application does not say otherwise.
     *
     * @param array<array-key, mixed>|string $body
     * @param array<string, string> $given
     * @return array<string, string>
     */
    private static function headers(string $accept, array|string $body, array $given): array
    {
        $usual = ['accept' => $accept] + (is_array($body) ? ['content-type' => 'application/json'] : []);
        return array_change_key_case($given) + $usual;
    }

    /**
     * @param array<string, mixed>|false $hedge
     * @return array<string, mixed>|false
     */
    private static function repeatable(array|false $hedge): array|false
    {
        return $hedge === [] || $hedge === false ? $hedge : $hedge + ['non_idempotent' => true];
    }
}
