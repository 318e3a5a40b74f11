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
    private const MAPS = ['query', 'headers', 'cookies', 'attributes', 'server', 'uploaded_files'];

    /** @return array<string, mixed> */
    public static function of(Incoming $incoming): array
    {
        $frame = $incoming->frame;
        foreach (self::STRINGS as $name => $default) {
            $value = $frame[$name] ?? $default;
            $frame[$name] = is_string($value) ? $value : (is_int($value) ? (string) $value : $default);
        }
        foreach (self::MAPS as $name) {
            if (!isset($frame[$name]) || !is_array($frame[$name])) {
                $frame[$name] = [];
            }
        }
        if (isset($frame['body_encoding'])) {
            // The bytes are decoded; a second decoding by the application would spoil them.
            unset($frame['body_encoding'], $frame['attributes']['body_encoding']);
        }
        $frame['body'] = $incoming->body;
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
        return is_array($value) ? (string) ($value[0] ?? '') : (string) $value;
    }
}
