<?php

// The smallest thing that boots once: so many processes accept on one Unix socket, read a request's
// head, answer and close. No limits, no timeouts, no supervision, no bodies: a floor, not a server.
// php crude-loop.php SOCKET PROCESSES APPLICATION

declare(strict_types=1);

[, $path, $processes, $application] = $argv;
$listener = stream_socket_server("unix://$path", $code, $why, STREAM_SERVER_BIND | STREAM_SERVER_LISTEN, stream_context_create(['socket' => ['backlog' => 4096]]));
if ($listener === false) {
    exit("$why\n");
}
for ($i = 1; $i < (int) $processes && pcntl_fork() > 0; $i++);
require __DIR__ . "/$application";
while (true) {
    $connection = stream_socket_accept($listener, -1);
    if ($connection === false) {
        continue;
    }
    $head = '';
    while (!str_contains($head, "\r\n\r\n")) {
        $bytes = fread($connection, 8192);
        if ($bytes === '' || $bytes === false) {
            break;
        }
        $head .= $bytes;
    }
    $target = explode(' ', $head, 3)[1] ?? '/';
    [$status, $headers, $body] = hello(explode('?', $target, 2)[0]);
    $answer = "HTTP/1.1 $status OK\r\nconnection: close\r\ncontent-length: " . strlen($body) . "\r\n";
    foreach ($headers as $name => $value) {
        $answer .= "$name: $value\r\n";
    }
    fwrite($connection, "$answer\r\n$body");
    fclose($connection);
}
