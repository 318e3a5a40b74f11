<?php

declare(strict_types=1);

require __DIR__ . '/boot.php';
require __DIR__ . '/hello-fpm.php';
