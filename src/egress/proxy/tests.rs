mod forwarding;
mod limits;
mod refusals;
mod support;
mod tunnels;
