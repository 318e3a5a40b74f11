<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

use Psr\Http\Message\StreamInterface;

/**
 * A body that is read while it is sent: a PHP stream or a PSR-7 stream. One that can be rewound is sent from
 * its beginning, another from where it stands.
 */
final class Source
{
    /** How many bytes will come, where that is known. */
    public readonly ?int $size;

    /** @param resource|StreamInterface $from */
    public function __construct(private readonly mixed $from)
    {
        $this->size = is_resource($from) ? self::resourceSize($from) : self::streamSize($from);
    }

    public function read(int $size): string
    {
        if (!is_resource($this->from)) {
            return $this->from->read($size);
        }
        $bytes = fread($this->from, $size);
        return $bytes === false ? throw new \RuntimeException('the body of the response cannot be read') : $bytes;
    }

    public function eof(): bool
    {
        return is_resource($this->from) ? feof($this->from) : $this->from->eof();
    }

    /** @param resource $from */
    private static function resourceSize(mixed $from): ?int
    {
        if (stream_get_meta_data($from)['seekable'] && rewind($from)) {
            $stat = fstat($from);
            // Only a regular file knows its size; /proc files say 0 and mean nothing by it.
            if ($stat !== false && ($stat['mode'] & 0170000) === 0100000 && $stat['size'] > 0) {
                return $stat['size'];
            }
        }
        return null;
    }

    private static function streamSize(StreamInterface $from): ?int
    {
        if ($from->isSeekable()) {
            $from->rewind();
            return $from->getSize();
        }
        $size = $from->getSize();
        return $size === null ? null : max(0, $size - $from->tell());
    }
}
