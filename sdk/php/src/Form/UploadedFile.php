<?php

declare(strict_types=1);

namespace Hedgerow\Form;

use Hedgerow\Worker\Quiet;

/**
 * One file of a form, in a temporary file that lives as long as the request. A file input that the user left
 * empty has no path.
 */
final class UploadedFile
{
    public string $path = '';
    public int $size = 0;
    /** @var resource|null */
    private mixed $handle = null;

    public function __construct(public readonly Part $part, Uploads $uploads)
    {
        if ($part->filename === '') {
            return;
        }
        $path = $uploads->file();
        $handle = Quiet::run(static fn (): mixed => fopen($path, 'wb'));
        if ($handle === false) {
            throw new \RuntimeException('no temporary file for an upload can be made');
        }
        $this->path = $path;
        $this->handle = $handle;
    }

    public function write(string $bytes): void
    {
        $this->size += strlen($bytes);
        if ($this->handle !== null && Quiet::run(fn (): mixed => fwrite($this->handle, $bytes)) !== strlen($bytes)) {
            throw new \RuntimeException('the temporary directory has no room for an upload');
        }
    }

    public function done(): void
    {
        if ($this->handle !== null) {
            fclose($this->handle);
            $this->handle = null;
        }
    }

    /** @return array{name: string, filename: string, type: string, size: int, path: string} */
    public function entry(): array
    {
        return [
            'name' => $this->part->name,
            'filename' => (string) $this->part->filename,
            'type' => $this->part->type,
            'size' => $this->size,
            'path' => $this->path,
        ];
    }
}
