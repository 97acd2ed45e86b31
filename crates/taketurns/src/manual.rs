//! The manual: how to choose, run and trust taketurns, one page per topic. The pages are the files of `docs/` in the
//! repository.
//!
//! | to | read |
//! |---|---|
//! | choose a store | [`engines`] |
//! | know the limits, and what to do about them | [`limits`], [`security`] |
//! | make a resource refuse a writer that lost its lock | [`fencing`] |
//! | run it in cron, in a timer, once per night | [`cron`] |
//! | run it in Kubernetes | [`kubernetes`] |
//! | use Redis or Valkey, or a majority of them | [`redis`], [`quorum`] |
//! | use it from any language | [`module`] |
//! | migrate from another lock, or share it with one | [`moving`], [`wires`] |
//!
//! Only the documentation contains these modules; a normal build leaves them out. Pages link to each other by labels
//! such as `[limits.md]`. `manual/links.md` defines the labels for rustdoc; the end of each page defines them for the
//! repository.

/// Makes a module per page. `links.md` comes first, because the first definition of a label wins.
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
