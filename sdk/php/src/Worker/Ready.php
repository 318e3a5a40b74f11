<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/** The one line a worker writes on HEDGEROW_READY_FD when it has booted, or has failed to. */
final class Ready
{
    public const CAPABILITIES = ['keep_alive', 'raw_body', 'cancel', 'lean'];

    /** @param resource|null $pipe */
    private function __construct(private mixed $pipe)
    {
    }

    public static function fromEnvironment(): self
    {
        $fd = getenv('HEDGEROW_READY_FD');
        $pipe = is_string($fd) && preg_match('/^\d+$/D', $fd) ? Quiet::run(static fn (): mixed => fopen("php://fd/$fd", 'wb')) : false;
        return new self($pipe ?: null);
    }

    /** Whether anybody listens: without it the worker counts as ready once its socket accepts. */
    public function isWatched(): bool
    {
        return $this->pipe !== null;
    }

    public function ok(): void
    {
        $this->write(['ready' => true, 'capabilities' => self::CAPABILITIES]);
    }

    public function failed(string $error): void
    {
        $this->write(['ready' => false, 'error' => Failure::clean($error)]);
    }

    /** @param array<string, mixed> $line */
    private function write(array $line): void
    {
        if ($this->pipe !== null) {
            $text = json_encode($line, JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE) . "\n";
            Quiet::run(fn (): bool => fwrite($this->pipe, $text) !== false && fclose($this->pipe));
            $this->pipe = null;
        }
    }
}
