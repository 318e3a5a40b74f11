//! `hedgerow-stage worker --socket PATH [flags]`, `hedgerow-stage upstream --listen ADDRESS` and
//! `hedgerow-stage store --listen ADDRESS`: the actors as programs.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("worker") => hedgerow_stage::run_worker(args),
        Some("upstream") => hedgerow_stage::run_upstream(args),
        Some("store") => hedgerow_stage::run_store(args),
        _ => {
            eprintln!("usage: hedgerow-stage worker --socket PATH [flags]");
            eprintln!("{}", hedgerow_stage::args::FLAGS);
            eprintln!("       hedgerow-stage upstream [flags]");
            eprintln!("{}", hedgerow_stage::upstream::FLAGS);
            eprintln!("       hedgerow-stage store [flags]");
            eprintln!("{}", hedgerow_stage::store::FLAGS);
            eprintln!("{}", hedgerow_stage::store::CONTROL);
            ExitCode::from(2)
        }
    }
}
