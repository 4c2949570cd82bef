//! What a direction takes of the machine's memory, and so what hears its port: calls, or a ring that is its own memory.

use std::fs;
use std::io;
use std::sync::Arc;

use crate::calls::Calls;
use crate::ears::Ear;
use crate::frame::Ns;
use crate::mapping::Mapping;
use crate::ring::Ring;
use crate::ringsize::Size;
use crate::settings::Settings;

/// Memory that is left to the rest of the machine.
const SPARE_BYTES: u64 = 256 << 20;

/// What hears a direction's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    Calls,
    Ring(Size),
}

/// The memory of one direction.
pub struct Room {
    arena: Arc<Mapping>,
    /// What of the arena was taken.
    warm: u64,
    heard: Kind,
    tick_ns: Ns,
}

impl Room {
    /// Nothing is taken yet; `tick_ns` is the kernel's.
    pub fn new(arena: Arc<Mapping>, tick_ns: Ns) -> Room {
        Room { arena, warm: 0, heard: Kind::Nothing, tick_ns }
    }

    /// How many more bytes these settings take.
    pub fn needs(&self, settings: &Settings) -> u64 {
        match wanted(self.heard, settings, self.tick_ns) {
            Kind::Ring(size) if self.heard != Kind::Ring(size) => size.bytes(),
            Kind::Ring(_) => 0,
            _ => warm_bytes(settings).saturating_sub(self.warm),
        }
    }

    /// Takes the memory for these settings. Some: this is to hear from now on, which it does not yet.
    pub fn take(&mut self, settings: &Settings) -> io::Result<Option<Ear>> {
        if let Kind::Ring(size) = wanted(self.heard, settings, self.tick_ns) {
            if self.heard == Kind::Ring(size) {
                return Ok(None);
            }
            if let Some(ring) = Ring::new(size)? {
                return Ok(Some(Ear::Ring(ring)));
            }
        }
        let need = warm_bytes(settings).max(self.warm);
        self.arena.prefault(self.warm as usize, need as usize)?;
        self.warm = need;
        Ok(if self.heard == Kind::Calls { None } else { Some(Ear::Calls(Calls::new()?)) })
    }

    /// This is what hears from now on.
    pub fn keep(&mut self, ear: &Ear) {
        self.heard = match ear {
            Ear::Calls(_) => Kind::Calls,
            Ear::Ring(ring) => Kind::Ring(ring.size()),
        };
    }

    /// How large the ring is that hears; 0: there is none.
    pub fn ring_bytes(&self) -> u64 {
        match self.heard {
            Kind::Ring(size) => size.bytes(),
            _ => 0,
        }
    }
}

/// What is to hear with these settings where `heard` does now. A new ring costs: a lane whose delay is changed all the time,
/// by a schedule or a record, is to need few.
fn wanted(heard: Kind, settings: &Settings, tick_ns: Ns) -> Kind {
    let size = match heard {
        Kind::Ring(size) if size.suits(settings, tick_ns) => Some(size),
        // It grows by steps: to what it will soon need.
        Kind::Ring(size) if size.bytes() >= settings.room_bytes && size.bytes() / 2 < settings.room_bytes => {
            let roomier = Settings { room_bytes: settings.room_bytes + settings.room_bytes / 2, ..settings.clone() };
            Size::of(&roomier, tick_ns)
        }
        // It may go to and fro about the least delay for a ring.
        Kind::Calls => {
            let half = Settings { delay_ns: settings.delay_ns / 2, ..settings.clone() };
            Size::of(&half, tick_ns).and_then(|_| Size::of(settings, tick_ns))
        }
        _ => Size::of(settings, tick_ns),
    };
    size.map_or(Kind::Calls, Kind::Ring)
}

/// What is prefaulted: the delay line. The bottleneck's buffer, which is part of the room, takes memory as it fills.
fn warm_bytes(settings: &Settings) -> u64 {
    settings.room_bytes - settings.rate.map_or(0, |r| r.buffer_bytes).min(settings.room_bytes)
}

/// Whether the machine has so many bytes. Errors are for people.
pub fn check_memory(need: u64) -> Result<(), String> {
    let available = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_bytes(&text));
    match available {
        Some(bytes) if need.saturating_add(SPARE_BYTES) > bytes => Err(format!(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_meminfo() {
        assert_eq!(available_bytes("MemTotal: 9 kB\nMemAvailable:   5 kB\n"), Some(5120));
        assert_eq!(available_bytes("MemTotal: 9 kB\n"), None);
        assert!(check_memory(1 << 60).unwrap_err().contains("lower rate or RTT"));
    }

    const MS: Ns = 1_000_000;

    fn settings(delay_ms: u64) -> Settings {
        // 10 Gbit/s, as the daemon counts it.
        let room_bytes = delay_ms * 1_250_000 * 6 / 5 + (64 << 20);
        Settings { delay_ns: delay_ms * MS, room_bytes, ..Settings::default() }
    }

    /// How often another ear is needed while the delay goes through these.
    fn changes(delays_ms: impl Iterator<Item = u64>) -> usize {
        let (mut heard, mut count) = (Kind::Nothing, 0);
        for delay_ms in delays_ms {
            let next = wanted(heard, &settings(delay_ms), 4 * MS);
            count += usize::from(next != heard);
            heard = next;
        }
        count
    }

    #[test]
    fn a_delay_that_changes_all_the_time_needs_another_ear_seldom() {
        assert_eq!(changes([16, 16, 17, 18, 14, 20].into_iter()), 2);
        assert!(changes(16..400) <= 8);
        assert!(changes((5..400).rev()) <= 8);
        assert_eq!(changes((0..1000).map(|n| 8 + n % 10)), 1);
    }

    #[test]
    fn a_long_jump_takes_just_what_it_needs() {
        let short = wanted(Kind::Nothing, &settings(16), 4 * MS);
        let long = Size::of(&settings(346), 4 * MS).unwrap();
        assert_eq!(wanted(short, &settings(346), 4 * MS), Kind::Ring(long));
        assert_eq!(wanted(Kind::Calls, &settings(346), 4 * MS), Kind::Ring(long));
        assert_eq!(wanted(Kind::Ring(long), &settings(2), 4 * MS), Kind::Calls);
    }
}
