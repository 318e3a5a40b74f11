//! Plans: an upstream's answer, streamed to a client in another form.
//!
//! Invariants: a plan that fails before its first byte has a failure and nothing else; one that
//! fails later ends as its output ends, and its status stays. A bare URL goes only where the
//! allow-list lets it, judged by address; redirects are answers that a plan does not accept.

mod fixture;
mod stream;
mod target;

pub use stream::{Piece, PlanStream};

pub(crate) use target::Target;

use crate::client::{CallOptions, Client, Taken};
use crate::registry::{Session, Sessions};
use crate::response::Response;
use crate::settings::{Settings, SettingsError};
use crate::{AllowList, Body, Report};
use bytes::{Bytes, BytesMut};
use fixture::Fixture;
use hedgerow_policy::Moment;
use hedgerow_policy::failure::{At, Class, Failure};
use hedgerow_wire::plan as wire;
use hedgerow_wire::plan::stream::{Stream, early_failure};
use http::Request;
use std::path::PathBuf;
use std::sync::Arc;
use stream::Source;
use target::Bare;

/// What `[plan]` says.
#[derive(Clone, Debug)]
pub struct PlanSettings {
    /// Where bare URLs may go.
    pub allow: AllowList,
    /// The folder of fixtures; `None`: there are none.
    pub fixture_root: Option<PathBuf>,
    /// Plans and batches open at once.
    pub max_open: usize,
    /// Largest results of one batch, in bytes.
    pub results_limit: u64,
    /// Largest state of a batch, in bytes.
    pub state_limit: u64,
    /// How calls to bare URLs are made.
    pub calls: Settings,
}

/// Opens plans and batches. Clones share everything.
#[derive(Clone)]
pub struct Opened {
    pub(crate) client: Client,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) settings: Arc<PlanSettings>,
    pub(crate) bare: Arc<Bare>,
}

/// The request on whose behalf a plan is opened.
#[derive(Clone, Debug)]
pub struct PlanContext {
    /// Its trace; stands in the ending of a stream that fails.
    pub trace: Arc<str>,
    /// Its id.
    pub request_id: String,
    /// The trace context that its calls are made under, where they bring none of their own.
    pub traceparent: Option<Arc<str>>,
    /// When its client stops waiting, by the client's clock.
    pub deadline: Moment,
}

/// A plan that failed before its first byte.
#[derive(Debug)]
pub struct PlanFailure {
    /// What went wrong.
    pub failure: Failure,
    /// The body for a client of events: an `error` event, then `done`.
    pub events: Option<Bytes>,
    /// How the call came about, if there was one.
    pub report: Option<Report>,
}

impl Opened {
    /// What opens plans and batches with this client.
    ///
    /// # Errors
    /// When the certificates for bare URLs cannot be used.
    pub fn new(client: Client, settings: PlanSettings) -> Result<Opened, SettingsError> {
        let bare = Bare::new(&client, &settings)?;
        let sessions = Sessions::new(settings.max_open);
        Ok(Opened { client, sessions, settings: Arc::new(settings), bare: Arc::new(bare) })
    }

    /// The open plans and batches.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Origins of bare URLs whose past is remembered, and how many may be.
    #[must_use]
    pub fn origins(&self) -> (usize, usize) {
        self.bare.remembered()
    }

    /// What the calls to bare URLs have counted, together.
    #[must_use]
    pub fn bare_counters(&self) -> hedgerow_policy::hedge::Counters {
        self.bare.counters()
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads a plan as a worker sent it, and opens it.
    ///
    /// # Errors
    /// As [`Opened::open`]; and when it is no plan, or asks for what nobody here does.
    pub async fn open_frame(
        &self,
        frame: &[u8],
        context: PlanContext,
    ) -> Result<PlanStream, PlanFailure> {
        match wire::decode(frame) {
            Ok(plan) => self.open(plan, context).await,
            Err(error) => {
                let class = match error {
                    wire::Error::Malformed(_) => Class::AppContractError,
                    wire::Error::Transport(_) => Class::UnsupportedTransport,
                    wire::Error::Codec(_) => Class::UnsupportedCodec,
                    wire::Error::Mapper(_) => Class::UnsupportedMapper,
                };
                let failure = Failure::new(class, At::Worker, error.to_string());
                Err(PlanFailure { failure, events: None, report: None })
            }
        }
    }

    /// Makes the plan's call and waits for the first piece of its output.
    ///
    /// # Errors
    /// When there will be none: see [`PlanFailure`].
    pub async fn open(
        &self,
        plan: wire::Plan,
        context: PlanContext,
    ) -> Result<PlanStream, PlanFailure> {
        let output = plan.output;
        let trace = context.trace.clone();
        let mut report = None;
        let opened = self.begin(plan, context, &mut report).await;
        opened.map_err(|failure| {
            let events = (output == wire::Output::Sse).then(|| {
                let mut events = BytesMut::new();
                early_failure(failure.class.name(), &trace, &mut events);
                events.freeze()
            });
            PlanFailure { failure, events, report }
        })
    }

    async fn begin(
        &self,
        plan: wire::Plan,
        context: PlanContext,
        report: &mut Option<Report>,
    ) -> Result<PlanStream, Failure> {
        let session = session(&plan, &context);
        let open = self.sessions.open_one(session).ok_or_else(|| {
            Failure::new(Class::UpstreamError, At::Gateway, "too many plans are open")
        })?;
        let stream = Stream::new(&plan);
        let (mut content_type, mut teller) = (None, None);
        let source = match &plan.fixture_path {
            Some(path) => Source::Fixture(self.fixture(path).await?),
            None => {
                let mut response = self.call(&plan, &context).await.map_err(|error| {
                    *report = Some(error.report);
                    for_plans(error.failure)
                })?;
                *report = Some(response.report());
                if !response.status().is_success() {
                    let text = format!("the upstream answered {}", response.status().as_u16());
                    return Err(Failure::new(Class::UpstreamError, At::Upstream, text));
                }
                // A head holds on to the buffer it was read into; a stream may be open for minutes.
                let head = std::mem::take(response.headers_mut());
                let kind = head.get(http::header::CONTENT_TYPE);
                content_type = kind.and_then(|kind| kind.to_str().ok()).map(str::to_owned);
                teller = Some((self.client.clone(), name_of(&plan.request.target)));
                Source::Call(Box::new(response))
            }
        };
        let raw = plan.codec == wire::Codec::Raw;
        let usual = content_type.filter(|_| raw);
        let usual = usual.unwrap_or_else(|| plan.output.content_type().to_owned());
        let mut opened = PlanStream {
            source,
            stream,
            trace: context.trace,
            ready: None,
            failed: None,
            ended: false,
            content_type: plan.output_content_type.unwrap_or(usual),
            headers: plan.response_headers,
            output: plan.output,
            on_decode_error: teller,
            _open: open,
        };
        // Until there is something for the client, the status is still to be chosen.
        opened.ready = opened.pull().await;
        match opened.failed.take() {
            Some(failure) if opened.ready.is_none() => Err(failure),
            failed => {
                opened.failed = failed;
                Ok(opened)
            }
        }
    }

    async fn call(
        &self,
        plan: &wire::Plan,
        context: &PlanContext,
    ) -> Result<Response, crate::CallError> {
        let options = CallOptions {
            deadline: context.deadline,
            taken: Taken::AsItComes,
            trace: context.trace.clone(),
            traceparent: context.traceparent.clone(),
            label: plan.name.as_deref().map(Into::into),
            ..CallOptions::default()
        };
        self.planned(&plan.request, options).await
    }

    async fn fixture(&self, path: &str) -> Result<Fixture, Failure> {
        match &self.settings.fixture_root {
            Some(root) => Fixture::open(root, path).await,
            None => Err(forbidden("fixtures are not allowed")),
        }
    }

    /// A call as a plan or a batch describes it.
    pub(crate) async fn planned(
        &self,
        planned: &wire::PlannedRequest,
        options: CallOptions,
    ) -> Result<Response, crate::CallError> {
        let Target { upstream, path } = self.target(&planned.target)?;
        let request = request_of(planned, &path).map_err(refused)?;
        let options = target::overridden(options, &planned.hedge, &upstream.settings.race);
        crate::client::run(upstream, request, options).await
    }
}

fn session(plan: &wire::Plan, context: &PlanContext) -> Session {
    let mapper = match (plan.mapper, plan.codec, plan.output) {
        (wire::Mapper::Field, wire::Codec::Ndjson, wire::Output::Text) => "ndjson_text_field",
        (wire::Mapper::Field, wire::Codec::Ndjson, wire::Output::Sse) => "ndjson_sse_field",
        (wire::Mapper::Field, ..) => "sse_text_field",
        (wire::Mapper::Same, wire::Codec::Sse, wire::Output::Sse) => "sse_passthrough",
        (wire::Mapper::Same, ..) => "raw",
    };
    Session {
        request_id: context.request_id.clone(),
        trace_id: context.trace.to_string(),
        name: plan.name.clone().unwrap_or_default(),
        transport: if plan.fixture_path.is_some() { "fixture" } else { "http" },
        codec: match plan.codec {
            wire::Codec::Ndjson => "ndjson",
            wire::Codec::Sse => "sse",
            wire::Codec::Raw => "raw",
        },
        mapper,
        stream_type: if plan.output == wire::Output::Sse { "sse" } else { "text" },
        source: name_of(&plan.request.target),
        ..Session::default()
    }
}

/// The upstream's name, or the host of a bare URL: never its path, which may hold a secret.
pub(crate) fn name_of(target: &wire::Target) -> String {
    match target {
        wire::Target::Upstream { name, .. } => name.clone(),
        wire::Target::Url(url) => crate::Origin::split(url)
            .map_or_else(|_| String::new(), |(origin, _)| origin.authority().to_owned()),
    }
}

fn request_of(planned: &wire::PlannedRequest, path: &str) -> Result<Request<Body>, Failure> {
    let mut request = Request::builder().method(planned.method.as_str()).uri(path);
    for (name, value) in &planned.headers {
        request = request.header(name, value);
    }
    let built = request.body(Body::from(planned.body.clone()));
    built.map_err(|error| {
        Failure::new(Class::AppContractError, At::Worker, format!("a planned call: {error}"))
    })
}

pub(crate) fn refused(failure: Failure) -> crate::CallError {
    crate::CallError { failure, report: Report::default(), last_status: None }
}

pub(crate) fn forbidden(text: impl Into<String>) -> Failure {
    Failure::new(Class::UpstreamForbidden, At::Gateway, text.into())
}

/// A plan has one class for everything that its upstream did or did not do.
fn for_plans(mut failure: Failure) -> Failure {
    if failure.class == Class::UpstreamTimeout {
        failure.class = Class::UpstreamError;
    }
    failure
}
