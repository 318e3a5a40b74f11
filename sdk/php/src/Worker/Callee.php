<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/** What a callable of the application takes, looked up once at boot: reflection has no place in a request. */
final class Callee
{
    /** How many arguments it takes; two stands for "two or more". */
    public readonly int $arity;
    /** Its first parameter is typed `array`: it wants the envelope. */
    public readonly bool $wantsEnvelope;
    /** Its first parameter is typed as a PSR-7 message: nothing else will do. */
    public readonly bool $needsPsr7;

    /** It may be called with both arguments whatever it takes: PHP's own functions refuse too many. */
    public readonly bool $direct;

    public readonly \Closure $call;

    public function __construct(callable $callable)
    {
        $this->call = $callable instanceof \Closure ? $callable : \Closure::fromCallable($callable);
        $function = new \ReflectionFunction($this->call);
        $this->arity = $function->isVariadic() ? 2 : min(2, $function->getNumberOfParameters());
        $first = $function->getParameters()[0] ?? null;
        $type = $first?->getType();
        $name = $type instanceof \ReflectionNamedType ? $type->getName() : '';
        $this->wantsEnvelope = $name === 'array' && !$first->isVariadic();
        $this->direct = $function->isUserDefined();
        $this->needsPsr7 = str_starts_with($name, 'Psr\\Http\\Message\\');
    }

    /** @param array<string, mixed> $envelope */
    public function __invoke(mixed $request, array $envelope): mixed
    {
        if ($this->arity === 0) {
            return ($this->call)();
        }
        $request = $this->wantsEnvelope ? $envelope : $request;
        return $this->arity === 1 ? ($this->call)($request) : ($this->call)($request, $envelope);
    }
}
