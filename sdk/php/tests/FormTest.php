<?php

declare(strict_types=1);

namespace Hedgerow\Tests;

/** Forms through a real worker, for applications that read the envelope. */
final class FormTest extends WorkerTestCase
{
    private const APP = 'return fn (array $r) => ["body" => json_encode(["fields" => $r["parsed_body"] ?? null, "length" => strlen($r["body"]),
        "files" => array_map(fn ($f) => $f + ["sha1" => sha1_file($f["path"])], $r["uploaded_files"])])];';

    /** @return array{array<string, mixed>, string} */
    public static function upload(string $file, string $field = 'value'): array
    {
        $body = "--Bnd\r\nContent-Disposition: form-data; name=\"field\"\r\n\r\n$field\r\n"
            . "--Bnd\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f.bin\"\r\nContent-Type: application/x-thing\r\n\r\n$file\r\n--Bnd--\r\n";
        return [['body_length' => strlen($body), 'headers' => ['content-type' => 'multipart/form-data; boundary=Bnd']], $body];
    }

    public function testAFieldAndAnEightMebibyteFile(): void
    {
        $client = $this->serving(self::APP);
        [$more, $raw] = self::upload($file = random_bytes(8 << 20));
        $seen = json_decode($client->ask('POST', '/', $more, $raw)['body'], true);
        self::assertSame(['field' => 'value'], $seen['fields']);
        self::assertSame(strlen($raw), $seen['length'], 'the body is still there as bytes');
        [$entry] = $seen['files'];
        self::assertSame(['file', 'f.bin', 'application/x-thing', 8 << 20, sha1($file)], [$entry['name'], $entry['filename'], $entry['type'], $entry['size'], $entry['sha1']]);
        $client->ask('GET', '/');
        self::assertSame([], $this->lastWorker()->uploads(), 'removed after the request');
        self::assertFileDoesNotExist($entry['path']);
    }

    public function testFilesAreRemovedWhenTheApplicationThrowsOrExits(): void
    {
        $client = $this->serving('return fn (array $r) => $r["path"] === "/exit" ? exit : throw new Exception($r["uploaded_files"][0]["path"]);');
        [$more, $raw] = self::upload('small');
        $path = $client->ask('POST', '/', $more, $raw)['headers']['x-worker-error'];
        self::assertStringContainsString('hedgerow-upload-', $path);
        $client->ask('POST', '/exit', $more, $raw);
        $this->lastWorker()->exitCode();
        self::assertSame([], $this->lastWorker()->uploads());
    }

    public function testTheFilesAreInAPrivateFolderBesideTheSocket(): void
    {
        $client = $this->serving('return fn (array $r) => json_encode([$d = dirname($r["uploaded_files"][0]["path"]), fileperms($d) & 0777]);');
        [$more, $raw] = self::upload('x');
        self::assertSame([$this->lastWorker()->socket . '.uploads', 0700], json_decode($client->ask('POST', '/', $more, $raw)['body']));
    }

    public function testAWorkerRemovesAtBootWhatAKilledOneLeftAndNothingElse(): void
    {
        $parent = sys_get_temp_dir() . '/hedgerow-parent-' . bin2hex(random_bytes(4));
        mkdir($parent);
        $app = WorkerProcess::code('return function (array $r) {
            $r["path"] === "/kill" && posix_kill(getmypid(), 9);
            if ($r["path"] === "/next") { return "next"; }
            return Hedgerow\StreamResponse::text((function () use ($r) { while (true) { yield (string) is_file($r["uploaded_files"][0]["path"]); usleep(1000); } })());
        };');
        $environment = ['HEDGEROW_UPLOAD_DIR' => $parent];
        try {
            [$more, $raw] = self::upload(str_repeat('x', 3 << 20));
            $worker = $this->worker($app, $environment);
            $living = $worker->connect();
            $living->send(Client::request('POST', '/', $more), $raw);
            self::assertSame('start', $living->receive()['event']);
            $killed = $this->worker($app, $environment);
            $killed->connect()->send(Client::request('POST', '/kill', $more), $raw);
            $killed->exitCode();
            mkdir("$parent/mine.uploads");
            symlink("$parent/mine.uploads", "$parent/hedgerow-link.uploads");
            self::assertCount(4, glob("$parent/*"), 'nothing but the folders: a large body has no name');
            $this->worker($app, $environment);
            self::assertCount(1, glob("$parent/hedgerow-*-*.uploads"), 'the one that is in use');
            self::assertSame(["$parent/hedgerow-link.uploads", "$parent/mine.uploads"], array_values(array_diff(glob("$parent/*"), glob("$parent/hedgerow-*-*.uploads"))));
            $living->receive();
            self::assertSame('1', $living->receive()['data']);
            $living->halfClose();
            while ($living->receive()['event'] === 'chunk') { // it may wait for room to write
            }
            self::assertSame('next', $worker->connect()->ask('GET', '/next')['body'], 'the worker is done with the request before');
            self::assertSame([], glob("$parent/hedgerow-*-*"));
        } finally {
            exec('rm -r ' . escapeshellarg($parent));
        }
    }

    public function testASocketDirectoryThatIsNotWritableIsNoObstacle(): void
    {
        $client = $this->serving('return fn (array $r) => dirname($r["uploaded_files"][0]["path"]);');
        mkdir($taken = $this->lastWorker()->socket . '.uploads');
        [$more, $raw] = self::upload('x');
        $folder = $client->ask('POST', '/', $more, $raw)['body'];
        self::assertStringStartsWith(dirname($taken) . '/hedgerow-', $folder, 'TMPDIR of the worker');
        $client->ask('GET', '/');
        self::assertSame([$taken], $this->lastWorker()->uploads());
    }

    public function testAFileMayBeMovedAway(): void
    {
        $target = sys_get_temp_dir() . '/hedgerow-moved-' . bin2hex(random_bytes(4));
        $client = $this->serving("return fn (array \$r) => rename(\$r['uploaded_files'][0]['path'], '$target') ? 'moved' : 'no';");
        [$more, $raw] = self::upload('keep me');
        self::assertSame('moved', $client->ask('POST', '/', $more, $raw)['body']);
        self::assertSame('keep me', file_get_contents($target));
        unlink($target);
    }

    public function testMalformedIsA400AndTheWorkerGoesOn(): void
    {
        $client = $this->serving(self::APP);
        [$more, $raw] = self::upload('x');
        $raw = substr($raw, 0, -8);
        $answer = $client->ask('POST', '/', ['body_length' => strlen($raw)] + $more, $raw);
        self::assertSame([400, 'Bad Request'], [$answer['status'], $answer['body']]);
        self::assertArrayNotHasKey('x-worker-error-class', $answer['headers']);
        [$more, $raw] = self::upload('y');
        self::assertSame(200, $client->ask('POST', '/', $more, $raw)['status']);
        $client->ask('GET', '/'); // what the last request left is removed before the next
        self::assertSame([], $this->lastWorker()->uploads());
    }

    public function testUrlEncoded(): void
    {
        $client = $this->serving(self::APP);
        $type = ['headers' => ['content-type' => 'application/x-www-form-urlencoded; charset=utf-8']];
        $seen = json_decode($client->ask('POST', '/', ['body' => 'a%5Bb%5D=1&c=d+e%26&a%5Bx%5D%5B%5D=2'] + $type)['body'], true);
        self::assertSame(['a' => ['b' => '1', 'x' => ['2']], 'c' => 'd e&'], $seen['fields']);
        $seen = json_decode($client->ask('POST', '/', ['body' => str_repeat('a=1&', 1001)] + $type)['body'], true);
        self::assertSame([null, 4004], [$seen['fields'], $seen['length']], 'not parsed, rather than in part; the bytes are there');
        $large = 'a=' . str_repeat('x', 3 << 20);
        $seen = json_decode($client->ask('POST', '/', ['body_length' => strlen($large)] + $type, $large)['body'], true);
        self::assertSame(3 << 20, strlen($seen['fields']['a']));
        self::assertNull(json_decode($client->ask('POST', '/', ['body' => '{}', 'headers' => ['content-type' => 'application/json']])['body'], true)['fields']);
    }
}
