<?php

// The application as php-fpm calls it.

declare(strict_types=1);

require_once __DIR__ . '/handler.php';

[$status, $headers, $body] = hello((string) parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH));
http_response_code($status);
foreach ($headers as $name => $value) {
    header("$name: $value");
}
echo $body;
