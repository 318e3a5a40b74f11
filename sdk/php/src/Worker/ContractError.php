<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

/** The application answered with something that is no response: always an `app_contract_error`. */
final class ContractError extends \LogicException
{
}
