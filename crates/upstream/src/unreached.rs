//! Why there is no connection, where that is known: carried in the error of whoever dials.
//!
//! Invariant: an error that is wrapped keeps its kind and its text; only its cause is added.

use hedgerow_policy::failure::Cause;
use std::{error, fmt, io};

/// An error with its cause, inside an [`io::Error`]. A [`Dial`](crate::Dial) of your own may use it.
#[derive(Debug)]
pub struct Unreached {
    cause: Cause,
    source: io::Error,
}

impl Unreached {
    /// The same error, with its cause.
    #[must_use]
    pub fn because(cause: Cause, source: io::Error) -> io::Error {
        io::Error::new(source.kind(), Unreached { cause, source })
    }

    /// The cause of an error, where it is known: what was said of it, else what its kind says.
    #[must_use]
    pub fn cause_of(error: &io::Error) -> Option<Cause> {
        let said = error.get_ref().and_then(|inner| inner.downcast_ref::<Unreached>());
        if let Some(unreached) = said {
            return Some(unreached.cause);
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Some(Cause::Refused),
            io::ErrorKind::TimedOut => Some(Cause::TimedOut),
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                Some(Cause::Unroutable)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl error::Error for Unreached {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_goes_before_the_kind() {
        let refused = || io::Error::new(io::ErrorKind::ConnectionRefused, "no");
        assert_eq!(Unreached::cause_of(&refused()), Some(Cause::Refused));
        let said = Unreached::because(Cause::Certificate, refused());
        assert_eq!(Unreached::cause_of(&said), Some(Cause::Certificate));
        assert_eq!((said.kind(), said.to_string()), (refused().kind(), "no".to_owned()));
        let unreachable = io::Error::from_raw_os_error(113);
        assert_eq!(Unreached::cause_of(&unreachable), Some(Cause::Unroutable));
        assert_eq!(Unreached::cause_of(&io::Error::other("?")), None);
    }
}
