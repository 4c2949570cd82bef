//! The control socket: one JSON object a line, one answer a line. Bounded: a line is at most MAX_LINE long and must
//! come within TIMEOUT; requests are handled one after the other.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::io::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::engine::Engine;
use crate::json::{map, parse, Value};
use crate::sys;

/// Room for two tables of a distribution.
pub const MAX_LINE: u64 = 512 * 1024;
const TIMEOUT: Duration = Duration::from_secs(2);
/// How often the ports are looked after.
const LOOK_NS: u64 = 500_000_000;

/// The socket's file, which goes when the engine ends.
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
}

/// What a request means.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    Get,
    Stats,
    Set(Value),
    /// End; with true, when all that is inside has left.
    Stop(bool),
}

/// Reads one line. Errors are for the one who sent it.
pub fn request(line: &str) -> Result<Request, String> {
    let value = parse(line)?;
    match value.get("op").and_then(Value::text) {
        Some("get") => Ok(Request::Get),
        Some("stats") => Ok(Request::Stats),
        Some("set") => Ok(Request::Set(value)),
        Some("stop") => Ok(Request::Stop(value.get("drain").and_then(Value::bool).unwrap_or(false))),
        _ => Err("op: get, set, stats or stop was expected".to_string()),
    }
}

impl Control {
    /// Listens at `path`, for the owner alone. The name appears only once it is answered there.
    pub fn listen(path: &Path) -> io::Result<Control> {
        let partial = path.with_extension("partial");
        let _ = fs::remove_file(&partial);
        sys::private_files();
        let listener = UnixListener::bind(&partial)?;
        listener.set_nonblocking(true)?;
        fs::rename(&partial, path)?;
        Ok(Control { listener, path: path.to_path_buf() })
    }

    /// Answers until told to stop, or until the ports are gone.
    pub fn serve(&self, engine: &mut Engine) {
        while engine.has_ports() {
            engine.tidy();
            sys::wait(self.listener.as_raw_fd(), sys::POLLIN, LOOK_NS);
            while let Ok((stream, _)) = self.listener.accept() {
                // Whoever hangs up in the middle is no concern of ours.
                if let Ok(true) = self.talk(stream, engine) {
                    return;
                }
            }
        }
    }

    /// Answers one caller; whether the engine is to end.
    fn talk(&self, stream: UnixStream, engine: &mut Engine) -> io::Result<bool> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let mut reader = BufReader::new(stream.try_clone()?.take(MAX_LINE));
        let mut stream = stream;
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            if line.last() != Some(&b'\n') {
                return Ok(false);
            }
            reader.get_mut().set_limit(MAX_LINE);
            let asked = std::str::from_utf8(&line).map_err(|_| "no UTF-8".to_string()).and_then(request);
            let (answer, end) = answer(asked, engine);
            if end {
                self.end(engine, matches!(answer, Value::Map(ref f) if f.len() > 1));
            }
            writeln!(stream, "{answer}")?;
            if end {
                return Ok(true);
            }
            line.clear();
        }
        Ok(false)
    }

    /// Takes the name away, and waits for the frames inside when `drain`.
    fn end(&self, engine: &mut Engine, drain: bool) {
        let _ = fs::remove_file(&self.path);
        while drain && !engine.drain() {
            sys::wait(-1, 0, 1_000_000);
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The answer to a request, and whether the engine is to end.
fn answer(asked: Result<Request, String>, engine: &mut Engine) -> (Value, bool) {
    let done = ("ok", Value::Bool(true));
    match asked {
        Ok(Request::Get) => (map(vec![done, ("config", engine.config().to_json())]), false),
        Ok(Request::Stats) => (map(vec![done, ("stats", engine.stats())]), false),
        Ok(Request::Stop(false)) => (map(vec![done]), true),
        Ok(Request::Stop(true)) => (map(vec![done, ("drained", Value::Bool(true))]), true),
        Ok(Request::Set(value)) => match engine.set(&value) {
            Ok(()) => (map(vec![done]), false),
            Err(error) => (refusal(&error), false),
        },
        Err(error) => (refusal(&error), false),
    }
}

fn refusal(error: &str) -> Value {
    map(vec![("ok", Value::Bool(false)), ("error", Value::from(error))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn requests_are_known_by_their_op() {
        assert_eq!(request(r#"{"op":"get"}"#), Ok(Request::Get));
        assert_eq!(request(r#"{"op":"stop","drain":true}"#), Ok(Request::Stop(true)));
        assert!(request(r#"{"op":"sing"}"#).unwrap_err().contains("was expected"));
        assert!(request("{").unwrap_err().starts_with("no JSON"));
    }

    #[test]
    fn no_noise_makes_it_panic() {
        let mut dice = Random::new(1);
        for _ in 0..20_000 {
            let bytes: Vec<u8> =
                (0..dice.below(60)).map(|_| b"{}[]:,\"op setgru1-\\\n\xff"[dice.below(21) as usize]).collect();
            let _ = request(&String::from_utf8_lossy(&bytes));
        }
    }
}
