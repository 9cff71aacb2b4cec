mod artifacts;
mod durability;
mod opening;
mod retention;
mod sessions;
mod support;
