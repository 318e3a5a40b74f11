<?php

declare(strict_types=1);

namespace Hedgerow\Psr7;

use Hedgerow\Form\FormData;
use Hedgerow\Form\UploadedFile;
use Hedgerow\Worker\Incoming;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Message\StreamInterface;
use Psr\Http\Message\UploadedFileInterface;

/**
 * Turns an envelope into a PSR-7 server request. Nyholm's and Guzzle's constructors take everything at once;
 * other packages go through their factory, one header at a time.
 */
final class RequestBuilder
{
    /** @var class-string<ServerRequestInterface>|null */
    private readonly ?string $direct;

    public function __construct(private readonly Factories $factories)
    {
        $this->direct = match ($factories->package) {
            'nyholm' => 'Nyholm\Psr7\ServerRequest',
            'guzzle' => 'GuzzleHttp\Psr7\ServerRequest',
            default => null,
        };
    }

    /** @param array<string, mixed> $envelope */
    public function build(array $envelope, Incoming $incoming, ?FormData $form): ServerRequestInterface
    {
        $target = $envelope['server']['url'] ?? '';
        $target = is_string($target) ? $target : '';
        $mark = strpos($target, '?');
        $queryString = $mark === false ? http_build_query($envelope['query'], '', '&', PHP_QUERY_RFC3986) : substr($target, $mark + 1);
        $hash = strpos($queryString, '#');
        $queryString = $hash === false ? $queryString : substr($queryString, 0, $hash);
        if ($mark === false) {
            $query = $envelope['query'];
        } else {
            parse_str($queryString, $query);
        }
        $request = $this->plain($envelope, self::uri($envelope, $queryString), self::serverParams($envelope, $queryString));
        if ($incoming->length > 0) {
            $request = $request->withBody($this->body($incoming));
        }
        if ($query !== []) {
            $request = $request->withQueryParams($query);
        }
        if ($envelope['cookies'] !== []) {
            $request = $request->withCookieParams($envelope['cookies']);
        }
        if ($form !== null) {
            $request = $request->withParsedBody($form->fields())
                ->withUploadedFiles($form->files($this->formFile(...)));
        } elseif ($envelope['uploaded_files'] !== []) {
            $request = $request->withUploadedFiles($this->listed($envelope['uploaded_files']));
        }
        foreach ($envelope['attributes'] as $name => $value) {
            $request = $request->withAttribute((string) $name, $value);
        }
        if (($envelope['mode'] ?? '') === 'batch') {
            $request = $request->withAttribute('hedgerow.state', $envelope['state'] ?? [])
                ->withAttribute('hedgerow.results', $envelope['results'] ?? []);
        }
        return $request;
    }

    /**
     * @param array<string, mixed> $envelope
     * @param array<string, mixed> $serverParams
     */
    private function plain(array $envelope, string $uri, array $serverParams): ServerRequestInterface
    {
        $version = $envelope['protocol_version'];
        if (strncasecmp($version, 'HTTP/', 5) === 0) {
            $version = substr($version, 5);
        }
        $headers = self::headers($envelope);
        if ($this->direct !== null) {
            return new ($this->direct)($envelope['method'], $uri, $headers, null, $version, $serverParams);
        }
        $request = $this->factories->requests->createServerRequest($envelope['method'], $uri, $serverParams)
            ->withProtocolVersion($version);
        foreach ($headers as $name => $value) {
            $request = $request->withHeader((string) $name, $value);
        }
        return $request;
    }

    /**
     * `header_list` keeps repeated headers apart; the map of the contract does not.
     *
     * @param array<string, mixed> $envelope
     * @return array<array-key, string|list<string>>
     */
    private static function headers(array $envelope): array
    {
        $list = $envelope['header_list'] ?? null;
        if (!is_array($list) || !is_array($list[0] ?? null)) {
            return $envelope['headers'];
        }
        $headers = [];
        foreach ($list as $pair) {
            if (is_array($pair) && is_string($pair[0] ?? null) && is_string($pair[1] ?? null)) {
                $headers[strtolower($pair[0])][] = $pair[1];
            }
        }
        return $headers;
    }

    /** @param array<string, mixed> $envelope */
    private static function uri(array $envelope, string $queryString): string
    {
        $host = $envelope['host'] !== '' ? $envelope['host'] : $envelope['server']['host'] ?? '';
        if (!is_string($host) || $host === '') {
            $host = 'localhost';
        } elseif ($host[0] !== '[' && substr_count($host, ':') > 1) {
            $host = "[$host]";
        } elseif ($host[0] !== '[' && ($colon = strpos($host, ':')) !== false) {
            $host = substr($host, 0, $colon);
        }
        $scheme = $envelope['scheme'] !== '' ? $envelope['scheme'] : 'http';
        $port = $envelope['port'];
        $path = $envelope['path'];
        return $scheme . '://' . $host
            . ($port === '' || $port === '0' ? '' : ':' . $port)
            . ($path !== '' && $path[0] === '/' ? '' : '/') . strtr($path, ['?' => '%3F', '#' => '%23'])
            . ($queryString === '' ? '' : '?' . $queryString);
    }

    /**
     * What $_SERVER would say of this request, and the gateway's own `server` map as it came.
     *
     * @param array<string, mixed> $envelope
     * @return array<string, mixed>
     */
    private static function serverParams(array $envelope, string $queryString): array
    {
        $now = microtime(true);
        return [
            'REQUEST_METHOD' => $envelope['method'],
            'REQUEST_URI' => $envelope['path'] . ($queryString === '' ? '' : '?' . $queryString),
            'QUERY_STRING' => $queryString,
            'SERVER_PROTOCOL' => 'HTTP/' . $envelope['protocol_version'],
            'SERVER_NAME' => $envelope['host'],
            'SERVER_PORT' => $envelope['port'],
            'HTTPS' => $envelope['scheme'] === 'https' ? 'on' : '',
            'REMOTE_ADDR' => $envelope['remote_addr'],
            'REQUEST_TIME' => (int) $now,
            'REQUEST_TIME_FLOAT' => $now,
        ] + $envelope['server'];
    }

    private function body(Incoming $incoming): StreamInterface
    {
        if ($incoming->spool === null) {
            return $this->factories->streams->createStream($incoming->body);
        }
        rewind($incoming->spool);
        return $this->factories->streams->createStreamFromResource($incoming->spool);
    }

    private function formFile(UploadedFile $file): UploadedFileInterface
    {
        return $file->path === ''
            ? $this->file($this->factories->streams->createStream(''), 0, UPLOAD_ERR_NO_FILE, '', $file->part->type)
            : $this->fileAt($file->path, $file->size, $file->part->filename, $file->part->type);
    }

    /**
     * @param array<array-key, mixed> $entries files that an earlier stage has stored already
     * @return array<array-key, mixed>
     */
    private function listed(array $entries): array
    {
        $files = [];
        foreach ($entries as $entry) {
            if (is_array($entry) && is_string($entry['path'] ?? null)) {
                $files[(string) ($entry['name'] ?? '')][] = $this->fileAt(
                    $entry['path'],
                    (int) ($entry['size'] ?? 0),
                    (string) ($entry['filename'] ?? ''),
                    (string) ($entry['type'] ?? ''),
                );
            }
        }
        return array_map(static fn (array $same): mixed => count($same) === 1 ? $same[0] : $same, $files);
    }

    private function fileAt(string $path, int $size, string $name, string $type): UploadedFileInterface
    {
        return $this->file($this->factories->streams->createStreamFromFile($path), $size, UPLOAD_ERR_OK, $name, $type);
    }

    private function file(StreamInterface $stream, int $size, int $error, string $name, string $type): UploadedFileInterface
    {
        return $this->factories->files->createUploadedFile($stream, $size, $error, $name, $type);
    }
}
