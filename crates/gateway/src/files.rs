//! A route to a folder: its files, and nothing else.
//!
//! Invariant: what is served is a regular file that the kernel itself found beneath the folder: no
//! `..`, no link and no mount leads out of it (openat2(2), `RESOLVE_BENEATH`), whatever happens to the
//! folder meanwhile. A name that begins with a dot is as good as absent, and so is one that cannot be
//! understood in one way only.

mod asked;
mod kind;

use crate::answer::{Reply, ReplyBody};
use crate::connection::Response;
use crate::head::Head;
use crate::pieces::{self, PIECE, Pieces};
use crate::record::Stage;
use crate::route::Folder;
use crate::service::{Inner, NoAnswer, Turn};
use crate::stream::Source;
use asked::{Part, Version};
use bytes::Bytes;
use hedgerow_policy::Deadline;
use hedgerow_policy::failure::{At, Class, Failure};
use http::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName,
    HeaderValue, LAST_MODIFIED, LOCATION,
};
use http::{HeaderMap, Method, StatusCode};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// What a folder shows of itself.
const INDEX: &str = "index.html";
const NOSNIFF: HeaderName = HeaderName::from_static("x-content-type-options");

/// What was found under a name.
enum Found {
    File(Box<Opened>),
    /// A folder that was not named as one.
    Folder,
    Nothing,
}

/// A file, and what is known of it before its first byte goes.
struct Opened {
    file: File,
    version: Version,
    length: u64,
    kind: &'static str,
}

impl Inner {
    /// The answer to a request whose route leads to that folder.
    pub(crate) async fn file(
        &self,
        turn: Turn,
        head: &Head,
        folder: Arc<Folder>,
        deadline: Deadline,
    ) -> Result<Response, NoAnswer> {
        turn.active.set_stage(Stage::Working);
        let answering = answer(head, folder);
        let answered = tokio::select! {
            biased;
            answered = self.shared.clock.until(deadline.at, answering) => answered,
            failure = self.ended(&turn) => Some(Err(failure)),
        };
        let slow = || {
            let text = "the disk did not answer before the request's deadline";
            Err(Failure::new(Class::Timeout, At::Gateway, text).in_phase(deadline.phase))
        };
        match answered.unwrap_or_else(slow) {
            Ok(reply) => Ok(self.reply(turn, reply)),
            Err(failure) => self.fail(turn, failure, &head.headers, false),
        }
    }
}

async fn answer(head: &Head, folder: Arc<Folder>) -> Result<Reply, Failure> {
    if head.method != Method::GET && head.method != Method::HEAD {
        let mut reply = empty(StatusCode::METHOD_NOT_ALLOWED);
        reply.headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(reply);
    }
    let (path, query) = head.target();
    let name = asked::name(path, &folder.base).ok_or_else(nothing)?;
    let looked = tokio::task::spawn_blocking(move || find(&folder, &name)).await;
    let looked = looked.unwrap_or_else(|error| Err(io::Error::other(error)));
    match looked.map_err(|error| unopened(&error))? {
        Found::File(opened) => served(*opened, head).await,
        Found::Folder => {
            let mut reply = empty(StatusCode::MOVED_PERMANENTLY);
            let place = HeaderValue::try_from(format!("{path}/{query}")).map_err(|_| nothing())?;
            reply.headers.insert(LOCATION, place);
            Ok(reply)
        }
        Found::Nothing => Err(nothing()),
    }
}

/// One answer for everything: nobody learns from it what is there and not served.
fn nothing() -> Failure {
    Failure::new(Class::NotFound, At::Gateway, "no such file")
}

/// Why nothing could be opened: what is absent or hidden from us is not found, and nothing is said of
/// what the disk or a lack of descriptors keeps back.
fn unopened(error: &io::Error) -> Failure {
    let errno = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    let class = if errno.is_some_and(is_absence) { Class::NotFound } else { Class::TransportError };
    Failure::new(class, At::Gateway, format!("a file that cannot be opened: {error}"))
}

fn empty(status: StatusCode) -> Reply {
    let (headers, body) = (HeaderMap::with_capacity(8), ReplyBody::Full(Bytes::new()));
    Reply { status, headers, body, stream: None }
}

fn find(folder: &Folder, name: &str) -> io::Result<Found> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(&folder.root, flags, Mode::empty())?;
    let name = match name {
        "" => INDEX.to_owned(),
        folder if folder.ends_with('/') => format!("{folder}{INDEX}"),
        name => name.to_owned(),
    };
    // Without waiting: what is no file could make an open wait for ever.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match beneath(&root, &name, flags) {
        Ok(file) => File::from(file),
        Err(error) if is_absence(error) => return Ok(Found::Nothing),
        Err(error) => return Err(error.into()),
    };
    let about = file.metadata()?;
    if about.is_dir() {
        return Ok(Found::Folder);
    }
    if !about.is_file() {
        return Ok(Found::Nothing);
    }
    let version = Version::of(about.ino(), about.len(), about.modified()?);
    let kind = kind::of(&name);
    Ok(Found::File(Box::new(Opened { file, version, length: about.len(), kind })))
}

/// While names change anywhere on the machine the kernel cannot always be sure where a link with `..`
/// leads, and says so: then it is asked again.
fn beneath(root: &OwnedFd, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    const TRIES: usize = 32;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let open = || rustix::fs::openat2(root, name, flags, Mode::empty(), resolve);
    let unsure = |opened: &rustix::io::Result<_>| matches!(opened, Err(rustix::io::Errno::AGAIN));
    let mut opened = open();
    for _ in 1..TRIES {
        if !unsure(&opened) {
            break;
        }
        opened = open();
    }
    opened
}

/// Whether files can be served here: the kernel must know how to open what is beneath a folder.
///
/// # Errors
/// It does not (before Linux 5.6), or is not allowed to (a system call filter).
pub fn can_be_served() -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open("/", flags, Mode::empty())?;
    beneath(&root, ".", flags)?;
    Ok(())
}

/// Nothing of that name beneath the folder. Whatever leads out of it is not there either.
fn is_absence(error: rustix::io::Errno) -> bool {
    use rustix::io::Errno as E;
    [E::NOENT, E::NOTDIR, E::XDEV, E::LOOP, E::NAMETOOLONG, E::ACCESS, E::NXIO, E::INVAL]
        .contains(&error)
}

async fn served(opened: Opened, head: &Head) -> Result<Reply, Failure> {
    let Opened { file, version, length, kind } = opened;
    let mut reply = empty(StatusCode::OK);
    reply.headers.insert(ETAG, version.tag());
    reply.headers.insert(LAST_MODIFIED, version.date());
    reply.headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if !version.is_wanted(&head.headers) {
        reply.status = StatusCode::PRECONDITION_FAILED;
        return Ok(reply);
    }
    if version.is_known(&head.headers) {
        reply.status = StatusCode::NOT_MODIFIED;
        return Ok(reply);
    }
    reply.headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply.headers.insert(NOSNIFF, HeaderValue::from_static("nosniff"));
    // Parts are for GET alone (RFC 9110, 14.2).
    let part = match head.method {
        Method::GET => version.part(&head.headers, length),
        _ => Part::Whole,
    };
    let (at, wanted) = match part {
        Part::Whole => (0, length),
        Part::Some { at, length: wanted } => {
            reply.status = StatusCode::PARTIAL_CONTENT;
            let range = format!("bytes {at}-{}/{length}", at + wanted - 1);
            insert(&mut reply.headers, CONTENT_RANGE, range);
            (at, wanted)
        }
        Part::None => {
            reply.status = StatusCode::RANGE_NOT_SATISFIABLE;
            insert(&mut reply.headers, CONTENT_RANGE, format!("bytes */{length}"));
            reply.headers.remove(CONTENT_TYPE);
            return Ok(reply);
        }
    };
    if head.method == Method::HEAD {
        reply.headers.insert(CONTENT_LENGTH, HeaderValue::from(wanted));
        return Ok(reply);
    }
    let read = tokio::task::spawn_blocking(move || {
        pieces::read_at(&file, at, wanted.min(PIECE)).map(|first| (file, first))
    });
    let read = read.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    let (file, first) = read.map_err(|error| {
        Failure::new(Class::TransportError, At::Gateway, format!("reading a file: {error}"))
    })?;
    reply.body = if first.len() as u64 == wanted {
        ReplyBody::Full(first)
    } else {
        ReplyBody::Flow(Source::File(Pieces::new(file, at, wanted).with_first(first)))
    };
    Ok(reply)
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: String) {
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn what_is_absent_is_not_found_and_what_fails_is_a_failure() {
        let class = |errno: Errno| unopened(&errno.into()).class;
        for absent in [Errno::NOENT, Errno::NOTDIR, Errno::ACCESS, Errno::XDEV, Errno::LOOP] {
            assert_eq!(class(absent), Class::NotFound, "{absent}");
        }
        for failed in [Errno::MFILE, Errno::NFILE, Errno::IO, Errno::NOMEM, Errno::STALE] {
            assert_eq!(class(failed), Class::TransportError, "{failed}");
        }
        assert_eq!(unopened(&io::Error::other("a task panicked")).class, Class::TransportError);
        assert!(can_be_served().is_ok(), "this machine has openat2");
    }

    #[test]
    fn a_link_is_followed_while_names_change_elsewhere() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let root = std::env::temp_dir().join(format!("hedgerow-files-{}", std::process::id()));
        std::fs::create_dir_all(root.join("www/sub")).unwrap();
        std::fs::write(root.join("www/a.txt"), "a").unwrap();
        std::os::unix::fs::symlink("../sub/../sub/../a.txt", root.join("www/sub/up")).unwrap();
        std::fs::write(root.join("one"), "").unwrap();
        let over = AtomicBool::new(false);
        let folder = Folder { root: root.join("www"), base: "/".to_owned() };
        let failed = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _ = std::fs::rename(root.join("one"), root.join("two"));
                    let _ = std::fs::rename(root.join("two"), root.join("one"));
                }
            });
            let is_file = |found: io::Result<Found>| matches!(found, Ok(Found::File(_)));
            let failed = (0..2_000).filter(|_| !is_file(find(&folder, "sub/up"))).count();
            over.store(true, Ordering::Relaxed);
            failed
        });
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(failed, 0, "of 2,000 opens");
    }
}
