//! What programs have verified about this server incarnation. Each verified binding has a short id that goes with every
//! request. After a restart the server knows no id, and every program must verify again.

use std::cell::OnceCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use taketurns_core::wire::sha1_hex;

use crate::sys::ModuleString;

/// How many bindings the server remembers. A program whose binding was dropped binds again.
const MAX: usize = 1_024;

/// What a program has verified.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProgramBinding {
    pub(crate) run: Arc<str>,
    /// Earlier incarnations of this server, as one text.
    known: String,
    /// What the marker must say.
    pub(crate) mark: String,
    /// Where the marker is; empty if the server does not check it.
    pub(crate) marker_key: Vec<u8>,
    /// Until when this server grants nothing.
    until_ms: u64,
    /// How long a lock that comes from another server grants nothing.
    pub(crate) max_lease_ms: u64,
    /// The prefix of the clients' channels.
    pub(crate) channel: Arc<str>,
}

impl ProgramBinding {
    /// Parses the arguments of `FENCELOCK.BIND`. `None` if they are malformed.
    pub(crate) fn parse(args: &[&[u8]]) -> Option<Self> {
        let &[run, known, mark, marker_key, until, max_lease, channel] = args else { return None };
        let text = |bytes| std::str::from_utf8(bytes).ok();
        Some(Self {
            run: text(run)?.into(),
            known: text(known)?.to_owned(),
            mark: text(mark)?.to_owned(),
            marker_key: marker_key.to_vec(),
            until_ms: text(until)?.parse().ok()?,
            max_lease_ms: text(max_lease)?.parse().ok()?,
            channel: text(channel)?.into(),
        })
    }

    /// Is `run`, the last incarnation that used a lock, the present one or a known earlier one?
    pub(crate) fn knows(&self, run: &str) -> bool {
        run == &*self.run || self.known.split(',').any(|known| known == run)
    }

    /// Returns until when nothing is granted, or 0 if that time is over.
    pub(crate) fn until_ms_at(&self, now_ms: u64) -> u64 {
        if now_ms < self.until_ms { self.until_ms } else { 0 }
    }

    fn id(&self) -> String {
        let Self { run, known, mark, marker_key, until_ms, max_lease_ms, channel } = self;
        let (marker, channel) = (sha1_hex(marker_key), sha1_hex(channel.as_bytes()));
        let text =
            format!("{run}\n{known}\n{mark}\n{marker}\n{until_ms}\n{max_lease_ms}\n{channel}");
        let mut id = sha1_hex(text);
        id.truncate(16);
        id
    }
}

/// A known binding, with what each request needs of it.
pub(crate) struct CachedBinding {
    pub(crate) binding: ProgramBinding,
    marker: OnceCell<ModuleString<'static>>,
}

impl CachedBinding {
    /// Returns where the marker is, unless the server does not check it.
    pub(crate) fn marker(&self) -> Option<&ModuleString<'static>> {
        let key = Some(&*self.binding.marker_key).filter(|key| !key.is_empty());
        key.map(|key| self.marker.get_or_init(|| ModuleString::new(key)))
    }
}

/// All known bindings, the oldest first in `order`. There are few, so comparing costs less than hashing.
#[derive(Default)]
pub(crate) struct Bindings {
    by_id: BTreeMap<Vec<u8>, Rc<CachedBinding>>,
    order: VecDeque<String>,
}

impl Bindings {
    /// Remembers a binding, and returns its id.
    pub(crate) fn add(&mut self, binding: ProgramBinding) -> String {
        let id = binding.id();
        let bound = CachedBinding { binding, marker: OnceCell::new() };
        if self.by_id.insert(id.clone().into_bytes(), Rc::new(bound)).is_none() {
            self.order.push_back(id.clone());
        }
        if self.order.len() > MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_id.remove(oldest.as_bytes());
        }
        id
    }

    pub(crate) fn get(&self, id: &[u8]) -> Option<Rc<CachedBinding>> {
        self.by_id.get(id).cloned()
    }

    /// Did this program find no marker, although another program has verified one in this incarnation?
    pub(crate) fn misses_a_marker(&self, binding: &ProgramBinding) -> bool {
        let was_here = |CachedBinding { binding: other, .. }: &CachedBinding| {
            other.marker_key == binding.marker_key && !other.mark.is_empty()
        };
        !binding.marker_key.is_empty()
            && binding.mark.is_empty()
            && self.by_id.values().any(|bound| was_here(bound))
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(channel: &str) -> ProgramBinding {
        let args: [&[u8]; 7] =
            [b"run2", b"run1,run0", b"mark", b"tt:marker", b"50", b"60000", channel.as_bytes()];
        ProgramBinding::parse(&args).expect("a binding")
    }

    #[test]
    fn the_same_is_bound_once_and_the_oldest_goes_first() {
        let mut bindings = Bindings::default();
        let first = bindings.add(parse("tt:wake:"));
        assert_eq!(bindings.add(parse("tt:wake:")), first);
        assert_eq!(bindings.len(), 1);
        for n in 0..MAX {
            assert_ne!(bindings.add(parse(&format!("{n}:"))), first);
        }
        assert_eq!(bindings.len(), MAX);
        assert!(bindings.get(first.as_bytes()).is_none());
        assert!(bindings.get(b"\xff").is_none());
    }

    #[test]
    fn a_run_is_known_by_its_whole_name() {
        let binding = parse("tt:wake:");
        assert!(binding.knows("run2") && binding.knows("run0"));
        assert!(!binding.knows("run") && !binding.knows(""));
        assert_eq!((binding.until_ms_at(49), binding.until_ms_at(50)), (50, 0));
    }

    #[test]
    fn what_is_no_binding_is_refused() {
        assert_eq!(ProgramBinding::parse(&[b"run"]), None);
        assert_eq!(ProgramBinding::parse(&[b"", b"", b"", b"", b"-1", b"0", b""]), None);
        assert_eq!(ProgramBinding::parse(&[b"\xff", b"", b"", b"", b"1", b"0", b""]), None);
    }
}
