//! The `hedgerow` binary.
#![forbid(unsafe_code)]

use std::io::Write as _;
use std::process::ExitCode;

use hedgerow::cli::{self, Command};

fn main() -> ExitCode {
    let command = match cli::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(leave) if leave.code == 0 => return print(0, &leave.text, ""),
        Err(leave) => return print(leave.code, "", &leave.text),
    };
    match command {
        Command::Check(arguments) => {
            let outcome = cli::check(&arguments);
            print(outcome.code, &outcome.output, &outcome.errors)
        }
        Command::Docs(page) => print(0, &page.text(), ""),
        Command::Version => print(0, &cli::version(), ""),
        _ => print(2, "", "this command is not part of this build\n"),
    }
}

/// Writes both, and does not mind a reader that has gone (`hedgerow docs keys | head`).
fn print(code: u8, output: &str, errors: &str) -> ExitCode {
    let _ = std::io::stdout().write_all(output.as_bytes());
    let _ = std::io::stderr().write_all(errors.as_bytes());
    ExitCode::from(code)
}
