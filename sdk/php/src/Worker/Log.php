<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/**
 * What the worker and the application have to say goes to stderr, line by line, and nowhere else. The
 * output of `echo` is caught by one buffer for the whole life of the process, so a request pays nothing for it.
 */
final class Log
{
    private const FLUSH_AT = 8192;

    public static function line(string $text): void
    {
        self::write('hedgerow-worker: ' . $text . "\n");
    }

    public static function captureOutput(): void
    {
        ob_start(self::caught(...), self::FLUSH_AT);
    }

    /** After a request: empties the buffer, and undoes what the application did to the stack of buffers. */
    public static function settle(): void
    {
        if (ob_get_level() === 1 && ob_get_length() === 0) {
            return;
        }
        while (ob_get_level() > 1) {
            if (!Quiet::run(ob_end_flush(...))) {
                return; // a buffer that the application made irremovable
            }
        }
        if (ob_get_level() === 0) {
            self::captureOutput();
        } else {
            ob_flush();
        }
    }

    private static function caught(string $output): string
    {
        if ($output !== '') {
            self::write(str_ends_with($output, "\n") ? $output : $output . "\n");
        }
        return '';
    }

    private static function write(string $text): void
    {
        if (is_resource(STDERR)) {
            Quiet::run(static fn (): mixed => fwrite(STDERR, $text));
        }
    }
}
