<?php

declare(strict_types=1);

namespace Hedgerow\Form;

use Hedgerow\Worker\Envelope;
use Hedgerow\Worker\Incoming;
use Hedgerow\Worker\Log;

/**
 * What a form holds: fields and files. Names with brackets nest exactly as PHP's own parser nests them,
 * because PHP's own parser does it. The temporary files are removed by `clear`.
 */
final class FormData
{
    /** @var list<array{string, string}> */
    private array $fields = [];
    /** @var list<UploadedFile> */
    private array $files = [];
    /** @var array<array-key, mixed> the fields of an urlencoded body */
    private array $decoded = [];

    public function __construct(private readonly Uploads $uploads = new Uploads())
    {
    }

    /**
     * Reads the form of a request into this object. False when the request carries none that can be read.
     *
     * @param array<string, mixed> $envelope
     */
    public function read(array $envelope, Incoming $incoming, Limits $limits = new Limits()): bool
    {
        $type = Envelope::header($envelope, 'content-type');
        if (strncasecmp($type, 'multipart/form-data', 19) === 0) {
            Multipart::parse($incoming->reader(), $type, $this, $limits);
            return true;
        }
        if (strncasecmp($type, 'application/x-www-form-urlencoded', 33) === 0) {
            return $this->readUrlEncoded($incoming->bytes(), $limits);
        }
        return false;
    }

    public function addField(string $name, string $value): void
    {
        $this->fields[] = [$name, $value];
    }

    public function addFile(Part $part): UploadedFile
    {
        return $this->files[] = new UploadedFile($part, $this->uploads);
    }

    /** @return array<array-key, mixed> what $_POST would hold */
    public function fields(): array
    {
        return $this->decoded ?: self::nest($this->fields);
    }

    /**
     * The files in the shape of their names.
     *
     * @param \Closure(UploadedFile): mixed $make
     * @return array<array-key, mixed>
     */
    public function files(\Closure $make): array
    {
        return self::nest(array_map(static fn (UploadedFile $file): array => [$file->part->name, $make($file)], $this->files));
    }

    /** @return list<array{name: string, filename: string, type: string, size: int, path: string}> */
    public function entries(): array
    {
        $entries = [];
        foreach ($this->files as $file) {
            if ($file->path !== '') {
                $entries[] = $file->entry();
            }
        }
        return $entries;
    }

    public function clear(): void
    {
        foreach ($this->files as $file) {
            $file->done();
        }
        $this->uploads->clear();
        $this->files = $this->fields = $this->decoded = [];
    }

    /**
     * Many clients put this type on whatever they post (curl does). A body of too many fields is therefore left
     * unread, with its bytes for the application; PHP would drop the fields beyond the limit without a word.
     */
    private function readUrlEncoded(string $body, Limits $limits): bool
    {
        if (substr_count($body, '&') >= $limits->fields) {
            Log::line("a form of more than {$limits->fields} fields is not parsed");
            return false;
        }
        parse_str($body, $this->decoded);
        return true;
    }

    /**
     * @param list<array{string, mixed}> $pairs
     * @return array<array-key, mixed>
     */
    private static function nest(array $pairs): array
    {
        if ($pairs === []) {
            return [];
        }
        $query = '';
        foreach ($pairs as $index => [$name]) {
            $query .= '&' . rawurlencode($name) . '=' . $index;
        }
        parse_str(substr($query, 1), $tree);
        array_walk_recursive($tree, static function (mixed &$leaf) use ($pairs): void {
            $leaf = $pairs[(int) $leaf][1];
        });
        return $tree;
    }
}
