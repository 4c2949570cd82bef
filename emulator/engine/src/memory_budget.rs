//! What a direction takes of the machine's memory, and so what receives its port: calls, or a ring that is its own memory.

use std::fs;
use std::io;
use std::sync::Arc;

use crate::error::Error;
use crate::frame::Ns;
use crate::mapping::Mapping;
use crate::receiver::Ingress;
use crate::ring_geometry::{Demand, RingGeometry};
use crate::ring_ingress::RingIngress;
use crate::socket_ingress::SocketIngress;

/// Memory that is left to the rest of the machine.
const SPARE_BYTES: u64 = 256 << 20;

/// What receives a direction's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    Calls,
    Ring(RingGeometry),
}

/// The memory of one direction.
pub struct MemoryBudget {
    arena: Arc<Mapping>,
    /// What of the arena was taken.
    warm: u64,
    receives: Kind,
    tick_ns: Ns,
}

impl MemoryBudget {
    /// Nothing is taken yet; `tick_ns` is the kernel's.
    pub fn new(arena: Arc<Mapping>, tick_ns: Ns) -> MemoryBudget {
        MemoryBudget { arena, warm: 0, receives: Kind::Nothing, tick_ns }
    }

    /// How many more bytes this demand takes.
    pub fn needs(&self, demand: &Demand) -> u64 {
        match wanted(self.receives, demand, self.tick_ns) {
            Kind::Ring(ring) if self.receives != Kind::Ring(ring) => ring.bytes(),
            Kind::Ring(_) => 0,
            _ => warm_bytes(demand).saturating_sub(self.warm),
        }
    }

    /// Takes the memory for this demand. Some: this is to receive from now on, which it does not yet.
    pub fn take(&mut self, demand: &Demand) -> io::Result<Option<Ingress>> {
        if let Kind::Ring(geometry) = wanted(self.receives, demand, self.tick_ns) {
            if self.receives == Kind::Ring(geometry) {
                return Ok(None);
            }
            if let Some(ring) = RingIngress::new(geometry)? {
                return Ok(Some(Ingress::Ring(ring)));
            }
        }
        let need = warm_bytes(demand).max(self.warm);
        self.arena.prefault(self.warm as usize, need as usize)?;
        self.warm = need;
        Ok(if self.receives == Kind::Calls { None } else { Some(Ingress::Socket(SocketIngress::new()?)) })
    }

    /// This is what receives from now on.
    pub fn keep(&mut self, ingress: &Ingress) {
        self.receives = match ingress {
            Ingress::Socket(_) => Kind::Calls,
            Ingress::Ring(ring) => Kind::Ring(ring.geometry()),
        };
    }

    /// How large the ring is that receives; 0: there is none.
    pub fn ring_bytes(&self) -> u64 {
        match self.receives {
            Kind::Ring(ring) => ring.bytes(),
            _ => 0,
        }
    }
}

/// What is to receive with this demand where `receives` does now. A new ring costs: a lane whose delay is changed all the
/// time, by a schedule or a record, is to need few.
fn wanted(receives: Kind, demand: &Demand, tick_ns: Ns) -> Kind {
    let ring = match receives {
        Kind::Ring(ring) if ring.suits(demand, tick_ns) => Some(ring),
        // It grows by steps: to what it will soon need.
        Kind::Ring(ring) if ring.bytes() >= demand.memory_bytes && ring.bytes() / 2 < demand.memory_bytes => {
            let roomier = Demand { memory_bytes: demand.memory_bytes + demand.memory_bytes / 2, ..*demand };
            RingGeometry::of(&roomier, tick_ns)
        }
        // It may go to and fro about the least delay for a ring.
        Kind::Calls => {
            let half = Demand { earliest_ns: demand.earliest_ns / 2, ..*demand };
            RingGeometry::of(&half, tick_ns).and_then(|_| RingGeometry::of(demand, tick_ns))
        }
        _ => RingGeometry::of(demand, tick_ns),
    };
    ring.map_or(Kind::Calls, Kind::Ring)
}

/// What is prefaulted: the delay line. The bottlenecks' buffers, which are part of it, take memory as they fill.
fn warm_bytes(demand: &Demand) -> u64 {
    demand.memory_bytes - demand.buffer_bytes.min(demand.memory_bytes)
}

/// Whether the machine has so many bytes.
pub fn check_memory(need_bytes: u64) -> Result<(), Error> {
    let available = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_in(&text));
    match available {
        Some(available_bytes) if need_bytes.saturating_add(SPARE_BYTES) > available_bytes => {
            Err(Error::Memory { need_bytes, available_bytes })
        }
        _ => Ok(()),
    }
}

fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|l| l.starts_with("MemAvailable:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_meminfo() {
        assert_eq!(available_in("MemTotal: 9 kB\nMemAvailable:   5 kB\n"), Some(5120));
        assert_eq!(available_in("MemTotal: 9 kB\n"), None);
        assert!(check_memory(1 << 60).unwrap_err().to_string().contains("lower rate or RTT"));
    }

    const MS: Ns = 1_000_000;

    fn demand(delay_ms: u64) -> Demand {
        // 10 Gbit/s, as the daemon counts it.
        let memory_bytes = delay_ms * 1_250_000 * 6 / 5 + (64 << 20);
        Demand { memory_bytes, buffer_bytes: 0, earliest_ns: delay_ms * MS, latest_ns: delay_ms * MS }
    }

    /// How often another ingress is needed while the delay goes through these.
    fn changes(delays_ms: impl Iterator<Item = u64>) -> usize {
        let (mut receives, mut count) = (Kind::Nothing, 0);
        for delay_ms in delays_ms {
            let next = wanted(receives, &demand(delay_ms), 4 * MS);
            count += usize::from(next != receives);
            receives = next;
        }
        count
    }

    #[test]
    fn a_delay_that_changes_all_the_time_needs_another_ingress_seldom() {
        assert_eq!(changes([16, 16, 17, 18, 14, 20].into_iter()), 2);
        assert!(changes(16..400) <= 8);
        assert!(changes((5..400).rev()) <= 8);
        assert_eq!(changes((0..1000).map(|n| 8 + n % 10)), 1);
    }

    #[test]
    fn a_long_jump_takes_just_what_it_needs() {
        let short = wanted(Kind::Nothing, &demand(16), 4 * MS);
        let long = RingGeometry::of(&demand(346), 4 * MS).unwrap();
        assert_eq!(wanted(short, &demand(346), 4 * MS), Kind::Ring(long));
        assert_eq!(wanted(Kind::Calls, &demand(346), 4 * MS), Kind::Ring(long));
        assert_eq!(wanted(Kind::Ring(long), &demand(2), 4 * MS), Kind::Calls);
    }
}
