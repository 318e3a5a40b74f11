<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/**
 * Checks what an application gives as status and headers against what HTTP allows. Anything else is an
 * `app_contract_error` here, rather than a broken response at the client.
 */
final class Headers
{
    private const REMEMBERED = 512;

    /** @var array<string, string> names seen before, with their lower-case form */
    private static array $names = [];

    public static function status(mixed $status): int
    {
        if (is_string($status) && preg_match('/^\d+$/D', $status)) {
            $status = (int) $status;
        }
        if (!is_int($status) || $status < 200 || $status > 599) {
            $shown = is_scalar($status) ? var_export($status, true) : get_debug_type($status);
            throw new ContractError("the status $shown is none that a response may have (200 to 599)");
        }
        return $status;
    }

    /** @return array<string, string|list<string>> */
    public static function of(mixed $headers): array
    {
        if (!is_array($headers)) {
            throw new ContractError('the headers must be an array, not ' . get_debug_type($headers));
        }
        $clean = [];
        foreach ($headers as $name => $value) {
            $lower = self::$names[$name] ?? self::name($name);
            if (is_array($value)) {
                $values = [];
                foreach ($value as $one) {
                    $values[] = self::value($one, $lower);
                }
                $value = count($values) === 1 ? $values[0] : $values;
            } else {
                $value = self::value($value, $lower);
            }
            if ($value !== []) {
                $clean[$lower] = isset($clean[$lower]) ? [...(array) $clean[$lower], ...(array) $value] : $value;
            }
        }
        return $clean;
    }

    private static function name(string|int $name): string
    {
        if (is_int($name)) {
            throw new ContractError('the headers are a list: expected name => value');
        }
        if (!preg_match('/^[!#$%&\'*+.^_`|~0-9A-Za-z-]+$/D', $name)) {
            throw new ContractError('a header has a name that HTTP does not allow');
        }
        $lower = strtolower($name);
        if (count(self::$names) < self::REMEMBERED) {
            self::$names[$name] = $lower;
        }
        return $lower;
    }

    private static function value(mixed $value, string $name): string
    {
        if (!is_string($value)) {
            if (!is_int($value) && !is_float($value) && !$value instanceof \Stringable) {
                throw new ContractError("the header $name has a value of type " . get_debug_type($value));
            }
            $value = (string) $value;
        }
        if (preg_match('/[\x00-\x08\x0A-\x1F\x7F]/', $value)) {
            throw new ContractError("the header $name has a value with a line break or control character");
        }
        return $value;
    }
}
