<?php

declare(strict_types=1);

namespace Hedgerow\Form;

/** The head of one part of a multipart form: its name and, for a file, what the client calls it. */
final class Part
{
    public function __construct(
        public readonly string $name,
        public readonly ?string $filename,
        public readonly string $type,
    ) {
    }

    public static function fromHead(string $head): self
    {
        $disposition = null;
        $type = '';
        foreach (explode("\r\n", preg_replace('/\r\n[ \t]+/', ' ', $head)) as $line) {
            $colon = strpos($line, ':');
            if ($colon === false || $colon === 0) {
                throw new BadForm('a part has a header line without a name');
            }
            $value = trim(substr($line, $colon + 1), " \t");
            switch (strtolower(rtrim(substr($line, 0, $colon), " \t"))) {
                case 'content-disposition':
                    $disposition ??= $value;
                    break;
                case 'content-type':
                    $type = $value;
                    break;
            }
        }
        if ($disposition === null || strncasecmp($disposition, 'form-data', 9) !== 0) {
            throw new BadForm('a part has no content-disposition of form-data');
        }
        $parameters = self::parameters(substr($disposition, 9));
        if (!isset($parameters['name'])) {
            throw new BadForm('a part has no name');
        }
        $filename = $parameters['filename'] ?? null;
        if (isset($parameters['filename*']) && ($filename === null || $filename === '')) {
            $filename = self::extended($parameters['filename*']) ?? $filename;
        }
        return new self($parameters['name'], $filename === null ? null : self::baseName($filename), $type);
    }

    /** @return array<string, string> */
    private static function parameters(string $text): array
    {
        $found = [];
        $pattern = '/\G\s*;\s*([^\s=;"]+)\s*=\s*(?:"((?:[^"\\\\]|\\\\.)*+)"|([^;"\s]*))/As';
        $at = 0;
        while (preg_match($pattern, $text, $m, PREG_UNMATCHED_AS_NULL, $at)) {
            $at += strlen($m[0]);
            // Only \" and \\ are escapes: old browsers send a whole path with its single backslashes.
            $found[strtolower($m[1])] ??= $m[2] !== null ? preg_replace('/\\\\(["\\\\])/', '$1', $m[2]) : (string) $m[3];
        }
        if (trim(substr($text, $at), " \t;") !== '') {
            throw new BadForm('a content-disposition cannot be read');
        }
        return $found;
    }

    /** The RFC 5987 form, `UTF-8''na%20me`. */
    private static function extended(string $value): ?string
    {
        $pieces = explode("'", $value, 3);
        return count($pieces) === 3 && strcasecmp($pieces[0], 'utf-8') === 0 ? rawurldecode($pieces[2]) : null;
    }

    /** A client's file name never carries a directory, nor control characters. */
    private static function baseName(string $name): string
    {
        return preg_replace(['/[\x00-\x1F\x7F]+/', '~^.*[/\\\\]~'], '', $name);
    }
}
