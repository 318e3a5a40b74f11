//! A file that stands in for an upstream.
//!
//! Invariant: only a regular file inside the root is read, whatever links and dots the path holds.

use super::forbidden;
use bytes::{Bytes, BytesMut};
use hedgerow_policy::failure::{At, Class, Failure};
use std::path::Path;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

const PIECE: usize = 16 << 10;

pub(super) struct Fixture(File);

impl Fixture {
    pub(super) async fn open(root: &Path, path: &str) -> Result<Fixture, Failure> {
        // One answer for everything: nobody learns from it which files there are outside.
        let refused = |_| forbidden("the fixture is not a file inside the fixture root");
        let root = tokio::fs::canonicalize(root).await.map_err(refused)?;
        let path = root.join(path.trim_start_matches('/'));
        let path = tokio::fs::canonicalize(&path).await.map_err(refused)?;
        let is_file = tokio::fs::metadata(&path).await.map_err(refused)?.is_file();
        if !path.starts_with(&root) || !is_file {
            return Err(forbidden("the fixture is not a file inside the fixture root"));
        }
        File::open(&path).await.map(Fixture).map_err(refused)
    }

    pub(super) async fn next(&mut self) -> Option<Result<Bytes, Failure>> {
        let mut piece = BytesMut::with_capacity(PIECE);
        match self.0.read_buf(&mut piece).await {
            Ok(0) => None,
            Ok(_) => Some(Ok(piece.freeze())),
            Err(error) => {
                let text = format!("the fixture: {error}");
                Some(Err(Failure::new(Class::UpstreamError, At::Gateway, text)))
            }
        }
    }
}
