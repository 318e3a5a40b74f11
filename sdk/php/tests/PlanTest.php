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
