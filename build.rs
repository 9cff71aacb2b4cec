//! Stable Rust lets no macro watch a directory: without this, a new migration is not built in until `schema.rs` changes.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
