<?php

declare(strict_types=1);

namespace Hedgerow\Form;

use Hedgerow\Worker\Quiet;

/**
 * Where the uploads of this worker are: one private folder, made for the first upload of a request and removed
 * with whatever is in it when the request is over. While it is there its lock is held, so that a worker that was
 * killed can be told from one that lives, in whichever process namespace: what has no holder is a leftover.
 */
final class Uploads
{
    /** The gateway removes the folder of this name when it reaps a worker, so the two must agree on it. */
    public const SUFFIX = '.uploads';
    private const LOCK = '.hedgerow-lock';
    private const PREFIX = 'hedgerow-';
    private const ATTEMPTS = 20;

    /** Beside the socket; null where another place was asked for. */
    private readonly ?string $beside;
    private ?string $folder = null;
    /** @var resource|null */
    private mixed $lock = null;

    /** @param string $socket the socket of this worker; empty: there is none */
    public function __construct(string $socket = '')
    {
        $this->beside = $socket === '' || self::asked() !== '' ? null : $socket . self::SUFFIX;
    }

    /** A new, empty file in the folder. */
    public function file(): string
    {
        return Quiet::run(function (): string {
            $folder = $this->folder ??= $this->make();
            $path = tempnam($folder, self::PREFIX . 'upload-');
            // tempnam goes elsewhere, and says so only in a notice, where it cannot write.
            if ($path === false || dirname($path) !== $folder) {
                throw new \RuntimeException('no temporary file for an upload can be made');
            }
            return $path;
        });
    }

    /** Removes the folder, if there is one. */
    public function clear(): void
    {
        if ($this->folder === null) {
            return;
        }
        Quiet::run(function (): void {
            self::remove($this->folder);
            fclose($this->lock);
        });
        $this->folder = $this->lock = null;
    }

    /** Removes what workers left that were killed in the middle of a request. Called once this worker owns its socket. */
    public function sweep(): void
    {
        Quiet::run(function (): void {
            foreach ($this->parents() as $parent) {
                $names = $parent === dirname((string) $this->beside) ? '*' : self::PREFIX . '*';
                foreach (glob(addcslashes($parent, '*?[]{}\\') . "/$names" . self::SUFFIX, GLOB_ONLYDIR) ?: [] as $folder) {
                    $this->removeLeftover($folder);
                }
            }
        });
    }

    /** A file without a name, for what need not outlive its handle, however the process ends. @return resource|null */
    public static function spool(): mixed
    {
        return Quiet::run(static function (): mixed {
            $path = tempnam(self::asked() ?: sys_get_temp_dir(), self::PREFIX . 'body-');
            $handle = $path === false ? false : fopen($path, 'w+be');
            if ($path !== false) {
                unlink($path);
            }
            return $handle ?: null;
        });
    }

    /** The directory that the operator wants temporary files in. */
    private static function asked(): string
    {
        return (string) getenv('HEDGEROW_UPLOAD_DIR') ?: (string) ini_get('upload_tmp_dir');
    }

    /** @return list<string> where folders may be, the best place first */
    private function parents(): array
    {
        return $this->beside !== null ? [dirname($this->beside), sys_get_temp_dir()] : [self::asked() ?: sys_get_temp_dir()];
    }

    private function make(): string
    {
        for ($attempt = 0; $attempt < self::ATTEMPTS; $attempt++) {
            foreach ($this->parents() as $at => $parent) {
                $name = self::PREFIX . getmypid() . '-' . bin2hex(random_bytes(6)) . self::SUFFIX;
                if ($this->own($at === 0 && $this->beside !== null ? $this->beside : "$parent/$name")) {
                    return $this->folder;
                }
            }
            // Another worker that boots took it for a leftover before it was locked.
            usleep(1000);
        }
        throw new \RuntimeException('no private folder for uploads can be made');
    }

    /** Makes this folder and locks it; false where that is not possible. */
    private function own(string $folder): bool
    {
        // One that is there already may be anybody's; one of a dead worker was removed at boot.
        if (!mkdir($folder, 0700)) {
            return false;
        }
        // "e": a program that the application starts must not hold the lock for a worker that is dead.
        $lock = fopen($folder . '/' . self::LOCK, 'xbe');
        if ($lock === false || !flock($lock, LOCK_EX | LOCK_NB) || !self::isFile($lock, $folder . '/' . self::LOCK)) {
            rmdir($folder); // whoever holds the lock removes it; what it holds meanwhile is not ours
            return false;
        }
        [$this->folder, $this->lock] = [$folder, $lock];
        return true;
    }

    /** Whether this handle is still the file of this name. @param resource $handle */
    private static function isFile(mixed $handle, string $path): bool
    {
        clearstatcache();
        return (fstat($handle)['ino'] ?? null) === fileinode($path);
    }

    private function removeLeftover(string $folder): void
    {
        if (is_link($folder) || fileowner($folder) !== self::user()) {
            return;
        }
        $lock = fopen($folder . '/' . self::LOCK, 'rbe');
        if ($lock === false) {
            // Its owner was killed before it had a lock, or makes it now and will try again; or it is none of ours.
            if ($folder === $this->beside || str_starts_with(basename($folder), self::PREFIX)) {
                rmdir($folder);
            }
        } elseif (flock($lock, LOCK_EX | LOCK_NB) && self::isFile($lock, $folder . '/' . self::LOCK)) {
            self::remove($folder);
        }
    }

    private static function user(): int|false
    {
        return function_exists('posix_geteuid') ? posix_geteuid() : fileowner('/proc/self');
    }

    /** Links are removed, not followed; the lock goes last, for without it nobody would know what the rest is. */
    private static function remove(string $folder): void
    {
        foreach (array_diff(scandir($folder) ?: [], ['.', '..', self::LOCK]) as $name) {
            $path = "$folder/$name";
            is_dir($path) && !is_link($path) ? self::remove($path) : unlink($path);
        }
        if (is_file($folder . '/' . self::LOCK)) {
            unlink($folder . '/' . self::LOCK);
        }
        rmdir($folder);
    }
}
