//! A small fuzzer for every day: each decoder is fed seeded random changes of good input.
//!
//! A failure names its seed; `HEDGEROW_SEED=n` runs that one alone. The full fuzz targets, with the
//! same checks, are in `fuzz/`.

#[path = "../../../fuzz/checks.rs"]
mod checks;

/// Inputs for each decoder.
const ROUNDS: u64 = 100_000;

const ANSWERS: &[&str] = &[
    r#"{"id":"t","status":200,"headers":{"Content-Type":"text/html","x-a":["1","2"]},"body":"hi"}"#,
    r#"{"id":"","status":"200","headers":[],"body":"aGkK","body_encoding":"base64"}"#,
    r#"{"status":500,"headers":{"x-worker-error-class":"a","x-worker-error":"b\r\nc"}}"#,
    r#"{"status":200.0,"headers":{"set-cookie":"a=1; Expires=Wed, 21 Oct 2099 07:28:00 GMT, b=2"}}"#,
    r#"{"mode":"stream","event":"start","id":"t","status":200,"stream_type":"sse","headers":{}}"#,
    r#"{"mode":"stream","strategy":"upstream_plan","event":"start","id":"t"}"#,
    r#"{"mode":"batch","requests":{},"capabilities":["raw_body"]}"#,
    r#"{"id":"t","status":200,"body_length":70000,"capabilities":["keep_alive"]}"#,
];
const EVENTS: &[&str] = &[
    r#"{"mode":"stream","event":"chunk","id":"t","data":"a\nb","sse_id":"1","sse_retry":5}"#,
    r#"{"mode":"stream","event":"chunk","id":"t","data_base64":"/w=="}"#,
    r#"{"mode":"stream","event":"error","id":"t","error_class":"x","error":"a\nb"}"#,
    r#"{"mode":"stream","event":"end","id":""}"#,
];
const REQUESTS: &[&str] = &[
    r#"{"id":"t","method":"GET","path":"/","query":{"a":"1"},"headers":{"a":"b"},"body":"x"}"#,
    r#"{"id":"t","header_list":[["a","b"]],"body":"/w==","body_encoding":"base64"}"#,
    r#"{"id":"t","cookies":{},"attributes":{},"deadline_unix_ms":17,"body_length":9}"#,
];
const LINES: &[&str] = &[
    "{\"ready\":true,\"capabilities\":[\"keep_alive\",\"raw_body\",\"cancel\"]}\n",
    "{\"ready\":false,\"error\":\"caf\u{e9}\"}\n",
];
const COOKIES: &[&str] = &["a=1; Expires=Wed, 21 Oct 2099 07:28:00 GMT, b=\"x, y=z\"; Path=/,c=3"];
const ROWS: &[&str] = &["\u{feff}{\"a\":1}\r\n\n[2]\n\"last\"", "\n\r\n  x"];
const EVENT_STREAMS: &[&str] = &[
    "\u{feff}: c\nid: 7\nevent: e\nretry: 5\ndata: a\ndata:b\n\ndata\n\n",
    "data: {}\r\n\r\ndata: [DONE]\r\revent: x\r\r",
];
const PLANS: &[&str] = &[
    r#"{"id":"t","url":"http://a/","codec":"ndjson","meta":{"field_path":"id"},"headers":[]}"#,
    r#"{"upstream":"m","path":"/x","codec":"sse","mapper":"sse_passthrough","hedge":{"max":2}}"#,
    r#"{"upstream":"m","mapper":"ndjson_sse_field","meta":{"field_path":"a.0","sse_event":"e"}}"#,
];
const BATCHES: &[&str] = &[
    r#"{"id":"t","requests":{"a":{"url":"http://a/","body":{"x":1}},"b":{"upstream":"m"}}}"#,
    r#"{"requests":[{"upstream":"m","hedge":false}],"then":"resume","state":{"a":[1]}}"#,
];
const STEPS: &[&str] = &[
    r#"{"id":"t","handled":true,"stream_type":"sse","state":{"n":1},"chunks":[{"data":"a","id":7}]}"#,
    r#"{"handled":true,"done":true,"headers":{"a":["b"]},"chunks":[{"data_base64":"/w=="},{"data":true}]}"#,
];
const TEXTS: &[&str] = &["a\nb\r\nc\rd", ""];
const RESP: &[&str] = &[
    "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n*1\r\n$4\r\nPING\r\n",
    "set k \"a\\x41 b\" 'c d'\r\n\r\nget k\n",
    "+OK\r\n-ERR x\r\n:-7\r\n$-1\r\n$3\r\n$-1\r\n*2\r\n*1\r\n:1\r\n$0\r\n\r\n",
    "%1\r\n+a\r\n~2\r\n#t\r\n,1.5\r\n_\r\n=5\r\ntxt:a\r\n|1\r\n+t\r\n:1\r\n$1\r\nv\r\n>1\r\n+m\r\n",
];
const FRAMES: &[&str] = &["\0\0\0\u{2}{}\0\0\0\u{1}7", "\0\0\0\0", "\u{1}\0\0\u{1}"];

/// `SplitMix64`: enough randomness for this, in a few lines that anyone can replay.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

fn mutate(seeds: &[&str], seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes = seeds[random.below(seeds.len())].as_bytes().to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        match random.below(7) {
            0 => bytes.truncate(at),
            1 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            2 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            3 => bytes.insert(at, b"\"{}[]:,\\\0\n\xff9-eE."[random.below(16)]),
            4 if !bytes.is_empty() => drop(bytes.remove(at)),
            5 => {
                // A piece of another seed: members that do not belong together.
                let other = seeds[random.below(seeds.len())].as_bytes();
                let from = random.below(other.len());
                let to = from + random.below(other.len() - from);
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            _ => {
                let to = at + random.below(bytes.len() - at);
                let piece = bytes[at..to].to_vec();
                bytes.extend(piece);
            }
        }
    }
    bytes
}

/// Says which seed it was when a check panics.
struct Replay(&'static str, u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed in {}; replay with HEDGEROW_SEED={}", self.0, self.1);
        }
    }
}

fn run(name: &'static str, seeds: &[&str], check: impl Fn(&[u8])) {
    let one = std::env::var("HEDGEROW_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut replay = Replay(name, 0);
    for seed in one.map_or(0..ROUNDS, |seed: u64| seed..seed + 1) {
        replay.1 = seed;
        check(&mutate(seeds, seed));
    }
}

#[test]
fn frame() {
    run("frame", FRAMES, checks::frame);
}

#[test]
fn ready() {
    run("ready", LINES, checks::ready);
}

#[test]
fn request() {
    run("request", REQUESTS, checks::request);
}

#[test]
fn answer() {
    run("answer", ANSWERS, checks::answer);
}

#[test]
fn stream() {
    run("stream", EVENTS, checks::stream);
}

#[test]
fn set_cookie() {
    run("set_cookie", COOKIES, checks::set_cookie);
}

#[test]
fn sse() {
    run("sse", TEXTS, checks::sse);
}

#[test]
fn resp() {
    run("resp", RESP, checks::resp);
}

#[test]
fn ndjson() {
    run("ndjson", ROWS, checks::ndjson);
}

#[test]
fn sse_parse() {
    run("sse_parse", EVENT_STREAMS, checks::sse_parse);
}

#[test]
fn plan() {
    run("plan", PLANS, checks::plan);
}

#[test]
fn batch() {
    run("batch", BATCHES, checks::batch);
}

#[test]
fn dispatch() {
    run("dispatch", STEPS, checks::dispatch);
}
