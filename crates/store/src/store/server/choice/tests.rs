use super::*;

const PRIMARY: Server = Server { is_usable: true, is_standby: false, system: 9, timeline: 1, started: 100 };
const STANDBY: Server = Server { is_usable: false, is_standby: true, started: 200, ..PRIMARY };

fn on(timeline: i64, server: Server) -> Sighting {
    Sighting::Answered(Server { timeline, ..server })
}

fn at(index: usize, timeline: i64, server: Server) -> Choice {
    Choice::Host(index, Server { timeline, ..server })
}

fn down() -> Sighting {
    Sighting::Unreachable("connection refused".to_owned())
}

/// The other server of the cluster, after its promotion.
const PROMOTED: Server = Server { is_usable: true, is_standby: false, ..STANDBY };

#[test]
fn old_primary_is_rejected_after_a_promotion() {
    let mut fence = Fence::default();
    let mut choose = |sightings: [Sighting; 2], current| choose(&sightings, &mut fence, current);
    assert_eq!(choose([on(1, PRIMARY), on(1, STANDBY)], None), at(0, 1, PRIMARY));
    assert_eq!(choose([down(), on(1, STANDBY)], Some(0)), Choice::Nothing);
    assert_eq!(choose([down(), on(2, PROMOTED)], Some(0)), at(1, 2, PROMOTED));
    // The old primary returns with its old data, before and after the new one is lost.
    assert_eq!(choose([on(1, PRIMARY), on(2, PROMOTED)], Some(1)), at(1, 2, PROMOTED));
    assert_eq!(choose([on(1, PRIMARY), down()], Some(1)), Choice::Nothing);
    // It is the primary again only after a promotion of its own.
    assert_eq!(choose([on(2, STANDBY), down()], Some(1)), Choice::Nothing);
    assert_eq!(choose([on(3, PRIMARY), down()], Some(1)), at(0, 3, PRIMARY));
}

#[test]
fn new_node_prefers_the_newest_timeline_in_any_order() {
    let (old, new) = (on(1, PRIMARY), on(2, PROMOTED));
    assert_eq!(choose(&[old.clone(), new.clone()], &mut Fence::default(), None), at(1, 2, PROMOTED));
    assert_eq!(choose(&[new, old], &mut Fence::default(), None), at(0, 2, PROMOTED));
}

#[test]
fn old_primary_is_rejected_if_only_a_standby_knows_the_newer_timeline() {
    let mut fence = Fence::default();
    let sightings = [on(1, PRIMARY), down(), on(2, STANDBY)];
    assert_eq!(choose(&sightings, &mut fence, None), Choice::Nothing);
    let reasons: Vec<_> = sightings.iter().map(|one| fault(one, fence).unwrap()).collect();
    assert_eq!(reasons, ["it is on the old timeline 1; the newest is 2", "connection refused", "it is a standby"]);
}

#[test]
fn neither_of_two_primaries_of_one_timeline_is_used() {
    let (one, other) = (on(2, PRIMARY), on(2, PROMOTED));
    assert_eq!(choose(&[one, down(), other], &mut Fence::default(), Some(0)), Choice::Conflict(0, 2));
}

#[test]
fn several_addresses_of_one_server_are_no_conflict() {
    let sightings = [on(1, PRIMARY), on(1, PRIMARY)];
    assert_eq!(choose(&sightings, &mut Fence::default(), None), at(0, 1, PRIMARY));
    assert_eq!(choose(&sightings, &mut Fence::default(), Some(1)), at(1, 1, PRIMARY));
}

#[test]
fn server_of_another_cluster_is_rejected() {
    let other = Server { system: 8, timeline: 7, ..PROMOTED };
    let mut fence = Fence::default();
    assert_eq!(choose(&[on(1, PRIMARY), down()], &mut fence, None), at(0, 1, PRIMARY));
    assert_eq!(choose(&[down(), Sighting::Answered(other)], &mut fence, Some(0)), Choice::Nothing);
    assert_eq!(fault(&Sighting::Answered(other), fence).unwrap(), "it belongs to another cluster");
}

#[test]
fn servers_without_timelines_are_chosen_by_the_condition_alone() {
    let plain = |server| Sighting::Answered(Server { system: 0, timeline: 0, ..server });
    let sightings = [plain(STANDBY), plain(PRIMARY), plain(PROMOTED)];
    let mut fence = Fence::default();
    let chosen = |choice| if let Choice::Host(index, _) = choice { Some(index) } else { None };
    assert_eq!(chosen(choose(&sightings, &mut fence, None)), Some(1));
    assert_eq!(chosen(choose(&sightings, &mut fence, Some(2))), Some(2));
}
