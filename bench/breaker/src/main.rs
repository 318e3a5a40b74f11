//! `scenes`, `speed CALLS` or `count CALLS`: see `bench/breaker.py`.

mod peers;
mod scenes;
mod speed;

fn main() {
    let mut words = std::env::args().skip(1);
    let what = words.next().unwrap_or_default();
    let calls = words.next().and_then(|word| word.parse().ok()).unwrap_or(5_000_000);
    match what.as_str() {
        "scenes" => scenes::run(),
        "speed" => speed::run(calls),
        "count" => speed::count(calls),
        _ => {
            eprintln!("scenes, speed CALLS or count CALLS");
            std::process::exit(2);
        }
    }
}
