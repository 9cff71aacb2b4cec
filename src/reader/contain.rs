//! Keeps a panic inside a parsing library from ending the call.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The result of `work`, or `None` when it panicked.
///
/// What `work` was building is dropped with the panic, so nothing half-made is seen afterwards.
pub(super) fn contained<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}
