<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/**
 * Writes an answer to the wire: a small one in one write, a large one without a second copy, a stream as it
 * comes. It holds no more of a body than one piece.
 */
final class Responder
{
    /** Up to here a body travels inside the frame, where every gateway can read it. */
    private const INLINE = 16 * 1024;
    private const TOGETHER = 64 * 1024;
    private const PIECE = 256 * 1024;

    /** @param list<string> $capabilities told with the first answer of each connection; empty: told already */
    public function __construct(private readonly array $capabilities)
    {
    }

    public function send(Exchange $exchange, Answer $answer): void
    {
        if ($answer->frame === null && $exchange->isHead()) {
            $this->sendHead($exchange, $answer);
        } elseif ($answer->stream !== null) {
            (new StreamSender($exchange, $answer))->run();
        } elseif ($answer->source !== null) {
            $this->sendSource($exchange, $answer, $answer->source);
        } elseif ($answer->frame !== null) {
            $this->sendFrame($exchange, $answer->frame);
        } else {
            $this->sendBody($exchange, $answer);
        }
    }

    /** @param array<array-key, mixed> $frame */
    public function sendFrame(Exchange $exchange, array $frame): void
    {
        $bytes = Frame::encode($this->announce($exchange, $frame));
        $exchange->connection->send($bytes);
        $exchange->state = Exchange::DONE;
    }

    /**
     * The client gets no body, so none is made, read or sent. An application that left the body out itself may say
     * the length that it has.
     */
    private function sendHead(Exchange $exchange, Answer $answer): void
    {
        $headers = $answer->headers;
        $length = $answer->source === null ? strlen($answer->body) : $answer->source->size;
        if ($answer->stream === null && $length > 0) {
            $headers['content-length'] = (string) $length;
        }
        $this->sendFrame($exchange, ['id' => $exchange->id, 'status' => $answer->status, 'headers' => $headers ?: new \stdClass(), 'body' => '']);
        if ($answer->stream !== null) {
            $items = $answer->stream->take();
            StreamSender::discard($items);
        }
    }

    private function sendBody(Exchange $exchange, Answer $answer): void
    {
        $head = ['id' => $exchange->id, 'status' => $answer->status, 'headers' => $answer->headers ?: new \stdClass()];
        if ($this->capabilities !== []) {
            $head = $this->announce($exchange, $head);
        }
        $length = strlen($answer->body);
        if ($length <= self::INLINE) {
            $bytes = Frame::tryEncode($head + ['body' => $answer->body]);
            if ($bytes !== null) {
                $exchange->connection->send($bytes);
                $exchange->state = Exchange::DONE;
                return;
            }
        }
        $bytes = Frame::encode($head + ['body_length' => $length]);
        $exchange->state = Exchange::RAW;
        if ($length <= self::TOGETHER) {
            $exchange->connection->send($bytes . $answer->body);
        } else {
            $exchange->connection->send($bytes) && $exchange->connection->send($answer->body);
        }
        $exchange->state = Exchange::DONE;
    }

    private function sendSource(Exchange $exchange, Answer $answer, Source $source): void
    {
        // The first piece is read before anything is promised, so that a body that cannot be read is a 500.
        $piece = $source->size === 0 ? '' : $source->read(self::PIECE);
        if ($source->size === null) {
            if ($piece === '' || $source->eof()) {
                $this->sendBody($exchange, new Answer($answer->status, $answer->headers, $piece));
            } else {
                (new StreamSender($exchange, $answer))->copy($piece, $source);
            }
            return;
        }
        $head = ['id' => $exchange->id, 'status' => $answer->status, 'headers' => $answer->headers ?: new \stdClass(), 'body_length' => $source->size];
        $bytes = Frame::encode($this->announce($exchange, $head));
        $exchange->state = Exchange::RAW;
        $connection = $exchange->connection;
        $left = $source->size;
        $going = $connection->send($bytes);
        while ($going && $left > 0) {
            if ($piece === '') {
                throw new \RuntimeException("the body of the response ended $left bytes before its size");
            }
            $piece = strlen($piece) > $left ? substr($piece, 0, $left) : $piece;
            $going = $connection->send($piece);
            $left -= strlen($piece);
            $piece = $left > 0 ? $source->read(min($left, self::PIECE)) : '';
        }
        $exchange->state = Exchange::DONE;
    }

    /**
     * @param array<array-key, mixed> $frame
     * @return array<array-key, mixed>
     */
    private function announce(Exchange $exchange, array $frame): array
    {
        if ($this->capabilities !== [] && !$exchange->connection->announced) {
            $exchange->connection->announced = true;
            $frame['capabilities'] = $this->capabilities;
        }
        return $frame;
    }
}
