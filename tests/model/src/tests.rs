//! Explorations.

use std::thread::available_parallelism;

use stateright::{Checker, Model};

use crate::protocol::{Protocol, Rules};
use crate::state::Faults;

const NO_FAULTS: Faults = Faults { crashes: 0, losses: 0, lost_answers: 0, expiries: 0, deaths: 0, cancels: 0 };

fn world(repeatable: &[bool], faults: Faults) -> Protocol {
    Protocol { repeatable: repeatable.to_vec(), nodes: 2, workers: 2, faults, rules: Rules::ALL }
}

/// Explores a world. Returns the names of the properties that do not hold, each with a way there.
fn explored(world: Protocol) -> Vec<(&'static str, String)> {
    let threads = available_parallelism().map_or(1, usize::from);
    let checker = world.checker().threads(threads).spawn_bfs().join();
    println!(
        "{} states, {} unique, depth {}",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth()
    );
    let found = checker.discoveries().into_iter();
    let mut found: Vec<_> = found.map(|(name, path)| (name, format!("{:#?}", path.into_actions()))).collect();
    found.sort();
    found
}

fn assert_sound(world: Protocol) {
    println!("{:?} {:?}", world.repeatable, world.faults);
    let found = explored(world);
    assert!(found.is_empty(), "{}", found.iter().map(|(name, path)| format!("{name}:\n{path}\n")).collect::<String>());
}

#[test]
fn non_repeatable_call_survives_every_fault() {
    for faults in [
        Faults { crashes: 1, losses: 1, deaths: 1, ..NO_FAULTS },
        Faults { losses: 2, ..NO_FAULTS },
        Faults { lost_answers: 2, losses: 1, ..NO_FAULTS },
        Faults { lost_answers: 3, ..NO_FAULTS },
        Faults { cancels: 1, losses: 1, crashes: 1, ..NO_FAULTS },
        Faults { expiries: 1, losses: 1, lost_answers: 1, ..NO_FAULTS },
    ] {
        assert_sound(world(&[false], faults));
    }
}

#[test]
fn repeatable_call_survives_every_fault() {
    for faults in [
        Faults { crashes: 1, losses: 1, ..NO_FAULTS },
        Faults { losses: 1, deaths: 1, ..NO_FAULTS },
        Faults { lost_answers: 2, ..NO_FAULTS },
        Faults { cancels: 1, losses: 1, ..NO_FAULTS },
        Faults { expiries: 1, losses: 1, ..NO_FAULTS },
        Faults { expiries: 1, lost_answers: 1, ..NO_FAULTS },
    ] {
        assert_sound(world(&[true], faults));
    }
}

#[test]
fn two_calls_survive_a_fault() {
    for faults in [Faults { crashes: 1, ..NO_FAULTS }, Faults { lost_answers: 1, ..NO_FAULTS }] {
        assert_sound(world(&[false, true], faults));
    }
}

/// Leaves a rule out, and asserts that the exploration finds a property that does not hold.
fn assert_found(property: &str, leave_out: impl Fn(&mut Rules), is_repeatable: bool, faults: Faults) {
    let mut world = world(&[is_repeatable], faults);
    leave_out(&mut world.rules);
    println!("{:?}", world.rules);
    let found = explored(world);
    let names: Vec<_> = found.iter().map(|(name, _)| *name).collect();
    assert!(names.contains(&property), "not found: {property}; found: {names:?}");
}

const STARTED_TWICE: &str = "a call that may not be repeated is started once";
const STARTED_LATE: &str = "a call that has ended is not started";
const RESULT_LOST: &str = "a stored result is the end of its call";

#[test]
fn offer_of_a_node_without_the_call_is_detected() {
    let faults = Faults { losses: 1, cancels: 1, ..NO_FAULTS };
    assert_found(STARTED_LATE, |rules| rules.offers_need_the_owner = false, false, faults);
}

#[test]
fn adoption_during_an_earlier_run_is_detected() {
    let faults = Faults { crashes: 1, losses: 1, deaths: 1, ..NO_FAULTS };
    assert_found(STARTED_TWICE, |rules| rules.adoption_awaits_foreign_runs = false, false, faults);
}

#[test]
fn two_statement_takeover_of_an_offer_is_detected() {
    let faults = Faults { losses: 2, ..NO_FAULTS };
    assert_found("each call ends", |rules| rules.takeover_is_one_statement = false, false, faults);
}

#[test]
fn a_worker_that_is_given_a_call_without_a_claim_is_found() {
    let faults = Faults { losses: 1, ..NO_FAULTS };
    assert_found(STARTED_TWICE, |rules| rules.starts_have_their_claims = false, false, faults);
}

#[test]
fn lease_that_ends_before_its_start_is_recorded_is_detected() {
    let faults = Faults { deaths: 1, crashes: 1, ..NO_FAULTS };
    assert_found(STARTED_TWICE, |rules| rules.expiry_needs_the_start = false, false, faults);
}

#[test]
fn offer_that_outlives_its_call_is_detected() {
    let faults = Faults { cancels: 1, ..NO_FAULTS };
    let rules = |rules: &mut Rules| (rules.end_withdraws_the_offer, rules.end_deletes_the_offer) = (false, false);
    assert_found(STARTED_LATE, rules, false, faults);
}

#[test]
fn offer_of_a_call_with_a_stored_result_is_detected() {
    let faults = Faults { cancels: 1, crashes: 1, ..NO_FAULTS };
    let rules = |rules: &mut Rules| (rules.stored_results_come_first, rules.end_deletes_the_offer) = (false, false);
    assert_found(STARTED_LATE, rules, true, faults);
}

#[test]
fn second_stored_result_is_detected() {
    let faults = Faults { losses: 1, cancels: 1, ..NO_FAULTS };
    assert_found(RESULT_LOST, |rules| rules.results_are_unique = false, false, faults);
}

#[test]
fn promises_hold_in_a_larger_world() {
    if std::env::var_os("TOOLPOST_CHAOS").is_none_or(|scope| scope != "long") {
        return;
    }
    for is_repeatable in [false, true] {
        assert_sound(world(
            &[is_repeatable],
            Faults { crashes: 1, losses: 1, lost_answers: 1, deaths: 1, ..NO_FAULTS },
        ));
        assert_sound(world(&[is_repeatable], Faults { losses: 2, lost_answers: 1, cancels: 1, ..NO_FAULTS }));
    }
}
