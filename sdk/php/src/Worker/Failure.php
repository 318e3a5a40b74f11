<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/**
 * What went wrong, in the words of the contract: exactly one class, the class name of the exception, and a
 * message that is one line of at most 2 KiB of UTF-8. The only place that maps exceptions.
 */
final class Failure
{
    public const RUNTIME = 'worker_runtime_error';
    public const CONTRACT = 'app_contract_error';

    private const MESSAGE_LIMIT = 2048;

    public function __construct(
        public readonly string $class,
        public readonly string $message,
        public readonly string $exception = '',
    ) {
    }

    public static function of(\Throwable $error): self
    {
        if ($error instanceof BridgeFailure) {
            return new self(self::RUNTIME, self::clean($error->getMessage()), self::className($error->getPrevious() ?? $error));
        }
        $contract = $error instanceof \TypeError || $error instanceof \LogicException; // InvalidArgument, Domain, … are logic
        return new self($contract ? self::CONTRACT : self::RUNTIME, self::clean($error->getMessage()), self::className($error));
    }

    /** The result could not be read as a response; whatever was thrown, that is the contract's fault line. */
    public static function ofResult(\Throwable $error): self
    {
        return new self(self::CONTRACT, self::clean($error->getMessage()), self::className($error));
    }

    /** @return array<string, mixed> the response frame */
    public function response(string $id): array
    {
        $headers = ['content-type' => 'text/plain; charset=utf-8', 'x-worker-error-class' => $this->class];
        if ($this->exception !== '') {
            $headers['x-worker-exception'] = $this->exception;
        }
        $headers['x-worker-error'] = $this->message;
        return ['id' => $id, 'status' => 500, 'headers' => $headers, 'body' => 'Internal Server Error'];
    }

    /** @return array<string, mixed> the frame that ends a stream which has begun */
    public function inStream(string $id): array
    {
        return ['mode' => 'stream', 'event' => 'error', 'id' => $id, 'error_class' => $this->class, 'error' => $this->message];
    }

    /** One line of valid UTF-8 within the limit. */
    public static function clean(string $message): string
    {
        $message = self::cut($message, 2 * self::MESSAGE_LIMIT);
        if (!preg_match('//u', $message)) {
            $message = preg_replace('/[\x80-\xFF]+/', '?', $message);
        }
        $message = trim(preg_replace('/\p{Cc}+/u', ' ', $message));
        return self::cut($message, self::MESSAGE_LIMIT);
    }

    /** Cuts, but never within a character. */
    private static function cut(string $text, int $limit): string
    {
        if (strlen($text) <= $limit) {
            return $text;
        }
        $end = $limit;
        while ($end > $limit - 4 && (ord($text[$end]) & 0xC0) === 0x80) {
            $end--;
        }
        return substr($text, 0, $end);
    }

    /** Anonymous classes carry a path behind a NUL byte; the name is what stands before it. */
    private static function className(\Throwable $error): string
    {
        return self::clean(explode("\0", get_class($error), 2)[0]);
    }
}
