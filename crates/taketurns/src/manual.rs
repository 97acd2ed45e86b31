//! The manual: how to choose, run and trust it, a page each. These are the files of `docs/` in the repository.
//!
//! | to | read |
//! |---|---|
//! | find out which store to use | [`engines`] |
//! | know what it can't do, and what to do then | [`limits`], [`security`] |
//! | make a resource refuse a writer that lost its lock | [`fencing`] |
//! | run it in cron, in a timer, once per night | [`cron`] |
//! | run it in Kubernetes | [`kubernetes`] |
//! | use Redis or Valkey, or a majority of them | [`redis`], [`quorum`] |
//! | use it from any language | [`module`] |
//! | come from another lock, or live beside one | [`moving`], [`wires`] |
//!
//! It is there for readers alone: a program is built without it. Pages name each other by labels, such as
//! `[limits.md]`; `manual/links.md` says what those are here, and each page says at its end what they are there.

/// A module per page. The labels come first: of two meanings of one, the first counts.
macro_rules! pages {
    ($($name:ident: $file:literal,)*) => {
        $(
            #[doc = include_str!("manual/links.md")]
            #[doc = include_str!($file)]
            pub mod $name {}
        )*
    };
}

pages! {
    cron: "../docs/cron.md",
    engines: "../docs/engines.md",
    fencing: "../docs/fencing.md",
    kubernetes: "../docs/kubernetes.md",
    limits: "../docs/limits.md",
    module: "../docs/module.md",
    moving: "../docs/moving.md",
    quorum: "../docs/quorum.md",
    redis: "../docs/redis.md",
    security: "../SECURITY.md",
    wires: "../docs/wires.md",
    wires_fairqueue: "../docs/wires/fairqueue.md",
    wires_plain: "../docs/wires/plain.md",
    wires_python_redis_lock: "../docs/wires/python-redis-lock.md",
    wires_redlock: "../docs/wires/redlock.md",
    wires_redturn: "../docs/wires/redturn.md",
    wires_zmutex: "../docs/wires/zmutex.md",
}
