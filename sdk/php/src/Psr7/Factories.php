<?php

declare(strict_types=1);

namespace Hedgerow\Psr7;

use Psr\Http\Message\ResponseFactoryInterface;
use Psr\Http\Message\ServerRequestFactoryInterface;
use Psr\Http\Message\StreamFactoryInterface;
use Psr\Http\Message\UploadedFileFactoryInterface;

/**
 * Finds the PSR-17 factories of whatever PSR-7 package the application has: classes that autoload already,
 * then packages of the system on the include path (Debian's). HEDGEROW_PSR17 names one
 * (nyholm, guzzle, slim, laminas), or `none`.
 */
final class Factories
{
    private const KNOWN = [
        'nyholm' => [
            'Nyholm\Psr7\Factory\Psr17Factory', 'Nyholm\Psr7\Factory\Psr17Factory',
            'Nyholm\Psr7\Factory\Psr17Factory', 'Nyholm\Psr7\Factory\Psr17Factory', 'Nyholm/Psr7/autoload.php',
        ],
        'guzzle' => [
            'GuzzleHttp\Psr7\HttpFactory', 'GuzzleHttp\Psr7\HttpFactory',
            'GuzzleHttp\Psr7\HttpFactory', 'GuzzleHttp\Psr7\HttpFactory', 'GuzzleHttp/Psr7/autoload.php',
        ],
        'slim' => [
            'Slim\Psr7\Factory\ServerRequestFactory', 'Slim\Psr7\Factory\StreamFactory',
            'Slim\Psr7\Factory\UploadedFileFactory', 'Slim\Psr7\Factory\ResponseFactory', 'Slim/Psr7/autoload.php',
        ],
        'laminas' => [
            'Laminas\Diactoros\ServerRequestFactory', 'Laminas\Diactoros\StreamFactory',
            'Laminas\Diactoros\UploadedFileFactory', 'Laminas\Diactoros\ResponseFactory', 'Laminas/Diactoros/autoload.php',
        ],
    ];

    private static self|false|null $found = null;

    private function __construct(
        public readonly string $package,
        public readonly ServerRequestFactoryInterface $requests,
        public readonly StreamFactoryInterface $streams,
        public readonly UploadedFileFactoryInterface $files,
        public readonly ResponseFactoryInterface $responses,
    ) {
    }

    public static function find(): ?self
    {
        self::$found ??= self::search((string) getenv('HEDGEROW_PSR17')) ?? false;
        return self::$found ?: null;
    }

    private static function search(string $wanted): ?self
    {
        $known = $wanted === '' ? self::KNOWN : array_intersect_key(self::KNOWN, [$wanted => true]);
        foreach ([false, true] as $fromSystem) {
            foreach ($known as $package => [$requests, $streams, $files, $responses, $autoload]) {
                if ($fromSystem && ($path = stream_resolve_include_path($autoload)) !== false) {
                    require_once $path;
                }
                if (class_exists($requests) && class_exists($responses)) {
                    return new self($package, new $requests(), new $streams(), new $files(), new $responses());
                }
            }
        }
        return null;
    }
}
