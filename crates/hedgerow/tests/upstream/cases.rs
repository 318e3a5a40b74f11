//! Cases 45 and 46: what a loser costs its upstream, and who is served next.

use crate::models::{Models, egress, php};
use crate::server::Server;
use hedgerow_testkit::http::Client;
use hedgerow_testkit::until::{until, within};
use std::time::Duration;

#[test]
fn case_45_a_loser_is_closed_at_once_and_its_twin_came_from_another_port() {
    let models = Models::start();
    let hedged = "hedge = { after_ms = 200 }";
    let direct = Server::start(&models.config(hedged));
    // The scripted upstream speaks HTTP/1.1; over HTTP/2 a Hedgerow without hedges stands in between.
    let route = "\n[[route]]\npath = \"/*\"\nto = \"upstream:models\"\n";
    let between = Server::start(&format!("{}{route}", models.config("")));
    let over_2 = Server::start(&format!(
        "egress.listen = \"127.0.0.1:0\"\n\
         upstream.models = {{ url = \"http://{}\", protocol = \"http2\", {hedged} }}\n",
        between.addr
    ));
    // The one in between counts attempts of its own, so there it is each second call that stalls.
    let mut first = Client::connect(models.address());
    first.get("/x?stall&every=2");
    assert_eq!(first.response().status(), 200);
    for (server, path, query) in
        [(&direct, "/silent", "attempt=1"), (&over_2, "/x", "stall&every=2")]
    {
        let mut client = Client::connect(egress(server));
        client.get(&format!("/models{path}?{query}"));
        let answer = client.response();
        assert_eq!(answer.header("hedgerow-winner"), Some("hedge"), "{answer:?}");
        // Within 100 ms, says the case; ten times that is no matter of a busy machine.
        within(Duration::from_secs(1), "the loser is closed", || {
            let calls = models.calls(path);
            let [.., lost, won] = &calls[..] else { return None };
            assert_ne!(lost["peer_port"], won["peer_port"], "{lost} {won}");
            (lost["ended"] == "cancelled" && won["ended"] == "served").then_some(())
        });
    }
}

const TRIP: &str = r#"
use Hedgerow\Batch;
return function (array $r) {
    if ($r['path'] === '/hold') {
        touch('holding');
        while (!file_exists('go')) { usleep(5000); clearstatcache(); }
        return 'held';
    }
    if ($r['path'] !== '/trip') { return 'plain'; }
    $results = Batch::results($r);
    if ($results === null) {
        return Batch::of(['a' => ['upstream' => 'models', 'path' => '/silent?ms=300']])->resume(state: ['n' => 7]);
    }
    return Batch::state($r)['n'] . ' ' . $results['a']['status'];
};"#;

#[test]
fn case_46_php_is_asked_again_as_soon_as_its_one_worker_is_free() {
    let models = Models::start();
    let lines = format!(
        "{}worker.pool_size = 1\nworker.read_timeout_ms = 20000\n\
                         server.request_timeout_ms = 20000\n",
        models.config("")
    );
    let server = php(TRIP, &lines);
    let mut parked = server.begin("/trip");
    models.wait("its batch runs", "/silent", |calls| calls.len() == 1);
    let mut held = server.begin("/hold");
    let file = |name: &str| server.scratch.path().join(name);
    until("the worker has another request", || file("holding").exists().then_some(()));
    models.wait("the batch is done", "/silent", |calls| calls[0]["ended"] == "served");
    until("the resumed request waits", || {
        (server.admin("/admin/runtime")["worker_queue_depth"] == 1).then_some(())
    });
    let refused = server.get("/plain");
    assert_eq!(refused.header("x-vhttpd-error-class"), Some("worker_pool_exhausted"));
    std::fs::write(file("go"), "").unwrap();
    assert_eq!(parked.response().text(), "7 200");
    assert_eq!(held.response().text(), "held");
}
