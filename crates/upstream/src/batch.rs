//! Batches: keys side by side.
//!
//! Invariants: every key of a batch gets exactly one result; results are in the order of the
//! requests, or as they settle; what is not done at the deadline is a timeout of that key alone; a
//! batch that is dropped leaves nothing running. Results share one bound: a key whose body does not
//! fit any more fails, the others keep theirs.

use crate::client::{CallOptions, Taken};
use crate::plan::{Opened, PlanContext, name_of};
use crate::registry::{Opening, Session};
use crate::report::CallError;
use bytes::Bytes;
use hedgerow_policy::Moment;
use hedgerow_policy::failure::{At, Class, Failure};
use hedgerow_policy::hedge::{HedgeCap, Role};
use hedgerow_wire::batch as wire;
use hedgerow_wire::plan::{PlannedRequest, Target};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// Keys of one batch.
const MAX_KEYS: usize = 1024;

/// Bounds of one batch that differ from the configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchOptions {
    /// Twins that its keys may start together; `None`: as their upstreams say.
    pub max_hedges: Option<u32>,
    /// Largest body of one key's result; `None`: only the batch's bound.
    pub per_key_limit: Option<usize>,
}

/// One key that is done.
#[derive(Clone, Debug)]
pub struct Settled {
    /// Its place among the requests.
    pub index: usize,
    /// The key.
    pub key: String,
    /// What became of it.
    pub result: wire::KeyResult,
}

/// A batch under way.
pub struct Batch {
    keys: Vec<String>,
    running: JoinSet<(usize, wire::KeyResult)>,
    ids: HashMap<tokio::task::Id, usize>,
    done: usize,
    _open: Opening,
}

/// What the keys of a batch share.
struct Common {
    opened: Opened,
    trace: Arc<str>,
    traceparent: Option<Arc<str>>,
    deadline: Moment,
    bytes_left: AtomicU64,
    per_key: Option<usize>,
}

impl Opened {
    /// Starts every call of a batch.
    ///
    /// # Errors
    /// When the batch is over a bound.
    pub fn batch(
        &self,
        batch: wire::Batch,
        context: &PlanContext,
        options: BatchOptions,
    ) -> Result<Batch, Failure> {
        if batch.requests.len() > MAX_KEYS {
            let text = format!("a batch of more than {MAX_KEYS} keys");
            return Err(Failure::new(Class::AppContractError, At::Worker, text));
        }
        if batch.state.len() as u64 > self.settings.state_limit {
            let text = format!("a state of more than {} bytes", self.settings.state_limit);
            return Err(Failure::new(Class::AppContractError, At::Worker, text));
        }
        let session = Session {
            request_id: context.request_id.clone(),
            trace_id: context.trace.to_string(),
            transport: "batch",
            source: source_of(&batch.requests),
            ..Session::default()
        };
        let open = self.sessions.open_one(session).ok_or_else(|| {
            Failure::new(Class::UpstreamError, At::Gateway, "too many batches are open")
        })?;
        let limit = batch.deadline_ms.map(Duration::from_millis);
        let own = limit.map_or(Moment::NEVER, |limit| self.client.clock().now() + limit);
        let common = Arc::new(Common {
            opened: self.clone(),
            trace: context.trace.clone(),
            traceparent: context.traceparent.clone(),
            deadline: own.min(context.deadline),
            bytes_left: AtomicU64::new(self.settings.results_limit),
            per_key: options.per_key_limit,
        });
        let mut caps = HashMap::new();
        let (mut keys, mut running, mut ids) = (Vec::new(), JoinSet::new(), HashMap::new());
        for (index, (key, request)) in batch.requests.into_iter().enumerate() {
            let cap = match options.max_hedges {
                Some(twins) => Some(caps.entry(None).or_insert_with(|| cap_of(twins)).clone()),
                None => self.cap_of(&request.target, &mut caps),
            };
            let task = common.clone().run(index, key.as_str().into(), request, cap);
            ids.insert(running.spawn(task).id(), index);
            keys.push(key);
        }
        Ok(Batch { keys, running, ids, done: 0, _open: open })
    }

    /// What the batch's keys at one upstream may start together.
    fn cap_of(
        &self,
        target: &Target,
        caps: &mut HashMap<Option<String>, Arc<HedgeCap>>,
    ) -> Option<Arc<HedgeCap>> {
        let (name, most) = match target {
            Target::Upstream { name, .. } => {
                (name.clone(), self.client.named(name)?.settings.batch_max_hedges?)
            }
            Target::Url(_) => (String::new(), self.settings.calls.batch_max_hedges?),
        };
        Some(caps.entry(Some(name)).or_insert_with(|| cap_of(most)).clone())
    }
}

fn cap_of(twins: u32) -> Arc<HedgeCap> {
    Arc::new(HedgeCap::new(twins))
}

impl Batch {
    /// How many keys there are.
    #[must_use]
    pub fn total(&self) -> usize {
        self.keys.len()
    }

    /// How many are done.
    #[must_use]
    pub fn done(&self) -> usize {
        self.done
    }

    /// The next key that is done; `None` when all are.
    pub async fn next(&mut self) -> Option<Settled> {
        let (index, result) = match self.running.join_next().await? {
            Ok(settled) => settled,
            // A key that panicked has its result too.
            Err(lost) => {
                let index = self.ids.get(&lost.id()).copied().unwrap_or_default();
                (index, failed(Class::UpstreamError, 502))
            }
        };
        self.done += 1;
        let key = self.keys.get(index).cloned().unwrap_or_default();
        Some(Settled { index, key, result })
    }

    /// All keys, in the order of the requests.
    pub async fn all(mut self) -> Vec<(String, wire::KeyResult)> {
        let mut results: Vec<Option<wire::KeyResult>> = vec![None; self.keys.len()];
        while let Some(settled) = self.next().await {
            if let Some(place) = results.get_mut(settled.index) {
                *place = Some(settled.result);
            }
        }
        let keys = std::mem::take(&mut self.keys);
        let whole = keys.into_iter().zip(results);
        whole
            .map(|(key, result)| (key, result.unwrap_or_else(|| failed(Class::UpstreamError, 502))))
            .collect()
    }
}

impl Common {
    async fn run(
        self: Arc<Self>,
        index: usize,
        key: Arc<str>,
        request: PlannedRequest,
        cap: Option<Arc<HedgeCap>>,
    ) -> (usize, wire::KeyResult) {
        let clock = self.opened.client.clock();
        let started = clock.now();
        let options = CallOptions {
            deadline: self.deadline,
            cap,
            taken: Taken::Whole,
            trace: self.trace.clone(),
            traceparent: self.traceparent.clone(),
            label: Some(key),
            ..CallOptions::default()
        };
        let mut result = match self.opened.planned(&request, options).await {
            Ok(mut response) => {
                let report = response.report();
                let body = self.body(&mut response).await;
                let status = response.status().as_u16();
                let mut result = wire::KeyResult {
                    status,
                    headers: headers_of(&response),
                    attempts: report.attempts,
                    hedged: report.hedged_after.is_some(),
                    winner: report.winner.map(Role::name),
                    ..wire::KeyResult::default()
                };
                match body {
                    Ok(body) => {
                        result.body = body;
                        // Everything failed: what the primary was answered is no answer.
                        let failed = report.winner.is_none();
                        result.error_class = failed.then_some(Class::UpstreamError.name());
                    }
                    Err(failure) => {
                        result.headers.clear();
                        result.winner = None;
                        (result.status, result.error_class) = outcome(failure.class, None);
                    }
                }
                result
            }
            Err(CallError { failure, report, last_status }) => {
                let (status, error_class) = outcome(failure.class, last_status);
                wire::KeyResult {
                    status,
                    error_class,
                    attempts: report.attempts,
                    hedged: report.hedged_after.is_some(),
                    ..wire::KeyResult::default()
                }
            }
        };
        result.duration_ms = (clock.now() - started).as_millis() as u64;
        (index, result)
    }

    /// The whole body, as far as the batch has room for it.
    async fn body(&self, response: &mut crate::Response) -> Result<Bytes, Failure> {
        let left = self.bytes_left.load(Ordering::Relaxed);
        let limit = self.per_key.map_or(left, |limit| left.min(limit as u64));
        let body = response.bytes(usize::try_from(limit).unwrap_or(usize::MAX)).await?;
        let size = body.len() as u64;
        let take = |left: u64| left.checked_sub(size);
        match self.bytes_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(body),
            Err(_) => {
                let text = "the results of the batch are over their limit";
                Err(Failure::new(Class::UpstreamError, At::Gateway, text))
            }
        }
    }
}

/// The status and the class of a key without a usable answer.
fn outcome(class: Class, last_status: Option<u16>) -> (u16, Option<&'static str>) {
    let own = match class {
        Class::UpstreamTimeout => 504,
        Class::CircuitOpen => 503,
        Class::RequestTooLarge => 413,
        _ => 502,
    };
    // A timeout says more than what came before it.
    let status = last_status.filter(|_| class != Class::UpstreamTimeout).unwrap_or(own);
    (status, Some(class.name()))
}

fn failed(class: Class, status: u16) -> wire::KeyResult {
    wire::KeyResult { status, error_class: Some(class.name()), ..wire::KeyResult::default() }
}

fn headers_of(response: &crate::Response) -> Vec<(String, String)> {
    let text = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.as_str().to_owned(), value)
    };
    response.headers().iter().map(text).collect()
}

fn source_of(requests: &[(String, PlannedRequest)]) -> String {
    let mut names: Vec<String> = Vec::new();
    for (_, request) in requests {
        let name = name_of(&request.target);
        if names.len() < 8 && !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(",")
}
