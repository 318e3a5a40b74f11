<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

use Hedgerow\Form\FormData;
use Hedgerow\Psr7\Factories;
use Hedgerow\Psr7\RequestBuilder;
use Psr\Http\Server\MiddlewareInterface;
use Psr\Http\Server\RequestHandlerInterface;

/**
 * Calls the application's HTTP side with what it takes. Everything that can be decided is decided when it is
 * made: a request costs one call.
 */
final class Invoker
{
    private readonly ?RequestBuilder $builder;

    /**
     * @param \Closure(mixed, array<string, mixed>): mixed $target
     * @param bool $readsEnvelope some part reads the body from the envelope, not from the PSR-7 request
     */
    private function __construct(
        private readonly \Closure $target,
        ?Factories $factories,
        private readonly bool $readsEnvelope = false,
    ) {
        $this->builder = $factories === null ? null : new RequestBuilder($factories);
    }

    /** What the application file returned as its handler. */
    public static function of(mixed $handler): self
    {
        if ($handler instanceof RequestHandlerInterface) {
            return new self(static fn (mixed $request): mixed => $handler->handle($request), self::needed());
        }
        if (is_callable($handler)) {
            $callee = new Callee($handler);
            $factories = $callee->needsPsr7 ? self::needed()
                : ($callee->wantsEnvelope || $callee->arity === 0 ? null : Factories::find());
            return new self($callee->direct ? $callee->call : $callee->__invoke(...), $factories);
        }
        if (is_array($handler) && array_is_list($handler) && $handler !== []) {
            return self::ofStages($handler);
        }
        throw new BootFailure('the application is ' . get_debug_type($handler)
            . ': expected a callable, a PSR-15 handler, [middleware…, handler] or [\'http\' => …, \'stream\' => …]');
    }

    public function call(Incoming $incoming, FormData $form): mixed
    {
        $envelope = Envelope::of($incoming);
        $hasForm = $incoming->length > 0 && $form->read($envelope, $incoming);
        if ($hasForm) {
            $envelope['parsed_body'] = $form->fields();
            $envelope['uploaded_files'] = [...$envelope['uploaded_files'], ...$form->entries()];
        }
        if ($incoming->spool !== null && ($this->builder === null || $this->readsEnvelope)) {
            $envelope['body'] = $incoming->bytes();
        }
        if ($this->builder === null) {
            $incoming->spool = null; // the file has served
            return ($this->target)($envelope, $envelope);
        }
        try {
            $request = $this->builder->build($envelope, $incoming, $hasForm ? $form : null);
        } catch (\Throwable $error) {
            throw BridgeFailure::from($error);
        }
        return ($this->target)($request, $envelope);
    }

    /** @param non-empty-list<mixed> $handlers */
    private static function ofStages(array $handlers): self
    {
        $stages = [];
        $psr7 = $readsEnvelope = false;
        $last = count($handlers) - 1;
        foreach ($handlers as $at => $handler) {
            $psr15 = $at === $last ? RequestHandlerInterface::class : MiddlewareInterface::class;
            if (!$handler instanceof $psr15 && !is_callable($handler)) {
                throw new BootFailure("entry $at of the application is " . get_debug_type($handler)
                    . ', neither a callable nor a PSR-15 ' . ($at === $last ? 'handler' : 'middleware'));
            }
            $stages[] = $stage = $handler instanceof $psr15 ? $handler : new Callee($handler);
            $readsEnvelope = $readsEnvelope || ($stage instanceof Callee && $stage->wantsEnvelope);
            $psr7 = $psr7 || !$stage instanceof Callee || $stage->needsPsr7;
        }
        $factories = $psr7 ? self::needed() : Factories::find();
        $target = static fn (mixed $request, array $envelope): mixed => (new Next($stages, $envelope))($request);
        return new self($target, $factories, $readsEnvelope);
    }

    private static function needed(): Factories
    {
        return Factories::find() ?? throw new BootFailure('the application takes PSR-7 requests, and no PSR-17 factory could be '
            . 'loaded: install nyholm/psr7, guzzlehttp/psr7, slim/psr7 or laminas/laminas-diactoros');
    }
}
