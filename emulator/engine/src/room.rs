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
#[derive(Clone, Copy, PartialEq, Eq)]
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
        match Size::of(settings, self.tick_ns) {
            Some(_) if self.has_ring_for(settings) => 0,
            Some(size) => size.bytes(),
            None => warm_bytes(settings).saturating_sub(self.warm),
        }
    }

    /// Takes the memory for these settings. Some: this is to hear from now on, which it does not yet.
    pub fn take(&mut self, settings: &Settings) -> io::Result<Option<Ear>> {
        if let Some(size) = Size::of(settings, self.tick_ns) {
            if self.has_ring_for(settings) {
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

    fn has_ring_for(&self, settings: &Settings) -> bool {
        matches!(self.heard, Kind::Ring(size) if size.suits(settings, self.tick_ns))
    }
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
}
