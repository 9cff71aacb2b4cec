//! The life of the service: start, stop, workers that die, disks that fill.

mod engine;
mod start;
mod stop;
mod storage;
mod workers;
