//! The other commands: `demo` as its tour prints it, `conform`, `check`.

use crate::php::in_repository;
use crate::server::{HEDGEROW, Lines, addresses, json};
use hedgerow_testkit::http::Client;
use hedgerow_testkit::processes::{Leashed, alive, descendants, signal};
use hedgerow_testkit::scratch::Scratch;
use hedgerow_testkit::until::until;
use rustix::process::Signal;
use std::process::{Command, Output, Stdio};

/// A command of the tour and what it says that there is to be seen.
#[derive(Debug)]
struct Scene {
    command: String,
    promise: String,
}

/// Commands stand four spaces in; what is to be seen stands behind two or more spaces on the same
/// line, or far in on the lines below.
fn scenes(tour: &str) -> Vec<Scene> {
    let mut scenes: Vec<Scene> = Vec::new();
    let mut continued = false;
    for line in tour.lines() {
        let text = line.trim_start();
        let margin = line.len() - text.len();
        if continued || (margin == 4 && !text.is_empty()) {
            let (command, promise) = text.split_once("  ").unwrap_or((text, ""));
            if continued {
                let scene = scenes.last_mut().expect("a line before this one");
                scene.command.push_str(command);
            } else {
                scenes.push(Scene {
                    command: command.to_owned(),
                    promise: promise.trim().to_owned(),
                });
            }
            let scene = scenes.last_mut().expect("the line");
            continued = scene.command.ends_with('\\');
            if continued {
                scene.command.pop();
            }
        } else if margin > 20 {
            let scene = scenes.last_mut().expect("a command before its promise");
            scene.promise = format!("{} {text}", scene.promise).trim().to_owned();
        }
    }
    scenes
}

/// As a person would: in a shell, with nothing changed.
fn type_in(command: &str) -> String {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env("no_proxy", "*").stdin(Stdio::null());
    let output = shell.output().expect("a shell");
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What the promise `504 timeout: …` means for `curl -i`, and `200 twice, 504 x twice` for a loop.
fn assert_kept(scene: &Scene, output: &str) {
    let promise = &scene.promise;
    if promise.is_empty() {
        assert!(!output.is_empty(), "{scene:?}");
        return;
    }
    if promise.contains('`') {
        // Looked at again as a person would: some of it comes a moment later.
        let pieces: Vec<&str> = promise.split('`').skip(1).step_by(2).collect();
        let mut output = output.to_owned();
        return until(&format!("{scene:?}"), || {
            let kept = pieces.iter().all(|piece| output.contains(piece));
            if !kept {
                output = type_in(&scene.command);
            }
            kept.then_some(())
        });
    }
    if promise.contains("twice") {
        let mut seen: Vec<_> = output.lines().map(str::trim).collect();
        let mut promised: Vec<_> = promise
            .split(',')
            .flat_map(|part| [part.trim().trim_end_matches(" twice"); 2])
            .collect();
        seen.sort_unstable();
        promised.sort_unstable();
        assert_eq!(seen, promised, "{scene:?}");
        return;
    }
    let (outcome, _) = promise.split_once(':').unwrap_or((promise, ""));
    let (status, class) = outcome.split_once(' ').unwrap_or((outcome, ""));
    let answer = &output[output.rfind("HTTP/1.1 ").expect("an answer")..];
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{scene:?}: {output}");
    if !class.is_empty() {
        assert!(
            answer.contains(&format!("x-vhttpd-error-class: {class}\r\n")),
            "{scene:?}: {output}"
        );
    }
}

#[test]
fn the_demo_keeps_what_its_tour_promises() {
    let mut command = Command::new(HEDGEROW);
    command.args(["demo", "--port", "0"]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut demo = Leashed(command.spawn().expect("hedgerow runs"));
    let stdout = Lines::of(demo.stdout.take().unwrap());
    let stderr = Lines::of(demo.stderr.take().unwrap());
    until("the tour", || stdout.text().contains("Ctrl-C").then_some(()));
    let (server, admin) =
        until("the addresses", || stderr.all().iter().find_map(|line| addresses(line)));
    let scenes = scenes(&stdout.text());
    assert!(scenes.len() >= 13, "{scenes:#?}");
    let ready = || {
        let mut client = Client::connect(admin);
        client.send("GET /admin/workers HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let workers = json(client.response().text());
        let idle = workers["workers"].as_array()?.iter().filter(|w| w["state"] == "idle").count();
        (idle == 2).then_some(())
    };
    for scene in &scenes {
        until("both workers", ready);
        assert_kept(scene, &type_in(&scene.command));
    }
    let seen = |piece: &str| scenes.iter().any(|scene| scene.promise.contains(piece));
    assert!(seen("stalled") && seen("shed") && seen("journal_depth") && seen("landed"));
    let page = type_in(&format!("curl -s http://{server}/"));
    assert!(page.contains("kept in the journal") && page.contains("n=5&amp;ms=300"), "{page}");
    for class in [
        "timeout",
        "transport_error",
        "worker_runtime_error",
        "app_contract_error",
        "unsupported_transport",
        "upstream_forbidden",
        "request_too_large",
        "worker_queue_timeout",
        "worker_queue_full",
    ] {
        assert!(scenes.iter().any(|scene| scene.promise.contains(class)), "no scene for {class}");
    }
    let family = descendants(demo.id());
    signal(demo.id(), Signal::INT);
    let status = until("the end of the demo", || demo.try_wait().unwrap());
    assert_eq!(status.code(), Some(0), "{}", stderr.text());
    for pid in family {
        until("a process of the demo ends", || (!alive(pid)).then_some(()));
    }
}

fn hedgerow(scratch: &Scratch, args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(HEDGEROW);
    command.args(args).current_dir(scratch.path()).envs(env.iter().copied()).stdin(Stdio::null());
    command.output().expect("hedgerow runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

#[test]
fn the_workers_of_this_repository_conform() {
    let scratch = Scratch::new();
    let scripted = hedgerow(&scratch, &["conform", "--", HEDGEROW, "stage", "worker"], &[]);
    assert_eq!(scripted.status.code(), Some(0), "{scripted:?}");
    let (worker, app) =
        (in_repository("sdk/php/bin/hedgerow-worker"), in_repository("sdk/php/conform/app.php"));
    let php = hedgerow(&scratch, &["conform", "--", "php", &worker], &[("VHTTPD_APP", &app)]);
    assert_eq!(php.status.code(), Some(0), "{}", text(&php.stdout));
    for output in [&scripted, &php] {
        let table = text(&output.stdout);
        // Both keep connections, so what is asked of those who do not does not apply.
        assert!(table.contains("A-SHA1-1") && table.ends_with(" 0 failed, 1 skipped\n"), "{table}");
    }
}

#[test]
fn a_worker_that_does_not_conform_is_a_1_that_names_the_requirement() {
    let scratch = Scratch::new();
    let mode = "/fault/wrongid";
    let broken =
        hedgerow(&scratch, &["conform", "--", HEDGEROW, "stage", "worker", "--mode", mode], &[]);
    assert_eq!(broken.status.code(), Some(1), "{broken:?}");
    let table = text(&broken.stdout);
    assert!(table.contains("FAIL  W-FRAME-2"), "{table}");
    assert!(table.contains("pass  W-READY-1"), "{table}");
    let missing = hedgerow(&scratch, &["conform", "--", "no-such-worker"], &[]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("no-such-worker"), "{missing:?}");
}

#[test]
fn check_says_0_or_2() {
    let scratch = Scratch::new();
    let check = |args: &[&str], config: &str| {
        scratch.file("hedgerow.toml", config);
        let output = hedgerow(&scratch, &[&["check"], args].concat(), &[]);
        let words = (text(&output.stdout).to_owned(), text(&output.stderr).to_owned());
        (output.status.code().expect("an exit code"), words.0, words.1)
    };
    let good = format!("worker.command = \"{HEDGEROW} stage worker\"\n");
    assert_eq!(check(&[], &good), (0, "ok\n".to_owned(), String::new()));

    let (code, _, said) = check(&[], &format!("{good}worker.read_timeot_ms = 1\n"));
    assert_eq!(code, 2);
    for part in ["hedgerow.toml:2:", "read_timeot_ms", "read_timeout_ms"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    for broken in
        ["worker.pool_size = \"many\"", "worker.pool_size = ", "server.listen = \"nowhere\""]
    {
        assert_eq!(check(&[], &format!("{good}{broken}\n")).0, 2, "{broken}");
    }
    let risky = format!("{good}worker.read_timeout_ms = 9000\n");
    assert_eq!(check(&[], &risky).0, 0);
    assert_eq!(check(&["--strict"], &risky).0, 2);
}

#[test]
fn case_20_the_defaults_are_printed_and_a_flag_is_accepted() {
    let scratch = Scratch::new();
    scratch.file("hedgerow.toml", format!("worker.command = \"{HEDGEROW} stage worker\"\n"));
    let print = |args: &[&str]| {
        let output = hedgerow(&scratch, &[&["check", "--print"], args].concat(), &[]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        text(&output.stdout).to_owned()
    };
    let defaults = print(&[]);
    for line in ["connect_timeout_ms = 200", "read_timeout_ms = 3000", "request_timeout_ms = 5000"]
    {
        assert!(
            defaults.lines().any(|l| l.split(" #").next().map(str::trim) == Some(line)),
            "{line}: {defaults}"
        );
    }
    let flagged = print(&["--worker-read-timeout-ms", "2500"]);
    assert!(flagged.contains("\nread_timeout_ms = 2500"), "{flagged}");
    assert!(print(&["--worker-read-timeout-ms=2500"]).contains("read_timeout_ms = 2500"));
    let unknown = hedgerow(&scratch, &["serve", "--worker-read-timeot-ms", "1"], &[]);
    assert_eq!(unknown.status.code(), Some(2), "{unknown:?}");
    assert!(text(&unknown.stderr).contains("--worker-read-timeout-ms"), "{unknown:?}");
}
