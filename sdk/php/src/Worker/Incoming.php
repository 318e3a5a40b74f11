<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/**
 * One complete request as it came off the wire: the decoded frame, and the body as bytes, in memory or,
 * when it is large, in a temporary stream.
 */
final class Incoming
{
    /**
     * @param array<array-key, mixed> $frame
     * @param resource|null $spool
     */
    public function __construct(
        public array $frame,
        public string $body = '',
        public mixed $spool = null,
        public int $length = 0,
    ) {
    }

    /** The whole body as one string. */
    public function bytes(): string
    {
        if ($this->spool === null) {
            return $this->body;
        }
        rewind($this->spool);
        return (string) stream_get_contents($this->spool);
    }

    /** Lets the body go: the application has what it wanted of it, and a stream may last for hours. */
    public function release(): void
    {
        $this->body = '';
        $this->spool = null;
        unset($this->frame['body']);
    }

    /**
     * A function that gives the body piece by piece, '' at its end. Reading starts at the first byte.
     *
     * @return \Closure(int): string
     */
    public function reader(): \Closure
    {
        if ($this->spool !== null) {
            $spool = $this->spool;
            rewind($spool);
            return static fn (int $size): string => (string) fread($spool, $size);
        }
        $body = $this->body;
        $at = 0;
        return static function (int $size) use ($body, &$at): string {
            $piece = substr($body, $at, $size);
            $at += strlen($piece);
            return $piece;
        };
    }
}
