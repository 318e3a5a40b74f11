<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/**
 * Runs the worker's own calls with an error handler of its own: one of the application's may throw on every
 * notice, even on one that was suppressed, and must not be able to stop the worker that way.
 */
final class Quiet
{
    /**
     * @template T
     * @param \Closure(): T $call
     * @return T
     */
    public static function run(\Closure $call): mixed
    {
        set_error_handler(static fn (): bool => true);
        try {
            return $call();
        } finally {
            restore_error_handler();
        }
    }
}
