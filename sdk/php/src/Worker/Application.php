<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/**
 * The application as loaded: its HTTP side, its stream dispatch side, or both. Loading either gives a valid
 * application or says in one line why there is none; nothing else is ever served in its place.
 */
final class Application
{
    private const AUTOLOAD_DEPTH = 5;

    private function __construct(public readonly ?Invoker $http, public readonly ?Callee $stream)
    {
    }

    public static function load(string $file): self
    {
        if ($file === '') {
            throw new BootFailure('no application: VHTTPD_APP is not set');
        }
        if (!is_file($file) || !is_readable($file)) {
            throw new BootFailure("the application file $file cannot be read");
        }
        $file = (string) realpath($file);
        try {
            self::loadVendor(dirname($file));
            $returned = (static fn (string $file): mixed => require $file)($file);
        } catch (\Throwable $error) {
            throw new BootFailure(sprintf(
                '%s: %s in %s:%d',
                $error instanceof \ParseError ? 'syntax error' : explode("\0", get_class($error), 2)[0],
                $error->getMessage(),
                $error->getFile(),
                $error->getLine(),
            ), 0, $error);
        }
        return self::of($returned, $file);
    }

    private static function of(mixed $returned, string $file): self
    {
        if ($returned === 1 || $returned === true) {
            throw new BootFailure("the application file $file returns nothing: end it with `return` and a handler");
        }
        if (!is_array($returned) || (!isset($returned['http']) && !isset($returned['stream']))) {
            return new self(Invoker::of($returned), null);
        }
        $unknown = array_diff(array_keys($returned), ['http', 'stream']);
        if ($unknown !== []) {
            throw new BootFailure('the application has the unknown key ' . reset($unknown) . ': expected http and stream');
        }
        if (isset($returned['stream']) && !is_callable($returned['stream'])) {
            throw new BootFailure('the stream handler of the application is ' . get_debug_type($returned['stream']) . ', not a callable');
        }
        return new self(
            isset($returned['http']) ? Invoker::of($returned['http']) : null,
            isset($returned['stream']) ? new Callee($returned['stream']) : null,
        );
    }

    /** Composer's autoloader, where the application lies in a project that has one. */
    private static function loadVendor(string $directory): void
    {
        for ($up = 0; $up < self::AUTOLOAD_DEPTH; $up++) {
            if (is_file("$directory/vendor/autoload.php")) {
                require_once "$directory/vendor/autoload.php";
                return;
            }
            $parent = dirname($directory);
            if ($parent === $directory) {
                return;
            }
            $directory = $parent;
        }
    }
}
