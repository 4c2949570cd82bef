//! The control socket: one JSON object a line, one answer a line. Bounded: a line is at most MAX_LINE long and must
//! come within TIMEOUT, as must whoever reads the answer; requests are handled one after the other.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Take, Write};
use std::os::unix::io::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{json, Value};

use crate::config::directions_of;
use crate::engine::Engine;
use crate::error::Error;
use crate::fields::Fields;
use crate::settings::DirectionSettings;
use crate::sys;

/// Room for the longest table of a distribution in every flow of both directions.
pub const MAX_LINE: u64 = 4 << 20;
const TIMEOUT: Duration = Duration::from_secs(2);
/// Within one call to write, the kernel begins its timeout again with every 32 KiB.
const MOST_WRITE: usize = 64 << 10;
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
    Set(Box<[DirectionSettings; 2]>),
    /// End; with true, when all that is inside has left.
    Stop(bool),
}

/// Reads one line. Errors are for the one who sent it.
pub fn request(line: &[u8]) -> Result<Request, Error> {
    let value: Value = serde_json::from_slice(line)?;
    let fields = Fields::of(&value, "", &["op", "drain", "outbound", "inbound"])?;
    let op = fields.read("op", "get, set, stats or stop", |op| match op.as_str() {
        Some("get") => Some(Ok(Request::Get)),
        Some("stats") => Some(Ok(Request::Stats)),
        Some("set") => Some(directions_of(&fields).map(|directions| Request::Set(Box::new(directions)))),
        Some("stop") => Some(fields.bool("drain").map(Request::Stop)),
        _ => None,
    })?;
    op.unwrap_or_else(|| Err(Error::Missing("op".to_string())))
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
            sys::wait(self.listener.as_raw_fd(), libc::POLLIN, LOOK_NS);
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
        let mut lines = Lines::new(&stream, TIMEOUT);
        while let Some(line) = lines.next()? {
            let asked = request(line);
            if let Ok(Request::Stop(drain)) = asked {
                self.end(engine, drain);
                let done = if drain { json!({ "ok": true, "drained": true }) } else { json!({ "ok": true }) };
                tell(&mut Timely::new(&stream, TIMEOUT), &done)?;
                return Ok(true);
            }
            let answer = answer(asked, engine);
            tell(&mut Timely::new(&stream, TIMEOUT), &answer)?;
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

/// A stream of which all that is read or written has one deadline, however many calls that takes.
struct Timely<'a> {
    stream: &'a UnixStream,
    end: Instant,
}

impl Timely<'_> {
    fn new(stream: &UnixStream, timeout: Duration) -> Timely<'_> {
        Timely { stream, end: Instant::now() + timeout }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(Some(left))
    }
}

impl Read for Timely<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        let mut stream = self.stream;
        stream.read(bytes)
    }
}

impl Write for Timely<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        let mut stream = self.stream;
        stream.write(&bytes[..bytes.len().min(MOST_WRITE)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A caller's lines, of which each must come within `timeout` of being waited for.
struct Lines<'a> {
    reader: BufReader<Take<Timely<'a>>>,
    timeout: Duration,
    line: Vec<u8>,
}

impl<'a> Lines<'a> {
    fn new(stream: &'a UnixStream, timeout: Duration) -> Lines<'a> {
        let reader = BufReader::new(Timely::new(stream, timeout).take(MAX_LINE));
        Lines { reader, timeout, line: Vec::new() }
    }

    /// The next line; None when there is none, or none that is whole and short enough.
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let rest = self.reader.get_mut();
        rest.set_limit(MAX_LINE);
        rest.get_mut().end = Instant::now() + self.timeout;
        self.line.clear();
        self.reader.read_until(b'\n', &mut self.line)?;
        Ok(if self.line.last() == Some(&b'\n') { Some(&self.line) } else { None })
    }
}

/// Sends one answer. In one call: each write wakes the reader, and a formatter writes every token by itself.
fn tell(stream: &mut impl Write, answer: &Value) -> io::Result<()> {
    stream.write_all(format!("{answer}\n").as_bytes())
}

/// The answer to a request.
fn answer(asked: Result<Request, Error>, engine: &mut Engine) -> Value {
    let done = match asked {
        Ok(Request::Get) => return json!({ "ok": true, "config": engine.config().to_json() }),
        Ok(Request::Stats) => return json!({ "ok": true, "stats": engine.stats() }),
        Ok(Request::Set(wanted)) => engine.set(*wanted),
        Ok(Request::Stop(_)) => Ok(()),
        Err(error) => Err(error),
    };
    match done {
        Ok(()) => json!({ "ok": true }),
        Err(error) => json!({ "ok": false, "error": error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn read(text: &str) -> Result<Request, String> {
        request(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn requests_are_known_by_their_op() {
        assert_eq!(read(r#"{"op":"get"}"#), Ok(Request::Get));
        assert_eq!(read(r#"{"op":"stop","drain":true}"#), Ok(Request::Stop(true)));
        let one = r#"{"memory_bytes":1,"settings":{"delay_ns":1,"limit":2}}"#;
        let set = read(&format!(r#"{{"op":"set","outbound":{one},"inbound":{one}}}"#));
        assert!(matches!(set, Ok(Request::Set(both)) if both[1].settings.limit == 2));
    }

    #[test]
    fn what_is_wrong_with_a_request_is_told() {
        let wrong = |text: &str| read(text).unwrap_err();
        assert_eq!(wrong(r#"{"op":"sing"}"#), "op: \"sing\" is not get, set, stats or stop");
        assert_eq!(wrong("{}"), "op: missing");
        assert_eq!(wrong(r#"{"op":"set"}"#), "outbound: missing");
        assert_eq!(wrong(r#"{"op":"stop","drain":1}"#), "drain: 1 is not true or false");
        assert_eq!(wrong(r#"{"op":"get","tempo":1}"#), "tempo: unknown");
        assert!(wrong("{").starts_with("not JSON"));
        assert!(wrong(&"[".repeat(100_000)).starts_with("not JSON: recursion limit exceeded"));
    }

    /// Keeps what is written to it, call by call.
    struct Calls(Vec<Vec<u8>>);

    impl Write for Calls {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_answer_is_one_line_in_one_call() {
        let mut calls = Calls(Vec::new());
        tell(&mut calls, &json!({ "ok": true, "stats": [1, 2, 3] })).unwrap();
        assert_eq!(calls.0, [b"{\"ok\":true,\"stats\":[1,2,3]}\n".to_vec()]);
    }

    #[test]
    fn a_line_has_one_deadline_however_slowly_it_comes() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"one\ntwo\n").unwrap();
        let mut lines = Lines::new(&ours, Duration::from_millis(100));
        assert_eq!(lines.next().unwrap(), Some(&b"one\n"[..]));
        assert_eq!(lines.next().unwrap(), Some(&b"two\n"[..]));
        let slow = std::thread::spawn(move || {
            let send = |_: &u32| {
                std::thread::sleep(Duration::from_millis(10));
                theirs.write_all(b" ").is_ok()
            };
            (0..300).take_while(send).count()
        });
        assert!(lines.next().is_err());
        drop(lines);
        drop(ours);
        assert!(slow.join().unwrap() < 200);
    }

    #[test]
    fn whoever_does_not_read_the_answer_is_not_waited_for_longer() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let slow = std::thread::spawn(move || {
            let mut some = [0; 100_000];
            (0..300)
                .take_while(|_| {
                    std::thread::sleep(Duration::from_millis(10));
                    theirs.read(&mut some).map_or(false, |count| count > 0)
                })
                .count()
        });
        let long = json!("x".repeat(20_000_000));
        assert!(tell(&mut Timely::new(&ours, Duration::from_millis(100)), &long).is_err());
        drop(ours);
        assert!(slow.join().unwrap() < 200);
    }

    #[test]
    fn a_line_that_is_not_whole_is_none() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"half").unwrap();
        drop(theirs);
        assert_eq!(Lines::new(&ours, TIMEOUT).next().unwrap(), None);
    }

    #[test]
    fn no_noise_makes_it_panic() {
        let mut dice = Random::new(1);
        for _ in 0..20_000 {
            let bytes: Vec<u8> =
                (0..dice.below(60)).map(|_| b"{}[]:,\"op setgru1-\\\n\xff"[dice.below(21) as usize]).collect();
            let _ = request(&bytes);
        }
    }
}
