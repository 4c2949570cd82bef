//! What can go wrong, for people and for the one who asked: every error says what it is about.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// An error of the engine. Its text is for people.
#[derive(Debug)]
pub enum Error {
    /// A request or a lane that is not JSON.
    NotJson(serde_json::Error),
    /// A field that must be there and is not, by its path.
    Missing(String),
    /// A field that nobody knows, by its path.
    Unknown(String),
    /// A field whose value is not what was expected.
    Invalid {
        path: String,
        found: String,
        expected: String,
    },
    /// No interface of that name.
    NoInterface(String),
    /// The machine has too little memory for what is asked.
    Memory {
        need_bytes: u64,
        available_bytes: u64,
    },
    /// A direction cannot work.
    Direction {
        direction: &'static str,
        cause: io::Error,
    },
    /// The control socket cannot be made.
    Socket {
        path: PathBuf,
        cause: io::Error,
    },
    /// The process ended before it said that it works.
    Died,
    /// What the engine's own process said when it could not start.
    Start(String),
    Io(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotJson(error) => write!(f, "not JSON: {error}"),
            Error::Missing(path) => write!(f, "{path}: missing"),
            Error::Unknown(path) => write!(f, "{path}: unknown"),
            Error::Invalid { path, found, expected } if path.is_empty() => {
                write!(f, "{expected} was expected, not {found}")
            }
            Error::Invalid { path, found, expected } => write!(f, "{path}: {found} is not {expected}"),
            Error::NoInterface(name) => write!(f, "{name}: no such interface"),
            Error::Memory { need_bytes, available_bytes } => write!(
                f,
                "memory: the delay lines need {} MiB more, {} MiB are available: lower rate or RTT",
                need_bytes >> 20,
                available_bytes >> 20
            ),
            Error::Direction { direction, cause } if cause.kind() == io::ErrorKind::PermissionDenied => {
                write!(f, "{direction}: not permitted (CAP_NET_RAW, CAP_NET_ADMIN): run as root")
            }
            Error::Direction { direction, cause } => write!(f, "{direction}: {cause}"),
            Error::Socket { path, cause } => write!(f, "{}: {cause}", path.display()),
            Error::Died => f.write_str("the engine died as it started"),
            Error::Start(text) => f.write_str(text),
            Error::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Io(error)
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Error {
        Error::NotJson(error)
    }
}

impl Error {
    /// In one direction, named by `direction`.
    pub fn in_direction(direction: &'static str) -> impl Fn(io::Error) -> Error {
        move |cause| Error::Direction { direction, cause }
    }

    /// Whether it is about what was asked for, not about what this machine can do.
    pub fn is_input(&self) -> bool {
        matches!(self, Error::NotJson(_) | Error::Missing(_) | Error::Unknown(_) | Error::Invalid { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_it_is_about() {
        let refused = io::Error::from_raw_os_error(libc::EPERM);
        let told = Error::in_direction("inbound")(refused).to_string();
        assert_eq!(told, "inbound: not permitted (CAP_NET_RAW, CAP_NET_ADMIN): run as root");
        let memory = Error::Memory { need_bytes: 3 << 20, available_bytes: 1 << 20 };
        assert!(memory.to_string().starts_with("memory: the delay lines need 3 MiB more, 1 MiB are available"));
        assert!(!memory.is_input() && Error::Missing("limit".into()).is_input());
    }
}
