//! The `toolpost` program: arguments, a runtime, an exit code. Everything else is in the library.

use std::process::ExitCode;

/// Many small allocations of many threads are what this service does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    toolpost::cli::main()
}
