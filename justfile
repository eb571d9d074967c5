# List the commands.
default:
    @just --list

# Run the service from a debug build, with the example tools.
run *arguments:
    cargo run -- serve --tools examples/tools {{arguments}}

# Run the tests; arguments go to cargo test.
test *arguments:
    scripts/test {{arguments}}

# Run the tests again and again on a busy machine, until a run fails: `just soak-tests 3 core`.
soak-tests *arguments:
    scripts/soak-tests {{arguments}}

# Kill, stop, freeze and cut at length, then print the figures; TOOLPOST_CHAOS_SEED=N repeats a run's choices.
chaos tests="chaos::":
    TOOLPOST_CHAOS=long cargo test --locked -p toolpost-model -- --nocapture --test-threads 1
    TOOLPOST_CHAOS=long scripts/test --test it -- --nocapture --test-threads 1 {{tests}}

# Take changed inputs for so many seconds a target; TOOLPOST_FUZZ_SEED=N repeats a run's choices.
fuzz seconds="60" tests="fuzz::":
    TOOLPOST_FUZZ_SECONDS={{seconds}} scripts/test --test it -- --nocapture --test-threads 1 {{tests}}

# Check format, lints and documentation.
lint:
    cargo fmt --all --check
    cargo clippy --locked --workspace -- -D warnings
    cargo clippy --locked --workspace --all-targets --features toolpost/fault-points -- -D warnings
    RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps

# Format the code.
fmt:
    cargo fmt --all

# Write openapi/openapi.json anew.
openapi:
    cargo run --quiet -- openapi > openapi/openapi.json.new
    mv openapi/openapi.json.new openapi/openapi.json

# Measure the hot path inside the process.
bench *arguments:
    cargo bench --bench hot_path {{arguments}}

# Measure the service under twice the load that it can carry; needs wrk and PostgreSQL.
overload *arguments:
    cargo build --profile dist --locked
    scripts/overload {{arguments}}

# Measure the service over HTTP on both databases; needs wrk and PostgreSQL.
load *arguments:
    cargo build --profile dist --locked
    scripts/load {{arguments}}

# Measure workers on PostgreSQL; needs wrk, PostgreSQL and the environment of the Python package.
workers *arguments:
    cargo build --profile dist --locked
    scripts/workers {{arguments}}

# Build the container's image without Docker, as root on Debian, and try it; `--profile release` is the quick way.
image *arguments:
    docker/build-without-daemon {{arguments}}

# Build all packages, or the named ones, into dist/; `scripts/test` installs what is needed, and `--profile release` is the quick way.
packages *arguments:
    scripts/packages {{arguments}}
