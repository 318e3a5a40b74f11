//! Where a request is on its way, and where its time went.
//!
//! Invariant: each moment of a request belongs to exactly one stage, so the times of the stages add
//! up to the whole. One task moves a request from stage to stage; everybody else only reads.

use crate::facts::{Facts, Fields, Key};
use hedgerow_policy::Moment;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Stages entered that are remembered with their moment; past it only the sums go on.
const STEPS: usize = 16;
/// A worker id that says "none".
const NO_WORKER: u32 = u32::MAX;

/// Where a request is on its way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// Its body is being read.
    Receiving,
    /// It waits for a worker.
    Queued,
    /// A worker has it.
    Working,
    /// The calls of its plan or batch are made; no worker has it.
    Calling,
    /// The answer is being written.
    Sending,
    /// A stream is being written.
    Streaming,
}

impl Stage {
    const ALL: [Stage; 6] = [
        Stage::Receiving,
        Stage::Queued,
        Stage::Working,
        Stage::Calling,
        Stage::Sending,
        Stage::Streaming,
    ];

    /// The stage as the admin pages spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Receiving => "receiving",
            Stage::Queued => "queued",
            Stage::Working => "working",
            Stage::Calling => "calling",
            Stage::Sending => "sending",
            Stage::Streaming => "streaming",
        }
    }

    /// The field of an event that holds the time spent in it.
    const fn field(self) -> Key {
        match self {
            Stage::Receiving => &"receive_ms",
            Stage::Queued => &"queue_ms",
            Stage::Working => &"worker_ms",
            Stage::Calling => &"calls_ms",
            Stage::Sending => &"send_ms",
            Stage::Streaming => &"stream_ms",
        }
    }
}

/// One stage that was entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub(crate) stage: Stage,
    pub(crate) at: Moment,
    /// The worker that had the request from then on.
    pub(crate) worker: Option<u32>,
}

/// The stages of one request. See the module's head.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// Stage and its begin in one word, so that no reader sees one without the other.
    now: AtomicU64,
    /// Time spent in each stage that has ended, in nanoseconds.
    spent: [AtomicU64; Stage::ALL.len()],
    steps: [AtomicU64; STEPS],
    workers: [AtomicU32; STEPS],
    entered: AtomicU32,
    /// Part of [`Stage::Streaming`] in which the next piece was waited for.
    source: AtomicU64,
}

impl Timeline {
    /// A request whose head was complete at `received`.
    pub(crate) fn new(received: Moment) -> Timeline {
        let begun = pack(Stage::Receiving, received);
        let timeline = Timeline {
            now: AtomicU64::new(begun),
            spent: Default::default(),
            steps: Default::default(),
            workers: [const { AtomicU32::new(NO_WORKER) }; STEPS],
            entered: AtomicU32::new(1),
            source: AtomicU64::new(0),
        };
        timeline.steps[0].store(begun, Relaxed);
        timeline
    }

    /// The request is at `stage` from `at` on, with that worker if with one.
    pub(crate) fn enter(&self, stage: Stage, at: Moment, worker: Option<u32>) {
        let (left, since) = self.stage();
        add(&self.spent[left as usize], at.since(since));
        let entered = pack(stage, at);
        self.now.store(entered, Relaxed);
        let count = self.entered.load(Relaxed);
        if let Some(step) = self.steps.get(count as usize) {
            step.store(entered, Relaxed);
            self.workers[count as usize].store(worker.unwrap_or(NO_WORKER), Relaxed);
        }
        self.entered.store(count.saturating_add(1), Relaxed);
    }

    /// Where it is, and since when.
    pub(crate) fn stage(&self) -> (Stage, Moment) {
        unpack(self.now.load(Relaxed))
    }

    /// The next piece of its stream was waited for so long.
    pub(crate) fn waited_for_source(&self, wait: Duration) {
        add(&self.source, wait);
    }

    /// The stages that were entered, as far as they are remembered, and whether they all are.
    pub(crate) fn steps(&self) -> (impl Iterator<Item = Step>, bool) {
        let entered = self.entered.load(Relaxed) as usize;
        let steps = self.steps.iter().zip(&self.workers).take(entered);
        let steps = steps.map(|(step, worker)| {
            let (stage, at) = unpack(step.load(Relaxed));
            let worker = Some(worker.load(Relaxed)).filter(|&id| id != NO_WORKER);
            Step { stage, at, worker }
        });
        (steps, entered <= STEPS)
    }

    /// Writes where the time went until `ended`: a field for each stage that was entered, and, where
    /// one was entered again, all of them in order.
    pub(crate) fn write(&self, line: &mut Facts, received: Moment, ended: Moment) {
        let (last, since) = self.stage();
        let mut entered = [false; Stage::ALL.len()];
        let mut again = false;
        for step in self.steps().0 {
            again |= std::mem::replace(&mut entered[step.stage as usize], true);
        }
        for stage in Stage::ALL {
            let spent = Duration::from_nanos(self.spent[stage as usize].load(Relaxed));
            let spent = if stage == last { spent + ended.since(since) } else { spent };
            if entered[stage as usize] || !spent.is_zero() {
                line.millis(stage.field(), spent);
            }
        }
        if entered[Stage::Streaming as usize] {
            line.millis(&"source_ms", Duration::from_nanos(self.source.load(Relaxed)));
        }
        if again {
            line.list(&"steps", self.steps().0, |line, step| {
                line.str(&"phase", step.stage.name());
                line.millis(&"at_ms", step.at.since(received));
                line.opt_num(&"worker_id", step.worker);
            });
        }
    }
}

fn add(sum: &AtomicU64, more: Duration) {
    sum.fetch_add(u64::try_from(more.as_nanos()).unwrap_or(u64::MAX >> 8), Relaxed);
}

/// Three bits of stage, and the moment without its highest three: they are zero for 73 years.
const fn pack(stage: Stage, since: Moment) -> u64 {
    since.as_nanos() << 3 | stage as u64
}

fn unpack(packed: u64) -> (Stage, Moment) {
    let index = usize::try_from(packed & 7).unwrap_or(0);
    let stage = Stage::ALL.get(index).copied().unwrap_or(Stage::Receiving);
    (stage, Moment::from_nanos(packed >> 3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::with_facts;
    use crate::wall;
    use serde_json::Value;

    fn at(ms: u64) -> Moment {
        Moment::START + Duration::from_millis(ms)
    }

    fn written(timeline: &Timeline, ended: u64) -> Value {
        let mut out = Vec::new();
        with_facts(4096, |facts| {
            facts.begin(&"x", wall::now());
            timeline.write(facts, at(10), at(ended));
            facts.events().for_each(|event| event.write(&mut out, 4096));
        });
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn the_parts_add_up_to_the_whole() {
        let timeline = Timeline::new(at(10));
        timeline.enter(Stage::Queued, at(13), None);
        timeline.enter(Stage::Working, at(43), Some(2));
        assert_eq!(timeline.stage(), (Stage::Working, at(43)));
        timeline.enter(Stage::Sending, at(143), None);
        let line = written(&timeline, 150);
        let fields = ["receive_ms", "queue_ms", "worker_ms", "send_ms"];
        assert_eq!(fields.map(|field| line[field].as_u64()), [3, 30, 100, 7].map(Some));
        assert_eq!(line.get("steps"), None);
        assert_eq!(line.get("stream_ms"), None);
    }

    #[test]
    fn a_way_that_turns_back_is_told_step_by_step() {
        let timeline = Timeline::new(at(10));
        for round in 0..2 {
            timeline.enter(Stage::Queued, at(20 + round * 40), None);
            timeline.enter(Stage::Working, at(30 + round * 40), Some(round as u32));
            timeline.enter(Stage::Calling, at(40 + round * 40), None);
        }
        timeline.enter(Stage::Streaming, at(100), None);
        timeline.waited_for_source(Duration::from_millis(4));
        let line = written(&timeline, 110);
        assert_eq!((&line["worker_ms"], &line["calls_ms"]), (&20.into(), &40.into()));
        assert_eq!((&line["stream_ms"], &line["source_ms"]), (&10.into(), &4.into()));
        let steps = line["steps"].as_array().unwrap();
        assert_eq!(steps.len(), 8);
        assert_eq!(steps[5], serde_json::json!({"phase": "working", "at_ms": 60, "worker_id": 1}));
    }

    #[test]
    fn more_steps_than_are_remembered_are_still_summed() {
        let timeline = Timeline::new(at(0));
        for round in 0..40 {
            timeline.enter(Stage::Working, at(1 + round * 2), None);
            timeline.enter(Stage::Calling, at(2 + round * 2), None);
        }
        let (steps, all) = timeline.steps();
        assert_eq!((steps.count(), all), (STEPS, false));
        let line = written(&timeline, 81);
        let sum: u64 = ["receive_ms", "worker_ms", "calls_ms"]
            .iter()
            .map(|field| line[*field].as_u64().unwrap())
            .sum();
        assert_eq!(sum, 81);
    }
}
