<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

use Hedgerow\Form\Uploads;

/**
 * The worker program: boots the application, listens, says that it is ready, serves. Exit status: 0 after a
 * stop, 1 when the application did not boot or ended the process, 2 when it could not start at all.
 */
final class Main
{
    private const USAGE = "usage: hedgerow-worker --socket PATH [--app FILE]\n"
        . "  --socket PATH   the Unix socket to listen on\n"
        . "  --app FILE      the application file (default: VHTTPD_APP)\n";

    private readonly Ready $ready;
    private readonly ?ParentWatch $parent;
    private readonly LastWords $lastWords;
    private readonly Uploads $uploads;

    /** @param list<string> $argv */
    public static function run(array $argv): int
    {
        $options = ['socket' => '', 'app' => (string) getenv('VHTTPD_APP')];
        for ($at = 1; $at < count($argv); $at++) {
            if ($argv[$at] === '--help' || $argv[$at] === '-h') {
                fwrite(STDOUT, self::USAGE);
                return 0;
            }
            [$name, $value] = explode('=', $argv[$at], 2) + [1 => null];
            $name = str_starts_with($name, '--') ? substr($name, 2) : '';
            $value ??= $argv[++$at] ?? null;
            if (!isset($options[$name]) || $value === null) {
                fwrite(STDERR, "hedgerow-worker: cannot read the argument {$argv[min($at, count($argv) - 1)]}\n" . self::USAGE);
                return 2;
            }
            $options[$name] = $value;
        }
        if ($options['socket'] === '') {
            fwrite(STDERR, self::USAGE);
            return 2;
        }
        // The application may change the directory while it boots; the socket stays where it was asked for.
        $socket = $options['socket'][0] === '/' ? $options['socket'] : getcwd() . '/' . $options['socket'];
        return (new self())->work($socket, $options['app']);
    }

    private function work(string $socket, string $app): int
    {
        // Whatever PHP has to complain about goes to stderr (or the configured error_log), never into an answer.
        ini_set('display_errors', '0');
        ini_set('log_errors', '1');
        ini_set('html_errors', '0');
        ini_set('zend.exception_ignore_args', '1'); // a trace in the log shows calls, not what users typed
        Log::captureOutput();
        $this->uploads = new Uploads($socket);
        $this->ready = Ready::fromEnvironment();
        $this->parent = ParentWatch::fromEnvironment();
        $this->lastWords = new LastWords(fn (string $why): int => $this->bootFailed($socket, $why));
        try {
            $application = Application::load($app);
        } catch (BootFailure $failure) {
            $status = $this->bootFailed($socket, $failure->getMessage());
            $this->lastWords->nothingToSay();
            return $status;
        }
        $status = $this->serve($socket, new Service($application, null, $this->ready->isWatched() ? [] : Ready::CAPABILITIES, $this->uploads));
        $this->lastWords->nothingToSay();
        return $status;
    }

    /** With somebody watching, says why and ends; without, says it to every request. */
    private function bootFailed(string $socket, string $why): int
    {
        Log::line('the application did not boot: ' . Failure::clean($why));
        Log::settle();
        if ($this->ready->isWatched()) {
            $this->ready->failed($why);
            return 1;
        }
        $failure = new Failure(Failure::RUNTIME, 'the application did not boot: ' . Failure::clean($why));
        return $this->serve($socket, new Service(null, $failure, Ready::CAPABILITIES, $this->uploads));
    }

    private function serve(string $socket, Service $service): int
    {
        try {
            $listener = Listener::open($socket);
        } catch (\RuntimeException $error) {
            Log::line($error->getMessage());
            $this->ready->failed($error->getMessage());
            return 2;
        }
        $this->uploads->sweep();
        $server = new Server($listener, $service, $this->parent);
        if (function_exists('pcntl_async_signals')) {
            pcntl_async_signals(true);
            pcntl_signal(SIGTERM, static fn () => $server->stop(), false);
            pcntl_signal(SIGINT, static fn () => $server->stop(), false);
        }
        $this->lastWords->serving($service, $listener);
        Log::settle();
        $this->ready->ok();
        $server->run();
        $listener->close();
        return 0;
    }
}
