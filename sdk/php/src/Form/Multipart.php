<?php

declare(strict_types=1);

namespace Hedgerow\Form;

/**
 * Reads a multipart/form-data body (RFC 7578) from a function that gives it piece by piece. It holds one
 * piece and one delimiter's length at a time; a file goes to a temporary file as it comes. A body that ends
 * before its last delimiter, or that is no multipart at all, is a BadForm.
 */
final class Multipart
{
    private const PIECE = 256 * 1024;

    private string $buffer = "\r\n"; // the first delimiter needs no line end before it
    private bool $ended = false;
    private readonly string $delimiter;
    private int $fieldBytes = 0;

    /** @param \Closure(int): string $read gives at most that many bytes, '' at the end */
    private function __construct(private readonly \Closure $read, string $boundary, private readonly Limits $limits)
    {
        $this->delimiter = "\r\n--" . $boundary;
    }

    /** @param \Closure(int): string $read */
    public static function parse(\Closure $read, string $contentType, FormData $into, Limits $limits = new Limits()): void
    {
        (new self($read, self::boundary($contentType), $limits))->run($into);
    }

    private static function boundary(string $contentType): string
    {
        if (!preg_match('/;\s*boundary\s*=\s*(?:"([^"]*)"|([^\s;,"]*))/i', $contentType, $m)) {
            throw new BadForm('a multipart form without a boundary');
        }
        $boundary = $m[1] !== '' ? $m[1] : ($m[2] ?? '');
        if ($boundary === '' || strlen($boundary) > 256 || strpbrk($boundary, "\r\n\0") !== false) {
            throw new BadForm('a multipart form with a boundary that is none');
        }
        return $boundary;
    }

    private function run(FormData $into): void
    {
        $fields = $files = 0;
        $more = $this->copyToDelimiter(static fn (string $preamble) => null);
        while ($more) {
            $part = Part::fromHead($this->head());
            if ($part->filename === null) {
                if (++$fields > $this->limits->fields) {
                    throw BadForm::tooLarge("more than {$this->limits->fields} fields");
                }
                $value = '';
                $more = $this->copyToDelimiter(function (string $bytes) use (&$value): void {
                    $this->fieldBytes += strlen($bytes);
                    if ($this->fieldBytes > $this->limits->fieldBytes) {
                        throw BadForm::tooLarge("fields of more than {$this->limits->fieldBytes} bytes");
                    }
                    $value .= $bytes;
                });
                $into->addField($part->name, $value);
            } else {
                if (++$files > $this->limits->files) {
                    throw BadForm::tooLarge("more than {$this->limits->files} files");
                }
                $file = $into->addFile($part);
                $more = $this->copyToDelimiter($file->write(...));
                $file->done();
            }
        }
    }

    /** The header lines of a part, without the empty line that ends them. */
    private function head(): string
    {
        while (($end = strpos($this->buffer, "\r\n\r\n")) === false) {
            if (strlen($this->buffer) > $this->limits->partHead) {
                throw BadForm::tooLarge("a part with more than {$this->limits->partHead} bytes of headers");
            }
            if (!$this->fill()) {
                throw new BadForm('a multipart form that ends within the headers of a part');
            }
        }
        if ($end > $this->limits->partHead) {
            throw BadForm::tooLarge("a part with more than {$this->limits->partHead} bytes of headers");
        }
        $head = substr($this->buffer, 0, $end);
        $this->buffer = substr($this->buffer, $end + 4);
        return $head;
    }

    /**
     * Gives everything up to the next delimiter to $sink and reads past the delimiter.
     *
     * @return bool whether another part follows
     */
    private function copyToDelimiter(\Closure $sink): bool
    {
        $length = strlen($this->delimiter);
        $from = 0;
        while (true) {
            $at = strpos($this->buffer, $this->delimiter, $from);
            if ($at !== false) {
                $kind = $this->afterDelimiter($at + $length);
                if ($kind !== null) {
                    if ($at > 0) {
                        $sink(substr($this->buffer, 0, $at));
                    }
                    $this->buffer = $kind['last'] ? '' : substr($this->buffer, $kind['next']);
                    return !$kind['last'];
                }
                $from = $at + 1; // a line that only begins like the delimiter belongs to the data
                continue;
            }
            $safe = strlen($this->buffer) - $length + 1;
            if ($safe > 0) {
                $sink(substr($this->buffer, 0, $safe));
                $this->buffer = substr($this->buffer, $safe);
                $from = 0;
            }
            if (!$this->fill()) {
                throw new BadForm('a multipart form without its last delimiter');
            }
        }
    }

    /**
     * What follows a delimiter: the end (`--`), the next part (optional blanks and a line end), or null: data.
     *
     * @return array{last: bool, next: int}|null
     */
    private function afterDelimiter(int $at): ?array
    {
        while (true) {
            if (substr($this->buffer, $at, 2) === '--') {
                return ['last' => true, 'next' => 0];
            }
            $blanks = strspn($this->buffer, " \t", $at);
            $line = substr($this->buffer, $at + $blanks, 2);
            if ($line === "\r\n") {
                return ['last' => false, 'next' => $at + $blanks + 2];
            }
            $undecided = $line === '' || $line === "\r" || ($blanks === 0 && $line === '-');
            if (!$undecided || $blanks > 256 || !$this->fill()) {
                return null;
            }
        }
    }

    private function fill(): bool
    {
        if (!$this->ended) {
            $piece = ($this->read)(self::PIECE);
            $this->ended = $piece === '';
            $this->buffer .= $piece;
        }
        return !$this->ended;
    }
}
