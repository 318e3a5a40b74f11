<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/** The application could not be loaded; the message says why, in one line. */
final class BootFailure extends \RuntimeException
{
}
