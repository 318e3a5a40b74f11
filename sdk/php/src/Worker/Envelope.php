<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/**
 * The request as the application sees it: the fifteen fields of the contract are always there and of their
 * type, whatever the gateway left out, and the body is bytes (empty here while a large one waits in a temporary
 * stream). Fields the gateway added are kept.
 */
final class Envelope
{
    private const STRINGS = [
        'id' => '', 'method' => 'GET', 'path' => '/', 'scheme' => 'http', 'host' => '', 'port' => '',
        'protocol_version' => '1.1', 'remote_addr' => '',
    ];
    private const JSON = JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_LINE_TERMINATORS;
    private const MAPS = ['query', 'headers', 'cookies', 'attributes', 'server', 'uploaded_files'];

    /** @return array<string, mixed> */
    public static function of(Incoming $incoming): array
    {
        $frame = $incoming->frame;
        if (!isset($frame['server']) && !isset($frame['attributes']) && isset($frame['request_id']) && is_array($frame['headers'] ?? null)) {
            $frame = self::filled($frame);
        }
        if (!self::isWhole($frame)) {
            $frame = self::mended($frame);
        }
        if (isset($frame['body_encoding'])) {
            // The bytes are decoded; a second decoding by the application would spoil them.
            unset($frame['body_encoding'], $frame['attributes']['body_encoding']);
        }
        if (($frame['body'] ?? null) !== $incoming->body) {
            $frame['body'] = $incoming->body;
        }
        return $frame;
    }

    /**
     * What a gateway leaves out for a worker that is `lean`, worked out from what it sent: nothing of it is news.
     *
     * @param array<array-key, mixed> $frame
     * @return array<array-key, mixed>
     */
    private static function filled(array $frame): array
    {
        $frame['server'] = [
            'host' => $frame['host'] ?? '', 'port' => $frame['port'] ?? '', 'remote_addr' => $frame['remote_addr'] ?? '',
            'method' => $frame['method'] ?? '', 'url' => $frame['url'] ?? $frame['path'] ?? '',
        ];
        unset($frame['url']);
        if (!isset($frame['header_list'])) {
            $list = [];
            foreach ($frame['headers'] as $name => $value) {
                $list[] = [(string) $name, $value];
            }
            $frame['header_list'] = $list;
        }
        $frame['attributes'] = ['request_id' => $frame['request_id'], 'header_list' => json_encode($frame['header_list'], self::JSON)];
        if (isset($frame['deadline_unix_ms'])) {
            $frame['attributes']['deadline_unix_ms'] = (string) $frame['deadline_unix_ms'];
        }
        return $frame;
    }

    /**
     * The usual case, in one look: nothing to mend, and so nothing to copy.
     *
     * @param array<array-key, mixed> $frame
     */
    private static function isWhole(array $frame): bool
    {
        return is_string($frame['id'] ?? null) && is_string($frame['method'] ?? null) && is_string($frame['path'] ?? null)
            && is_string($frame['scheme'] ?? null) && is_string($frame['host'] ?? null) && is_string($frame['port'] ?? null)
            && is_string($frame['protocol_version'] ?? null) && is_string($frame['remote_addr'] ?? null)
            && is_array($frame['query'] ?? null) && is_array($frame['headers'] ?? null) && is_array($frame['cookies'] ?? null)
            && is_array($frame['attributes'] ?? null) && is_array($frame['server'] ?? null) && is_array($frame['uploaded_files'] ?? null);
    }

    /**
     * @param array<array-key, mixed> $frame
     * @return array<array-key, mixed>
     */
    private static function mended(array $frame): array
    {
        foreach (self::STRINGS as $name => $default) {
            $value = $frame[$name] ?? $default;
            $frame[$name] = is_string($value) ? $value : (is_int($value) ? (string) $value : $default);
        }
        foreach (self::MAPS as $name) {
            if (!isset($frame[$name]) || !is_array($frame[$name])) {
                $frame[$name] = [];
            }
        }
        return $frame;
    }

    /**
     * One header of the envelope, '' when it is not there.
     *
     * @param array<string, mixed> $envelope
     */
    public static function header(array $envelope, string $name): string
    {
        $value = $envelope['headers'][$name] ?? '';
        $value = is_array($value) ? $value[0] ?? '' : $value;
        return is_string($value) ? $value : '';
    }
}
