<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/**
 * The dispatch strategy of streams: the gateway keeps the stream open and asks the worker for its next pieces;
 * between two questions the worker is free and the state travels with the gateway. An application without a
 * stream handler, or one that returns null or false for `open`, has not handled it: an ordinary request follows.
 */
final class Dispatch
{
    /**
     * @return array<string, mixed> the answer frame
     */
    public static function answer(?Callee $handler, Incoming $incoming): array
    {
        $envelope = Envelope::of($incoming);
        $envelope['body'] = $incoming->bytes();
        $state = $envelope['state'] ?? [];
        $envelope['state'] = is_array($state) ? $state : [];
        $envelope['event'] = is_string($envelope['event'] ?? null) ? $envelope['event'] : 'open';
        $head = ['mode' => 'stream', 'strategy' => 'dispatch', 'event' => $envelope['event'], 'id' => $envelope['id']];
        $result = $handler === null ? null : $handler($envelope, $envelope);
        if ($result === null || $result === false) {
            return $head + ['handled' => false, 'done' => true];
        }
        try {
            return $head + self::read($result, $envelope['state']);
        } catch (\Throwable $error) {
            throw new ContractError('stream handler: ' . $error->getMessage(), 0, $error);
        }
    }

    /**
     * @param array<array-key, mixed> $state what the gateway sent: it stays unless the handler gives another
     * @return array<string, mixed>
     */
    private static function read(mixed $result, array $state): array
    {
        if (!is_array($result)) {
            throw new ContractError('it returned ' . get_debug_type($result) . ', not an array');
        }
        $type = $result['stream_type'] ?? 'sse';
        if ($type !== 'sse' && $type !== 'text') {
            throw new ContractError('its stream_type is neither sse nor text');
        }
        $state = $result['state'] ?? $state;
        $chunks = $result['chunks'] ?? [];
        if (!is_array($state) || !is_array($chunks)) {
            throw new ContractError('its state and chunks must be arrays');
        }
        return [
            'handled' => (bool) ($result['handled'] ?? true),
            'done' => (bool) ($result['done'] ?? false),
            'stream_type' => $type,
            'content_type' => (string) ($result['content_type'] ?? ($type === 'sse' ? 'text/event-stream' : 'text/plain; charset=utf-8')),
            'headers' => (object) Headers::of($result['headers'] ?? []),
            'state' => (object) $state,
            'chunks' => array_map(SseEvent::of(...), array_keys($chunks), array_values($chunks)),
        ];
    }
}
