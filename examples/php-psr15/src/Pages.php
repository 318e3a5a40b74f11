<?php

declare(strict_types=1);

namespace Example;

use Nyholm\Psr7\Response;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Message\UploadedFileInterface;

/** The page, and what its form posts to. */
final class Pages
{
    public static function home(ServerRequestInterface $request): ResponseInterface
    {
        $html = <<<'HTML'
            <!doctype html>
            <html lang="en">
            <meta charset="utf-8">
            <title>PSR-15 on Hedgerow</title>
            <h1>PSR-15 on Hedgerow</h1>
            <form method="post" action="/upload" enctype="multipart/form-data">
              <p><label>A word <input name="field" value="hedge"></label>
              <p><label>A file <input name="file" type="file" required></label>
              <p><button>Upload</button>
            </form>
            <ul>
              <li><a href="/api/items">items, as JSON</a>
              <li><a href="/events?pause_ms=100">forty events</a>
              <li><a href="/download">twenty mebibytes</a>
            </ul>
            </html>

            HTML;
        return new Response(200, ['Content-Type' => 'text/html; charset=utf-8'], $html);
    }

    public static function upload(ServerRequestInterface $request): ResponseInterface
    {
        $file = $request->getUploadedFiles()['file'] ?? null;
        if (!$file instanceof UploadedFileInterface || $file->getError() !== UPLOAD_ERR_OK) {
            return Json::response(['error' => 'expected a file under the name "file"'], 422);
        }
        $hash = hash_init('sha1');
        $stream = $file->getStream();
        $stream->rewind();
        while (!$stream->eof()) {
            hash_update($hash, $stream->read(256 * 1024));
        }
        return Json::response([
            'field' => $request->getParsedBody()['field'] ?? null,
            'filename' => $file->getClientFilename(),
            'size' => $file->getSize(),
            'sha1' => hash_final($hash),
        ]);
    }
}
