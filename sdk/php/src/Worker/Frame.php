<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/**
 * The outgoing frame: a 4-byte big-endian length and that many bytes of UTF-8 JSON.
 * What does not fit or is not UTF-8 never reaches the wire.
 */
final class Frame
{
    public const MAX = 16 * 1024 * 1024;

    private const JSON = JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION;

    /**
     * The bytes of a frame, or null where a string in it is not UTF-8 (the caller then sends those bytes another way).
     *
     * @param array<string, mixed> $message
     */
    public static function tryEncode(array $message): ?string
    {
        $json = json_encode($message, self::JSON);
        if ($json === false) {
            if (json_last_error() === JSON_ERROR_UTF8) {
                return null;
            }
            throw new ContractError('the answer cannot be written as JSON: ' . json_last_error_msg());
        }
        $length = strlen($json);
        if ($length > self::MAX) {
            throw new ContractError("the answer is a frame of $length bytes, the limit is " . self::MAX);
        }
        return pack('N', $length) . $json;
    }

    /**
     * The bytes of a frame whose strings must be UTF-8.
     *
     * @param array<string, mixed> $message
     */
    public static function encode(array $message): string
    {
        return self::tryEncode($message)
            ?? throw new ContractError('the answer holds a header or field that is not UTF-8');
    }
}
