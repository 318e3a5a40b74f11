//! Reads request bodies, before a worker is taken, within bounds.
//!
//! Invariant: a body over its limit is refused before its bytes are asked for where its length is
//! declared, else at the byte that is one too many. All bodies together hold at most `body_memory`
//! bytes; what would go past it goes to a file without a name, and is gone with its last holder.

use bytes::Bytes;
use hedgerow_policy::failure::{At, Class, Failure};
use hedgerow_worker::job::Body;
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::Semaphore;

/// The first piece of memory for a body that comes in more than one chunk.
const FIRST_PIECE: u64 = 64 << 10;

/// Threads that may write bodies to disk at once. A disk gets no faster by more of them.
const WRITERS: usize = 16;

/// The memory for request bodies, all together.
pub(crate) struct Memory {
    held: AtomicU64,
    limit: AtomicU64,
    told: Box<dyn Fn(u64) + Send + Sync>,
    writers: Semaphore,
}

impl Memory {
    /// Room for `limit` bytes. `told` hears how many are held after every change.
    pub(crate) fn new(limit: u64, told: impl Fn(u64) + Send + Sync + 'static) -> Arc<Memory> {
        let (held, limit) = (AtomicU64::new(0), AtomicU64::new(limit));
        let writers = Semaphore::new(WRITERS);
        Arc::new(Memory { held, limit, told: Box::new(told), writers })
    }

    pub(crate) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Relaxed);
    }

    fn take(&self, bytes: u64) -> bool {
        let limit = self.limit.load(Relaxed);
        let room = |held: u64| held.checked_add(bytes).filter(|&sum| sum <= limit);
        match self.held.fetch_update(Relaxed, Relaxed, room) {
            Ok(before) => {
                (self.told)(before + bytes);
                true
            }
            Err(_) => false,
        }
    }

    fn release(&self, bytes: u64) {
        let before = self.held.fetch_sub(bytes, Relaxed);
        (self.told)(before.saturating_sub(bytes));
    }
}

/// A share of the memory, given back on drop.
struct Share {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Share {
    fn grow(&mut self, by: u64) -> bool {
        let granted = self.memory.take(by);
        if granted {
            self.bytes += by;
        }
        granted
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.memory.release(self.bytes);
        }
    }
}

/// Bytes that give their share back with their last holder.
struct Held {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What bounds one body.
pub(crate) struct Reader {
    pub(crate) memory: Arc<Memory>,
    pub(crate) limit: u64,
    pub(crate) spool_dir: Option<PathBuf>,
}

impl Reader {
    /// Reads to the end. The first poll makes the HTTP library send `100 Continue` where the client
    /// waits for it, so the declared length is looked at before.
    ///
    /// # Errors
    /// `request_too_large`, `bad_request` (the body's coding is broken) or `client_closed`.
    pub(crate) async fn read(
        &self,
        incoming: &mut Incoming,
        mut came: impl FnMut(u64),
        mut spooled: impl FnMut(u64),
    ) -> Result<Body, Failure> {
        if incoming.is_end_stream() {
            return Ok(Body::Memory(Bytes::new()));
        }
        let declared = incoming.size_hint().exact();
        if incoming.size_hint().lower() > self.limit {
            return Err(too_large());
        }
        let mut share = Share { memory: Arc::clone(&self.memory), bytes: 0 };
        let mut buffer = Buffer::default();
        let mut total = 0_u64;
        loop {
            let Some(chunk) = next(incoming).await? else { return Ok(buffer.finish(share)) };
            total = total.saturating_add(chunk.len() as u64);
            if total > self.limit {
                return Err(too_large());
            }
            came(chunk.len() as u64);
            let expected = declared.unwrap_or(self.limit).min(self.limit);
            let growth = buffer.growth(chunk.len() as u64, expected);
            if share.grow(growth) {
                buffer.push(chunk, growth);
            } else {
                spooled(total);
                let came = |bytes| {
                    came(bytes);
                    spooled(bytes);
                };
                return self.spool(incoming, buffer.into_pieces(chunk), total, came).await;
            }
        }
    }

    /// The rest of the body goes to a file. Chunk by chunk, so that a slow client's body holds no
    /// more than one chunk of memory; on the blocking threads, so that a slow disk holds up nobody.
    async fn spool(
        &self,
        incoming: &mut Incoming,
        begun: [Bytes; 2],
        mut total: u64,
        mut came: impl FnMut(u64),
    ) -> Result<Body, Failure> {
        let dir = self.spool_dir.clone();
        let mut file = blocking(&self.memory, move || {
            let dir = dir.unwrap_or_else(std::env::temp_dir);
            let mut file = unnamed(&dir)?;
            begun.iter().try_for_each(|piece| file.write_all(piece))?;
            Ok(file)
        })
        .await?;
        while let Some(chunk) = next(incoming).await? {
            total = total.saturating_add(chunk.len() as u64);
            if total > self.limit {
                return Err(too_large());
            }
            came(chunk.len() as u64);
            file = {
                let write = move || file.write_all(&chunk).map(|()| file);
                blocking(&self.memory, write).await?
            };
        }
        file.rewind().map_err(|error| spool_failed(&error))?;
        Ok(Body::File(file, total))
    }
}

/// The body as far as it is in memory: one chunk as it came, or a buffer once there is a second.
#[derive(Default)]
struct Buffer {
    single: Bytes,
    grown: Vec<u8>,
}

impl Buffer {
    /// How much more memory a further chunk takes.
    fn growth(&self, chunk: u64, expected: u64) -> u64 {
        if self.single.is_empty() && self.grown.is_empty() {
            return chunk;
        }
        let (held, room) = match self.grown.capacity() as u64 {
            0 => (self.single.len() as u64, 0),
            capacity => (self.grown.len() as u64, capacity - self.grown.len() as u64),
        };
        if chunk <= room {
            return 0;
        }
        // Doubled, so that bytes are moved a bounded number of times; never past what is expected.
        let wanted = (held * 2).max(FIRST_PIECE).min(expected).max(held + chunk);
        wanted - held - room
    }

    fn push(&mut self, chunk: Bytes, growth: u64) {
        if self.single.is_empty() && self.grown.is_empty() {
            self.single = chunk;
            return;
        }
        // Exactly what was accounted: a vector's own doubling would go past it.
        let spare = self.grown.capacity() - self.grown.len();
        let single = std::mem::take(&mut self.single);
        let growth = usize::try_from(growth).unwrap_or(0);
        self.grown.reserve_exact(spare + single.len() + growth);
        self.grown.extend_from_slice(&single);
        self.grown.extend_from_slice(&chunk);
    }

    fn into_pieces(self, chunk: Bytes) -> [Bytes; 2] {
        [self.into_bytes(), chunk]
    }

    fn finish(self, share: Share) -> Body {
        let bytes = self.into_bytes();
        Body::Memory(Bytes::from_owner(Held { bytes, _share: share }))
    }

    fn into_bytes(self) -> Bytes {
        if self.single.is_empty() { Bytes::from(self.grown) } else { self.single }
    }
}

/// The next chunk; `None` at the end. Trailers are let go: no worker could be told of them.
async fn next(incoming: &mut Incoming) -> Result<Option<Bytes>, Failure> {
    loop {
        match incoming.frame().await {
            None => return Ok(None),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Some(Err(error)) => return Err(broken(&error)),
        }
    }
}

/// A body that ended early is a client that left; one whose chunks do not parse is a bad request.
fn broken(error: &hyper::Error) -> Failure {
    let cause = std::error::Error::source(error).and_then(|e| e.downcast_ref::<io::Error>());
    match cause.map(io::Error::kind) {
        Some(io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput) => {
            Failure::new(Class::BadRequest, At::Client, "the body's chunks do not parse")
        }
        _ => Failure::new(Class::ClientClosed, At::Client, "the client left within its body"),
    }
}

fn too_large() -> Failure {
    Failure::new(Class::RequestTooLarge, At::Client, "the body is over its limit")
}

/// There is no room on the disk for this body: for this request, now, it is too large.
fn spool_failed(error: &io::Error) -> Failure {
    let message = format!("the body could not be put aside: {error}");
    Failure::new(Class::RequestTooLarge, At::Gateway, message)
}

async fn blocking<T: Send + 'static>(
    memory: &Memory,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    let _turn = memory.writers.acquire().await;
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| spool_failed(&error)),
        Err(_) => Err(Failure::new(Class::Draining, At::Gateway, "the runtime is going down")),
    }
}

/// A file without a name. Where the file system cannot do that, one whose name is removed at once.
fn unnamed(dir: &Path) -> io::Result<File> {
    use rustix::fs::{CWD, Mode, OFlags};
    let mode = Mode::RUSR | Mode::WUSR;
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::openat(CWD, dir, flags | OFlags::TMPFILE, mode) {
        Ok(file) => Ok(File::from(file)),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {
            let path = dir.join(format!(".hedgerow-body-{}", crate::ids::fresh()));
            let create = flags | OFlags::CREATE | OFlags::EXCL;
            let file = rustix::fs::openat(CWD, &path, create, mode)?;
            std::fs::remove_file(&path)?;
            Ok(File::from(file))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn memory_is_given_back_with_the_last_holder() {
        let memory = Memory::new(100, |_| ());
        let mut share = Share { memory: Arc::clone(&memory), bytes: 0 };
        assert!(share.grow(60) && share.grow(40) && !share.grow(1));
        let Body::Memory(bytes) =
            (Buffer { single: Bytes::from_static(b"x"), ..Buffer::default() }).finish(share)
        else {
            panic!("a body in memory");
        };
        let second = bytes.clone();
        drop(bytes);
        assert_eq!(memory.held.load(Relaxed), 100);
        drop(second);
        assert_eq!(memory.held.load(Relaxed), 0);
    }

    #[test]
    fn what_is_accounted_is_what_is_held() {
        for (chunks, expected) in [
            (vec![10, 20, 30], 60),
            (vec![8_000; 40], 1 << 20),
            (vec![8_000; 40], 320_000),
            (vec![1; 300], 1 << 20),
            (vec![50_000, 50_000, 100_000], 200_000),
        ] {
            let mut buffer = Buffer::default();
            let (mut accounted, mut total) = (0, 0);
            for size in chunks {
                let growth = buffer.growth(size, expected);
                accounted += growth;
                buffer.push(Bytes::from(vec![7; size as usize]), growth);
                total += size;
                let held = (buffer.single.len() + buffer.grown.capacity()) as u64;
                assert!(accounted >= total, "{accounted} for {total}");
                assert!(held <= accounted + 64, "{held} held, {accounted} accounted");
            }
            assert!(accounted <= expected.max(total), "{accounted} of {expected}");
        }
    }

    #[test]
    fn a_file_without_a_name_leaves_nothing_behind() {
        let dir = std::env::temp_dir().join(format!("hedgerow-test-{}", crate::ids::fresh()));
        std::fs::create_dir(&dir).unwrap();
        let mut file = unnamed(&dir).unwrap();
        file.write_all(b"body").unwrap();
        file.rewind().unwrap();
        let mut back = String::new();
        file.read_to_string(&mut back).unwrap();
        assert_eq!(back, "body");
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        std::fs::remove_dir(&dir).unwrap();
    }
}
