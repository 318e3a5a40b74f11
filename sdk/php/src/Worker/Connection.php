<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

use Hedgerow\Form\Uploads;

/**
 * One connection of the gateway. Reading never blocks: it takes what is there and says when a request is
 * complete. Writing blocks until the bytes are out or the peer is gone. Bytes that are no frame close this
 * connection and nothing else.
 */
final class Connection
{
    private const READ = 16 * 1024;
    private const READ_BODY = 256 * 1024;
    private const INLINE_WRITE = 64 * 1024;
    /** A body longer than this goes to a temporary file: a string that grows is copied again and again. */
    private const SPOOL_ABOVE = 2 * 1024 * 1024;
    private const WRITE_TIMEOUT = 86400;

    /** True once nothing more can be read or written. */
    public bool $over = false;
    /** True once an answer on this connection has carried the capabilities. */
    public bool $announced = false;

    private string $buffer = '';
    private int $need = 0;
    private ?Incoming $partial = null;
    private int $bodyLeft = 0;

    /** @param resource $stream */
    public function __construct(public readonly mixed $stream)
    {
        stream_set_blocking($stream, false);
        stream_set_read_buffer($stream, 0);
        stream_set_timeout($stream, self::WRITE_TIMEOUT);
    }

    /** Takes what the socket holds. A complete request, or null: not yet, or (see `over`) never. */
    public function receive(): ?Incoming
    {
        do {
            $size = $this->bodyLeft > 0 ? min($this->bodyLeft, self::READ_BODY) : ($this->need > self::READ ? self::READ_BODY : self::READ);
            $chunk = $this->read($size);
            if ($chunk === '') {
                return null;
            }
            if ($this->bodyLeft > 0) {
                $this->takeBody($chunk);
                $request = $this->bodyLeft === 0 ? $this->finish() : null;
            } else {
                $this->buffer .= $chunk;
                $request = $this->buffered();
            }
            if ($request !== null || $this->over) {
                return $request;
            }
        } while (true);
    }

    /** The next request that is already in the buffer, if there is a whole one. */
    public function buffered(): ?Incoming
    {
        $have = strlen($this->buffer);
        if ($this->over || $have < 4) {
            return null;
        }
        if ($this->need === 0) {
            $this->need = unpack('N', $this->buffer)[1];
            if ($this->need < 1 || $this->need > Frame::MAX) {
                return $this->refuse("a frame of {$this->need} bytes");
            }
        }
        $end = 4 + $this->need;
        if ($have < $end) {
            return null;
        }
        $json = $have === $end ? substr($this->buffer, 4) : substr($this->buffer, 4, $this->need);
        $this->buffer = $have === $end ? '' : substr($this->buffer, $end);
        $this->need = 0;
        if ($json[0] !== '{' && (ltrim($json)[0] ?? '') !== '{') {
            return $this->refuse('a frame that is no JSON object');
        }
        $frame = json_decode($json, true);
        if (!is_array($frame)) {
            return $this->refuse('a frame that is no JSON object: ' . json_last_error_msg());
        }
        unset($json);
        return isset($frame['body_length']) ? $this->startBody($frame) : $this->withInlineBody($frame);
    }

    /** Whether part of a request has arrived. */
    public function midway(): bool
    {
        return !$this->over && ($this->buffer !== '' || $this->partial !== null);
    }

    /** Writes all of it; false when the peer is gone. */
    public function send(string $bytes): bool
    {
        if ($this->over) {
            return false;
        }
        $length = strlen($bytes);
        $sent = $length > self::INLINE_WRITE ? 0 : $this->write($bytes);
        if ($sent === $length) {
            return true;
        }
        if ($sent !== null) {
            // The rest waits inside one call: nothing is copied again and again while the gateway reads.
            stream_set_blocking($this->stream, true);
            $rest = $sent === 0 ? $bytes : substr($bytes, $sent);
            $sent = $this->write($rest) === strlen($rest) ? $length : null;
            stream_set_blocking($this->stream, false);
        }
        $this->over = $this->over || $sent !== $length;
        return !$this->over;
    }

    /** Whether the gateway has closed its side: asked between the chunks of a stream, it never waits. */
    public function peerLeft(): bool
    {
        if ($this->over) {
            return true;
        }
        $this->buffer .= $this->read(1);
        return $this->over;
    }

    /** Ends the connection. What was written before it still arrives. */
    public function close(): void
    {
        $this->over = true;
        if (is_resource($this->stream)) {
            fclose($this->stream);
        }
    }

    /** Sends although the gateway has closed its side: the last frame of a cancelled stream. */
    public function sendLast(string $bytes): void
    {
        if (is_resource($this->stream)) {
            $this->write($bytes);
        }
    }

    /** @param array<array-key, mixed> $frame */
    private function startBody(array $frame): ?Incoming
    {
        $length = $frame['body_length'];
        if (!is_int($length) || $length < 0) {
            return $this->refuse('a body_length that is no length');
        }
        $this->partial = new Incoming($frame, '', null, $length);
        $this->bodyLeft = $length;
        if ($length > self::SPOOL_ABOVE) {
            $this->partial->spool = Uploads::spool();
        }
        if ($length > 0 && $this->buffer !== '') {
            $first = strlen($this->buffer) > $length ? substr($this->buffer, 0, $length) : $this->buffer;
            $this->buffer = substr($this->buffer, strlen($first));
            $this->takeBody($first);
        }
        return $this->bodyLeft === 0 ? $this->finish() : null;
    }

    /** @param array<array-key, mixed> $frame */
    private function withInlineBody(array $frame): ?Incoming
    {
        $body = $frame['body'] ?? '';
        if (!is_string($body)) {
            $body = '';
        } elseif (($frame['body_encoding'] ?? '') === 'base64') {
            unset($frame['body']); // held once, decoded
            $body = base64_decode($body, true);
            if ($body === false) {
                return $this->refuse('a body that is no base64');
            }
        }
        return new Incoming($frame, $body, null, strlen($body));
    }

    private function takeBody(string $bytes): void
    {
        $this->bodyLeft -= strlen($bytes);
        if ($this->partial->spool === null) {
            $this->partial->body .= $bytes;
        } elseif (Quiet::run(fn (): mixed => fwrite($this->partial->spool, $bytes)) !== strlen($bytes)) {
            $this->refuse('a body that the temporary directory has no room for');
        }
    }

    private function finish(): ?Incoming
    {
        $request = $this->over ? null : $this->partial;
        $this->partial = null;
        if ($request?->spool !== null) {
            rewind($request->spool);
        }
        return $request;
    }

    private function refuse(string $what): null
    {
        Log::line("the gateway sent $what; its connection is closed");
        $this->over = true;
        return null;
    }

    /** One read; '' when there is nothing, and then `over` says whether there ever will be. */
    private function read(int $size): string
    {
        try {
            $chunk = @fread($this->stream, $size);
        } catch (\Throwable) { // an error handler of the application that throws on suppressed notices
            $chunk = false;
        }
        if ($chunk === '' || $chunk === false) {
            $this->over = $this->over || $chunk === false || stream_get_meta_data($this->stream)['eof'];
            return '';
        }
        return $chunk;
    }

    /** One write; how many bytes went, null when the peer is gone. */
    private function write(string $bytes): ?int
    {
        try {
            $sent = @fwrite($this->stream, $bytes);
        } catch (\Throwable) {
            $sent = false;
        }
        return $sent === false ? null : $sent;
    }
}
