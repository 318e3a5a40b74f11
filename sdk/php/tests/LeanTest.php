<?php

declare(strict_types=1);

namespace Hedgerow\Tests;

/** What a gateway leaves out for a lean worker, the application has all the same: field by field, as an array and as PSR-7. */
final class LeanTest extends WorkerTestCase
{
    private const APP = 'return fn (array $r): array => ["body" => json_encode($r)];';
    private const PSR7 = 'return fn (Psr\Http\Message\ServerRequestInterface $r): string => json_encode([
        $r->getMethod(), (string) $r->getUri(), $r->getHeaders(), $r->getQueryParams(), $r->getCookieParams(), $r->getAttributes(), (string) $r->getBody(),
        array_diff_key($r->getServerParams(), ["REQUEST_TIME" => 0, "REQUEST_TIME_FLOAT" => 0]),
    ]);';

    /** @return array<string, array{string, array<string, mixed>}> a target and what differs from a plain request */
    public static function requests(): array
    {
        return [
            'plain' => ['/', []],
            'headers' => ['/', ['headers' => ['host' => 'example.test:8080', 'x-u' => "gr\u{fc}n \u{2028} / \"q\" \\", '7' => 'number']]],
            'repeated' => ['/', ['headers' => ['x' => 'a, b', 'y' => 'c'], 'header_list' => [['x', 'a'], ['y', 'c'], ['x', 'b']]]],
            'query' => ['/a%20b?x=1&x=%2F+y&z', []],
            'no deadline' => ['/', ['deadline_unix_ms' => null]],
            'body' => ['/', ['body' => base64_encode('text'), 'body_encoding' => 'base64']],
            'cookies' => ['/', ['headers' => ['cookie' => 'a=b'], 'cookies' => ['a' => 'b']]],
        ];
    }

    /**
     * @dataProvider requests
     * @param array<string, mixed> $more
     */
    public function testNothingIsMissing(string $target, array $more): void
    {
        foreach ([[self::APP, []], [self::PSR7, ['HEDGEROW_PSR17' => 'nyholm']]] as [$app, $environment]) {
            $client = $this->serving($app, $environment);
            $full = self::full($target, $more);
            $lean = $full;
            unset($lean['server'], $lean['attributes']);
            if (!isset($more['header_list'])) {
                unset($lean['header_list']);
            }
            if (str_contains($target, '?')) {
                $lean['url'] = $target;
            }
            [$expected, $seen] = array_map(function (array $frame) use ($client): array {
                $client->send($frame);
                return json_decode($client->receive()['body'], true, 512, JSON_THROW_ON_ERROR);
            }, [$full, $lean]);
            self::assertNotSame([], $expected);
            foreach ($expected as $name => $value) {
                self::assertEquals($value, $seen[$name], (string) $name);
            }
            self::assertCount(count($expected), $seen);
        }
    }

    /**
     * The frame as a gateway sends it to a worker that is not lean.
     *
     * @param array<string, mixed> $more
     * @return array<string, mixed>
     */
    private static function full(string $target, array $more): array
    {
        $frame = Client::request('GET', $target, $more + ['request_id' => 'r-1', 'deadline_unix_ms' => 1790000000000]);
        $frame = array_filter($frame, static fn (mixed $value): bool => $value !== null);
        $frame['headers'] = (object) (array) $frame['headers'];
        $list = [];
        foreach ((array) $frame['headers'] as $name => $value) {
            $list[] = [(string) $name, $value];
        }
        $frame += ['header_list' => $list];
        $frame['attributes'] = ['request_id' => 'r-1', 'header_list' => json_encode($frame['header_list'], JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_LINE_TERMINATORS)];
        foreach (['deadline_unix_ms', 'body_encoding'] as $name) {
            if (isset($frame[$name])) {
                $frame['attributes'][$name] = (string) $frame[$name];
            }
        }
        return $frame;
    }
}
