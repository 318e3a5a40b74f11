//! `hedgerow demo`: a gateway, scripted workers and a tour, with nothing else needed.
//!
//! Invariant: the demo is `serve` under a configuration of its own; it shows the product, not a
//! copy of it.

use crate::config::{self, Sources, machine::ThisMachine};
use crate::serve::{self, Addresses};
use std::net::SocketAddr;
use std::process::ExitCode;

/// Ports between clients and operators.
const ADMIN_OFFSET: u16 = 1000;

/// Serves the demo on `port`, its admin listener on `port` plus 1000. With port 0 the system gives
/// both.
#[must_use]
pub fn run(port: u16) -> ExitCode {
    let offset = if port == 0 { 0 } else { ADMIN_OFFSET };
    let Some(admin) = port.checked_add(offset) else {
        eprintln!("hedgerow: the port must be at most {}", u16::MAX - ADMIN_OFFSET);
        return ExitCode::from(2);
    };
    let exe = match std::env::current_exe() {
        Ok(exe) => exe,
        Err(error) => {
            eprintln!("hedgerow: the path of this program: {error}");
            return ExitCode::from(2);
        }
    };
    // A store that stalls when it is told to, and an upstream where it is asked to, in this process.
    let store = match hedgerow_stage::store::Store::start("127.0.0.1:0", "127.0.0.1:0") {
        Ok(store) => store,
        Err(error) => {
            eprintln!("hedgerow: the demo's store cannot start: {error}");
            return ExitCode::from(2);
        }
    };
    let (exe, control) = (exe.to_string_lossy().into_owned(), store.control().to_string());
    let command = shell_words::join([exe.as_str(), "stage", "worker", "--note", control.as_str()]);
    let upstream = match hedgerow_stage::upstream::Upstream::start("127.0.0.1:0", "models") {
        Ok(upstream) => format!("http://{}", upstream.address()),
        Err(error) => {
            eprintln!("hedgerow: the demo's upstream cannot start: {error}");
            return ExitCode::from(2);
        }
    };
    let flags = [
        ("server-listen", format!("127.0.0.1:{port}")),
        ("server-body-limit", "1MiB".to_owned()),
        ("admin-listen", format!("127.0.0.1:{admin}")),
        ("worker-command", command),
        ("worker-pool-size", "2".to_owned()),
        ("worker-queue-capacity", "2".to_owned()),
        ("worker-queue-timeout-ms", "500".to_owned()),
        ("worker-read-timeout-ms", "1500".to_owned()),
        ("log-access", "false".to_owned()),
        ("egress-listen", "127.0.0.1:0".to_owned()),
        ("upstream-models-url", upstream),
        ("upstream-models-hedge-after-ms", "300".to_owned()),
        ("cache-store", format!("redis://{}", store.address())),
        ("cache-resp-listen", "127.0.0.1:0".to_owned()),
        // One person asks one thing at a time, and takes a while over it.
        ("cache-breaker-stall-outstanding", "1".to_owned()),
        ("cache-liveness-timeout-ms", "3600000".to_owned()),
        ("cache-canary-successes", "30".to_owned()),
    ];
    let flags = flags.map(|(name, value)| (name.to_owned(), value)).to_vec();
    let sources = Sources { flags, ..Sources::default() };
    let reading = config::read(&sources, &ThisMachine);
    let same = || Err("the demo has no configuration to reload".to_owned());
    serve::start(&reading.config, &same, |addresses| {
        let tour = tour(addresses, store.control());
        store.leave_note(&tour);
        print!("{tour}");
    })
}

/// The tour: what to type, and what is to be seen.
#[must_use]
pub fn tour(addresses: Addresses, store: SocketAddr) -> String {
    let Addresses { server, admin, egress, cache } = addresses;
    // The demo always has workers.
    let server = server.map_or_else(String::new, |server| server.to_string());
    let egress = egress.map_or_else(String::new, |egress| egress.to_string());
    let cache = cache.map_or_else(String::new, |cache| cache.to_string());
    let read =
        format!("curl -sw '%{{time_total}} s\\n' gopher://{cache}/_GET%20greeting%0AQUIT%0A");
    format!(
        "\
Two scripted workers serve http://{server}/ behind a queue of two places.
Open that page in a browser, or type:

  A plain answer, and a stream that is passed on as it comes
    curl http://{server}/hello
    curl -N 'http://{server}/stream/sse?n=5&ms=300'

  One failure of each class; -i shows the status and x-vhttpd-error-class
    curl -i http://{server}/hang                    504 timeout: 1.5 s, then the worker is replaced
    curl -i http://{server}/fault/half              502 transport_error: half a frame
    curl -i http://{server}/error                   500 worker_runtime_error: an uncaught exception
    curl -i 'http://{server}/fault/badstatus?status=99'
                                                    500 app_contract_error: no such HTTP status
    curl -i 'http://{server}/plan?transport=ws'     502 unsupported_transport: nobody speaks that
    curl -i http://{server}/plan                    502 upstream_forbidden: a URL not on the list
    head -c 2000000 /dev/zero | curl -i --data-binary @- http://{server}/echo
                                                    413 request_too_large
    curl -i -H 'content-length: x' http://{server}/
                                                    400: refused before there is a request

  Two busy workers, two places in the queue, and everybody else
    for i in 1 2 3 4 5 6; do curl -s -o /dev/null -w '%{{http_code}} %header{{x-vhttpd-error-class}}\\n' \\
      'http://{server}/sleep?ms=1000' & done; wait
                                                    200 twice, 504 worker_queue_timeout twice,
                                                    503 worker_queue_full twice

  Calls that do not wait for the slowest: a call that is silent for 0.3 s gets a twin
    curl -i 'http://{egress}/models/silent?attempt=1'
                                                    200: the first attempt would stall for ever
    curl -i 'http://{server}/plan?upstream=models&path=/model%3Fn=6&field_path=message.content'
                                                    200: a model's words, the worker free meanwhile
    curl -i 'http://{server}/batch?upstream=models&then=respond&paths=/a,/b,/silent%3Fattempt=1,/c,/d'
                                                    200: five calls side by side, one of them stalls

  A cache that stalls. Any Redis client can use its port; these need nothing but curl, whose gopher://
  sends a line as it stands; the last +OK is that of QUIT
    printf 'SET greeting hello\\nSET price 1\\nQUIT\\n' | curl -s telnet://{cache}
                                                    `+OK` for each line
    {read}
                                                    `hello`, and how long it took
    curl -sX POST http://{store}/stall              `\"stalled\":true`: the store stands still
    {read}
                                                    `$-1` after 0.1 s: a miss; nobody waits longer
    curl -s http://{admin}/admin/breakers           `\"state\":\"open\"` a moment later
    {read}
                                                    `$-1` at once: the read was shed
    printf 'DEL price\\nQUIT\\n' | curl -s telnet://{cache}
                                                    `:0`: the purge is kept in the journal
    curl -s http://{admin}/admin/cache              `\"journal_depth\":1`
    curl -sX POST http://{store}/wake; sleep 0.5; \\
      printf 'SET greeting again\\nQUIT\\n' | curl -s telnet://{cache}
                                                    `+OK`: it is awake, and a write repairs the cache
                                                    while reads are still shed
    curl -s http://{admin}/admin/cache              `\"state\":\"closed\"` 3 s later, not 30: canaries end
                                                    the episode; `\"landed\":1`
    printf 'GET price\\nGET greeting\\nQUIT\\n' | curl -s telnet://{cache}
                                                    `$-1`: the purge went ahead of the read; `again`
    curl -s http://{admin}/admin/cache              `\"journal_depth\":0`

  What an operator sees: open http://{admin}/ in a browser beside all this, or type
    curl http://{admin}/admin/usage
    curl http://{admin}/admin/workers
    curl http://{admin}/admin/requests
    curl http://{admin}/metrics

Ctrl-C ends it.
"
    )
}
