<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/**
 * The PSR-7 request could not be built: the fault of the bridge, never of the application, and so a
 * `worker_runtime_error` whatever the class of the cause.
 */
final class BridgeFailure extends \RuntimeException
{
    public static function from(\Throwable $cause): self
    {
        return new self('the PSR-7 request could not be built: ' . $cause->getMessage(), 0, $cause);
    }
}
