<?php

declare(strict_types=1);

namespace Hedgerow\Form;

/**
 * How much of a form is read. The number of fields also obeys PHP's own max_input_vars, because beyond it
 * PHP drops fields without a word.
 */
final class Limits
{
    public readonly int $fields;

    public function __construct(
        int $fields = 1000,
        public readonly int $files = 100,
        public readonly int $partHead = 16 * 1024,
        public readonly int $fieldBytes = 8 * 1024 * 1024,
    ) {
        $vars = (int) ini_get('max_input_vars');
        $this->fields = $vars > 0 ? min($fields, $vars) : $fields;
    }
}
