//! What a requirement is, and the worker that is held to it.

use std::time::Duration;

use hedgerow_wire::Capabilities;
use hedgerow_wire::ready::Ready;

use super::client::{Client, Exchange, Plain};
use super::program::{Process, Program};

/// One sentence of the contract and how to see whether it holds.
pub(super) struct Requirement {
    /// Its name for ever: `W-…` for the worker, `A-…` for what needs the application's routes.
    pub(super) id: &'static str,
    /// What is required.
    pub(super) sentence: &'static str,
    /// How to see it.
    pub(super) check: fn(&mut Subject) -> Result<(), Unmet>,
}

/// Why a requirement was not met.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unmet {
    /// It was violated; this was seen.
    Failed(String),
    /// It does not apply; this is why.
    Skipped(&'static str),
}

impl Unmet {
    pub(super) fn seen(what: impl Into<String>) -> Self {
        Self::Failed(what.into())
    }
}

impl From<std::io::Error> for Unmet {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Passes, or says what was seen instead.
pub(super) fn expect(holds: bool, seen: impl FnOnce() -> String) -> Result<(), Unmet> {
    if holds { Ok(()) } else { Err(Unmet::Failed(seen())) }
}

/// A line of the table.
pub(super) struct Row {
    pub(super) id: &'static str,
    pub(super) sentence: &'static str,
    pub(super) verdict: Result<(), Unmet>,
}

/// The worker under test.
pub(super) struct Subject {
    program: Program,
    process: Process,
    patience: Duration,
    /// Whether the application has the routes under `/conform`; asked once.
    offers_routes: Option<bool>,
}

impl Subject {
    pub(super) fn start(program: Program, patience: Duration) -> Result<Self, String> {
        let process = program.start()?;
        Ok(Self { program, process, patience, offers_routes: None })
    }

    /// The verdict on one requirement. A worker that died of it fails it. One that failed is
    /// started anew: it may still be busy with what it could not do.
    pub(super) fn check(&mut self, requirement: &Requirement) -> Row {
        let mut verdict = (requirement.check)(self);
        if let (true, Some(status)) = (verdict.is_ok(), self.process.exit()) {
            verdict = Err(Unmet::Failed(format!("the worker ended ({status})")));
        }
        if matches!(verdict, Err(Unmet::Failed(_)))
            && let Err(reason) = self.restart()
        {
            verdict = Err(Unmet::Failed(reason));
        }
        Row { id: requirement.id, sentence: requirement.sentence, verdict }
    }

    pub(super) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Ends the process as a crash would, and starts another one at the same socket.
    pub(super) fn restart(&mut self) -> Result<(), String> {
        self.process.kill();
        self.process = self.program.start()?;
        Ok(())
    }

    /// What it announced, at readiness.
    pub(super) fn capabilities(&self) -> Capabilities {
        match self.process.ready() {
            Some(Ok(Ready::Up(set))) => *set,
            _ => Capabilities::NONE,
        }
    }

    /// A new connection.
    pub(super) fn connect(&self) -> Result<Client, Unmet> {
        Client::connect(&self.program.socket(), self.patience)
            .map_err(|error| Unmet::Failed(format!("its socket does not accept: {error}")))
    }

    /// One request on a connection of its own, and the whole answer.
    pub(super) fn ask(&self, plain: &Plain<'_>) -> Result<Exchange, Unmet> {
        let mut client = self.connect()?;
        client.ask(plain, self.capabilities())
    }

    /// Whether it still answers.
    pub(super) fn still_answers(&self) -> Result<(), Unmet> {
        self.ask(&Plain::get("/")).map(drop)
    }

    /// Skips what needs the routes of an application that has none.
    pub(super) fn needs_routes(&mut self) -> Result<(), Unmet> {
        if self.offers_routes.is_none() {
            let answer = self.ask(&Plain::get("/conform"));
            let offers = answer.is_ok_and(|exchange| {
                let json: Option<serde_json::Value> = serde_json::from_slice(&exchange.body).ok();
                json.is_some_and(|json| json["conform"] == 1)
            });
            self.offers_routes = Some(offers);
        }
        match self.offers_routes {
            Some(true) => Ok(()),
            _ => Err(Unmet::Skipped("the application has no routes under /conform")),
        }
    }
}
