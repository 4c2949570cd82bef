//! Longhaul's wire engine.
//!
//! The pure core (no I/O; time and seed are arguments) is `frame`, `random`, `loss_model`, `packet_fate`, `delay`,
//! `bottleneck`, `pipeline`, `flow_filter`, `bands`, `pacing`, `ring_geometry`, `histogram` and `settings`. `packet` reads
//! and rewrites headers in memory. The rest does the work: `sys`, `thread` and `processors` (system calls), `mapping`,
//! `arena` and `memory_budget` (where frames wait), `port` (the calls on one packet socket, behind a trait; tests have
//! ports in memory), `socket_ingress`, `ring_ingress`, `receiver` and `egress` (frames in and out), `direction` and
//! `admission` (one thread's loop), `config`, `fields` and `control` (the unix socket), `engine` (all of it together).

#![warn(clippy::undocumented_unsafe_blocks)]

pub mod admission;
pub mod arena;
pub mod bands;
pub mod bottleneck;
pub mod clock;
pub mod config;
pub mod control;
pub mod delay;
pub mod direction;
pub mod egress;
pub mod engine;
pub mod error;
pub mod fields;
pub mod flow_filter;
pub mod frame;
pub mod histogram;
pub mod loss_model;
pub mod mapping;
pub mod memory_budget;
#[cfg(test)]
mod memory_port;
pub mod pacing;
pub mod packet;
pub mod packet_fate;
pub mod pipeline;
pub mod port;
pub mod processors;
pub mod random;
pub mod receiver;
pub mod ring_geometry;
pub mod ring_ingress;
pub mod settings;
pub mod socket_ingress;
pub mod stats;
pub mod sys;
pub mod thread;
