<?php

declare(strict_types=1);

namespace Hedgerow\Tests;

/**
 * A real worker process, started as the gateway starts it: with its socket and a pipe on which it says that it is
 * ready. Whatever happens in a test, `stop` leaves neither the process nor its files.
 */
final class WorkerProcess
{
    public readonly string $socket;
    /** @var array<string, mixed>|null the line on the ready pipe; null if it was closed without one */
    public readonly ?array $ready;
    public readonly int $pid;

    private readonly string $directory;
    /** @var resource */
    private mixed $process;
    /** @var array<int, resource> */
    private array $pipes = [];
    /** @var list<Client> */
    private array $clients = [];
    private ?int $exit = null;

    /**
     * @param array<string, string> $environment
     * @param list<string> $php arguments for PHP itself
     */
    private function __construct(string $app, array $environment, array $php, bool $watched)
    {
        $this->directory = sys_get_temp_dir() . '/hedgerow-test-' . bin2hex(random_bytes(6));
        mkdir($this->directory, 0700);
        $this->socket = $this->directory . '/worker.sock';
        // Nobody writes on 4: it ends when the process does, and that is how its end is waited for.
        $descriptors = [4 => ['pipe', 'w'], 0 => ['file', '/dev/null', 'r'], 1 => ['file', "$this->directory/stdout", 'w'], 2 => ['file', "$this->directory/stderr", 'w']];
        $own = getenv();
        unset($own['HEDGEROW_READY_FD'], $own['VHTTPD_PARENT_PID']);
        $environment += ['VHTTPD_APP' => $app, 'TMPDIR' => $this->directory] + $own;
        if ($watched) {
            $descriptors[3] = ['pipe', 'w'];
            $environment += ['HEDGEROW_READY_FD' => '3'];
        }
        $program = dirname(__DIR__) . '/bin/hedgerow-worker';
        $command = [PHP_BINARY, ...$php, $program, '--socket', $this->socket];
        $this->process = proc_open($command, $descriptors, $this->pipes, null, $environment);
        $this->pid = proc_get_status($this->process)['pid'];
        $this->ready = $watched ? $this->readReady() : null;
    }

    /**
     * @param array<string, string> $environment
     * @param list<string> $php
     */
    public static function start(string $app, array $environment = [], array $php = []): self
    {
        return new self($app, $environment, $php, true);
    }

    /** As a worker that somebody else starts: nobody waits for its word, its socket must do. */
    public static function startUnwatched(string $app): self
    {
        $worker = new self($app, [], [], false);
        $worker->waitUntil(static fn (): bool => @stream_socket_client("unix://$worker->socket") !== false, 'a socket that accepts');
        return $worker;
    }

    /** An application file with this code, in the directory of this test run. */
    public static function code(string $php): string
    {
        $file = tempnam(sys_get_temp_dir(), 'hedgerow-app-');
        file_put_contents($file, "<?php\n" . $php);
        register_shutdown_function(static fn () => @unlink($file));
        return $file;
    }

    public function connect(): Client
    {
        return $this->clients[] = new Client($this->socket);
    }

    public function signal(int $signal): void
    {
        proc_terminate($this->process, $signal);
    }

    public function isRunning(): bool
    {
        return $this->exit === null && $this->status()['running'];
    }

    /** Waits for the process to end by itself. */
    public function exitCode(): int
    {
        $read = [$this->pipes[4]];
        $none = null;
        if (stream_select($read, $none, $none, 10) !== 1) {
            throw new \RuntimeException("the worker does not end\n" . $this->stderr());
        }
        $this->waitUntil(fn (): bool => !$this->isRunning(), 'the kernel to say so');
        return $this->exit;
    }

    public function stderr(): string
    {
        return (string) file_get_contents("$this->directory/stderr");
    }

    public function stdout(): string
    {
        return (string) file_get_contents("$this->directory/stdout");
    }

    /** @return list<string> folders and files for uploads that are there now, wherever the worker puts them */
    public function uploads(): array
    {
        return glob("$this->directory/{*.uploads,*.uploads/*,hedgerow-*}", GLOB_BRACE) ?: [];
    }

    /** The largest memory the process ever had, in bytes. */
    public function peakMemory(): int
    {
        preg_match('/VmHWM:\s+(\d+)/', (string) file_get_contents("/proc/$this->pid/status"), $m);
        return 1024 * (int) $m[1];
    }

    public function stop(): void
    {
        foreach ($this->clients as $client) {
            $client->close();
        }
        if ($this->isRunning()) {
            proc_terminate($this->process, 9);
        }
        proc_close($this->process);
        foreach (["$this->socket.uploads", $this->directory] as $directory) {
            array_map(unlink(...), array_filter(glob("$directory/{,.}*[!.]", GLOB_BRACE) ?: [], static fn (string $path): bool => !is_dir($path)));
            is_dir($directory) && rmdir($directory);
        }
    }

    /** Waits, in steps of the kernel's patience, until something is so. */
    private function waitUntil(\Closure $isSo, string $what): void
    {
        $until = hrtime(true) + 10_000_000_000;
        while (!$isSo()) {
            if (hrtime(true) > $until) {
                throw new \RuntimeException("waited in vain for $what\n" . $this->stderr());
            }
            usleep(1000);
        }
    }

    /** @return array<string, mixed> */
    private function status(): array
    {
        $status = proc_get_status($this->process);
        if (!$status['running']) {
            $this->exit ??= $status['signaled'] ? 128 + $status['termsig'] : $status['exitcode'];
        }
        return $status;
    }

    /** @return array<string, mixed>|null */
    private function readReady(): ?array
    {
        stream_set_timeout($this->pipes[3], 10);
        $read = [$this->pipes[3]];
        $none = null;
        if (stream_select($read, $none, $none, 10) !== 1) {
            throw new \RuntimeException("the worker says neither that it is ready nor that it is not\n" . $this->stderr());
        }
        $line = fgets($this->pipes[3]);
        return $line === false ? null : json_decode($line, true, 16, JSON_THROW_ON_ERROR);
    }
}
