//! Spans and events with names that stay.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use taketurns::engine::{Clock, ManualClock, MemoryStore};
use taketurns::{Connect, Locks};
use tokio::runtime::Builder;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

use super::poll_once;
use crate::support::patience::soon;

/// What was told, by the name of the span or event.
type LoggedFields = BTreeMap<String, Vec<Fields>>;

#[derive(Clone, Debug, Default)]
struct Fields {
    level: Option<Level>,
    target: String,
    values: BTreeMap<String, String>,
}

impl Fields {
    fn of(metadata: &Metadata<'_>) -> Self {
        let (level, target) = (Some(*metadata.level()), metadata.target().to_owned());
        Self { level, target, ..Self::default() }
    }

    fn get(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = self.values.entry(field.name().to_owned()).or_default();
        text.clear();
        write!(text, "{value:?}").expect("text");
    }
}

/// Which of what was told a span is.
type Spans = Vec<(String, usize)>;

/// Collects all that this thread is told.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<(LoggedFields, Spans)>>);

impl Collector {
    fn told(&self, name: &str) -> Vec<Fields> {
        self.0.lock().expect("sound").0.get(name).cloned().unwrap_or_default()
    }

    fn all(&self) -> String {
        format!("{:?}", self.0.lock().expect("sound").0)
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_ours(metadata)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let (name, mut fields) = (span.metadata().name().to_owned(), Fields::of(span.metadata()));
        span.record(&mut fields);
        let (told, ids) = &mut *self.0.lock().expect("sound");
        let of_name = told.entry(name.clone()).or_default();
        of_name.push(fields);
        ids.push((name, of_name.len() - 1));
        Id::from_u64(ids.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let (told, ids) = &mut *self.0.lock().expect("sound");
        let (name, number) = &ids[span.into_u64() as usize - 1];
        values.record(&mut told.get_mut(name).expect("known")[*number]);
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::of(event.metadata());
        event.record(&mut fields);
        let name = event.metadata().name().to_owned();
        self.0.lock().expect("sound").0.entry(name).or_default().push(fields);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The subscriber of all other threads. It wants nothing, but its answer must not be cached, since another thread may
/// want the same event.
struct Nobody;

impl Subscriber for Nobody {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_ours(metadata) { Interest::sometimes() } else { Interest::never() }
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().split("::").next() == Some("taketurns")
}

/// Runs a test on one thread, and collects what is told there.
fn collect<T, F: Future<Output = T>>(test: impl FnOnce(Collector) -> F) -> T {
    // For the threads of other tests. As long as there is just one subscriber, tracing asks the thread that
    // comes first to a span whether anybody wants it, and one without a subscriber says no for all.
    static FOR_ALL: Once = Once::new();
    FOR_ALL.call_once(|| {
        let _ = tracing::subscriber::set_global_default(Nobody);
    });
    let collector = Collector::default();
    let _collects = tracing::subscriber::set_default(collector.clone());
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(test(collector))
}

async fn store(url: &str) -> taketurns::Locks {
    let runtime = tokio::runtime::Handle::current();
    taketurns::connect_on(url, runtime).await.expect("a store")
}

#[test]
fn an_acquire_is_a_span_that_says_how_it_ended() {
    collect(|collector| async move {
        let locks = store("memory:").await;
        let guard = locks.mutex("l").acquire().why("a reason").await.expect("free");
        let token = guard.check().expect("held").to_string();
        poll_once(locks.mutex("l").acquire().into_future());
        guard.release().await.expect("held");
        let acquires = collector.told("taketurns.acquire");
        let told: Vec<_> = acquires
            .iter()
            .map(|told| ["lock", "kind", "outcome"].map(|of| told.get(of)))
            .collect();
        let kind = "\"mutex\"";
        assert_eq!(told, [["l", kind, "\"granted\""], ["l", kind, "\"cancelled\""]]);
        assert_eq!((acquires[0].get("token"), acquires[1].get("token")), (token.as_str(), ""));
        assert!(acquires.iter().all(|told| told.get("waited_ms").parse::<u64>().is_ok()));
        for name in ["taketurns.granted", "taketurns.released"] {
            let told = collector.told(name);
            assert_eq!(told.len(), 1, "{name}");
            assert_eq!((told[0].get("lock"), told[0].get("token")), ("l", token.as_str()));
            assert_eq!((told[0].level, told[0].target.as_str()), (Some(Level::DEBUG), "taketurns"));
        }
        assert_eq!(acquires[0].level, Some(Level::DEBUG), "nobody's log is flooded");
    });
}

#[test]
fn a_loss_is_a_warning_as_ever_and_has_a_name() {
    collect(|collector| async move {
        let locks = store("memory:").await;
        let guard = locks.mutex("l").acquire().await.expect("free");
        locks.break_lock("l").await.expect("an answer");
        soon("it is told", guard.lost()).await;
        drop(guard);
        let lost = collector.told("taketurns.lost");
        assert_eq!(lost.len(), 1);
        assert_eq!(lost[0].level, Some(Level::WARN));
        assert_eq!(lost[0].target, "taketurns::held", "others filter by it");
        assert_eq!((lost[0].get("lock"), lost[0].get("cause")), ("l", "somebody broke it"));
        assert_eq!(collector.told("taketurns.released").len(), 0, "it was lost before");
    });
}

#[test]
fn renewals_are_spans_and_nothing_that_is_told_is_a_secret() {
    collect(|collector| async move {
        let locks = store("memory:").await;
        let lease = Duration::from_secs(3);
        let guard = locks.mutex("l").acquire().lease(lease).await.expect("free");
        let renewed = async {
            while collector.told("taketurns.renew").iter().all(|told| told.get("failed") != "0") {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon("a renewal", renewed).await;
        assert_eq!(collector.told("taketurns.renew")[0].get("locks"), "1");
        let handle = guard.into_handle().await.expect("held").expose();
        let owner = handle.split('.').nth(1).expect("an owner").trim_start_matches('0');
        assert!(!collector.all().contains(owner), "{}", collector.all());
    });
}

#[test]
fn a_place_that_lapsed_and_was_taken_anew_is_a_warning_with_a_name() {
    collect(|collector| async move {
        let manual = ManualClock::new();
        let store = MemoryStore::new(Clock::Manual(manual.clone()));
        let open = || {
            let runtime = tokio::runtime::Handle::current();
            Connect::engine(store.clone()).open_on(runtime)
        };
        let (one, two) = (open().await.expect("a store"), open().await.expect("a store"));
        // Held by nobody who would notice that the clock is set.
        let held = one.mutex("l").acquire().lease(Duration::from_secs(3_600)).await.expect("free");
        let handle = held.into_handle().await.expect("held");
        let waits = tokio::spawn(one.mutex("l").acquire().into_future());
        until_waiting(&one, 1).await;
        // Longer than a waiter lease, and shorter than a request may be under way.
        manual.advance(Duration::from_secs(6));
        // The next acquire drops the waiters that have lapsed.
        poll_once(two.mutex("l").acquire().into_future());
        let rejoined = async {
            while collector.told("taketurns.rejoined").is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon("it takes a place anew", rejoined).await;
        let told = &collector.told("taketurns.rejoined")[0];
        assert_eq!((told.level, told.get("lock")), (Some(Level::WARN), "l"));
        assert_eq!(told.target, "taketurns::waits", "others filter by it");
        one.release(&handle).await.expect("held");
        drop(soon("its turn", waits).await.expect("no panic").expect("its turn"));
    });
}

async fn until_waiting(locks: &Locks, waiting: usize) {
    let queued = async {
        while locks.inspect("l").await.expect("an answer").map_or(0, |view| view.waiting) != waiting
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("it waits", queued).await;
}

#[cfg(feature = "redis")]
#[test]
fn a_connection_that_is_made_anew_is_a_span() {
    use taketurns_servers::{Flavor, Proxy, Server};
    let server = Server::start(Flavor::Redis).expect("a server");
    let proxy = Proxy::start(server.port()).expect("a proxy");
    collect(|collector| async move {
        let locks = store(&proxy.url()).await;
        assert_eq!(collector.told("taketurns.reconnect").len(), 0);
        proxy.cut();
        let asked = async { while locks.mutex("l").try_acquire().await.is_err() {} };
        soon("an answer", asked).await;
        let told = collector.told("taketurns.reconnect");
        let last = told.last().expect("a span");
        assert_eq!(last.get("outcome"), "\"connected\"");
        assert_eq!(last.get("server"), proxy.addr().to_string());
    });
}
