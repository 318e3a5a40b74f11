<?php

declare(strict_types=1);

namespace Hedgerow\Worker;

use Hedgerow\Form\BadForm;
use Hedgerow\Form\FormData;
use Hedgerow\Form\Uploads;

/**
 * Answers one request, whatever the application does: each request gets exactly one answer, and what the
 * application printed, left open or stored for it is gone afterwards.
 */
final class Service
{
    /** The request being answered; the last words of a dying process are about it. */
    public ?Exchange $current = null;

    private readonly FormData $form;
    private readonly Responder $responder;

    /**
     * @param Failure|null $failed the application did not boot: every answer is this
     * @param list<string> $announce capabilities to be told with answers
     */
    public function __construct(
        private readonly ?Application $application,
        private readonly ?Failure $failed,
        array $announce,
        Uploads $uploads,
    ) {
        $this->form = new FormData($uploads);
        $this->responder = new Responder($announce);
    }

    public function serve(Connection $connection, Incoming $incoming): void
    {
        $id = $incoming->frame['id'] ?? '';
        $exchange = $this->current = new Exchange($connection, is_string($id) ? $id : '', $incoming);
        try {
            if ($this->failed !== null) {
                $exchange->fail($this->failed);
            } elseif (($incoming->frame['strategy'] ?? '') === 'dispatch') {
                $this->responder->sendFrame($exchange, Dispatch::answer($this->application->stream, $incoming));
            } else {
                $this->answer($exchange, $incoming);
            }
        } catch (\Throwable $error) {
            $this->fail($exchange, Failure::of($error), $error);
        }
        $this->current = null;
        $this->afterwards();
    }

    /** Removes what the request left behind. */
    public function afterwards(): void
    {
        $this->form->clear();
        Log::settle();
    }

    private function answer(Exchange $exchange, Incoming $incoming): void
    {
        $http = $this->application->http ?? throw new ContractError('the application has no http handler');
        try {
            $result = $http->call($incoming, $this->form);
        } catch (BadForm $form) {
            Log::line($exchange->what() . ': ' . Failure::clean($form->getMessage()));
            $this->responder->send($exchange, new Answer($form->status, ['content-type' => 'text/plain; charset=utf-8'], $form->reason()));
            return;
        }
        $incoming->release();
        try {
            $answer = ResultNormalizer::normalize($result, $exchange->id);
        } catch (\Throwable $error) {
            $this->fail($exchange, Failure::ofResult($error), $error);
            return;
        }
        unset($result); // a stream must have one owner, who can end it
        $this->responder->send($exchange, $answer);
    }

    private function fail(Exchange $exchange, Failure $failure, \Throwable $error): void
    {
        $exchange->fail($failure);
        $cause = $error->getPrevious() ?? $error;
        Log::line(sprintf(
            "%s: %s: %s: %s in %s:%d\n%s",
            $exchange->what(),
            $failure->class,
            $failure->exception,
            $failure->message,
            $cause->getFile(),
            $cause->getLine(),
            substr($cause->getTraceAsString(), 0, 8192),
        ));
    }
}
