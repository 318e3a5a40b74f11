<?php

// The application as a Hedgerow worker takes it.

declare(strict_types=1);

require_once __DIR__ . '/handler.php';

return static function (array $request): array {
    [$status, $headers, $body] = hello($request['path']);
    return ['status' => $status, 'headers' => $headers, 'body' => $body];
};
