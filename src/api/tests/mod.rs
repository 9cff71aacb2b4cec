//! The frame over real sockets: bytes in, bytes out.

mod answers;
mod connections;
mod gate;
mod support;
