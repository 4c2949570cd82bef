//! Where frames wait: records in chunks of memory. A chunk is used again when its last record is gone; the one freed
//! last is used first, so that a short delay line stays in the processor's cache.

use std::io;
use std::sync::Arc;

use crate::frame::MAX_RECORD;
use crate::mapping::Mapping;
use crate::ring_ingress::RingIngress;

const CHUNK: usize = 2 * 1024 * 1024;
const ALIGN: usize = 64;
/// The address space of one direction: it costs nothing, and it may grow into it while frames are in flight.
const SPAN: usize = 64 << 30;

/// A place from here on is in a ring: the ring's number, from 1 on, and the offset in it.
const RING_BITS: u32 = 40;

/// The memory of one direction; with it the rings that frames of it are in.
pub struct Arena {
    map: Arc<Mapping>,
    rings: Vec<Option<RingIngress>>,
    /// Records in each chunk that was ever used.
    live: Vec<u32>,
    free: Vec<usize>,
    current: usize,
    used: usize,
    chunks: usize,
    in_use: usize,
}

impl Arena {
    /// Memory for `bytes`, at least four chunks.
    pub fn new(bytes: u64) -> io::Result<Arena> {
        let map = Arc::new(Mapping::new(SPAN)?);
        let (rings, free) = (Vec::new(), Vec::new());
        let mut arena = Arena { map, rings, live: vec![0], free, current: 0, used: 0, chunks: 0, in_use: 1 };
        arena.resize(bytes);
        Ok(arena)
    }

    /// The memory, for whoever is to prefault it.
    pub fn memory(&self) -> Arc<Mapping> {
        self.map.clone()
    }

    /// From here on it is `bytes`; what is in it stays until it is released.
    pub fn resize(&mut self, bytes: u64) {
        self.chunks = (bytes as usize / CHUNK + 1).clamp(4, SPAN / CHUNK);
    }

    /// The place of the next record, with MAX_RECORD bytes to write to; None when all is in use.
    pub fn reserve(&mut self) -> Option<u64> {
        if self.used + MAX_RECORD > CHUNK {
            self.next_chunk()?;
        }
        Some((self.current * CHUNK + self.used) as u64)
    }

    fn next_chunk(&mut self) -> Option<()> {
        if self.live[self.current] == 0 {
            self.used = 0;
            return Some(());
        }
        if self.in_use >= self.chunks {
            return None;
        }
        self.current = self.free.pop().unwrap_or_else(|| {
            self.live.push(0);
            self.live.len() - 1
        });
        self.in_use += 1;
        self.used = 0;
        Some(())
    }

    /// Keeps the first `len` bytes of the place that was reserved last.
    pub fn commit(&mut self, len: usize) {
        self.live[self.current] += 1;
        self.used += (len + ALIGN - 1) / ALIGN * ALIGN;
    }

    /// Keeps a ring until `take_empty_ring`; its number.
    pub fn add_ring(&mut self, ring: RingIngress) -> usize {
        let free = self.rings.iter().position(Option::is_none).unwrap_or_else(|| {
            self.rings.push(None);
            self.rings.len() - 1
        });
        self.rings[free] = Some(ring);
        free + 1
    }

    pub fn ring(&mut self, number: usize) -> &mut RingIngress {
        self.rings[number - 1].as_mut().expect("it was added")
    }

    /// A ring that was added, to forget it; None while frames of it have not left yet.
    pub fn take_empty_ring(&mut self, number: usize) -> Option<RingIngress> {
        if self.ring(number).inside() > 0 {
            return None;
        }
        self.rings[number - 1].take()
    }

    /// The place of what stands at an offset of a ring.
    pub fn in_ring(number: usize, offset: u64) -> u64 {
        (number as u64) << RING_BITS | offset
    }

    /// The record at `place` is gone.
    pub fn release(&mut self, place: u64) {
        if let Some((number, at)) = ring_place(place) {
            return self.ring(number).release(at);
        }
        let chunk = place as usize / CHUNK;
        self.live[chunk] -= 1;
        if self.live[chunk] > 0 || chunk == self.current {
            return;
        }
        self.in_use -= 1;
        if self.in_use >= self.chunks {
            self.map.forget(chunk * CHUNK, CHUNK);
        }
        self.free.push(chunk);
    }

    pub fn pointer(&self, place: u64) -> *mut u8 {
        if let Some((number, at)) = ring_place(place) {
            return self.rings[number - 1].as_ref().expect("it has frames").pointer(at);
        }
        self.map.pointer(place as usize)
    }

    /// The bytes at a place that was reserved, or that a ring has.
    pub fn bytes(&mut self, place: u64, len: usize) -> &mut [u8] {
        assert!(ring_place(place).is_some() || place as usize + len <= SPAN);
        // SAFETY: within the mapping, or within what a ring has said is a record; records do not overlap, and the arena is
        // borrowed for as long as the bytes are.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(place), len) }
    }
}

/// The ring that a place is in, and where.
fn ring_place(place: u64) -> Option<(usize, u64)> {
    (place >> RING_BITS > 0).then_some(((place >> RING_BITS) as usize, place & ((1 << RING_BITS) - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::VecDeque;

    #[test]
    fn records_keep_what_was_written_until_they_are_released() {
        let (mut arena, mut dice) = (Arena::new(32 << 20).unwrap(), Random::new(3));
        let mut waiting: VecDeque<(u64, usize, u8)> = VecDeque::new();
        for n in 0..50_000 {
            let fits = arena.reserve();
            if fits.is_none() || dice.below(3) == 0 {
                // Mostly first in, first out, but not always: frames may be reordered.
                let at = if dice.below(4) == 0 { dice.below(waiting.len().max(1) as u64) as usize } else { 0 };
                if let Some((place, len, byte)) = waiting.remove(at) {
                    assert!(arena.bytes(place, len).iter().all(|&b| b == byte));
                    arena.release(place);
                }
                continue;
            }
            let (place, len) = (fits.unwrap(), 1 + dice.below(MAX_RECORD as u64 - 1) as usize);
            arena.bytes(place, len).fill(n as u8);
            arena.commit(len);
            waiting.push_back((place, len, n as u8));
        }
        assert!(waiting.len() > 100);
        assert!(arena.live.len() <= 17);
    }

    #[test]
    fn a_full_room_says_so_and_a_larger_one_takes_more() {
        let mut arena = Arena::new(8 << 20).unwrap();
        let fill = |arena: &mut Arena| {
            let mut places = Vec::new();
            while let Some(place) = arena.reserve() {
                arena.commit(65_000);
                places.push(place);
            }
            places
        };
        let first = fill(&mut arena);
        assert!(first.len() >= 5 * 30);
        arena.resize(16 << 20);
        assert!(fill(&mut arena).len() >= 4 * 30);
        first.iter().for_each(|&place| arena.release(place));
        assert!(arena.reserve().is_some());
    }

    #[test]
    fn a_short_line_stays_in_few_chunks() {
        let mut arena = Arena::new(1 << 30).unwrap();
        for _ in 0..10_000 {
            let place = arena.reserve().unwrap();
            arena.commit(65_000);
            arena.release(place);
        }
        assert_eq!(arena.live.len(), 1);
    }
}
