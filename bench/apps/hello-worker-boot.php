<?php

declare(strict_types=1);

require __DIR__ . '/boot.php';

return require __DIR__ . '/hello-worker.php';
