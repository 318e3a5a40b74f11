<?php

declare(strict_types=1);

namespace Hedgerow\Tests;

use Hedgerow\Psr7\Factories;

/** PSR-7 and PSR-15 applications, with each package that the system has. */
final class Psr7Test extends WorkerTestCase
{
    private const SHOW = 'use Psr\Http\Message\ServerRequestInterface as R; return function (R $r) {
        $show = fn ($f) => is_array($f) ? array_map($GLOBALS["show"], $f) : ["name" => $f->getClientFilename(), "type" => $f->getClientMediaType(), "size" => $f->getSize(), "error" => $f->getError(), "sha1" => $f->getError() ? "" : sha1((string) $f->getStream())];
        $GLOBALS["show"] = $show;
        return json_encode(["class" => get_class($r), "method" => $r->getMethod(), "uri" => (string) $r->getUri(), "target" => $r->getRequestTarget(), "version" => $r->getProtocolVersion(),
            "headers" => $r->getHeaders(), "query" => $r->getQueryParams(), "cookies" => $r->getCookieParams(), "parsed" => $r->getParsedBody(), "attributes" => $r->getAttributes(),
            "body" => sha1((string) $r->getBody()), "size" => $r->getBody()->getSize(), "files" => array_map($show, $r->getUploadedFiles()),
            "server" => array_intersect_key($r->getServerParams(), ["REMOTE_ADDR" => 1, "REQUEST_URI" => 1, "HTTPS" => 1])]);
    };';

    /** @return array<string, array{string}> */
    public static function packages(): array
    {
        $found = [];
        foreach (['nyholm' => 'Nyholm/Psr7', 'guzzle' => 'GuzzleHttp/Psr7', 'slim' => 'Slim/Psr7'] as $name => $directory) {
            if (stream_resolve_include_path("$directory/autoload.php") !== false) {
                $found[$name] = [$name];
            }
        }
        return $found ?: ['none' => ['none']];
    }

    private function serve(string $package, string $code): Client
    {
        if ($package === 'none') {
            self::markTestSkipped('needs a PSR-7 package on the include path');
        }
        return $this->serving($code, ['HEDGEROW_PSR17' => $package]);
    }

    /** @dataProvider packages */
    public function testTheRequestHasEverything(string $package): void
    {
        $client = $this->serve($package, self::SHOW);
        $seen = json_decode($client->ask('PUT', '/users/42?a[]=1&a[]=2&b=c%20d', [
            'body' => 'payload', 'scheme' => 'https', 'port' => '8443', 'host' => 'example.test',
            'headers' => ['host' => 'example.test:8443', 'x-multi' => '1, 2', 'content-type' => 'text/plain'],
            'header_list' => [['host', 'example.test:8443'], ['x-multi', '1'], ['x-multi', '2'], ['content-type', 'text/plain']],
            'cookies' => ['c' => 'v'], 'attributes' => ['request_id' => 'r1'],
        ])['body'], true);
        self::assertSame(['PUT', 'https://example.test:8443/users/42', '1.1'], [$seen['method'], explode('?', $seen['uri'])[0], $seen['version']]);
        self::assertStringStartsWith('/users/42?', $seen['target']);
        self::assertSame(['a' => ['1', '2'], 'b' => 'c d'], $seen['query']);
        self::assertSame(['c' => 'v'], $seen['cookies']);
        self::assertSame(['1', '2'], array_change_key_case($seen['headers'])['x-multi']);
        self::assertSame(['example.test:8443'], array_change_key_case($seen['headers'])['host']);
        self::assertSame('r1', $seen['attributes']['request_id']);
        self::assertSame(sha1('payload'), $seen['body']);
        self::assertNull($seen['parsed']);
        self::assertSame(['REQUEST_URI' => '/users/42?a[]=1&a[]=2&b=c%20d', 'HTTPS' => 'on', 'REMOTE_ADDR' => '192.0.2.7'], $seen['server']);
    }

    /** @dataProvider packages */
    public function testUploadsAndLargeBodies(string $package): void
    {
        $client = $this->serve($package, self::SHOW);
        [$more, $raw] = FormTest::upload($file = random_bytes(8 << 20));
        $seen = json_decode($client->ask('POST', '/', $more, $raw)['body'], true);
        self::assertSame(['field' => 'value'], $seen['parsed']);
        self::assertSame(['file' => ['name' => 'f.bin', 'type' => 'application/x-thing', 'size' => 8 << 20, 'error' => 0, 'sha1' => sha1($file)]], $seen['files']);
        self::assertSame([sha1($raw), strlen($raw)], [$seen['body'], $seen['size']]);
        $body = random_bytes(5 << 20);
        $seen = json_decode($client->ask('POST', '/', ['body_length' => 5 << 20], $body)['body'], true);
        self::assertSame(sha1($body), $seen['body']);
        $client->ask('GET', '/'); // what the last request left is removed before the next
        self::assertSame([], $this->lastWorker()->uploads());
    }

    /** @dataProvider packages */
    public function testMoveTo(string $package): void
    {
        $target = sys_get_temp_dir() . '/hedgerow-moved-' . bin2hex(random_bytes(4));
        $client = $this->serve($package, "return function (Psr\\Http\\Message\\ServerRequestInterface \$r) { \$r->getUploadedFiles()['file']->moveTo('$target'); return 'moved'; };");
        [$more, $raw] = FormTest::upload('keep me');
        self::assertSame('moved', $client->ask('POST', '/', $more, $raw)['body']);
        self::assertSame('keep me', file_get_contents($target));
        unlink($target);
        $client->ask('GET', '/'); // what the last request left is removed before the next
        self::assertSame([], $this->lastWorker()->uploads());
    }

    /** @dataProvider packages */
    public function testOddRequestsStillBecomeRequests(string $package): void
    {
        $client = $this->serve($package, self::SHOW);
        foreach ([['host' => ''], ['host' => '::1'], ['host' => '[::1]'], ['host' => 'h:99'], ['port' => ''], ['path' => '//a//b'], ['path' => '/a:80'], ['path' => '*'], ['path' => "/\u{fc} x"], ['path' => '/a?b#c'], ['headers' => ['123' => 'x']], ['protocol_version' => 'HTTP/1.0']] as $odd) {
            $answer = $client->ask('GET', '/', $odd);
            self::assertSame(200, $answer['status'], json_encode($odd) . ($answer['headers']['x-worker-error'] ?? ''));
        }
    }

    /** @dataProvider packages */
    public function testABridgeThatThrowsIsARuntimeError(string $package): void
    {
        $client = $this->serve($package, self::SHOW);
        $answer = $client->ask('GET', '/', ['port' => '99999']);
        self::assertFailure('worker_runtime_error', $answer);
        self::assertStringContainsString('PSR-7 request could not be built', $answer['headers']['x-worker-error']);
        self::assertSame(200, $client->ask('GET', '/')['status']);
    }

    /** @dataProvider packages */
    public function testAPsr15PipelineWithEveryKindOfResult(string $package): void
    {
        $client = $this->serve($package, <<<'PHP'
            use Psr\Http\Message\{ServerRequestInterface as R, ResponseInterface as S};
            use Psr\Http\Server\{MiddlewareInterface, RequestHandlerInterface as H};
            final class Adds implements MiddlewareInterface {
                function process(R $r, H $h): S { return $h->handle($r->withAttribute('seen', 'yes'))->withHeader('x-added', 'a'); }
            }
            return [new Adds(), fn ($r, $next) => $r->getUri()->getPath() === '/short' ? $next->handle($r)->withStatus(203) : $next($r), function (R $r, array $e) {
                $f = Hedgerow\Psr7\Factories::find();
                return match ($r->getUri()->getPath()) {
                    '/psr7' => $f->responses->createResponse(201)->withHeader('Set-Cookie', ['a=1', 'b=2'])->withBody($f->streams->createStream("seen " . $r->getAttribute('seen'))),
                    '/array', '/short' => ['status' => 202, 'body' => $e['id']],
                    '/large' => $f->responses->createResponse()->withBody($f->streams->createStream(str_repeat('x', 20 << 20))),
                    '/stream' => Hedgerow\StreamResponse::sse(['one', 'two'], 206),
                    '/plan' => Hedgerow\Upstream\Plan::http(url: 'http://u/'),
                    '/null' => null,
                };
            }];
            PHP);
        $psr7 = $client->ask('GET', '/psr7');
        self::assertSame([201, 'seen yes', ['a=1', 'b=2'], 'a'], [$psr7['status'], $psr7['body'], $psr7['headers']['set-cookie'], $psr7['headers']['x-added']]);
        $array = $client->ask('GET', '/array');
        self::assertSame([202, 'trace-1', 'a'], [$array['status'], $array['body'], $array['headers']['x-added']]);
        self::assertSame(203, $client->ask('GET', '/short')['status']);
        $large = $client->ask('GET', '/large');
        self::assertSame(sha1(str_repeat('x', 20 << 20)), sha1($large['body']));
        $frames = $client->stream('GET', '/stream');
        self::assertSame(['start', 'chunk', 'chunk', 'end'], array_column($frames, 'event'));
        self::assertSame([206, 'a', 'text/event-stream'], [$frames[0]['status'], $frames[0]['headers']['x-added'], $frames[0]['content_type']]);
        $plan = $client->ask('GET', '/plan');
        self::assertSame(['upstream_plan', 'a'], [$plan['strategy'], $plan['response_headers']['x-added']]);
        self::assertFailure('app_contract_error', $client->ask('GET', '/null'));
    }

    public function testWithoutAPackageAnUntypedParameterGetsTheEnvelope(): void
    {
        $client = $this->serving('return fn ($r, array $e) => gettype($r) . ($r === $e ? " same" : "");', ['HEDGEROW_PSR17' => 'none']);
        self::assertSame('array same', $client->ask('GET', '/')['body']);
    }

    public function testAParameterTypedArrayGetsTheEnvelopeAnyway(): void
    {
        self::assertSame('array', $this->serving('return fn (array $r) => gettype($r);')->ask('GET', '/')['body']);
        self::assertSame('none', $this->serving('return fn () => "none";')->ask('GET', '/')['body']);
        self::assertSame(PHP_SAPI, $this->serving('return "php_sapi_name";')->ask('GET', '/')['body'], 'a function of PHP, which refuses arguments');
    }

    public function testFindsAFactoryHere(): void
    {
        $expected = array_key_first(self::packages());
        self::assertSame($expected === 'none' ? null : $expected, Factories::find()?->package);
    }
}
