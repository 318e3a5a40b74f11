<?php

// A boot that costs so many milliseconds of CPU time: what an autoloader, a container and a
// configuration cost a framework. Included, so that whoever boots for each request pays each time.

declare(strict_types=1);

(static function (int $milliseconds): void {
    $spent = static function (): int {
        $usage = getrusage();
        return ($usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec']) * 1_000_000 + $usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec'];
    };
    $end = $spent() + $milliseconds * 1000;
    while ($spent() < $end) {
        for ($i = 0, $hash = ''; $i < 50; $i++) {
            $hash = md5($hash . $i);
        }
    }
})((int) ($_SERVER['BENCH_BOOT_MS'] ?? 5));
