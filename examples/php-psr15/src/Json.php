<?php

declare(strict_types=1);

namespace Example;

use Nyholm\Psr7\Response;

/** JSON responses. */
final class Json
{
    public static function response(mixed $value, int $status = 200): Response
    {
        $body = json_encode($value, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE | JSON_THROW_ON_ERROR);
        return new Response($status, ['Content-Type' => 'application/json'], $body);
    }
}
