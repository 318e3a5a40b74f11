<?php

declare(strict_types=1);

namespace Example;

use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Server\MiddlewareInterface;
use Psr\Http\Server\RequestHandlerInterface;

/** Middleware: says with each response how long the application took. */
final class Timing implements MiddlewareInterface
{
    public function process(ServerRequestInterface $request, RequestHandlerInterface $handler): ResponseInterface
    {
        $start = hrtime(true);
        $response = $handler->handle($request);
        return $response->withHeader('Server-Timing', sprintf('app;dur=%.3f', (hrtime(true) - $start) / 1e6));
    }
}
