//! `hedgerow-stage worker --socket PATH [flags]`: the scripted worker as a program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("worker") => hedgerow_stage::run_worker(args),
        _ => {
            eprintln!("usage: hedgerow-stage worker --socket PATH [flags]");
            eprintln!("{}", hedgerow_stage::args::FLAGS);
            ExitCode::from(2)
        }
    }
}
