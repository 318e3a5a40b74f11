<?php

declare(strict_types=1);

namespace Example;

use Nyholm\Psr7\Response;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Server\RequestHandlerInterface;

/** Exact paths to functions from a request to a response. */
final class Router implements RequestHandlerInterface
{
    /** @var array<string, array<string, callable(ServerRequestInterface): ResponseInterface>> by path and method */
    private array $routes = [];

    public function get(string $path, callable $to): void
    {
        $this->routes[$path]['GET'] = $this->routes[$path]['HEAD'] = $to;
    }

    public function post(string $path, callable $to): void
    {
        $this->routes[$path]['POST'] = $to;
    }

    public function handle(ServerRequestInterface $request): ResponseInterface
    {
        $methods = $this->routes[$request->getUri()->getPath()] ?? null;
        if ($methods === null) {
            return new Response(404, ['Content-Type' => 'text/plain; charset=utf-8'], "Not Found\n");
        }
        $to = $methods[$request->getMethod()] ?? null;
        if ($to === null) {
            return new Response(405, ['Allow' => implode(', ', array_keys($methods))], "Method Not Allowed\n");
        }
        return $to($request);
    }
}
