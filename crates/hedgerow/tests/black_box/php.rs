//! Applications on php-cli: how to start them, and what they may return, throw and do (cases 11 to
//! 16).

use crate::envelope::assert_failure;
use crate::server::Server;
use hedgerow_testkit::http::Response;
use hedgerow_testkit::scratch::Scratch;
use hedgerow_testkit::until::until;
use sha1::Digest;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A file of this repository.
pub(crate) fn in_repository(path: &str) -> String {
    format!("{ROOT}/{path}")
}

/// The SHA-1 of `bytes` in hexadecimal.
pub(crate) fn sha1(bytes: &[u8]) -> String {
    sha1::Sha1::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The configuration for a PHP application file.
pub(crate) fn config(app: &str) -> String {
    let worker = in_repository("sdk/php/bin/hedgerow-worker");
    // A machine that runs other tests beside this one is slow to answer at times.
    format!("php.app = {app:?}\nphp.worker = {worker:?}\nworker.start_timeout_ms = 20000\n")
}

/// A server on this application: PHP behind `<?php`, which returns it.
pub(crate) fn serving(app: &str, lines: &str) -> Server {
    let scratch = Scratch::new();
    scratch.file("app.php", format!("<?php\n{app}"));
    Server::start_in(scratch, &format!("{}{lines}", config("app.php")), &[])
}

/// One function of the request's path.
fn by_path(arms: &str) -> String {
    format!("return function (array $r) {{ return match ($r['path']) {{ {arms} }}; }};")
}

/// A 500 of this class, with this exception named and nothing said.
fn assert_thrown(response: &Response, class: &str, exception: &str) {
    assert_failure(response, 500, class);
    assert_eq!(response.header("x-worker-error-class"), Some(class), "{response:?}");
    assert_eq!(response.header("x-worker-exception"), Some(exception), "{response:?}");
}

#[test]
fn case_11_a_message_with_line_breaks_is_for_the_log_alone() {
    let app = "return fn () => throw new RuntimeException(\"boom\\r\\nx-evil: 1\");";
    let server = serving(app, "");
    let response = server.get("/throw");
    assert_thrown(&response, "worker_runtime_error", "RuntimeException");
    let bytes = format!("{}{}", response.head, response.text()).to_ascii_lowercase();
    for secret in ["evil", "boom", "x-worker-error:", ".php", "#0"] {
        assert!(!bytes.contains(secret), "{secret}: {bytes}");
    }
    let event = server.request_event("/throw");
    assert!(event["error_message"].as_str().unwrap().contains("boom"), "{event}");
    assert_eq!(event["worker_exception"], "RuntimeException", "{event}");
    let masked = serving(app, "log.redact = true");
    masked.get("/throw");
    let ended = masked.stop();
    assert!(ended.events.iter().all(|event| !event.to_string().contains("boom")));
}

#[test]
fn case_12_a_file_that_does_not_parse_is_a_500_on_every_request() {
    let server = serving("return fn ( => 1;", "");
    for path in ["/", "/", "/hello"] {
        assert_failure(&server.get(path), 500, "worker_runtime_error");
    }
    let failed = server.event("worker.boot_failed", |_| true);
    assert!(failed["error"].as_str().unwrap().contains("app.php"), "{failed}");
    server.event("worker.restart_scheduled", |event| event["failures"] == 2);
    // Mended, it boots at the next try.
    server.scratch.file("app.php", "<?php return fn () => 'mended';");
    let mended = until("it boots", || Some(server.get("/")).filter(|r| r.status() == 200));
    assert_eq!(mended.text(), "mended");
}

#[test]
fn case_13_what_is_thrown_has_one_class() {
    let thrown = [
        ("TypeError", "app_contract_error"),
        ("InvalidArgumentException", "app_contract_error"),
        ("LogicException", "app_contract_error"),
        ("DomainException", "app_contract_error"),
        ("Exception", "worker_runtime_error"),
        ("RuntimeException", "worker_runtime_error"),
        ("ValueError", "worker_runtime_error"),
        ("DivisionByZeroError", "worker_runtime_error"),
    ];
    let server = serving(
        "return function (array $r) { $class = substr($r['path'], 1); throw new $class('secret'); };",
        "",
    );
    let worker = server.workers();
    for (exception, class) in thrown {
        assert_thrown(&server.get(&format!("/{exception}")), class, exception);
    }
    assert_eq!(server.workers(), worker, "an exception costs no worker");
}

#[test]
fn cases_14_16_what_is_returned_and_is_no_response_is_a_contract_error() {
    // A body that cannot be read: what normalising it throws is nobody's runtime error.
    let app = "require_once 'Nyholm/Psr7/autoload.php';\n".to_owned()
        + "class Unreadable implements Stringable {
            public function __toString(): string { throw new DomainException('secret'); }
        }
        class Odd extends Nyholm\\Psr7\\Response {
            public function getHeaders(): array { throw new RuntimeException('secret'); }
        }\n"
        + &by_path(
            "'/null' => null, '/int' => 42, '/object' => new stdClass(), '/bool' => true,
            '/float' => 1.5, '/empty' => [], '/list' => [1, 2],
            '/status' => ['status' => 99], '/word' => ['status' => 'abc'],
            '/name' => ['headers' => ['bad name' => 'x']], '/split' => ['headers' => ['x' => \"a\\r\\nb\"]],
            '/body' => ['body' => new stdClass()],
            '/unreadable' => ['body' => new Unreadable()],
            '/psr7' => new Odd(),
            default => 'fine'",
        );
    let server = serving(&app, "");
    let worker = server.workers();
    for path in [
        "/null", "/int", "/object", "/bool", "/float", "/empty", "/list", "/status", "/word",
        "/name", "/split", "/body",
    ] {
        assert_failure(&server.get(path), 500, "app_contract_error");
    }
    assert_thrown(&server.get("/unreadable"), "app_contract_error", "DomainException");
    assert_thrown(&server.get("/psr7"), "app_contract_error", "RuntimeException");
    assert_eq!(server.get("/").text(), "fine");
    assert_eq!(server.workers(), worker, "a bad result costs no worker");
}

#[test]
fn case_15_a_bridge_to_psr_7_that_throws_is_a_500() {
    let app = "
        namespace Laminas\\Diactoros;
        require_once 'Nyholm/Psr7/autoload.php';
        class ServerRequestFactory extends \\Nyholm\\Psr7\\Factory\\Psr17Factory {
            public function createServerRequest(string $m, $u, array $p = []): \\Psr\\Http\\Message\\ServerRequestInterface {
                throw new \\UnexpectedValueException('secret');
            }
        }
        class StreamFactory extends \\Nyholm\\Psr7\\Factory\\Psr17Factory {}
        class UploadedFileFactory extends \\Nyholm\\Psr7\\Factory\\Psr17Factory {}
        class ResponseFactory extends \\Nyholm\\Psr7\\Factory\\Psr17Factory {}
        return fn (\\Psr\\Http\\Message\\ServerRequestInterface $request) => 'never';";
    let server = serving(app, "worker.env = { HEDGEROW_PSR17 = \"laminas\" }");
    for _ in 0..2 {
        let response = server.get("/");
        assert_thrown(&response, "worker_runtime_error", "UnexpectedValueException");
    }
}

#[test]
fn exits_and_fatal_errors_are_a_500_and_the_next_request_is_served() {
    let app = by_path(
        "'/exit' => exit(0), '/die' => die('farewell'), '/fatal' => (function () {
            eval('class Twice {}'); eval('class Twice {}'); })(),
        '/memory' => (function () { ini_set('memory_limit', '16M'); return str_repeat('x', 1 << 30); })(),
        '/kill' => posix_kill(getmypid(), 9),
        default => 'fine'",
    );
    let server = serving(&app, "worker.read_timeout_ms = 20000\nserver.request_timeout_ms = 20000");
    let fine = || until("a worker again", || Some(server.get("/")).filter(|r| r.status() == 200));
    for path in ["/exit", "/die", "/fatal", "/memory"] {
        let response = server.get(path);
        assert_failure(&response, 500, "worker_runtime_error");
        assert_eq!(fine().text(), "fine", "{path}");
    }
    assert_failure(&server.get("/kill"), 502, "transport_error");
    assert_eq!(fine().text(), "fine");
}

#[test]
fn what_php_prints_never_gets_into_an_answer() {
    let app = "
        ini_set('display_errors', '1'); error_reporting(E_ALL);
        return function (array $r) {
            echo 'printed'; print('more'); trigger_error('a warning', E_USER_WARNING); $x = $undefined;
            return ['headers' => ['content-type' => 'text/plain'], 'body' => 'clean'];
        };";
    let server = serving(app, "");
    for _ in 0..3 {
        assert_eq!(server.get("/").text(), "clean");
    }
    server.event("worker.output", |e| e["line"].as_str().is_some_and(|l| l.contains("printed")));
    server.event("worker.output", |e| e["line"].as_str().is_some_and(|l| l.contains("a warning")));
}

#[test]
fn case_37_a_generator_that_throws_before_its_first_event_is_a_500_and_later_an_error_event() {
    let app = "
        use Hedgerow\\StreamResponse;
        return fn (array $r) => StreamResponse::sse((function () use ($r) {
            if ($r['path'] === '/late') { yield ['id' => '1', 'event' => 'tick', 'data' => 'one']; }
            throw new LogicException('secret');
            yield 'never';
        })());";
    let server = serving(app, "");
    assert_thrown(&server.get("/early"), "app_contract_error", "LogicException");
    let late = server.get("/late");
    assert_eq!(late.status(), 200);
    assert!(late.text().starts_with("id: 1\nevent: tick\ndata: one\n\n"), "{late:?}");
    assert!(
        late.text().contains("event: error\ndata: {\"error_class\":\"app_contract_error\""),
        "{late:?}"
    );
    assert!(!late.text().contains("secret"), "{late:?}");
}
