<?php

declare(strict_types=1);

/**
 * Loads the classes of `Hedgerow\` without Composer, and, where no package brings them, the two
 * interfaces of PSR-15. It never declares an interface that another autoloader can provide first:
 * Composer puts itself in front, this one stays behind.
 */
spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Hedgerow\\')) {
        $file = __DIR__ . '/src/' . strtr(substr($class, 9), '\\', '/') . '.php';
        if (is_file($file)) {
            require $file;
        }
    } elseif (str_starts_with($class, 'Psr\\Http\\Server\\')) {
        require_once __DIR__ . '/psr15.php';
    }
});
