//! Landlock rules: the files that a process and its descendants may use, the processes that they may signal, and TCP.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, LandlockStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};

use super::program::Confinement;

/// Newest Landlock version to request; an older kernel enforces what it supports.
const NEWEST: ABI = ABI::V6;
/// First Landlock version with rules for TCP.
pub const FIRST_WITH_TCP: i32 = ABI::V4 as i32;
/// Device paths that programs may write to.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/shm", "/dev/ptmx", "/dev/pts"];

/// Restricts this process. Returns the effective version of Landlock; `None` if the kernel does not support it.
///
/// # Errors
/// Returns an error if the kernel supports Landlock but rejects the rules.
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
        .add_rules(path_beneath_rules(existing(&confinement.read), read))?
        .add_rules(path_beneath_rules(existing(confinement.write.iter().chain(&devices)), all))?
        .restrict_self()?;
    Ok(match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => None,
        (_, LandlockStatus::Available { effective_abi, .. }) => Some(effective_abi as i32),
        _ => None,
    })
}

/// Skips paths that do not exist and therefore need no rule.
fn existing<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> impl Iterator<Item = &'p Path> {
    paths.into_iter().map(PathBuf::as_path).filter(|path| path.exists())
}
