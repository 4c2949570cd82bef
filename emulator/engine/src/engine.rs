//! The engine of one lane: two directions, their memory, and what the control socket asks of them.

use std::fs;
use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use crate::direction::{Direction, Order, Shared};
use crate::json::{map, Value};
use crate::mapping::Mapping;
use crate::settings::Settings;
use crate::sys;

/// Memory that is left to the rest of the machine.
const SPARE_BYTES: u64 = 256 << 20;
const DIRECTIONS: [&str; 2] = ["outbound", "inbound"];

/// A lane as it is asked for: its two ports, its bridge, and what each direction does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub hub: String,
    pub site: String,
    pub bridge: String,
    /// Whether the bridge passes frames on, unimpaired, when the engine dies.
    pub pass_on_failure: bool,
    pub directions: [Settings; 2],
}

impl Config {
    /// Reads a lane. Errors name the field.
    pub fn from_json(value: &Value) -> Result<Config, String> {
        let word = |name: &str| {
            let text = value.get(name).and_then(Value::text).filter(|t| !t.is_empty() && t.len() < 16);
            text.map(str::to_string).ok_or_else(|| format!("{name}: an interface's name was expected"))
        };
        let pass_on_failure = match value.get("on_failure").and_then(Value::text) {
            Some("pass") => true,
            Some("cut") => false,
            _ => return Err("on_failure: cut or pass was expected".to_string()),
        };
        Ok(Config {
            hub: word("hub")?,
            site: word("site")?,
            bridge: word("bridge")?,
            pass_on_failure,
            directions: directions(value)?,
        })
    }

    /// As `from_json` reads it.
    pub fn to_json(&self) -> Value {
        map(vec![
            ("hub", Value::from(self.hub.as_str())),
            ("site", Value::from(self.site.as_str())),
            ("bridge", Value::from(self.bridge.as_str())),
            ("on_failure", Value::from(if self.pass_on_failure { "pass" } else { "cut" })),
            ("outbound", self.directions[0].to_json()),
            ("inbound", self.directions[1].to_json()),
        ])
    }
}

/// Both directions' settings of a request.
fn directions(value: &Value) -> Result<[Settings; 2], String> {
    let read = |name: &str| match value.get(name) {
        Some(settings) => Settings::from_json(settings).map_err(|e| format!("{name}.{e}")),
        None => Err(format!("{name}: missing")),
    };
    Ok([read(DIRECTIONS[0])?, read(DIRECTIONS[1])?])
}

/// A lane at work.
pub struct Engine {
    config: Config,
    shared: [Arc<Shared>; 2],
    memory: [Arc<Mapping>; 2],
    warm: [u64; 2],
    threads: Vec<JoinHandle<()>>,
    indexes: [i32; 2],
}

impl Engine {
    /// Takes memory, opens the ports and starts to work. Errors are for people.
    pub fn start(config: Config) -> Result<Engine, String> {
        let index = |name: &str| sys::interface_index(name).ok_or_else(|| format!("{name}: no such interface"));
        let (hub, site) = (index(&config.hub)?, index(&config.site)?);
        let warm = [warm_bytes(&config.directions[0]), warm_bytes(&config.directions[1])];
        check_memory(warm[0] + warm[1])?;
        let shared = [Arc::new(Shared::default()), Arc::new(Shared::default())];
        let open = |way: usize, from, to| {
            let settings = config.directions[way].clone();
            let opened = Direction::new(from, to, settings, warm[way], shared[way].clone());
            opened.map_err(|e| format!("{} of {}: {}", DIRECTIONS[way], config.bridge, explained(&e)))
        };
        let made = [open(0, hub, site)?, open(1, site, hub)?];
        let memory = [made[0].memory(), made[1].memory()];
        let mut threads = Vec::new();
        for (mut direction, name) in made.into_iter().zip(DIRECTIONS) {
            let thread = Builder::new().name(name.to_string()).spawn(move || direction.run());
            threads.push(thread.map_err(|e| format!("thread: {e}"))?);
        }
        Ok(Engine { config, shared, memory, warm, threads, indexes: [hub, site] })
    }

    /// Whether both ports are still the interfaces that they were.
    pub fn has_ports(&self) -> bool {
        [&self.config.hub, &self.config.site].iter().zip(self.indexes).all(|(n, i)| sys::interface_index(n) == Some(i))
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes both directions at one instant; memory first, so that there is no gap.
    pub fn set(&mut self, request: &Value) -> Result<(), String> {
        let wanted = directions(request)?;
        let warm = [warm_bytes(&wanted[0]), warm_bytes(&wanted[1])];
        let more = (0..2).map(|way| warm[way].saturating_sub(self.warm[way])).sum();
        check_memory(more)?;
        for (memory, (had, need)) in self.memory.iter().zip(self.warm.iter_mut().zip(warm)) {
            memory.prefault(*had as usize, need as usize).map_err(|e| format!("memory: {e}"))?;
            *had = need.max(*had);
        }
        let from = sys::now();
        for (way, settings) in wanted.iter().enumerate() {
            self.shared[way].order(Order { settings: settings.clone(), from });
        }
        self.config.directions = wanted;
        Ok(())
    }

    /// What both directions counted.
    pub fn stats(&self) -> Value {
        map((0..2).map(|way| (DIRECTIONS[way], self.shared[way].stats.to_json())).collect())
    }

    /// Takes no more frames in; true once all that were inside have left.
    pub fn drain(&mut self) -> bool {
        self.shared.iter().for_each(|s| s.stop.store(true, SeqCst));
        self.threads.iter().all(|t| t.is_finished())
    }
}

/// What is prefaulted: the delay line. The bottleneck's buffer, which is part of the room, takes memory as it fills.
fn warm_bytes(settings: &Settings) -> u64 {
    settings.room_bytes - settings.rate.map_or(0, |r| r.buffer_bytes).min(settings.room_bytes)
}

fn check_memory(need: u64) -> Result<(), String> {
    let available = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_bytes(&text));
    match available {
        Some(bytes) if need + SPARE_BYTES > bytes => Err(format!(
            "memory: the delay lines need {} MiB more, {} MiB are available: lower rate or RTT",
            need >> 20,
            bytes >> 20
        )),
        _ => Ok(()),
    }
}

fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|l| l.starts_with("MemAvailable:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

fn explained(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "not permitted (CAP_NET_RAW, CAP_NET_ADMIN): run as root".to_string(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    #[test]
    fn a_lane_is_read_as_it_was_written() {
        let s = Settings { limit: 3, room_bytes: 4, ..Settings::default() };
        let config = Config {
            hub: "a".into(),
            site: "b".into(),
            bridge: "c".into(),
            pass_on_failure: true,
            directions: [s.clone(), s],
        };
        assert_eq!(Config::from_json(&parse(&config.to_json().to_string()).unwrap()), Ok(config));
    }

    #[test]
    fn what_is_wrong_with_a_lane_is_named() {
        let wrong = |text: &str| Config::from_json(&parse(text).unwrap()).unwrap_err();
        assert_eq!(wrong("{}"), "on_failure: cut or pass was expected");
        assert_eq!(wrong(r#"{"on_failure":"cut"}"#), "hub: an interface's name was expected");
        let bad = r#"{"on_failure":"cut","hub":"a","site":"b","bridge":"c","outbound":{"limit":-1}}"#;
        assert_eq!(wrong(bad), "outbound.limit: -1 is out of range");
    }

    #[test]
    fn memory_is_read_from_meminfo() {
        assert_eq!(available_bytes("MemTotal: 9 kB\nMemAvailable:   5 kB\n"), Some(5120));
        assert_eq!(available_bytes("MemTotal: 9 kB\n"), None);
        assert!(check_memory(1 << 60).unwrap_err().contains("lower rate or RTT"));
    }
}
