//! The `toolpost` program: arguments, a runtime, an exit code. Everything else is in the library and in [`cli`].

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

mod cli;

/// Many small allocations of many threads are what this service does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(ended) = toolpost::executor::process::run_helper_if_asked() {
        return ended;
    }
    toolpost::executor::http::install_crypto_provider();
    cli::main(cli::Cli::parse()).into()
}
