//! A test for each page, so that the first that fails does not hide the others.

use std::fs;

use crate::docs::page::{self, Page};
use crate::docs::shell;

/// Tests, and the list of pages that they are of.
macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {
        const PAGES: &[&str] = &[$($path),*];

        $(
            #[test]
            fn $name() {
                is_true($path);
            }
        )*
    };
}

pages! {
    readme: "README.md",
    the_table_of_contents: "docs/README.md",
    benchmarks: "docs/benchmarks.md",
    comparison: "docs/comparison.md",
    concepts: "docs/concepts.md",
    cron: "docs/cron.md",
    doctor: "docs/doctor.md",
    engines: "docs/engines.md",
    fencing: "docs/fencing.md",
    install: "docs/install.md",
    kubernetes: "docs/kubernetes.md",
    limits: "docs/limits.md",
    metrics: "docs/metrics.md",
    moving: "docs/moving.md",
    once: "docs/once.md",
    postgres: "docs/postgres.md",
    proof: "docs/proof.md",
    protocols: "docs/protocols.md",
    protocols_fairqueue: "docs/protocols/fairqueue.md",
    protocols_plain: "docs/protocols/plain.md",
    protocols_python_redis_lock: "docs/protocols/python-redis-lock.md",
    protocols_redlock: "docs/protocols/redlock.md",
    protocols_redturn: "docs/protocols/redturn.md",
    protocols_zmutex: "docs/protocols/zmutex.md",
    quorum: "docs/quorum.md",
    recipes_consumers: "docs/recipes/consumers.md",
    recipes_leader_election: "docs/recipes/leader-election.md",
    recipes_limit: "docs/recipes/limit.md",
    recipes_migrations: "docs/recipes/migrations.md",
    recipes_per_customer: "docs/recipes/per-customer.md",
    recipes_postgresql: "docs/recipes/postgresql.md",
    redis: "docs/redis.md",
    serve: "docs/serve.md",
    tutorial: "docs/tutorial.md",
}

/// Pages that another test types from top to bottom, and that test.
const ELSEWHERE: [(&str, &str); 1] = [("docs/module.md", "crates/module/tests/all/docs.rs")];

fn is_true(path: &str) {
    let page = Page::read(path);
    let ran = shell::run(&page);
    assert_eq!(ran, page::count(&page.text), "{path}: a block was not run");
}

#[test]
fn no_page_is_left_out() {
    for path in page::all() {
        let elsewhere = ELSEWHERE.iter().find(|(page, _)| *page == path);
        if let Some((_, test)) = elsewhere {
            let test = fs::read_to_string(page::root().join(test)).expect("a test");
            assert!(test.contains(&format!("{path}\")")), "{path} is not read there");
        } else {
            assert!(PAGES.contains(&path.as_str()), "{path}: pages.rs has no test of it");
        }
    }
}
