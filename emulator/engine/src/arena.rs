//! Where frames wait: records in chunks of memory. A chunk is used again when its last record is gone; the one freed
//! last is used first, so that a short delay line stays in the processor's cache. Records that leave in their own order
//! have chunks of their own, a row of them: one that waits long would keep all the chunk from being used again.

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

/// The row of what comes in.
const INCOMING: usize = 0;

/// Where the next record of a row goes.
#[derive(Clone, Copy)]
struct Row {
    chunk: usize,
    used: usize,
}

/// The memory of one direction; with it the rings that frames of it are in.
pub struct Arena {
    map: Arc<Mapping>,
    rings: Vec<Option<RingIngress>>,
    /// Records in each chunk that was ever used.
    live: Vec<u32>,
    free: Vec<usize>,
    /// None: it has no chunk yet.
    rows: Vec<Option<Row>>,
    chunks: usize,
    in_use: usize,
}

impl Arena {
    /// Memory for `bytes`, at least four chunks.
    pub fn new(bytes: u64) -> io::Result<Arena> {
        let map = Arc::new(Mapping::new(SPAN)?);
        let mut arena = Arena {
            map,
            rings: Vec::new(),
            live: Vec::new(),
            free: Vec::new(),
            rows: Vec::new(),
            chunks: 0,
            in_use: 0,
        };
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

    /// The place of the next record that comes in, with MAX_RECORD bytes to write to; None when all is in use.
    pub fn reserve(&mut self) -> Option<u64> {
        self.reserve_in(INCOMING)
    }

    /// Keeps the first `len` bytes of the place that was reserved last.
    pub fn commit(&mut self, len: usize) {
        self.commit_in(INCOMING, len);
    }

    /// Moves a record to the row of a queue; its new place. None where there is no room: it stays where it is.
    pub fn move_to_queue(&mut self, queue: usize, place: u64, len: usize) -> Option<u64> {
        let row = INCOMING + 1 + queue;
        let to = self.reserve_in(row)?;
        let from = self.pointer(place);
        // SAFETY: both are as long as the record, and the reserved place overlaps no record.
        unsafe { std::ptr::copy_nonoverlapping(from, self.pointer(to), len) };
        self.commit_in(row, len);
        self.release(place);
        Some(to)
    }

    /// The chunk of a queue's row is for others again once its last record is gone.
    pub fn forget_queue(&mut self, queue: usize) {
        let row = self.rows.get_mut(INCOMING + 1 + queue).and_then(Option::take);
        if let Some(row) = row.filter(|row| self.live[row.chunk] == 0) {
            self.give_back(row.chunk);
        }
    }

    fn reserve_in(&mut self, row: usize) -> Option<u64> {
        if row >= self.rows.len() {
            self.rows.resize(row + 1, None);
        }
        let here = match self.rows[row] {
            Some(here) if here.used + MAX_RECORD <= CHUNK => here,
            Some(here) if self.live[here.chunk] == 0 => Row { used: 0, ..here },
            _ => Row { chunk: self.take_chunk()?, used: 0 },
        };
        self.rows[row] = Some(here);
        Some((here.chunk * CHUNK + here.used) as u64)
    }

    fn commit_in(&mut self, row: usize, len: usize) {
        let here = self.rows[row].as_mut().expect("it was reserved");
        here.used += (len + ALIGN - 1) / ALIGN * ALIGN;
        self.live[here.chunk] += 1;
    }

    fn take_chunk(&mut self) -> Option<usize> {
        if self.in_use >= self.chunks {
            return None;
        }
        self.in_use += 1;
        Some(self.free.pop().unwrap_or_else(|| {
            self.live.push(0);
            self.live.len() - 1
        }))
    }

    fn give_back(&mut self, chunk: usize) {
        self.in_use -= 1;
        if self.in_use >= self.chunks {
            self.map.forget(chunk * CHUNK, CHUNK);
        }
        self.free.push(chunk);
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
        if self.live[chunk] == 0 && !self.rows.iter().flatten().any(|row| row.chunk == chunk) {
            self.give_back(chunk);
        }
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
    fn what_waits_long_in_a_row_of_its_own_keeps_no_room_from_others() {
        let mut arena = Arena::new(8 << 20).unwrap();
        let mut waiting = Vec::new();
        for n in 0..2000_u64 {
            let place = arena.reserve().expect("there is room");
            arena.bytes(place, 60_000).fill(n as u8);
            arena.commit(60_000);
            if n % 10 > 0 {
                arena.release(place);
                continue;
            }
            let moved = arena.move_to_queue((n % 2) as usize, place, 1000).expect("there is room");
            waiting.push((moved, n as u8));
        }
        assert_eq!(waiting.len(), 200);
        assert!(waiting.iter().all(|&(place, byte)| arena.bytes(place, 1000).iter().all(|&b| b == byte)));
        waiting.iter().for_each(|&(place, _)| arena.release(place));
        (0..2).for_each(|queue| arena.forget_queue(queue));
        assert_eq!(arena.in_use, 1);
    }

    #[test]
    fn a_queue_that_finds_no_room_leaves_the_record_where_it_is() {
        let mut arena = Arena::new(1).unwrap();
        let mut places = Vec::new();
        while let Some(place) = arena.reserve() {
            arena.commit(60_000);
            places.push(place);
        }
        assert_eq!(arena.move_to_queue(0, places[0], 60_000), None);
        places.iter().for_each(|&place| arena.release(place));
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
