//! The engine in Redis or Valkey: one key per lock, and one script per kind of request; or the module,
//! where the server has it.
//!
//! ```text
//!   call ──► wire: which words ──► net: which server ──► ways: module or script ──► one run of it
//!   reply ◄── wire ◄─────────────────────┘                                             │
//!   Wakes ◄── sealed: whose is it, is the seal right? ◄── PUBLISH ────────────────────┘ by a step
//! ```
//!
//! A server is greeted before it is asked anything: [`greeter`] compares its run with the marker
//! there, and binds the scripts to it. So a server that may have forgotten who holds what grants
//! nothing until that can't matter any more ([`marker`]).

mod called;
#[cfg(test)]
mod differential;
mod events;
mod exam;
#[cfg(test)]
mod fuzz;
mod greeter;
mod listing;
mod marker;
mod module;
mod net;
mod node;
mod protocol;
mod scripts;
mod sealed;
mod spoken;
mod view;
mod ways;

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use redis::cmd;
use taketurns_core::wire::{self, WireReply};
use taketurns_core::{ClientId, Name, Pattern, Request, View};

pub(crate) use exam::{Against, ExaminedNode, examine};
pub(crate) use node::Seen;

use super::{
    AcquireRequest, Answer, AnswerFuture, Engine, EngineError, EngineFuture, Guarantees, Open,
    Origin, Reply, Stamp, Wakes,
};
use greeter::Greeter;
use listing::Listing;
use net::ask;
use net::errand::Errand;
use net::session::Session;
use net::topology::{Net, Told};
use net::url::Config;
use spoken::{Speech, Spoken};
use ways::{Question, Step, Ways};

/// A store URL that was understood.
pub(crate) struct OpenRedis {
    config: Config,
}

impl OpenRedis {
    pub(crate) fn new(url: &str) -> Result<Self, crate::Error> {
        let config = Config::parse(url).map_err(crate::Error::InvalidUrl)?;
        Ok(Self { config })
    }
}

impl Open for OpenRedis {
    fn open(
        self: Box<Self>,
        client: ClientId,
        wakes: Wakes,
    ) -> EngineFuture<'static, Result<Box<dyn Engine>, EngineError>> {
        Box::pin(async move {
            let engine = RedisEngine::open(self.config, client, wakes).await?;
            Ok(Box::new(engine) as Box<dyn Engine>)
        })
    }

    fn again(&self) -> Option<Box<dyn Open>> {
        Some(Box::new(Self { config: self.config.clone() }))
    }
}

/// Locks in Redis or Valkey, as one client sees them. An answer on its way outlives what asked for it.
struct RedisEngine {
    speaker: Arc<Speaker>,
    prefix: String,
    max_lease: Duration,
    listing: Listing,
}

/// Asks, and reads the answers.
struct Speaker {
    net: Arc<Net>,
    wakes: Wakes,
    ways: Ways,
    spoken: Spoken,
}

impl RedisEngine {
    async fn open(config: Config, client: ClientId, wakes: Wakes) -> Result<Self, EngineError> {
        let channels = format!("{}wake:", config.prefix);
        let channel = format!("{channels}{client}");
        let speech = Speech::new(&config, client, &channels, &wakes);
        let greeter = Arc::new(Greeter::new(&config, channels));
        let net_of: Arc<OnceLock<Weak<Net>>> = Arc::default();
        let hear = {
            let (wakes, net_of) = (wakes.clone(), net_of.clone());
            let ears = speech.ears();
            Arc::new(move |message: &[u8]| {
                let net = net_of.get().and_then(Weak::upgrade);
                let origin = |run: &str| net.as_ref().and_then(|net| net.origin_of_run(run));
                if ears.hear(message, &wakes) {
                    return;
                }
                match sealed::open(message, client, &wakes, origin) {
                    Some(woken) => wakes.push(ears.told(woken)),
                    None => ears.hear_strangers(message, &wakes),
                }
            })
        };
        let (prefix, max_lease) = (config.prefix.clone(), config.max_lease);
        let channels = [channel].into_iter().chain(speech.ear.clone()).collect();
        let net = Net::open(Arc::new(config), channels, hear, wakes.clone(), greeter).await?;
        let _ = net_of.set(Arc::downgrade(&net));
        let spoken = speech.begin(&net, wakes.clone());
        let listing = Listing::new(spoken.keys_are_tagged());
        let speaker = Arc::new(Speaker { net, wakes, ways: Ways::default(), spoken });
        Ok(Self { speaker, prefix, max_lease, listing })
    }
}

/// How often an acquire is carried out on a node that turns out to have lost its state: it is seen,
/// then given back, then asked for again; and more often only if the node loses its state anew.
const TRIES: usize = 5;

impl Speaker {
    fn step<'a>(&'a self, lock: &Name, question: Question<'a>) -> Step<'a> {
        Step { ways: &self.ways, keys: self.spoken.keys(lock), question }
    }

    fn errand<'a>(
        &'a self,
        lock: &Name,
        question: Question<'a>,
    ) -> (Vec<u8>, Box<dyn Errand + 'a>) {
        let step = self.step(lock, question);
        (step.keys.lock.clone(), Box::new(step))
    }

    fn seen(&self, told: Told) -> Result<Option<View>, EngineError> {
        let Told { value, session, .. } = told;
        let view = view::read(&value);
        let view = view.ok_or_else(|| strange(&session, "what a lock looks like"))?;
        Ok(self.spoken.view(view))
    }

    async fn once(&self, lock: &Name, request: &Request) -> Result<Answer, EngineError> {
        let step = self.step(lock, Question::Step(request));
        self.answer(self.net.call(&step.keys.lock, &step).await?)
    }

    fn answer(&self, told: Told) -> Result<Answer, EngineError> {
        let Told { value, session, sent_us } = told;
        let text: Option<String> = redis::from_redis_value(value).ok();
        let owner_of = |id: &str| self.wakes.find_owner(id).map(|(owner, _)| owner);
        let answered = text.as_deref().and_then(|text| wire::decode(text, owner_of));
        let WireReply { now_ms, more, reply } =
            answered.ok_or_else(|| strange(&session, "a request"))?;
        let reply = self.spoken.reply(reply);
        Ok(Answer { reply, stamp: stamp(now_ms, &session, sent_us), more })
    }

    async fn carry_out(&self, lock: &Name, request: &Request) -> Result<Answer, EngineError> {
        self.spoken.refuse(request)?;
        match request {
            Request::Acquire(acquire) => {
                self.spoken.expect(lock, acquire);
                let answer = self.acquire(lock, request, acquire).await;
                self.spoken.answered(acquire.owner, answer.as_ref().ok());
                answer
            }
            Request::Release { owner, .. } => {
                self.spoken.answered(*owner, None);
                self.once(lock, request).await
            }
            _ => self.once(lock, request).await,
        }
    }

    /// The steps in a Cluster can't see the marker: what they grant may be something that the node
    /// has forgotten. So the marker is read right behind each acquire, and sees whatever was lost
    /// before it. Then the node is greeted again and asked again, which puts the lock in quarantine
    /// for all, also for those who have not noticed yet. Nobody is handed it before: we hold it.
    async fn acquire(
        &self,
        lock: &Name,
        request: &Request,
        &AcquireRequest { owner, waiter_lease_ms, .. }: &AcquireRequest,
    ) -> Result<Answer, EngineError> {
        // What was asked the first time is carried out, whatever becomes of the rest.
        let unknown = |error: EngineError| EngineError::Unknown(error.to_string());
        for attempt in 0..TRIES {
            let step = self.step(lock, Question::Step(request));
            let looked = self.net.call_and_look(&step.keys.lock, &step).await;
            let (answered, as_greeted) =
                if attempt == 0 { looked? } else { looked.map_err(unknown)? };
            let session = answered.session.clone();
            let answer = self.answer(answered)?;
            if !as_greeted {
                self.net.greet_again(&session).await.map_err(unknown)?;
            } else if matches!(answer.reply, Reply::Granted(_))
                && session.bound.is_in_quarantine(answer.stamp.now_ms)
            {
                // It was granted before the quarantine, and its answer not heard. Perhaps not before
                // the loss.
                let release = Request::Release { owner, bury_until_ms: 0, last_used: None };
                self.once(lock, &release).await.map_err(unknown)?;
            } else {
                if let (Reply::Queued(_), Some(lease_ms)) = (&answer.reply, waiter_lease_ms) {
                    self.spoken.listen(&self.net, lock, &session, lease_ms);
                }
                return Ok(answer);
            }
        }
        Err(EngineError::Unknown("the server loses its state again and again".into()))
    }
}

/// What only a server that is not ours would say.
fn strange(session: &Session, what: &str) -> EngineError {
    let server = &session.link.address;
    EngineError::Broken(format!("{server} answered {what} in words that are not ours"))
}

fn stamp(now_ms: u64, session: &Session, sent_us: Option<u64>) -> Stamp {
    Stamp { now_ms, origin: session.link.origin(), sent_us }
}

impl Engine for RedisEngine {
    fn call(&self, lock: &Name, request: Request) -> AnswerFuture {
        let (speaker, lock) = (self.speaker.clone(), lock.clone());
        AnswerFuture::later(async move { speaker.carry_out(&lock, &request).await })
    }

    fn call_all<'a>(
        &'a self,
        calls: Vec<(Name, Request)>,
    ) -> EngineFuture<'a, Vec<Result<Answer, EngineError>>> {
        Box::pin(async move {
            let looks = |(_, request): &(Name, Request)| matches!(request, Request::Acquire(_));
            if calls.iter().any(looks) {
                let mut answers = Vec::with_capacity(calls.len());
                for (lock, request) in &calls {
                    answers.push(self.speaker.carry_out(lock, request).await);
                }
                return answers;
            }
            let speaker = &self.speaker;
            let sent: Vec<_> = calls
                .iter()
                .map(|(lock, request)| speaker.errand(lock, Question::Step(request)))
                .collect();
            let answers = speaker.net.call_all(&sent).await;
            let answers = answers.into_iter().zip(&calls).map(|(told, (lock, request))| {
                let told = told?;
                if let Request::Refresh { waiter_lease_ms, .. } = request {
                    speaker.spoken.listen(&speaker.net, lock, &told.session, *waiter_lease_ms);
                }
                speaker.answer(told)
            });
            answers.collect()
        })
    }

    fn source(&self, lock: &Name) -> u64 {
        match self.speaker.net.has_one_server() {
            true => 0,
            false => self.speaker.net.source(&self.speaker.spoken.keys(lock).lock),
        }
    }

    fn ping(&self) -> EngineFuture<'_, Result<Stamp, EngineError>> {
        Box::pin(async move {
            let told = self.speaker.net.call(b"", &|_: &Session| cmd("TIME")).await?;
            let Told { value, session, sent_us } = told;
            let now_ms = ask::now_ms(&value).ok_or_else(|| strange(&session, "TIME"))?;
            Ok(stamp(now_ms, &session, sent_us))
        })
    }

    fn view<'a>(
        &'a self,
        lock: &'a Name,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Option<View>, EngineError>> {
        Box::pin(async move {
            let speaker = &self.speaker;
            let step = speaker.step(lock, Question::View(waiters_max));
            speaker.seen(speaker.net.call(&step.keys.lock, &step).await?)
        })
    }

    fn list<'a>(
        &'a self,
        pattern: &'a Pattern,
        after: Option<&'a Name>,
        max: usize,
        waiters_max: usize,
    ) -> EngineFuture<'a, Result<Vec<(Name, View)>, EngineError>> {
        Box::pin(async move {
            let speaker = &self.speaker;
            let names = self.listing.names(&speaker.net, &self.prefix, pattern, after).await?;
            let mut views = Vec::new();
            for page in names.chunks(listing::LOOK) {
                let show = |lock| speaker.errand(lock, Question::View(waiters_max));
                let calls: Vec<_> = page.iter().map(show).collect();
                let answers = speaker.net.call_all(&calls).await;
                for (lock, answered) in page.iter().zip(answers) {
                    // One that was forgotten meanwhile is not there.
                    let view = answered.and_then(|told| speaker.seen(told))?;
                    if let Some(view) = view.filter(|view| !view.is_blank()) {
                        views.push((lock.clone(), view));
                    }
                }
                if views.len() >= max {
                    views.truncate(max);
                    return Ok(views);
                }
            }
            self.listing.forget();
            Ok(views)
        })
    }

    fn max_lease(&self) -> Duration {
        self.max_lease
    }

    fn guarantees(&self) -> Guarantees {
        self.speaker.spoken.guarantees()
    }

    fn close(&self) -> EngineFuture<'_, ()> {
        self.speaker.spoken.close();
        Box::pin(self.speaker.net.close())
    }
}

/// A time that no answer ever had: what came with it can't be relied on without asking.
const UNKNOWN: Origin = Origin { source: 0, epoch: u64::MAX };
