<?php

declare(strict_types=1);

namespace Hedgerow\Form;

/** A form that cannot be read: the client's fault, answered with 400, or 413 where it is over a limit. */
final class BadForm extends \RuntimeException
{
    public function __construct(string $message, public readonly int $status = 400)
    {
        parent::__construct($message);
    }

    public function reason(): string
    {
        return $this->status === 413 ? 'Content Too Large' : 'Bad Request';
    }

    public static function tooLarge(string $message): self
    {
        return new self($message, 413);
    }
}
