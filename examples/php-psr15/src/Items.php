<?php

declare(strict_types=1);

namespace Example;

use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;

/**
 * A list of items. It lives in this process: another worker of the pool has its own, and a restart forgets it. A
 * real application keeps such things in a database.
 */
final class Items
{
    private const LIMIT = 1000;

    /** @var list<array{id: int, name: string}> */
    private array $items = [['id' => 1, 'name' => 'hazel'], ['id' => 2, 'name' => 'hawthorn']];

    public function list(ServerRequestInterface $request): ResponseInterface
    {
        return Json::response(['items' => $this->items]);
    }

    public function add(ServerRequestInterface $request): ResponseInterface
    {
        $given = json_decode((string) $request->getBody(), true);
        if (!is_array($given) || !is_string($given['name'] ?? null) || trim($given['name']) === '') {
            return Json::response(['error' => 'expected {"name": "…"}'], 422);
        }
        if (count($this->items) >= self::LIMIT) {
            return Json::response(['error' => 'the list is full'], 409);
        }
        $item = ['id' => count($this->items) + 1, 'name' => trim($given['name'])];
        $this->items[] = $item;
        return Json::response($item, 201)->withHeader('Location', "/api/items/{$item['id']}");
    }
}
