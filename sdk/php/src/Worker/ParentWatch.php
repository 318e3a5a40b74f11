<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/**
 * Notices that the gateway is gone. Where the gateway is the parent of this process, a new parent says so;
 * where something stands between the two, the gateway's process id is looked up.
 */
final class ParentWatch
{
    private readonly bool $direct;

    public function __construct(private readonly int $pid)
    {
        $this->direct = self::parent() === $pid;
    }

    public static function fromEnvironment(): ?self
    {
        $pid = getenv('VHTTPD_PARENT_PID');
        return is_string($pid) && preg_match('/^\d+$/D', $pid) && $pid > 1 ? new self((int) $pid) : null;
    }

    public function isGone(): bool
    {
        if ($this->direct) {
            return self::parent() !== $this->pid;
        }
        if (is_dir('/proc/self')) {
            clearstatcache(true, "/proc/{$this->pid}");
            return !is_dir("/proc/{$this->pid}");
        }
        return function_exists('posix_kill') && !posix_kill($this->pid, 0) && posix_get_last_error() === 3; // ESRCH
    }

    private static function parent(): int
    {
        if (function_exists('posix_getppid')) {
            return posix_getppid();
        }
        $stat = (string) Quiet::run(static fn (): mixed => file_get_contents('/proc/self/stat'));
        $afterName = strrpos($stat, ')');
        return $afterName === false ? 0 : (int) (explode(' ', substr($stat, $afterName + 2))[1] ?? 0);
    }
}
