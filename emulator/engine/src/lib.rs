//! Longhaul's wire engine.
//!
//! The pure core (no I/O; time and seed are arguments) is `frame`, `random`, `gate`, `delay`, `bottleneck`, `pipeline`,
//! `pace`, `ringsize`, `histogram`, `json` and `settings`. `packet` reads and rewrites headers in memory. The rest does
//! the work: `sys`, `thread` and `processors` (system calls), `mapping`, `arena` and `room` (where frames wait), `port`,
//! `calls` and `ring` (packet sockets), `ears` (which of them hears), `direction` and `admission` (one thread's loop),
//! `control` (the unix socket), `engine` (all of it together).

pub mod admission;
pub mod arena;
pub mod bottleneck;
pub mod calls;
pub mod control;
pub mod delay;
pub mod direction;
pub mod ears;
pub mod engine;
pub mod frame;
pub mod gate;
pub mod histogram;
pub mod json;
pub mod mapping;
pub mod pace;
pub mod packet;
pub mod pipeline;
pub mod port;
pub mod processors;
pub mod random;
pub mod ring;
pub mod ringsize;
pub mod room;
pub mod settings;
pub mod stats;
pub mod sys;
pub mod thread;
