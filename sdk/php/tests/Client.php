<?php

declare(strict_types=1);

namespace Hedgerow\Tests;

/**
 * The gateway's side of one connection: writes request frames, reads answer frames. Every read has a limit, so
 * that a worker that says nothing fails a test rather than stopping it.
 */
final class Client
{
    private const TIMEOUT = 10;

    /** @var resource */
    private mixed $socket;

    public function __construct(string $path)
    {
        $socket = stream_socket_client("unix://$path", $code, $why, 2.0);
        if ($socket === false) {
            throw new \RuntimeException("connect: $why");
        }
        stream_set_timeout($socket, self::TIMEOUT);
        $this->socket = $socket;
    }

    /** @param array<string, mixed> $frame */
    public static function frame(array $frame): string
    {
        $json = json_encode($frame, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE);
        return pack('N', strlen($json)) . $json;
    }

    /**
     * A request as the gateway writes it; the given fields replace its own.
     *
     * @param array<string, mixed> $more
     * @return array<string, mixed>
     */
    public static function request(string $method, string $target, array $more = []): array
    {
        [$path, $query] = explode('?', $target, 2) + [1 => ''];
        parse_str($query, $map);
        return $more + [
            'id' => 'trace-1', 'method' => $method, 'path' => $path, 'body' => '', 'scheme' => 'http',
            'host' => 'example.test', 'port' => '8080', 'protocol_version' => '1.1', 'remote_addr' => '192.0.2.7',
            'query' => (object) array_filter($map, is_string(...)), 'headers' => (object) [], 'cookies' => (object) [],
            'attributes' => (object) [], 'uploaded_files' => [],
            'server' => ['host' => 'example.test', 'port' => '8080', 'remote_addr' => '192.0.2.7', 'method' => $method, 'url' => $target],
        ];
    }

    /** @param array<string, mixed> $frame */
    public function send(array $frame, string $raw = ''): void
    {
        $this->write(self::frame($frame) . $raw);
    }

    public function write(string $bytes): void
    {
        while ($bytes !== '') {
            $sent = @fwrite($this->socket, $bytes);
            if ($sent === false || $sent === 0) {
                throw new \RuntimeException('the worker takes no more bytes');
            }
            $bytes = substr($bytes, $sent);
        }
    }

    /** @return array<string, mixed> one frame; raw bytes that follow it are under `body` */
    public function receive(): array
    {
        $length = unpack('N', $this->read(4))[1];
        $frame = json_decode($this->read($length), true, 512, JSON_THROW_ON_ERROR);
        if (isset($frame['body_length'])) {
            $frame['body'] = $this->read($frame['body_length']);
        }
        return $frame;
    }

    /**
     * @param array<string, mixed> $more
     * @return array<string, mixed>
     */
    public function ask(string $method, string $target, array $more = [], string $raw = ''): array
    {
        $this->send(self::request($method, $target, $more), $raw);
        return $this->receive();
    }

    /**
     * All frames of a stream, up to its end or error.
     *
     * @return list<array<string, mixed>>
     */
    public function stream(string $method, string $target): array
    {
        $this->send(self::request($method, $target));
        $frames = [];
        do {
            $frames[] = $frame = $this->receive();
        } while (isset($frame['event']) && !in_array($frame['event'], ['end', 'error'], true));
        return $frames;
    }

    public function halfClose(): void
    {
        stream_socket_shutdown($this->socket, STREAM_SHUT_WR);
    }

    /** Whether the worker has closed the connection; waits for it. */
    public function isClosedByWorker(): bool
    {
        $rest = fread($this->socket, 1);
        return $rest === '' && feof($this->socket);
    }

    /** Whether something can be read at once. */
    public function hasAnswer(float $seconds): bool
    {
        $read = [$this->socket];
        $none = null;
        return stream_select($read, $none, $none, 0, (int) ($seconds * 1e6)) === 1;
    }

    public function close(): void
    {
        if (is_resource($this->socket)) {
            fclose($this->socket);
        }
    }

    private function read(int $length): string
    {
        $bytes = '';
        while (strlen($bytes) < $length) {
            $piece = fread($this->socket, min(1 << 20, $length - strlen($bytes)));
            if ($piece === '' || $piece === false) {
                $why = feof($this->socket) ? 'closed' : 'silent';
                throw new \RuntimeException("the worker is $why after " . strlen($bytes) . " of $length bytes");
            }
            $bytes .= $piece;
        }
        return $bytes;
    }
}
