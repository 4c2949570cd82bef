//! The engine of one lane: two directions, their memory, and what the control socket asks of them.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use crate::arena::Arena;
use crate::direction::{Direction, Order, Shared};
use crate::ears::Ear;
use crate::json::{map, Value};
use crate::processors::{apart, choose, Claims, Processors};
use crate::room::{check_memory, Room};
use crate::settings::Settings;
use crate::sys;
use crate::thread;

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
    /// With so many processors left to others, each direction has one of its own.
    pub spare_processors: u64,
}

/// Enough for what comes in and goes out beside the engine. Where there are no more than these, threads that are bound to
/// them move less, not more.
const SPARE_PROCESSORS: u64 = 2;

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
        let spare_processors = match value.get("spare_processors") {
            Some(v) => v.uint(1024).ok_or_else(|| format!("spare_processors: {v} is out of range"))?,
            None => SPARE_PROCESSORS,
        };
        Ok(Config {
            hub: word("hub")?,
            site: word("site")?,
            bridge: word("bridge")?,
            pass_on_failure,
            directions: directions(value)?,
            spare_processors,
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
            ("spare_processors", Value::from(self.spare_processors)),
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
    rooms: [Room; 2],
    threads: Vec<JoinHandle<()>>,
    /// The ports that the directions hear.
    ports: [i32; 2],
    /// What it takes to keep the processors that the threads have.
    _claims: Option<Claims>,
}

impl Engine {
    /// Takes memory, opens the ports and starts to work; `claims` is the file of who has which processor. Errors are for
    /// people.
    pub fn start(config: Config, claims: &Path) -> Result<Engine, String> {
        let index = |name: &str| sys::interface_index(name).ok_or_else(|| format!("{name}: no such interface"));
        let ports = [index(&config.hub)?, index(&config.site)?];
        // Also while it takes memory for a change, which is not to wait for others.
        thread::be_prompt();
        let arena = |way: usize| Arena::new(config.directions[way].room_bytes).map_err(failed(way));
        let arenas = [arena(0)?, arena(1)?];
        let mut rooms = [0, 1].map(|way: usize| Room::new(arenas[way].memory(), sys::tick_ns()));
        let ears = take(&mut rooms, &config.directions, ports)?;
        let shared = [Arc::new(Shared::default()), Arc::new(Shared::default())];
        let (claims, own) = own_processors(config.spare_processors as usize, claims);
        let mut threads = Vec::new();
        for (way, (ear, arena)) in ears.into_iter().flatten().zip(arenas).enumerate() {
            let (settings, shared) = (config.directions[way].clone(), shared[way].clone());
            let made = Direction::new(ear, ports[1 - way], arena, settings, shared);
            let mut direction = made.map_err(failed(way))?;
            let own = own.map(|processors| processors[way]);
            let thread = Builder::new().name(DIRECTIONS[way].to_string()).spawn(move || direction.run(own));
            threads.push(thread.map_err(|e| format!("thread: {e}"))?);
        }
        Ok(Engine { config, shared, rooms, threads, ports, _claims: claims })
    }

    /// Whether both ports are still the interfaces that they were.
    pub fn has_ports(&self) -> bool {
        [&self.config.hub, &self.config.site].iter().zip(self.ports).all(|(n, i)| sys::interface_index(n) == Some(i))
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes both directions at one instant; memory first, so that there is no gap.
    pub fn set(&mut self, request: &Value) -> Result<(), String> {
        let wanted = directions(request)?;
        self.tidy();
        let ears = apart(&self.thread_ids(), || take(&mut self.rooms, &wanted, self.ports))?;
        let from = sys::now();
        for ((shared, settings), ear) in self.shared.iter().zip(&wanted).zip(ears) {
            shared.order(Order { settings: settings.clone(), from, ear });
        }
        self.config.directions = wanted;
        Ok(())
    }

    fn thread_ids(&self) -> [i32; 2] {
        [0, 1].map(|way: usize| self.shared[way].thread.load(SeqCst))
    }

    /// Forgets what the directions have done with: the kernel waits until no processor uses it, and frees its memory.
    pub fn tidy(&self) {
        let done: Vec<Ear> = self.shared.iter().flat_map(|shared| shared.take_done()).collect();
        if !done.is_empty() {
            apart(&self.thread_ids(), || drop(done));
        }
    }

    /// What both directions counted.
    pub fn stats(&self) -> Value {
        let one = |way: usize| self.shared[way].stats.to_json(self.rooms[way].ring_bytes());
        map((0..2).map(|way| (DIRECTIONS[way], one(way))).collect())
    }

    /// Takes no more frames in; true once all that were inside have left.
    pub fn drain(&mut self) -> bool {
        self.shared.iter().for_each(|s| s.stop.store(true, SeqCst));
        self.threads.iter().all(|t| t.is_finished())
    }
}

/// Takes both directions' memory; then, at once, what is new of what hears their ports begins to.
fn take(rooms: &mut [Room; 2], settings: &[Settings; 2], ports: [i32; 2]) -> Result<[Option<Ear>; 2], String> {
    check_memory((0..2).map(|way| rooms[way].needs(&settings[way])).sum())?;
    let mut ears = [None, None];
    for way in 0..2 {
        ears[way] = rooms[way].take(&settings[way]).map_err(failed(way))?;
    }
    for way in 0..2 {
        ears[way].as_ref().map_or(Ok(()), |ear| ear.hear(ports[way])).map_err(failed(way))?;
    }
    for (room, ear) in rooms.iter_mut().zip(&ears) {
        ear.iter().for_each(|ear| room.keep(ear));
    }
    Ok(ears)
}

/// A processor for each direction, where there are enough, and what keeps them; nothing else of ours runs there then.
fn own_processors(spare: usize, claims: &Path) -> (Option<Claims>, Option<[usize; 2]>) {
    let allowed = Processors::allowed(0);
    let mut file = None;
    let own = choose(allowed, spare, |number| {
        file = file.take().or_else(|| Claims::open(claims).ok());
        file.as_ref().map_or(false, |claims: &Claims| claims.claim(number))
    });
    match own {
        Some(own) => {
            let rest = allowed.without(Processors::of(&own));
            if rest != Processors::default() {
                rest.allow(0);
            }
            (file, Some(own))
        }
        None => (None, None),
    }
}

fn failed(way: usize) -> impl Fn(io::Error) -> String {
    move |error| format!("{}: {}", DIRECTIONS[way], explained(&error))
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
            spare_processors: 7,
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
}
