<?php

// The smallest application: one function from a request to a response.

return fn (array $request): array => [
    'status' => 200,
    'headers' => ['content-type' => 'text/plain; charset=utf-8'],
    'body' => "Hello from {$request['path']}\n",
];
