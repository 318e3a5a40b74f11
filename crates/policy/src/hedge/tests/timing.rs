//! Cases 1–15, 23–25, 31, 40, 41: who starts when, and who wins.

use super::scene::*;
use crate::hedge::{
    Answer, AttemptId, Call, Cut, Fault, HedgeConfig, Outcome, Progress, Race, RaceConfig, Reason,
    Role, Verdict,
};
use crate::moment::Moment;

const NO_ANSWER: Verdict = Verdict::Answer { attempt: AttemptId(0), success: false };

#[test]
fn case_01_an_answer_in_time_needs_no_twin() {
    let key = plain(rules(hedge()), &[ok(60)]);
    assert_eq!((key.won(), key.start_seconds()), ((60, 0), vec![0]));
    assert_eq!(key.race.report().hedged_after, None);
}

#[test]
fn case_02_an_answer_at_the_very_moment_of_the_timer_wins() {
    let key = plain(rules(hedge()), &[ok(100), ok(0)]);
    assert_eq!((key.won(), key.start_seconds()), ((100, 0), vec![0]));
}

#[test]
fn case_03_the_twin_answers_for_a_stalled_call() {
    let key = plain(rules(hedge()), &[ok(330), ok(60)]);
    assert_eq!(key.won(), (160, 1));
    assert_eq!(key.starts, [(0, Role::Primary, 0), (100, Role::Hedge, 1)]);
    assert_eq!(key.cuts, [(160, 0, Cut::Lost)]);
    assert_eq!(key.race.report().hedged_after, Some(s(100)));
    assert_eq!(key.outcomes(), [Some(Outcome::Lost), Some(Outcome::Won)]);
}

#[test]
fn case_04_a_late_original_still_wins() {
    let (key, up) = play(rules(hedge()), Call::default(), &[ok(120), ok(60)]);
    assert_eq!(key.won(), (120, 0));
    assert_eq!(key.cuts, [(120, 1, Cut::Lost)]);
    let counters = up.counters;
    assert_eq!((counters.hedges, counters.hedges_that(Outcome::Won)), (1, 0));
    assert_eq!(counters.hedges_that(Outcome::Lost), 1);
}

#[test]
fn case_05_a_failure_waits_for_its_twin_and_starts_no_retry() {
    let race = RaceConfig { retry: retries(3, &[500]), ..rules(hedge()) };
    let key = plain(race, &[answers(500, 110), ok(50)]);
    assert_eq!((key.won(), key.start_seconds()), ((150, 1), vec![0, 100]));
    assert_eq!(key.outcomes(), [Some(Outcome::Failed), Some(Outcome::Won)]);
}

#[test]
fn case_06_when_all_fail_the_failure_is_the_primarys() {
    let key = plain(rules(hedge()), &[vec![(110, Breaks)], answers(503, 30)]);
    let failed = Verdict::Failed { attempt: AttemptId(0), fault: Fault::Broken };
    assert_eq!(key.failed(), (130, failed));
    assert_eq!(key.outcomes(), [Some(Outcome::Failed); 2]);
    assert_eq!(key.race.report().attempts[1].status, Some(503));
}

#[test]
fn case_06_the_other_way_round_the_primarys_response_is_passed_on() {
    let key = plain(rules(hedge()), &[answers(503, 110), vec![(30, Breaks)]]);
    assert_eq!(key.failed(), (130, NO_ANSWER));
    assert_eq!(key.cuts, []);
}

#[test]
fn case_07_a_failure_before_the_threshold_settles_or_is_retried() {
    let key = plain(rules(hedge()), &[answers(500, 5)]);
    assert_eq!((key.failed(), key.start_seconds()), ((5, NO_ANSWER), vec![0]));

    let race = RaceConfig { retry: retries(1, &[500]), ..rules(hedge()) };
    let (key, up) = play(race, Call::default(), &[answers(500, 5), ok(7)]);
    let (_, role, _) = key.starts[1];
    assert_eq!(role, Role::Retry);
    let started = key.race.report().attempts[1].start;
    assert!(started >= s(8) && started <= s(9), "four seconds, less a quarter of jitter at most");
    assert_eq!(key.won().1, 1);
    let counters = up.counters;
    assert_eq!((counters.retries, counters.hedges, counters.attempts), (1, 0, 2));
    assert_eq!(up.budget.snapshot(at(16), s(200)).spent, 1);
}

#[test]
fn case_08_a_status_that_is_no_answer_waits_unless_it_is_definitive() {
    let scripts = [answers(400, 110), ok(50)];
    assert_eq!(plain(rules(hedge()), &scripts).won(), (150, 1));

    let race = RaceConfig { definitive: vec![400], ..rules(hedge()) };
    let key = plain(race, &scripts);
    assert_eq!((key.won(), key.cuts), ((110, 0), vec![(110, 1, Cut::Lost)]));
}

#[test]
fn case_09_a_failed_twin_never_displaces_a_running_original() {
    let key = plain(rules(hedge()), &[ok(170), answers(400, 1)]);
    assert_eq!(key.won(), (170, 0));
}

#[test]
fn case_10_at_most_max_twins_each_given_its_time() {
    let two = HedgeConfig { max: 2, ..hedge() };
    let call = Call { deadline: at(1_000), ..Call::default() };
    let (key, _) = play(rules(two), call, &[]);
    assert_eq!(key.start_seconds(), [0, 100, 200]);
    assert_eq!(key.failed(), (1_000, Verdict::TimedOut));
    assert_eq!(key.outcomes(), [Some(Outcome::Abandoned); 3]);
}

#[test]
fn case_10_a_twin_that_failed_at_once_does_not_bring_the_next_forward() {
    let two = HedgeConfig { max: 2, ..hedge() };
    let key = plain(rules(two), &[silent(), answers(500, 1), ok(3)]);
    assert_eq!((key.start_seconds(), key.won()), (vec![0, 100, 200], (203, 2)));
}

#[test]
fn case_11_committed_by_its_head_and_cut_by_the_idle_timeout() {
    let head = HedgeConfig { after: None, idle: Some(s(30)), answer: Answer::Headers, ..hedge() };
    let key = plain(rules(head), &[vec![(1, Head(200))]]);
    assert_eq!((key.won(), key.start_seconds()), ((1, 0), vec![0]));
    assert_eq!(key.cuts, [(61, 0, Cut::IdleTimeout)]);
}

fn idle() -> HedgeConfig {
    HedgeConfig { after: None, idle: Some(s(30)), ..hedge() }
}

#[test]
fn case_12_steady_progress_is_never_hedged() {
    let mut script: Script = (1..=15).map(|n| (20 * n, Data)).collect();
    script.insert(0, (1, Head(200)));
    script.push((300, End));
    let key = plain(rules(idle()), &[script]);
    assert_eq!((key.won(), key.start_seconds()), ((300, 0), vec![0]));
}

#[test]
fn case_13_a_body_that_stalls_half_way_is_rescued() {
    let stalls = vec![(1, Head(200)), (10, Data), (20, Data)];
    let key = plain(rules(idle()), &[stalls, vec![(1, Head(200)), (5, Data), (25, End)]]);
    assert_eq!((key.start_seconds(), key.won()), (vec![0, 50], (75, 1)));
    assert_eq!(key.cuts, [(75, 0, Cut::Lost)], "nothing of the first is passed on");
}

#[test]
fn case_13_comments_are_no_progress_unless_every_byte_is() {
    let drips = |n: u64| -> Script { (1..=n).map(|n| (10 * n, Comment)).collect() };
    let script = || [vec![(1, Head(200)), (5, Data)], drips(20), vec![(201, End)]].concat();
    assert_eq!(plain(rules(idle()), &[script(), ok(1)]).start_seconds(), [0, 35]);
    let bytes = HedgeConfig { progress: Progress::Bytes, ..idle() };
    assert_eq!(plain(rules(bytes), &[script(), ok(1)]).start_seconds(), [0]);
}

#[test]
fn case_14_after_the_first_data_there_is_no_second_attempt() {
    let first = HedgeConfig { answer: Answer::FirstData, after: Some(s(100)), ..idle() };
    let key = plain(rules(first), &[vec![(9, Head(200)), (10, Data)], ok(1)]);
    assert_eq!((key.won(), key.start_seconds()), ((10, 0), vec![0]));
    assert_eq!(key.cuts, [(70, 0, Cut::IdleTimeout)]);
    assert_eq!(key.outcomes(), [Some(Outcome::Failed)]);
}

#[test]
fn case_14_a_slow_reader_is_not_the_upstreams_silence() {
    let race = RaceConfig { hedge: None, ..RaceConfig::default() };
    let mut up = upstream(race, 1, (0.0, 0));
    let mut key = Key::new(at(0), &mut up, Call::default(), &[vec![(1, Head(200))]]);
    key.step(at(1), &mut up);
    key.race.on_hold();
    assert_eq!(key.race.next_wake(), None, "we do not read: nothing to wait for");
    key.race.on_resume(at(500));
    assert_eq!(key.race.next_wake(), Some(at(560)));
}

#[test]
fn case_15_a_loser_is_not_waited_for() {
    // It says what it likes after it was cancelled: the machine has forgotten it.
    let (mut key, mut up) = play(rules(hedge()), Call::default(), &[silent(), ok(60)]);
    let before = (key.won(), up.counters);
    for second in 161..220 {
        key.race.on_head(at(second), &mut up, AttemptId(0), head(200, None));
        key.race.on_data(at(second), &mut up, AttemptId(0), true);
        key.race.on_end(at(second), &mut up, AttemptId(0));
    }
    assert_eq!((key.won(), up.counters, key.race.next_action()), (before.0, before.1, None));
    assert!(up.endpoints.snapshot(at(220)).iter().all(|e| e.pending == 0));
}

#[test]
fn case_23_retry_after_keeps_everything_away_from_that_endpoint() {
    let race = RaceConfig { retry: retries(1, &[429, 503]), ..rules(hedge()) };
    let mut up = upstream(race.clone(), 1, (0.0, 10));
    let scripts = [vec![(110, Later(429, 40))], answers(503, 15), ok(5)];
    let mut key = Key::new(at(0), &mut up, Call::default(), &scripts);
    key.run(&mut up);
    assert_eq!((key.start_seconds(), key.won()), (vec![0, 100, 150], (155, 2)));

    // Where there is another endpoint, the retry does not wait for this one.
    let (key, _) = play(race, Call::default(), &scripts);
    let (second, role, endpoint) = key.starts[2];
    assert_eq!((role, endpoint), (Role::Retry, 1));
    assert!((118..=119).contains(&second), "{second}");
}

#[test]
fn case_24_a_twin_that_could_not_help_is_not_started() {
    let useful = HedgeConfig { min_useful: s(30), ..hedge() };
    let call = |second| Call { deadline: at(second), ..Call::default() };
    let (key, _) = play(rules(useful.clone()), call(120), &[]);
    assert_eq!(key.suppressed, [(100, Reason::Deadline)]);
    assert_eq!(key.failed(), (120, Verdict::TimedOut));
    let (key, _) = play(rules(useful), call(300), &[silent(), ok(60)]);
    assert_eq!((key.start_seconds(), key.won()), (vec![0, 100], (160, 1)));
}

#[test]
fn case_25_a_caller_that_leaves_is_nobodys_failure() {
    let mut up = upstream(rules(hedge()), 2, (0.0, 10));
    let mut key = Key::new(at(0), &mut up, Call::default(), &[]);
    while let Some(now) = key.next().filter(|now| *now <= at(130)) {
        key.step(now, &mut up);
    }
    key.cancel(at(130), &mut up);
    assert_eq!(key.verdict, Some((s(130), Verdict::Abandoned)));
    assert_eq!(key.cuts, [(130, 0, Cut::Abandoned), (130, 1, Cut::Abandoned)]);
    assert_eq!((up.counters.abandoned, up.counters.failed), (1, 0));
    assert_eq!(up.counters.hedges_that(Outcome::Abandoned), 1);
}

#[test]
fn case_31_a_clock_that_jumps_starts_one_twin_at_its_first_late_reading() {
    let mut up = upstream(rules(hedge()), 2, (0.0, 10));
    let mut key = Key::new(at(0), &mut up, Call::default(), &[]);
    for second in (0..=330).step_by(30) {
        key.step(at(second), &mut up);
    }
    assert_eq!(key.start_seconds(), [0, 120]);
}

#[test]
fn case_40_a_clock_of_five_seconds_and_a_twin_that_fails_at_once() {
    let mut up = upstream(rules(hedge()), 2, (0.0, 10));
    let mut key = Key::new(at(0), &mut up, Call::default(), &[ok(200), answers(500, 0)]);
    for tick in 0..=40 {
        key.step(at(5 * tick), &mut up);
    }
    assert_eq!((key.won(), key.start_seconds()), ((200, 0), vec![0, 100]));
}

#[test]
fn case_41_nothing_cuts_a_call_that_is_legitimately_silent() {
    let long = HedgeConfig { after: Some(s(200)), ..hedge() };
    let key = plain(rules(long), &[ok(170)]);
    assert_eq!((key.won(), key.start_seconds(), key.cuts), ((170, 0), vec![0], vec![]));
}

#[test]
fn limits_of_one_attempt_end_that_attempt_alone() {
    let race = RaceConfig { first_data_timeout: Some(s(130)), ..rules(hedge()) };
    let key = plain(race.clone(), &[silent(), ok(60)]);
    assert_eq!((key.won(), key.cuts), ((160, 1), vec![(130, 0, Cut::FirstDataTimeout)]));
    let key = plain(race, &[silent(), vec![(40, Breaks)]]);
    let fault = Fault::TimedOut(Cut::FirstDataTimeout);
    assert_eq!(key.failed(), (140, Verdict::Failed { attempt: AttemptId(0), fault }));
}

#[test]
fn a_response_is_not_late_while_its_request_is_still_being_sent() {
    let race = RaceConfig { hedge: None, first_data_timeout: Some(s(10)), ..RaceConfig::default() };
    let mut up = upstream(race, 1, (0.0, 1));
    let mut race = Race::new(at(0), &mut up, Call::default());
    race.on_connected(AttemptId(0));
    assert_eq!(race.next_wake(), Some(at(10)));
    // What was sent is looked at when there is a reason to.
    race.on_upload(at(9));
    race.on_wake(at(10), &mut up);
    assert!(!race.over());
    assert_eq!(race.next_wake(), Some(at(19)));
    race.on_upload(at(4));
    assert_eq!(race.next_wake(), Some(at(19)), "the last piece counts");
    race.on_wake(at(19), &mut up);
    assert!(race.over());
}

#[test]
fn a_limit_over_all_attempts_ends_a_committed_one_too() {
    let race = RaceConfig { hedge: None, total_timeout: Some(s(30)), ..RaceConfig::default() };
    let drip: Script = [vec![(1, Head(200))], (2..60).map(|n| (n, Data)).collect()].concat();
    let key = plain(race, &[drip]);
    assert_eq!((key.won(), key.cuts), ((1, 0), vec![(30, 0, Cut::Deadline)]));
}

#[test]
fn an_attempt_that_cannot_connect_is_given_up_and_retried_whatever_its_method() {
    let race = RaceConfig { hedge: None, retry: retries(1, &[]), ..RaceConfig::default() };
    let mut up = upstream(race, 2, (0.0, 1));
    let call = Call { repeatable: false, ..Call::default() };
    let mut key = Key::new(at(0), &mut up, call, &[vec![(0, Refused)], ok(1)]);
    key.run(&mut up);
    assert_eq!((key.won().1, key.starts[1].2), (1, 1), "on the other endpoint");
    // Once something was sent, a POST is not sent again.
    let call = Call { repeatable: false, ..Call::default() };
    let mut key = Key::new(at(100), &mut up, call, &[vec![(0, Breaks)], ok(1)]);
    key.run(&mut up);
    assert_eq!(key.starts.len(), 1);
    assert_eq!(Moment::START + key.verdict.unwrap().0, at(100));
}

#[test]
fn case_43_a_stream_is_never_held_back() {
    let race = rules(hedge());
    let mut up = upstream(race, 2, (0.0, 10));
    let mut key = Key::new(at(0), &mut up, Call::default(), &[]);
    let streams = crate::hedge::Head { streams: true, ..head(200, None) };
    key.race.on_head(at(1), &mut up, AttemptId(0), streams);
    assert_eq!(key.race.committed(), None, "its head is not its first data");
    key.race.on_data(at(2), &mut up, AttemptId(0), false);
    assert_eq!(key.race.committed(), None, "nor is a comment");
    key.race.on_data(at(3), &mut up, AttemptId(0), true);
    assert_eq!(key.race.committed(), Some(AttemptId(0)));
}
