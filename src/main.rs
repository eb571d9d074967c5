//! The `toolpost` program: parses the arguments and runs a command of [`cli`]. Everything else is in the library.

use std::process::ExitCode;

/// A faster allocator for many small allocations on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    toolpost::cli::main()
}
