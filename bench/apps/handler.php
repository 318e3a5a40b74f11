<?php

// The hello application of every peer: what differs is only how it is called.

declare(strict_types=1);

/** @return array{int, array<string, string>, string} */
function hello(string $path): array
{
    if ($path === '/hang') {
        sleep(10); // a dependency that does not answer
    }
    return [200, ['content-type' => 'text/plain; charset=utf-8'], "Hello from PHP\n"];
}
