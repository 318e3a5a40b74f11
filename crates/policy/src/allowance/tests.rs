use super::*;

const PATIENCE: Duration = Duration::from_secs(10);

fn allowance(limit: u64, own: u64) -> Allowance {
    Allowance::new(AllowanceConfig { limit, own, patience: PATIENCE })
}

fn at(seconds: u64) -> Moment {
    Moment::START + Duration::from_secs(seconds)
}

#[test]
fn who_asks_when_it_is_used_up_is_refused_and_nobody_else() {
    let all = allowance(100, 10);
    let (mut large, mut other) = (Holding::default(), Holding::default());
    assert!(large.ask(&all, 110));
    assert_eq!(all.snapshot().beyond, 100);
    assert!(other.ask(&all, 10), "what is small always finds a place");
    assert!(!other.ask(&all, 1));
    assert_eq!((other.bytes(), large.bytes(), all.snapshot().refused), (10, 110, 1));
    large.became(&all, 110, 50);
    assert!(other.ask(&all, 60));
    assert!(!other.ask(&all, 1));
    large.end(&all);
    other.end(&all);
    assert_eq!(all.snapshot(), AllowanceShown { beyond: 0, limit: 100, refused: 2 });
}

#[test]
fn whatever_is_asked_and_given_back_the_sum_is_what_is_held_beyond() {
    for own in [0, 3] {
        let all = allowance(20, own);
        let mut holders: Vec<Holding> = (0..4).map(|_| Holding::default()).collect();
        let mut seed = 7_u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (who, amount) = ((seed >> 33) as usize % 4, (seed >> 40) % 9);
            let before = all.snapshot().beyond;
            let holder = &mut holders[who];
            let had = holder.bytes();
            match (seed >> 60) % 2 {
                0 => {
                    let granted = holder.ask(&all, amount);
                    assert_eq!(holder.bytes(), if granted { had + amount } else { had });
                    let over = (had + amount).saturating_sub(own) - had.saturating_sub(own);
                    assert_eq!(granted, over == 0 || before + over <= 20);
                }
                _ => holder.became(&all, amount.min(had), 0),
            }
            let sum: u64 = holders.iter().map(|h| h.bytes().saturating_sub(own)).sum();
            assert_eq!(all.snapshot().beyond, sum);
            assert!(sum <= 20);
        }
    }
}

#[test]
fn who_stands_still_lets_go_only_where_somebody_was_refused() {
    let all = allowance(100, 10);
    let (mut still, mut other) = (Holding::default(), Holding::default());
    assert!(still.ask(&all, 10));
    assert_eq!(still.next_wake(at(0), &all), None, "its own part is its own for ever");
    assert!(still.ask(&all, 90));
    assert_eq!(still.next_wake(at(0), &all), Some(at(10)));
    assert!(!still.on_wake(at(9), &all, false));
    assert!(!still.on_wake(at(10), &all, false), "nobody else needs it");

    assert_eq!(still.next_wake(at(10), &all), Some(at(20)));
    assert!(!other.ask(&all, 60));
    assert!(!still.on_wake(at(20), &all, true), "it has moved");

    assert_eq!(still.next_wake(at(20), &all), Some(at(30)));
    assert!(!still.on_wake(at(30), &all, false), "the refusal was before");
    assert_eq!(still.next_wake(at(30), &all), Some(at(40)));
    assert!(!other.ask(&all, 60));
    assert!(still.on_wake(at(40), &all, false));
}

#[test]
fn who_gives_back_what_is_beyond_is_no_longer_watched() {
    let (all, mut holder) = (allowance(100, 10), Holding::default());
    assert!(holder.ask(&all, 50));
    assert_eq!(holder.next_wake(at(0), &all), Some(at(10)));
    holder.became(&all, 45, 0);
    assert_eq!(holder.next_wake(at(1), &all), None);
    assert!(!holder.on_wake(at(10), &all, false));
}
