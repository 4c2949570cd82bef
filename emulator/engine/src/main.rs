//! longhaul-wire: moves frames between the two ports of one lane, in a process of its own.

#![forbid(unsafe_code)]

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::io::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::exit;

use longhaul_wire::config::Config;
use longhaul_wire::control::{Control, MAX_LINE};
use longhaul_wire::engine::Engine;
use longhaul_wire::error::Error;
use longhaul_wire::sys;

const HELP: &str = "\
longhaul-wire SOCKET < LANE: moves frames between the two ports of a lane through a delay line.

LANE is one line of JSON: hub, site and bridge (names of interfaces), on_failure (cut or pass), outbound and inbound
(memory_bytes, settings: {delay_ns, limit, jitter_ns, loss_p32, rate: {bytes_per_s, buffer_bytes, burst_bytes}, ...}, and
flows: [{filters: [{source: 10.0.0.0/8, protocol: 6, ...}], settings}, ...]),
spare_processors (2 unless said: where there are two more than these, each direction takes one for itself).
Returns when the lane works; the engine itself stays, and is spoken to through SOCKET: one line of JSON a request.

Example:
  longhaul-wire /run/longhaul/lane.sock < lane.json
  echo '{\"op\":\"stats\"}' | socat - /run/longhaul/lane.sock     get, set, stats, stop

Exit codes: 0 the lane works, 1 it does not, 2 the input is wrong.";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let socket = match arguments.as_slice() {
        [flag] if flag == "--help" || flag == "-h" => {
            println!("{HELP}");
            return;
        }
        [flag] if flag == "--version" => {
            println!("longhaul-wire {}", env!("CARGO_PKG_VERSION"));
            return;
        }
        [socket] => PathBuf::from(socket),
        _ => fail(2, HELP),
    };
    match read_lane().and_then(|config| launch(config, &socket)) {
        Ok(()) => (),
        Err(error) => fail(if error.is_input() { 2 } else { 1 }, &error.to_string()),
    }
}

fn read_lane() -> Result<Config, Error> {
    let mut text = Vec::new();
    std::io::stdin().take(MAX_LINE).read_to_end(&mut text)?;
    Config::from_json(&serde_json::from_slice(&text)?)
}

fn fail(code: i32, text: &str) -> ! {
    eprintln!("{text}");
    exit(code)
}

/// Starts the engine in a process of its own and waits for the word that it works.
fn launch(config: Config, socket: &Path) -> Result<(), Error> {
    let (mut ours, theirs) = UnixStream::pair()?;
    if sys::fork(true)? == 0 {
        drop(ours);
        stay(config, socket, theirs);
    }
    drop(theirs);
    let mut said = String::new();
    ours.read_to_string(&mut said)?;
    match said.as_str() {
        "works" => Ok(()),
        "" => Err(Error::Died),
        error => Err(Error::Start(error.to_string())),
    }
}

/// The process that stays. A lane that passes on failure has a guard, which outlives the engine and opens the bridge.
fn stay(config: Config, socket: &Path, word: UnixStream) -> ! {
    if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        sys::replace_standard_streams(null.as_raw_fd());
    }
    let _ = std::env::set_current_dir("/");
    if config.pass_on_failure {
        match sys::fork(false) {
            Ok(0) => (),
            Ok(engine) => {
                drop(word);
                if !sys::ended_well(engine) {
                    let _ = sys::interface_up(&config.bridge);
                }
                exit(0);
            }
            Err(_) => exit(1),
        }
    }
    work(config, socket, word)
}

fn work(config: Config, socket: &Path, mut word: UnixStream) -> ! {
    let opened = Engine::start(config, &socket.with_file_name("processors")).and_then(|engine| {
        let failed = |cause| Error::Socket { path: socket.to_path_buf(), cause };
        Ok((engine, Control::listen(socket).map_err(failed)?))
    });
    match opened {
        Ok((mut engine, control)) => {
            // Whoever does not wait for the word any more takes the lane for one without an engine.
            if word.write_all(b"works").is_ok() {
                drop(word);
                control.serve(&mut engine);
            }
            drop(control);
            exit(0);
        }
        Err(error) => {
            let _ = word.write_all(error.to_string().as_bytes());
            exit(0);
        }
    }
}
