<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/** The Unix socket of this worker. It replaces a socket that nobody answers on, and removes its own at the end. */
final class Listener
{
    private const PATH_LIMIT = 107; // sun_path, less its final NUL
    private const BACKLOG = 128;

    private readonly int|false $inode;
    private readonly int $pid;

    /** @param resource $stream */
    private function __construct(public readonly mixed $stream, private readonly string $path)
    {
        clearstatcache();
        $this->inode = fileinode($path);
        $this->pid = getmypid();
    }

    /** @throws \RuntimeException in one sentence */
    public static function open(string $path): self
    {
        return Quiet::run(static fn (): self => self::bind($path));
    }

    private static function bind(string $path): self
    {
        if (strlen($path) > self::PATH_LIMIT) {
            throw new \RuntimeException("the socket path $path is longer than " . self::PATH_LIMIT . ' bytes');
        }
        if (filetype($path) === 'socket') {
            $other = stream_socket_client("unix://$path", $code, $why, 1.0);
            if ($other !== false) {
                throw new \RuntimeException("another process is listening on $path");
            }
            unlink($path);
        }
        $context = stream_context_create(['socket' => ['backlog' => self::BACKLOG]]);
        $stream = stream_socket_server("unix://$path", $code, $why, STREAM_SERVER_BIND | STREAM_SERVER_LISTEN, $context);
        if ($stream === false) {
            throw new \RuntimeException("the socket $path cannot be opened: $why");
        }
        stream_set_blocking($stream, false);
        return new self($stream, $path);
    }

    /** Closes and removes the socket, unless another worker has put its own there, or this is a forked child. */
    public function close(): void
    {
        if (getmypid() !== $this->pid) {
            return;
        }
        Quiet::run(function (): void {
            if (is_resource($this->stream)) {
                fclose($this->stream);
            }
            clearstatcache();
            if ($this->inode !== false && fileinode($this->path) === $this->inode) {
                unlink($this->path);
            }
        });
    }
}
