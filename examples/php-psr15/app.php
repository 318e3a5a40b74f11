<?php

/**
 * A PSR-15 application on packages that Debian ships (php-nyholm-psr7): pages, a form with an upload, a JSON API,
 * server-sent events and a large download.
 *
 *     VHTTPD_APP=examples/php-psr15/app.php php sdk/php/bin/hedgerow-worker --socket /tmp/w.sock
 */

declare(strict_types=1);

namespace Example;

if (!class_exists(\Nyholm\Psr7\Response::class)) {
    require_once 'Nyholm/Psr7/autoload.php'; // Debian's copy is on the include path; with Composer it is loaded already
}

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Example\\')) {
        require __DIR__ . '/src/' . substr($class, 8) . '.php';
    }
});

$app = new Router();
$app->get('/', Pages::home(...));
$app->post('/upload', Pages::upload(...));
$app->get('/api/items', [$items = new Items(), 'list']);
$app->post('/api/items', [$items, 'add']);
$app->get('/events', Streams::events(...));
$app->get('/download', Streams::download(...));

return [new Timing(), $app];
