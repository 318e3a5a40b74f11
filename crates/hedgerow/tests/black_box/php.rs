//! Sums of bytes, for what PHP and the scripted worker say they got.

use sha1::Digest;

/// The SHA-1 of `bytes` in hexadecimal.
pub(crate) fn sha1(bytes: &[u8]) -> String {
    sha1::Sha1::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
