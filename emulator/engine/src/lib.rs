//! Longhaul's wire engine.
//!
//! The pure core (no I/O; time and seed are arguments) is `frame`, `random`, `gate`, `delay`, `bottleneck`, `pipeline`,
//! `pace`, `histogram`, `json` and `settings`. `packet` reads and rewrites headers in memory. The rest does the work:
//! `sys` and `thread` (system calls), `mapping` and `arena` (where frames wait), `port` (packet sockets), `direction` and
//! `admission` (one thread's loop), `control` (the unix socket), `engine` (all of it together).

pub mod admission;
pub mod arena;
pub mod bottleneck;
pub mod control;
pub mod delay;
pub mod direction;
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
pub mod random;
pub mod settings;
pub mod stats;
pub mod sys;
pub mod thread;
