//! Real HTTP clients over the egress port: the programs of docs/upstream.md as they stand there,
//! with the port the system gave in place of theirs.

use crate::models::{Models, egress};
use crate::server::Server;
use std::process::{Command, Stdio};

const DOCUMENT: &str = include_str!("../../../../docs/upstream.md");

/// The program of the section that holds this.
fn snippet(mark: &str) -> String {
    let (_, section) = DOCUMENT.split_once("\n## From your language\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("the next one");
    // Text and programs take turns.
    let mut programs = section.split("\n```").skip(1).step_by(2);
    let found = programs.find(|program| program.contains(mark)).expect("a program");
    found.split_once('\n').expect("a language, then the program").1.to_owned()
}

/// Runs it: a stalled call that a twin answers, and rows that are read as they come.
fn run(mark: &str, name: &str, program: &[&str]) {
    let models = Models::start();
    let server = Server::start(&models.config("hedge = { after_ms = 100 }"));
    let text = snippet(mark);
    assert!(text.contains("8081"), "{text}");
    let text = text.replace("8081", &egress(&server).port().to_string());
    let opening = if name.ends_with(".php") { "<?php\n" } else { "" };
    // Debian's package stands in for what Composer would have put there.
    std::fs::create_dir(server.scratch.path().join("vendor")).expect("a directory");
    let package = "<?php require 'Symfony/Component/HttpClient/autoload.php';";
    server.scratch.file("vendor/autoload.php", package);
    server.scratch.file(name, format!("{opening}{text}"));
    let output = Command::new("timeout")
        .arg("30")
        .args(program)
        .arg(name)
        .current_dir(server.scratch.path())
        // A machine may send everything through a proxy; it cannot reach this one's loopback.
        .envs([("NO_PROXY", "*"), ("no_proxy", "*")])
        .stdin(Stdio::null())
        .output()
        .expect("the program is installed");
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        said, "2 hedge\n{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n",
        "{complaint}\nAre the programs of scripts/tools installed?"
    );
    assert_eq!(complaint, "");
    // The loser was cancelled, and so were the rows when their reader left.
    models.wait("the loser's end", "/silent", |calls| {
        let ended: Vec<&str> = calls.iter().filter_map(|call| call["ended"].as_str()).collect();
        ended == ["cancelled", "served"]
    });
    models.wait("the end of the rows", "/endless", |calls| {
        calls.len() == 1 && calls[0]["ended"] == "cancelled"
    });
}

#[test]
fn curl_changes_its_base_url() {
    run("curl -sN", "call.sh", &["sh"]);
}

#[test]
fn http_client_of_python_changes_its_base_url() {
    run("import http.client", "call.py", &["/usr/bin/python3"]);
}

#[test]
fn requests_changes_its_base_url() {
    run("import itertools, requests", "call.py", &["/usr/bin/python3"]);
}

#[test]
fn httpx_changes_its_base_url() {
    run("import httpx", "call.py", &["/usr/bin/python3"]);
}

#[test]
fn curl_of_php_changes_its_base_url() {
    run("curl_init", "call.php", &["php"]);
}

#[test]
fn symfony_http_client_changes_its_base_url() {
    run("HttpClient::create", "call.php", &["php"]);
}
