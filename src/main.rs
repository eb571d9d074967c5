//! The `toolpost` program: parses the arguments and runs a command of [`cli`]. Everything else is in the library, except for the
//! allocator.

use std::process::ExitCode;

/// A faster allocator for many small allocations on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    toolpost::cli::main(return_memory)
}

/// Returns the memory to the system that the allocator keeps for this thread. The allocator alone would keep it when the thread
/// ends, for example after a large import.
#[expect(unsafe_code, reason = "the allocator has no safe function for it")]
fn return_memory() {
    // SAFETY: The function has no requirements.
    unsafe { libmimalloc_sys::mi_collect(true) }
}
