<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/**
 * Sends a stream: the start and the first piece in one write as soon as there is a first piece, then each
 * piece as it comes, then the end. Before each piece it looks, without waiting, whether the gateway has closed
 * its side (the client has left); then the application's iterable is dropped and only the end is sent.
 */
final class StreamSender
{
    /** A longer piece of text is cut, so that no frame comes near its limit. */
    private const PIECE = 1024 * 1024;
    private const READ = 64 * 1024;

    private string $pending;

    public function __construct(private readonly Exchange $exchange, private readonly Answer $answer)
    {
        $headers = $answer->headers;
        $type = $headers['content-type'] ?? 'application/octet-stream';
        unset($headers['content-type']);
        $this->pending = Frame::encode([
            'mode' => 'stream',
            'event' => 'start',
            'id' => $exchange->id,
            'status' => $answer->status,
            'stream_type' => $answer->stream?->type ?? 'text',
            'content_type' => is_array($type) ? $type[0] : $type,
            'headers' => (object) $headers,
        ]);
    }

    /** Sends what the application's iterable yields. */
    public function run(): void
    {
        $sse = $this->answer->stream->type === 'sse';
        $items = $this->answer->stream->take();
        $going = true;
        foreach ($items as $key => $item) {
            $frames = $sse ? $this->event($key, $item) : $this->text($item);
            if (!($going = $this->push($frames))) {
                break;
            }
        }
        unset($item);
        if ($going) {
            $this->end();
            return;
        }
        self::discard($items);
        $this->cancelled();
    }

    /** Ends an iterable that nobody wants more of. By reference, for the caller's must not be one too many. */
    public static function discard(iterable &$items): void
    {
        try {
            $items = []; // the last reference: the finally blocks of a generator run here
        } catch (\Throwable $error) {
            Log::line('after the client left: ' . Failure::clean(get_class($error) . ': ' . $error->getMessage()));
        }
    }

    /** Sends a body of unknown length whose first piece has been read. */
    public function copy(string $piece, Source $source): void
    {
        while ($piece !== '') {
            if (!$this->push($this->text($piece))) {
                $this->cancelled();
                return;
            }
            $piece = $source->eof() ? '' : $source->read(self::READ);
        }
        $this->end();
    }

    private function push(string $frames): bool
    {
        $connection = $this->exchange->connection;
        if ($connection->peerLeft()) {
            return false;
        }
        $bytes = $this->pending . $frames;
        $this->pending = '';
        $this->exchange->state = Exchange::STREAMING;
        return $bytes === '' || $connection->send($bytes);
    }

    private function end(): void
    {
        $this->exchange->state = Exchange::STREAMING;
        $this->exchange->connection->send($this->pending . $this->endFrame());
        $this->exchange->state = Exchange::DONE;
    }

    private function cancelled(): void
    {
        $this->exchange->connection->sendLast($this->pending . $this->endFrame());
        $this->exchange->connection->close();
        $this->exchange->state = Exchange::DONE;
    }

    private function endFrame(): string
    {
        return Frame::encode(['mode' => 'stream', 'event' => 'end', 'id' => $this->exchange->id]);
    }

    private function text(mixed $item): string
    {
        if (!is_string($item)) {
            if (!is_int($item) && !is_float($item) && !$item instanceof \Stringable) {
                throw new ContractError('a piece of a text stream is ' . get_debug_type($item) . ', not a string');
            }
            $item = (string) $item;
        }
        if (strlen($item) <= self::PIECE) {
            return $item === '' ? '' : $this->chunk(['data' => $item]);
        }
        $frames = '';
        foreach (str_split($item, self::PIECE) as $piece) {
            $frames .= $this->chunk(['data' => $piece]);
        }
        return $frames;
    }

    private function event(mixed $key, mixed $item): string
    {
        $event = SseEvent::of($key, $item);
        $chunk = ['data' => $event['data']];
        foreach (['id', 'event', 'retry'] as $field) {
            if (isset($event[$field])) {
                $chunk['sse_' . $field] = $event[$field];
            }
        }
        return $this->chunk($chunk);
    }

    /** @param array<string, mixed> $fields */
    private function chunk(array $fields): string
    {
        $frame = ['mode' => 'stream', 'event' => 'chunk', 'id' => $this->exchange->id] + $fields;
        $bytes = Frame::tryEncode($frame);
        if ($bytes !== null) {
            return $bytes;
        }
        unset($frame['data']);
        return Frame::encode($frame + ['data_base64' => base64_encode($fields['data'])]);
    }
}
