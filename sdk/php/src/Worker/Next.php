<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

use Hedgerow\Batch;
use Hedgerow\Psr7\Carried;
use Hedgerow\Psr7\Factories;
use Hedgerow\StreamResponse;
use Hedgerow\Upstream\Plan;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Server\MiddlewareInterface;
use Psr\Http\Server\RequestHandlerInterface;

/**
 * The rest of a `[middleware…, handler]` application. PSR-15 middleware calls `handle`, and always gets a PSR-7
 * response, whatever the handler behind it returned; a callable middleware may also call it as a function.
 */
final class Next implements RequestHandlerInterface
{
    /**
     * @param list<MiddlewareInterface|RequestHandlerInterface|Callee> $stages
     * @param array<string, mixed> $envelope
     */
    public function __construct(
        private readonly array $stages,
        private readonly array $envelope,
        private readonly int $at = 0,
    ) {
    }

    public function __invoke(mixed $request): mixed
    {
        $stage = $this->stages[$this->at];
        if ($this->at === count($this->stages) - 1) {
            return $stage instanceof RequestHandlerInterface ? $stage->handle($request) : $stage($request, $this->envelope);
        }
        $next = new self($this->stages, $this->envelope, $this->at + 1);
        if ($stage instanceof MiddlewareInterface) {
            return $stage->process($request, $next);
        }
        return ($stage->call)($stage->wantsEnvelope ? $this->envelope : $request, $next);
    }

    public function handle(ServerRequestInterface $request): ResponseInterface
    {
        $result = $this($request);
        if ($result instanceof ResponseInterface) {
            return $result;
        }
        if ($result instanceof StreamResponse || $result instanceof Plan || $result instanceof Batch) {
            return Carried::response($result);
        }
        $answer = ResultNormalizer::normalize($result, '');
        $factories = Factories::find();
        if ($factories === null || $answer->source !== null || $answer->frame !== null) {
            throw new ContractError('middleware cannot pass on what the handler returned; return a PSR-7 response');
        }
        $response = $factories->responses->createResponse($answer->status)
            ->withBody($factories->streams->createStream($answer->body));
        foreach ($answer->headers as $name => $value) {
            $response = $response->withHeader((string) $name, $value);
        }
        return $response;
    }
}
