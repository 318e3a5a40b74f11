<?php
// What the PHP clients of the tests share: the list of what was said, and how it is printed.
declare(strict_types=1);

const EVERY_BYTE_TAIL = "\r\n$-1\r\n*3\r\n";

function every_byte(): string
{
    return implode('', array_map('chr', range(0, 255))) . EVERY_BYTE_TAIL;
}

/** The value as JSON can hold it, types kept apart. */
function plain(mixed $value): mixed
{
    return match (true) {
        is_string($value) => 'b:' . mb_convert_encoding($value, 'UTF-8', 'ISO-8859-1'),
        is_float($value) => "f:$value",
        is_array($value) && array_is_list($value) => array_map('plain', $value),
        is_array($value) => plain_map($value),
        $value instanceof \Predis\Response\ErrorInterface => 'error: ' . $value->getMessage(),
        $value instanceof \Predis\Response\Status => 'status: ' . $value->getPayload(),
        $value instanceof \Throwable => get_class($value) . ': ' . $value->getMessage(),
        is_object($value) => 'object ' . get_class($value),
        default => $value,
    };
}

function plain_map(array $map): array
{
    ksort($map);
    return ['map' => array_map(fn ($k, $v) => [plain((string) $k), plain($v)], array_keys($map), $map)];
}

function sorted(array $list): array
{
    sort($list);
    return $list;
}

function near(int $value, int $most): bool
{
    return $value > 0 && $value <= $most;
}

$said = [];

function note(string $name, callable $ask): void
{
    global $said;
    try {
        $value = $ask();
    } catch (\Throwable $error) {
        $value = $error;
    }
    $said[] = [$name, plain($value)];
}
