//! Content types, by the end of a name.

/// What is served most, and what browsers want named exactly.
const KINDS: &[(&str, &str)] = &[
    ("avif", "image/avif"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("eot", "application/vnd.ms-fontobject"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/vnd.microsoft.icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ogg", "audio/ogg"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webmanifest", "application/manifest+json"),
    ("webp", "image/webp"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("xml", "application/xml"),
    ("zip", "application/zip"),
];

/// The content type of a file of that name.
pub(super) fn of(name: &str) -> &'static str {
    let file = name.rsplit('/').next().unwrap_or(name);
    let end = file.rsplit_once('.').map_or("", |(_, end)| end);
    let known = KINDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(end));
    known.map_or("application/octet-stream", |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_end_of_the_name_decides() {
        assert_eq!(of("a/b.min.JS"), "text/javascript; charset=utf-8");
        assert_eq!(of("archive.tar.gz"), "application/gzip");
        for unknown in ["a.css/readme", "noend", "odd.", "a.exe"] {
            assert_eq!(of(unknown), "application/octet-stream", "{unknown}");
        }
        assert!(KINDS.is_sorted_by_key(|(end, _)| *end));
    }
}
