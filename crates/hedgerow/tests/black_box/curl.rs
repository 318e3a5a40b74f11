//! The client of everybody, for HTTP/2 and TLS.

use std::process::{Command, Stdio};

/// What came of a call.
#[derive(Debug)]
pub(crate) struct Got {
    /// curl's exit code.
    pub(crate) code: i32,
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Got {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a body of text")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Calls curl with these arguments.
pub(crate) fn curl(args: &[&str]) -> Got {
    let output = Command::new("curl")
        .args(["--silent", "--no-buffer", "--max-time", "20", "--noproxy", "*"])
        // The head goes where it can be told from the body, even if the body breaks off.
        .args(["--dump-header", "/dev/stderr"])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("curl is installed");
    let head = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = head.rfind("HTTP/").map_or("", |at| &head[at..]);
    let status = last.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    Got { code: output.status.code().unwrap_or(-1), status, head, body: output.stdout }
}
