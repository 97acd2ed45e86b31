//! The manual: how to choose, run and trust taketurns, one page per topic. The pages are the files of `docs/` in the
//! repository.
//!
//! | to | read |
//! |---|---|
//! | choose a store | [`engines`] |
//! | learn its terms | [`concepts`] |
//! | run migrations, elect a leader, limit jobs, protect a row | [`recipes_migrations`], [`recipes_leader_election`], [`recipes_per_customer`], [`recipes_limit`], [`recipes_postgresql`] |
//! | know the limits, and what to do about them | [`limits`], [`security`] |
//! | make a resource refuse a writer that lost its lock | [`fencing`] |
//! | run it in cron, in a timer, once per night | [`cron`] |
//! | do work once: per night, per release, per message | [`once`], [`recipes_consumers`] |
//! | run it in Kubernetes | [`kubernetes`] |
//! | use Redis or Valkey, or a majority of them | [`redis`], [`quorum`] |
//! | use PostgreSQL | [`postgres`] |
//! | use it from any language | [`module`] |
//! | migrate from another lock, or share it with one | [`moving`], [`protocols`] |
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
    concepts: "../docs/concepts.md",
    cron: "../docs/cron.md",
    engines: "../docs/engines.md",
    fencing: "../docs/fencing.md",
    kubernetes: "../docs/kubernetes.md",
    limits: "../docs/limits.md",
    module: "../docs/module.md",
    moving: "../docs/moving.md",
    once: "../docs/once.md",
    postgres: "../docs/postgres.md",
    protocols: "../docs/protocols.md",
    protocols_fairqueue: "../docs/protocols/fairqueue.md",
    protocols_plain: "../docs/protocols/plain.md",
    protocols_python_redis_lock: "../docs/protocols/python-redis-lock.md",
    protocols_redlock: "../docs/protocols/redlock.md",
    protocols_redturn: "../docs/protocols/redturn.md",
    protocols_zmutex: "../docs/protocols/zmutex.md",
    quorum: "../docs/quorum.md",
    recipes_consumers: "../docs/recipes/consumers.md",
    recipes_leader_election: "../docs/recipes/leader-election.md",
    recipes_limit: "../docs/recipes/limit.md",
    recipes_migrations: "../docs/recipes/migrations.md",
    recipes_per_customer: "../docs/recipes/per-customer.md",
    recipes_postgresql: "../docs/recipes/postgresql.md",
    redis: "../docs/redis.md",
    security: "../SECURITY.md",
}
