//! The dashboard's files, as they are served.
//!
//! Invariant: the page runs no script and shows no style but its own files, loads nothing from
//! elsewhere, and cannot turn text into markup (`trusted-types 'none'`): a path or a trace that a
//! stranger chose stays text. The files are compressed when the program is built (`build.rs`).

use super::routes::{Answer, reply};
use bytes::Bytes;
use http::StatusCode;
use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, HeaderMap, HeaderValue, VARY,
};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// One file.
#[derive(Debug)]
pub(super) struct Asset {
    path: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/dashboard.rs"));

/// The file at a path.
pub(super) fn at(path: &str) -> Option<&'static Asset> {
    let path = if path == "/" { "/index.html" } else { path };
    FILES.iter().find(|file| file.path == path)
}

impl Asset {
    /// The answer to a request with these headers.
    pub(super) fn answer(&self, asked: &HeaderMap) -> Answer {
        let zipped = accepts_gzip(asked);
        let body = if zipped { self.gzip } else { self.plain };
        let mut answer = reply(StatusCode::OK, self.content_type(), Bytes::from_static(body));
        let headers = answer.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        if zipped {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        answer
    }

    fn content_type(&self) -> &'static str {
        match self.path.rsplit_once('.').map(|(_, end)| end) {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/plain; charset=utf-8",
        }
    }
}

/// Whether `gzip` is listed and not ruled out with `q=0`.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse::<f64>);
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_ok_and(|weight| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small() {
        let sent: usize = FILES.iter().map(|file| file.gzip.len()).sum();
        assert!(sent < 100 << 10, "{sent} bytes, compressed");
        assert!(FILES.iter().all(|file| file.plain.len() > file.gzip.len()));
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        for file in FILES {
            let text = std::str::from_utf8(file.plain).expect("text");
            for far in ["src=\"http", "href=\"http", "src=\"//", "url(http", "@import", "innerHTML"]
            {
                assert!(!text.contains(far), "{far} in {}", file.path);
            }
        }
        let index = at("/").expect("a page");
        let text = std::str::from_utf8(index.plain).expect("text");
        assert!(!text.contains("<style") && !text.contains("style="), "inline styles do not work");
        for script in text.split("<script").skip(1) {
            assert!(script.contains("src=\""), "inline scripts do not work");
        }
    }

    #[test]
    fn only_who_takes_gzip_gets_it() {
        let takes = |value: &'static str| {
            accepts_gzip(
                &[(ACCEPT_ENCODING, HeaderValue::from_static(value))].into_iter().collect(),
            )
        };
        assert!(takes("gzip") && takes("br, GZip;q=0.5") && takes("deflate,gzip , br"));
        assert!(!takes("gzip;q=0") && !takes("br") && !takes("") && !takes("x-gzip;q=1"));
    }
}
