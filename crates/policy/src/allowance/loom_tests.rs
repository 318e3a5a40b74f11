use super::*;
use loom::sync::Arc;

#[test]
fn two_who_ask_at_once_are_never_granted_more_than_there_is() {
    loom::model(|| {
        let config = AllowanceConfig { limit: 3, own: 1, patience: Duration::from_secs(1) };
        let all = Arc::new(Allowance::new(config));
        let ask = |all: Arc<Allowance>| {
            loom::thread::spawn(move || {
                let mut holding = Holding::default();
                let granted = holding.ask(&all, 3);
                assert!(all.snapshot().beyond <= 3);
                holding.end(&all);
                granted
            })
        };
        let (one, two) = (ask(all.clone()), ask(all.clone()));
        let (one, two) = (one.join().expect("it ends"), two.join().expect("it ends"));
        assert!(one || two, "one of them finds room");
        assert_eq!(all.snapshot().beyond, 0);
    });
}
