//! The journal's file: written and on the disk before anybody is answered.
//!
//! Invariant: records reach the disk in the order in which the journal made them; a number that
//! was [reached](JournalFile::reached) is on the disk, unless writing failed, which was told. One
//! thread writes, so that a slow disk holds up those who wait for it and nobody else.

use hedgerow_policy::Observer;
use hedgerow_policy::journal::{self, Journal, JournalConfig, Restored};
use hedgerow_policy::observe::{CacheEvent, Event};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;

/// A file longer than this is written anew with what is still owed.
const LONG: u64 = 16 << 20;

enum Job {
    Append(Vec<u8>, u64),
    Replace(Vec<u8>),
}

pub(crate) struct JournalFile {
    jobs: Sender<Job>,
    /// Bytes handed over so far, and how many of them are on the disk.
    given: u64,
    length: u64,
    reached: watch::Receiver<u64>,
}

/// The journal a file holds, and the file.
pub(crate) fn open(
    path: &Path,
    config: JournalConfig,
    observer: Arc<dyn Observer>,
) -> io::Result<(Journal, JournalFile)> {
    let restored = match std::fs::read(path) {
        Ok(bytes) => journal::read_file(&bytes).map_err(io::Error::other)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Restored::default(),
        Err(error) => return Err(error),
    };
    let journal = Journal::restore(JournalConfig { file: true, ..config }, &restored);
    let whole = journal.whole_file();
    let file = replace(path, &whole)?;
    let (jobs, waiting) = channel();
    let (done, reached) = watch::channel(0);
    let path = path.to_owned();
    std::thread::Builder::new()
        .name("journal".into())
        .spawn(move || write(file, &path, &waiting, &done, observer.as_ref()))?;
    let length = whole.len() as u64;
    Ok((journal, JournalFile { jobs, given: 0, length, reached }))
}

impl JournalFile {
    /// Hands over what the journal wants written. To be called under the journal's lock. Returns
    /// what has to be reached.
    pub(crate) fn take(&mut self, journal: &mut Journal) -> u64 {
        let bytes = journal.take_unwritten();
        if bytes.is_empty() {
            return self.given;
        }
        self.given += bytes.len() as u64;
        self.length += bytes.len() as u64;
        let _ = self.jobs.send(Job::Append(bytes, self.given));
        if self.length > LONG {
            let whole = journal.whole_file();
            // What is owed may be long itself: only a file that gets much shorter is worth it.
            if (whole.len() as u64) < self.length / 2 {
                self.length = whole.len() as u64;
                let _ = self.jobs.send(Job::Replace(whole));
            }
        }
        self.given
    }

    /// Where to wait for what [`JournalFile::take`] gave.
    pub(crate) fn reached(&self) -> watch::Receiver<u64> {
        self.reached.clone()
    }
}

/// A whole new file in the place of the old one, or the old one.
fn replace(path: &Path, whole: &[u8]) -> io::Result<File> {
    let mut beside: PathBuf = path.to_owned();
    beside.as_mut_os_string().push(".new");
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(&beside)?;
    file.write_all(whole)?;
    file.sync_data()?;
    std::fs::rename(&beside, path)?;
    if let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
        File::open(directory)?.sync_all()?;
    }
    Ok(file)
}

fn write(
    mut file: File,
    path: &Path,
    jobs: &Receiver<Job>,
    done: &watch::Sender<u64>,
    observer: &dyn Observer,
) {
    let mut good = file.metadata().map_or(0, |m| m.len());
    while let Ok(first) = jobs.recv() {
        // What has come meanwhile shares one trip to the disk.
        let (mut bytes, mut up_to, mut whole) = (Vec::new(), 0, None);
        let mut next = Some(first);
        while let Some(job) = next {
            match job {
                Job::Append(more, number) => {
                    bytes.extend_from_slice(&more);
                    up_to = number;
                    next = jobs.try_recv().ok();
                }
                Job::Replace(new) => {
                    whole = Some(new);
                    next = None;
                }
            }
        }
        let appended = file.write_all(&bytes).and_then(|()| file.sync_data());
        match appended {
            Ok(()) => good += bytes.len() as u64,
            Err(error) => {
                observer
                    .on(&Event::Cache(CacheEvent::JournalFileFailed { error: &error.to_string() }));
                // Half a record would be taken for damage later.
                let _ = file.set_len(good).and_then(|()| file.seek(SeekFrom::End(0)));
            }
        }
        if up_to > 0 {
            done.send_replace(up_to);
        }
        if let Some(whole) = whole {
            match replace(path, &whole) {
                Ok(new) => {
                    file = new;
                    good = whole.len() as u64;
                }
                Err(error) => {
                    observer.on(&Event::Cache(CacheEvent::JournalFileFailed {
                        error: &error.to_string(),
                    }));
                }
            }
        }
    }
}
