<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/** Reads what an application yields as one server-sent event. Fields that would break the format are refused. */
final class SseEvent
{
    /** @return array{data: string, id?: string, event?: string, retry?: int} */
    public static function of(mixed $key, mixed $item): array
    {
        $event = is_array($item) ? $item : ['data' => $item];
        if (is_string($key) && !isset($event['event'])) {
            $event['event'] = $key;
        }
        if (is_array($item) && array_intersect_key($item, ['data' => 1, 'id' => 1, 'event' => 1, 'retry' => 1]) === []) {
            throw new ContractError('an event is an array without data, id, event or retry');
        }
        $clean = ['data' => self::data(is_array($item) ? $item['data'] ?? '' : $item)];
        foreach (['id', 'event'] as $field) {
            if (isset($event[$field])) {
                $value = $event[$field];
                if (!is_string($value) && !is_int($value) && !$value instanceof \Stringable) {
                    throw new ContractError("the $field of an event is " . get_debug_type($value));
                }
                $value = (string) $value;
                if (strpbrk($value, "\r\n\0") !== false) {
                    throw new ContractError("the $field of an event has a line break");
                }
                $clean[$field] = $value;
            }
        }
        if (isset($event['retry'])) {
            if (!is_int($event['retry']) || $event['retry'] < 0) {
                throw new ContractError('the retry of an event is no number of milliseconds');
            }
            $clean['retry'] = $event['retry'];
        }
        return $clean;
    }

    private static function data(mixed $data): string
    {
        if (is_string($data)) {
            return $data;
        }
        if (is_array($data) || $data instanceof \JsonSerializable) {
            return json_encode($data, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_THROW_ON_ERROR);
        }
        if (is_int($data) || is_float($data) || $data instanceof \Stringable) {
            return (string) $data;
        }
        throw new ContractError('the data of an event is ' . get_debug_type($data));
    }
}
