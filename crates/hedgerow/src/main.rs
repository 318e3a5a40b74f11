//! The `hedgerow` binary: which command was typed, and what runs it.
#![forbid(unsafe_code)]

use std::io::Write as _;
use std::process::ExitCode;

use hedgerow::cli::{self, Actor, Command};
use hedgerow::{conform, demo, drill, explain, plan_hedge, serve};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A program this one starts of itself; it is not for people and not in the help.
    if std::env::args_os().skip(1).eq(["guard"]) {
        hedgerow_worker::guard::run(std::io::stdin().lock());
        return ExitCode::SUCCESS;
    }
    let command = match cli::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(leave) if leave.code == 0 => return print(0, &leave.text, ""),
        Err(leave) => return print(leave.code, "", &leave.text),
    };
    match command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Demo { port } => demo::run(port),
        Command::Check(arguments) => {
            let outcome = cli::check(&arguments);
            print(outcome.code, &outcome.output, &outcome.errors)
        }
        Command::Conform { command } => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(conform::run(command)),
                Err(error) => {
                    print(2, "", &format!("hedgerow: the runtime cannot start: {error}\n"))
                }
            }
        }
        Command::Stage { actor, flags } => match actor {
            Actor::Worker => hedgerow_stage::run_worker(flags),
            Actor::Upstream => hedgerow_stage::run_upstream(flags),
            Actor::Store => hedgerow_stage::run_store(flags),
        },
        Command::Docs(page) => print(0, &page.text(), ""),
        Command::Version => print(0, &cli::version(), ""),
        Command::PlanHedge(arguments) => {
            let outcome = plan_hedge::run(&arguments);
            print(outcome.code, &outcome.output, &outcome.errors)
        }
        Command::Drill(arguments) => {
            let outcome = drill::run(&arguments);
            print(outcome.code, &outcome.output, &outcome.errors)
        }
        Command::DrillList => print(0, &drill::list().output, ""),
        Command::Explain(arguments) => {
            let outcome = explain::run(&arguments);
            print(outcome.code, &outcome.output, &outcome.errors)
        }
    }
}

/// Writes both, and does not mind a reader that has gone (`hedgerow docs keys | head`).
fn print(code: u8, output: &str, errors: &str) -> ExitCode {
    let _ = std::io::stdout().write_all(output.as_bytes());
    let _ = std::io::stderr().write_all(errors.as_bytes());
    ExitCode::from(code)
}
