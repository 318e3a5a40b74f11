<?php

declare(strict_types=1);

use Hedgerow\Batch;

/**
 * An itinerary from five calls to a model. The worker says what it needs and is free at once; the gateway makes the
 * calls side by side and hedged, and comes back with the results. GET /?city=Lisbon
 */
return function (array $request): Batch|array {
    $results = Batch::results($request);
    if ($results === null) {
        $call = fn (string $part): array => ['upstream' => 'models', 'path' => "/plan?part=$part" . ($request['query']['extra'] ?? '')];
        $parts = ['flights', 'hotel', 'food', 'museums', 'weather'];
        return Batch::of(array_combine($parts, array_map($call, $parts)))
            ->resume(state: ['city' => $request['query']['city'] ?? 'Lisbon']);
    }
    $city = Batch::state($request)['city'];
    $lines = [];
    foreach ($results as $part => $result) {
        $lines[] = sprintf('%s: %s in %d ms%s', $part, $result['status'], $result['duration_ms'], $result['hedged'] ? ', hedged' : '');
    }
    return ['status' => 200, 'headers' => ['content-type' => 'text/plain; charset=utf-8'], 'body' => "$city\n" . implode("\n", $lines) . "\n"];
};
