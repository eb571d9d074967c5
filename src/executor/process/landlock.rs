//! Landlock: which files a process and all below it may touch, whom they may signal, and that they reach nobody by TCP.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, LandlockStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};

use super::protocol::Confinement;

/// The newest Landlock whose rights are asked for; an older kernel gives what it has.
const NEWEST: ABI = ABI::V6;
/// The first one with rules for TCP.
pub const FIRST_WITH_TCP: i32 = ABI::V4 as i32;
/// What programs write to that is no file.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/shm", "/dev/ptmx", "/dev/pts"];

/// Restricts this process; tells by which Landlock, `None` if the kernel has none.
///
/// # Errors
/// If the kernel has one and refuses.
pub fn restrict(confinement: &Confinement, denies_network: bool) -> Result<Option<i32>, Box<dyn std::error::Error>> {
    let (read, all) = (AccessFs::from_read(NEWEST), AccessFs::from_all(NEWEST));
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::from_all(NEWEST))?;
    if denies_network {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST))?;
    }
    let devices = DEVICES.map(PathBuf::from);
    let status = ruleset
        .create()?
        .add_rules(path_beneath_rules(there(&confinement.read), read))?
        .add_rules(path_beneath_rules(there(confinement.write.iter().chain(&devices)), all))?
        .restrict_self()?;
    Ok(match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => None,
        (_, LandlockStatus::Available { effective_abi, .. }) => Some(effective_abi as i32),
        _ => None,
    })
}

/// A path that is not there needs no rule.
fn there<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> impl Iterator<Item = &'p Path> {
    paths.into_iter().map(PathBuf::as_path).filter(|path| path.exists())
}
