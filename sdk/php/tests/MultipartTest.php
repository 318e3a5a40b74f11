<?php

declare(strict_types=1);

namespace Hedgerow\Tests;

use Hedgerow\Form\BadForm;
use Hedgerow\Form\FormData;
use Hedgerow\Form\Limits;
use Hedgerow\Form\Multipart;
use Hedgerow\Form\UploadedFile;
use PHPUnit\Framework\TestCase;

/** The multipart parser alone, fed in pieces of every size. */
final class MultipartTest extends TestCase
{
    private const TYPE = 'multipart/form-data; boundary=XX';

    private FormData $form;

    protected function setUp(): void
    {
        $this->form = new FormData();
    }

    protected function tearDown(): void
    {
        $this->form->clear();
    }

    private function parse(string $body, int $piece = PHP_INT_MAX, string $type = self::TYPE, Limits $limits = new Limits()): void
    {
        $at = 0;
        Multipart::parse(static function (int $size) use ($body, &$at, $piece): string {
            $bytes = substr($body, $at, min($size, $piece));
            $at += strlen($bytes);
            return $bytes;
        }, $type, $this->form, $limits);
    }

    private static function field(string $name, string $value, string $more = ''): string
    {
        return "--XX\r\nContent-Disposition: form-data; name=\"$name\"$more\r\n\r\n$value\r\n";
    }

    public function testReadsFieldsAndFilesHoweverTheyAreCut(): void
    {
        $data = "bin\r\n--X\r\n--XXY\r\n--XX\r-\0" . random_bytes(300) . "\r\n";
        $body = "preamble\r\n" . self::field('a', '1') . self::field('b', '') . self::field('f', $data, '; filename="x.bin"' . "\r\nContent-Type: image/x") . "--XX--\r\nepilogue";
        foreach ([1, 2, 3, 7, 64, 1000] as $piece) {
            $this->form = new FormData();
            $this->parse($body, $piece);
            self::assertSame(['a' => '1', 'b' => ''], $this->form->fields(), "pieces of $piece");
            [$entry] = $this->form->entries();
            self::assertSame($data, file_get_contents($entry['path']), "pieces of $piece");
            $path = $entry['path'];
            unset($entry['path']);
            self::assertSame(['name' => 'f', 'filename' => 'x.bin', 'type' => 'image/x', 'size' => strlen($data)], $entry);
            $this->form->clear();
            self::assertFileDoesNotExist($path);
        }
    }

    public function testNestsNamesAsPhpDoes(): void
    {
        $this->parse(self::field('a[b][]', '1') . self::field('a[b][]', '2') . self::field('a[c]', '3') . self::field('d.e', '4') . self::field('d.e', '5') . self::field('x[f][]', 'data', '; filename="n"') . '--XX--');
        self::assertSame(['a' => ['b' => ['1', '2'], 'c' => '3'], 'd_e' => '5'], $this->form->fields());
        self::assertSame(['x' => ['f' => ['n']]], $this->form->files(static fn (UploadedFile $file): string => $file->part->filename));
    }

    /** @return array<string, array{string, string}> */
    public static function names(): array
    {
        return [
            'plain' => ['filename="a b.txt"', 'a b.txt'], 'unquoted' => ['filename=a.txt', 'a.txt'], 'escaped' => ['filename="a\"b.txt"', 'a"b.txt'],
            'unix path' => ['filename="../../etc/passwd"', 'passwd'], 'windows path' => ['filename="C:\dir\x.txt"', 'x.txt'], 'semicolon' => ['filename="a;b=c.txt"', 'a;b=c.txt'],
            'utf-8' => ["filename=\"gr\u{fc}n.txt\"", "gr\u{fc}n.txt"], 'extended' => ["filename*=UTF-8''gr%C3%BCn.txt", "gr\u{fc}n.txt"], 'empty' => ['filename=""', ''], 'control' => ["filename=\"a\x01b\"", 'ab'],
        ];
    }

    /** @dataProvider names */
    public function testFileNames(string $parameter, string $name): void
    {
        $this->parse(self::field('f', 'x', "; $parameter") . '--XX--');
        self::assertSame(['f' => $name], $this->form->files(static fn (UploadedFile $file): string => $file->part->filename));
    }

    public function testTheBoundaryMayBeQuotedAndFollowedByBlanks(): void
    {
        $this->parse("--a b;c  \r\nContent-Disposition: form-data; name=x\r\n\r\ny\r\n--a b;c--", PHP_INT_MAX, 'multipart/form-data; charset=utf-8; boundary="a b;c"');
        self::assertSame(['x' => 'y'], $this->form->fields());
    }

    /** @return array<string, array{string, string}> */
    public static function malformed(): array
    {
        $good = self::field('a', '1');
        return [
            'empty' => ['', self::TYPE], 'no boundary' => [$good . '--XX--', 'multipart/form-data'], 'empty boundary' => [$good, 'multipart/form-data; boundary='],
            'no end' => [$good, self::TYPE], 'cut in data' => ["--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nabc", self::TYPE],
            'cut in head' => ["--XX\r\nContent-Dispo", self::TYPE], 'other boundary' => [$good . '--XX--', 'multipart/form-data; boundary=YY'],
            'no disposition' => ["--XX\r\nContent-Type: text/plain\r\n\r\n1\r\n--XX--", self::TYPE], 'no name' => ["--XX\r\nContent-Disposition: form-data\r\n\r\n1\r\n--XX--", self::TYPE],
            'not form-data' => ["--XX\r\nContent-Disposition: attachment; name=\"a\"\r\n\r\n1\r\n--XX--", self::TYPE], 'header without colon' => ["--XX\r\nhello\r\n\r\n1\r\n--XX--", self::TYPE],
            'open quote' => ["--XX\r\nContent-Disposition: form-data; name=\"a\r\n\r\n1\r\n--XX--", self::TYPE], 'text' => ['just some text', self::TYPE],
        ];
    }

    /** @dataProvider malformed */
    public function testMalformedBodiesAreRefused(string $body, string $type): void
    {
        try {
            $this->parse($body, 5, $type);
            self::fail('it was read');
        } catch (BadForm $error) {
            self::assertSame(400, $error->status);
        }
    }

    public function testLimits(): void
    {
        $limits = new Limits(fields: 3, files: 2, partHead: 200, fieldBytes: 100);
        $fine = str_repeat(self::field('a', str_repeat('x', 30)), 3) . str_repeat(self::field('f', str_repeat('x', 500), '; filename="n"'), 2);
        $this->parse($fine . '--XX--', 9, self::TYPE, $limits);
        self::assertCount(2, $this->form->entries());
        foreach ([
            'fields' => $fine . self::field('b', ''), 'files' => $fine . self::field('g', '', '; filename="n"'),
            'head' => self::field('a', '', '; x=' . str_repeat('y', 300)), 'bytes' => self::field('a', str_repeat('x', 101)),
        ] as $what => $body) {
            try {
                $this->parse($body . '--XX--', 9, self::TYPE, $limits);
                self::fail("$what: no limit");
            } catch (BadForm $error) {
                self::assertSame(413, $error->status, $what);
            }
        }
    }
}
