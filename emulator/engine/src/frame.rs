//! A frame as the impairments see it, and what they have in common.

/// A time or a length of time in nanoseconds; as a time, CLOCK_MONOTONIC's.
pub type Ns = u64;

/// A probability of one, in netem's parts (u32).
pub const P32: u32 = u32::MAX;

/// The longest record: head room, virtio_net header, and a frame of 64 KiB with its headers.
pub const MAX_RECORD: usize = 68 * 1024;

/// One frame on its way: where its bytes stand, and what counts about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where its record begins in the arena, in bytes.
    pub place: u64,
    /// The record's length in bytes: the virtio_net header and the frame.
    pub record_bytes: u32,
    /// What it takes on the wire: the headers of every packet of a super-frame count.
    pub wire_bytes: u32,
    /// How many packets it is: more than one for a super-frame (GSO, GRO).
    pub packets: u32,
    /// What each of them takes on the wire, but for the last, which may be shorter.
    pub packet_bytes: u32,
    /// When it leaves.
    pub due: Ns,
}

/// Why a frame was not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// By the configured random loss.
    Loss,
    /// The bottleneck's buffer was full: physics.
    Buffer,
    /// The engine's own memory was full: our fault.
    Limit,
}

/// A frame that was not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    pub frame: Frame,
    pub cause: Cause,
}

/// The five methods of whatever holds frames back. Time is an argument: nothing here reads a clock.
pub trait Impairment {
    /// Takes a frame that arrives at `now`, or gives it back with the reason.
    fn push(&mut self, frame: Frame, now: Ns) -> Result<(), Dropped>;
    /// When the next frame leaves; None when there is none.
    fn next_due(&self) -> Option<Ns>;
    /// The next frame that is due at `now`, with `due` set to the exact time of its leaving.
    fn pop_due(&mut self, now: Ns) -> Option<Frame>;
    /// How many frames are inside.
    fn pending(&self) -> usize;
    /// Whether all that ever came in has left again.
    fn done(&self) -> bool {
        self.pending() == 0
    }
}
