<?php

declare(strict_types=1);

namespace Hedgerow\Tests;

use Hedgerow\Batch;
use Hedgerow\Upstream\Plan;

/** Plans and batches: the frames that the gateway reads, and the way back of a resume. */
final class PlanTest extends WorkerTestCase
{
    public function testAPlanIsItsFrame(): void
    {
        $plan = Plan::http(
            upstream: 'llm', path: '/v1/chat', method: 'POST', requestHeaders: ['accept' => 'x'], body: '{}', codec: 'sse', mapper: 'sse_text_field',
            fieldPath: 'choices.0.delta.content', fallbackFieldPath: 'text', sseEvent: 'token', name: 'chat', hedge: ['after_ms' => 50], outputContentType: 'text/plain',
        );
        self::assertSame(json_encode([
            'mode' => 'stream', 'strategy' => 'upstream_plan', 'event' => 'start', 'id' => 't', 'transport' => 'http', 'upstream' => 'llm', 'path' => '/v1/chat',
            'method' => 'POST', 'request_headers' => ['accept' => 'x'], 'body' => '{}', 'codec' => 'sse', 'mapper' => 'sse_text_field', 'output_stream_type' => 'text',
            'output_content_type' => 'text/plain', 'response_headers' => (object) [], 'name' => 'chat',
            'meta' => ['field_path' => 'choices.0.delta.content', 'fallback_field_path' => 'text', 'sse_event' => 'token'], 'hedge' => ['after_ms' => 50],
        ]), json_encode($plan->frame('t')));
        self::assertSame('sse', Plan::http(url: 'u', codec: 'ndjson', mapper: 'ndjson_sse_field')->frame('')['output_stream_type']);
    }

    public function testAPlanNeedsExactlyOneTarget(): void
    {
        foreach ([[], ['url' => 'u', 'upstream' => 'n']] as $arguments) {
            try {
                Plan::http(...$arguments);
                self::fail('no complaint');
            } catch (\InvalidArgumentException $error) {
                self::assertStringContainsString('either a url or an upstream', $error->getMessage());
            }
        }
    }

    public function testRowsAreTextOrEvents(): void
    {
        $get = Plan::ndjson(upstream: 'feed', path: '/rows', fieldPath: 'a.0.b')->frame('t');
        self::assertSame(['GET', 'feed', '/rows', 'ndjson', 'ndjson_text_field', 'text', ''], self::seen($get));
        self::assertEquals((object) ['accept' => 'application/x-ndjson'], $get['request_headers']);
        self::assertEquals((object) ['field_path' => 'a.0.b'], $get['meta']);
        $post = Plan::ndjson(
            url: 'http://feed/rows', fieldPath: 'a', fallbackFieldPath: 'b', output: 'sse', sseEvent: 'row', body: ['q' => 'é/'],
            requestHeaders: ['Accept' => 'text/plain', 'x-a' => 'b'], responseHeaders: ['x-c' => ['d']], name: 'rows', hedge: ['after_ms' => 9],
        )->frame('t');
        self::assertSame(['POST', 'http://feed/rows', null, 'ndjson', 'ndjson_sse_field', 'sse', '{"q":"é/"}'], self::seen($post));
        self::assertEquals((object) ['accept' => 'text/plain', 'x-a' => 'b', 'content-type' => 'application/json'], $post['request_headers']);
        self::assertEquals((object) ['field_path' => 'a', 'fallback_field_path' => 'b', 'sse_event' => 'row'], $post['meta']);
        self::assertEquals([(object) ['x-c' => ['d']], 'rows', ['after_ms' => 9]], [$post['response_headers'], $post['name'], $post['hedge']]);
        // Bytes are sent as they are, and nothing is said of their type.
        $put = Plan::ndjson(url: 'u', method: 'PUT', body: 'bytes')->frame('t');
        self::assertSame(['PUT', 'bytes'], [$put['method'], $put['body']]);
        self::assertEquals((object) ['accept' => 'application/x-ndjson'], $put['request_headers']);
    }

    public function testEventsPassOrAreRead(): void
    {
        $same = Plan::sse(upstream: 'feed', path: '/events')->frame('t');
        self::assertSame(['GET', 'feed', '/events', 'sse', 'sse_passthrough', 'sse', ''], self::seen($same));
        self::assertEquals((object) ['accept' => 'text/event-stream'], $same['request_headers']);
        self::assertSame(['sse_text_field', 'text'], array_slice(self::seen(Plan::sse(url: 'u', fieldPath: 'a')->frame('t')), 4, 2));
        self::assertSame(['sse_text_field', 'sse'], array_slice(self::seen(Plan::sse(url: 'u', fieldPath: 'a', output: 'sse')->frame('t')), 4, 2));
        self::assertFalse(Plan::sse(url: 'u', hedge: false)->frame('t')['hedge']);
        self::assertArrayNotHasKey('hedge', $same);
    }

    public function testAModelIsAskedAsItsServiceWantsIt(): void
    {
        $messages = [['role' => 'user', 'content' => 'hello']];
        $chat = Plan::ollama(model: 'llama', messages: $messages, upstream: 'ollama', parameters: ['options' => ['seed' => 1]])->frame('t');
        self::assertSame(
            ['POST', 'ollama', '/api/chat', 'ndjson', 'ndjson_text_field', 'text', '{"model":"llama","messages":[{"role":"user","content":"hello"}],"stream":true,"options":{"seed":1}}'],
            self::seen($chat),
        );
        self::assertEquals([(object) ['field_path' => 'message.content'], 'llama'], [$chat['meta'], $chat['name']]);
        $generate = Plan::ollama(model: 'llama', prompt: 'hello', url: 'http://127.0.0.1:11434/api/generate', output: 'sse')->frame('t');
        self::assertSame(
            ['POST', 'http://127.0.0.1:11434/api/generate', null, 'ndjson', 'ndjson_sse_field', 'sse', '{"model":"llama","prompt":"hello","stream":true}'],
            self::seen($generate),
        );
        self::assertSame('/api/generate', Plan::ollama(model: 'm', prompt: '', upstream: 'u')->frame('t')['path']);
        $openAi = Plan::openAiChat(
            model: 'gpt', messages: $messages, upstream: 'models', parameters: ['temperature' => 0, 'stream' => false],
            requestHeaders: ['Authorization' => 'Bearer k'], hedge: ['after_ms' => 100],
        )->frame('t');
        self::assertSame(
            ['POST', 'models', '/v1/chat/completions', 'sse', 'sse_text_field', 'text', '{"model":"gpt","messages":[{"role":"user","content":"hello"}],"stream":true,"temperature":0}'],
            self::seen($openAi),
        );
        self::assertEquals((object) ['authorization' => 'Bearer k', 'accept' => 'text/event-stream', 'content-type' => 'application/json'], $openAi['request_headers']);
        self::assertEquals([(object) ['field_path' => 'choices.0.delta.content'], ['after_ms' => 100, 'non_idempotent' => true]], [$openAi['meta'], $openAi['hedge']]);
        // What the application says of repeating stands.
        $never = Plan::openAiChat(model: 'm', messages: [], url: 'u', hedge: ['after_ms' => 1, 'non_idempotent' => false])->frame('t');
        self::assertFalse($never['hedge']['non_idempotent']);
    }

    public function testWhatABuilderCannotMeanIsRefused(): void
    {
        $wrong = [
            'either a url or an upstream' => fn () => Plan::openAiChat(model: 'm', messages: []),
            'either messages or a prompt' => fn () => Plan::ollama(model: 'm', url: 'u'),
            'is text or sse' => fn () => Plan::ndjson(url: 'u', output: 'html'),
            'only with a fieldPath' => fn () => Plan::sse(url: 'u', output: 'text'),
        ];
        foreach ($wrong as $complaint => $build) {
            try {
                $build();
                self::fail("no complaint: $complaint");
            } catch (\InvalidArgumentException $error) {
                self::assertStringContainsString($complaint, $error->getMessage());
            }
        }
    }

    /**
     * @param array<string, mixed> $frame
     * @return list<string|null>
     */
    private static function seen(array $frame): array
    {
        return [
            $frame['method'], $frame['url'] ?? $frame['upstream'], $frame['path'] ?? null,
            $frame['codec'], $frame['mapper'], $frame['output_stream_type'], $frame['body'],
        ];
    }

    public function testABatchIsItsFrame(): void
    {
        $batch = Batch::of(['a' => 'http://a/', 'b' => ['upstream' => 'u', 'path' => '/', 'headers' => []]]);
        self::assertSame('{"mode":"batch","event":"start","id":"t","requests":{"a":{"url":"http://a/"},"b":{"upstream":"u","path":"/","headers":{}}},"then":"respond","deadline_ms":500}', json_encode($batch->respond(500)->frame('t'), JSON_UNESCAPED_SLASHES));
        self::assertSame('{"mode":"batch","event":"start","id":"t","requests":{"0":{"url":"http://a/"}},"then":"resume","state":{}}', json_encode(Batch::of(['http://a/'])->resume()->frame('t'), JSON_UNESCAPED_SLASHES));
        $this->expectException(\InvalidArgumentException::class);
        Batch::of(['a' => ['path' => '/']]);
    }

    public function testBothWayThroughAWorker(): void
    {
        $client = $this->serving('use Hedgerow\{Batch, Upstream\Plan}; return function (array $r) {
            if (Batch::results($r) !== null) { return Batch::state($r)["n"] . Batch::results($r)["a"]["body"]; }
            return match ($r["path"]) {
                "/batch" => Batch::of(["a" => "http://a/"])->resume(state: ["n" => "state "]),
                "/plan" => Plan::http(url: "http://u/", codec: "ndjson", mapper: "ndjson_text_field"),
                "/array" => ["mode" => "batch", "requests" => ["a" => ["url" => "http://a/"]], "then" => "respond", "state" => []],
                "/plan-array" => ["mode" => "stream", "strategy" => "upstream_plan", "transport" => "ws", "url" => "ws://u/"],
            };
        };');
        $batch = $client->ask('GET', '/batch');
        self::assertSame(['batch', 'start', 'trace-1', 'resume', ['n' => 'state ']], [$batch['mode'], $batch['event'], $batch['id'], $batch['then'], $batch['state']]);
        $resumed = $client->ask('GET', '/batch', ['mode' => 'batch', 'event' => 'resume', 'state' => $batch['state'], 'results' => ['a' => ['status' => 200, 'body' => 'result']]]);
        self::assertSame('state result', $resumed['body']);
        self::assertSame(['upstream_plan', 'http://u/', 'trace-1'], [$client->ask('GET', '/plan')['strategy'], $client->ask('GET', '/plan')['url'], $client->ask('GET', '/plan')['id']]);
        self::assertSame(['start', 'respond'], [$client->ask('GET', '/array')['event'], $client->ask('GET', '/array')['then']]);
        self::assertSame(['ws', 'start'], [$client->ask('GET', '/plan-array')['transport'], $client->ask('GET', '/plan-array')['event']]);
    }
}
