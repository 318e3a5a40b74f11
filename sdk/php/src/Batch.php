<?php

declare(strict_types=1);

namespace Hedgerow;

use Psr\Http\Message\ServerRequestInterface;

/**
 * An answer that is no response but a set of calls, which the gateway runs side by side. With `respond` the
 * client gets the results; with `resume` a worker is sent the request again, together with them.
 */
final class Batch
{
    /**
     * @param array<array-key, array<string, mixed>|string> $requests
     * @param array<string, mixed> $state
     */
    private function __construct(
        private readonly array $requests,
        private readonly ?string $then = null,
        private readonly array $state = [],
        private readonly ?int $deadlineMs = null,
    ) {
    }

    /**
     * @param array<array-key, array<string, mixed>|string> $requests by key: a url, or an array of `url` or
     *     `upstream` with `path`, and `method`, `headers`, `body`, `hedge`
     */
    public static function of(array $requests): self
    {
        foreach ($requests as $key => $request) {
            if (!is_string($request) && (!is_array($request) || isset($request['url']) === isset($request['upstream']))) {
                throw new \InvalidArgumentException("the request '$key' of a batch needs either a url or an upstream");
            }
        }
        return new self($requests);
    }

    /** @param array<string, mixed> $state comes back with the results */
    public function resume(array $state = [], ?int $deadlineMs = null): self
    {
        return new self($this->requests, 'resume', $state, $deadlineMs);
    }

    public function respond(?int $deadlineMs = null): self
    {
        return new self($this->requests, 'respond', [], $deadlineMs);
    }

    /**
     * The results of the batch that this request resumes; null for any other request.
     *
     * @param ServerRequestInterface|array<string, mixed> $request a PSR-7 request, or the envelope
     * @return array<array-key, array<string, mixed>>|null
     */
    public static function results(object|array $request): ?array
    {
        if (is_object($request)) {
            return $request->getAttribute('hedgerow.results');
        }
        return ($request['mode'] ?? '') === 'batch' ? (array) ($request['results'] ?? []) : null;
    }

    /**
     * The state that was given to `resume`; empty for any other request.
     *
     * @param ServerRequestInterface|array<string, mixed> $request
     * @return array<array-key, mixed>
     */
    public static function state(object|array $request): array
    {
        return (array) (is_object($request) ? $request->getAttribute('hedgerow.state') : $request['state'] ?? []);
    }

    /** @return array<string, mixed> the frame of the wire contract */
    public function frame(string $id): array
    {
        if ($this->then === null) {
            throw new \LogicException('a batch needs resume() or respond()');
        }
        $requests = [];
        foreach ($this->requests as $key => $request) {
            $request = is_string($request) ? ['url' => $request] : $request;
            if (isset($request['headers'])) {
                $request['headers'] = (object) $request['headers'];
            }
            $requests[$key] = $request;
        }
        $frame = ['mode' => 'batch', 'event' => 'start', 'id' => $id, 'requests' => (object) $requests, 'then' => $this->then];
        if ($this->then === 'resume') {
            $frame['state'] = (object) $this->state;
        }
        if ($this->deadlineMs !== null) {
            $frame['deadline_ms'] = $this->deadlineMs;
        }
        return $frame;
    }
}
