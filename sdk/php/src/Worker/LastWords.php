<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/**
 * What the process says when PHP ends it under our feet: exit(), a fatal error, no memory left. During boot it
 * is a boot failure; during a request that request gets its 500, or the error frame of its stream. Then the
 * process ends with a status that is not zero.
 */
final class LastWords
{
    private const RESERVE = 512 * 1024;
    private const FATAL = E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR;

    private string $reserve;
    private readonly int $pid;
    /** @var \Closure(string): int|null what remains to be done after a failed boot; gives the exit status */
    private ?\Closure $bootFailed;
    private ?Service $service = null;
    private ?Listener $listener = null;
    private bool $expected = false;

    /** @param \Closure(string): int $bootFailed */
    public function __construct(\Closure $bootFailed)
    {
        $this->bootFailed = $bootFailed;
        $this->reserve = str_repeat("\0", self::RESERVE);
        $this->pid = getmypid();
        register_shutdown_function($this->speak(...));
    }

    /** From now on, an end of the process is an end of serving. */
    public function serving(Service $service, Listener $listener): void
    {
        $this->bootFailed = null;
        $this->service = $service;
        $this->listener = $listener;
    }

    /** The end that follows is ours. */
    public function nothingToSay(): void
    {
        $this->expected = true;
    }

    private function speak(): void
    {
        if ($this->expected || getmypid() !== $this->pid) { // a forked child of the application has no say
            return;
        }
        $this->reserve = '';
        ini_set('memory_limit', '-1');
        $this->expected = true;
        $error = error_get_last();
        $fatal = $error !== null && ($error['type'] & self::FATAL) !== 0;
        $why = $fatal ? strtok($error['message'], "\n") : 'the application called exit()';
        if ($this->bootFailed !== null) {
            $status = ($this->bootFailed)($fatal ? "$why in {$error['file']}:{$error['line']}" : 'the application file called exit()');
        } else {
            $status = 1;
            $exchange = $this->service->current;
            if ($exchange !== null) {
                $exchange->fail(new Failure(Failure::RUNTIME, Failure::clean($why)), exiting: true);
                Log::line($exchange->what() . ': worker_runtime_error: ' . Failure::clean($why));
            }
            $this->service->afterwards();
            $this->listener->close();
        }
        // Behind the shutdown functions of the application, which still run.
        register_shutdown_function(static fn () => exit($status));
    }
}
