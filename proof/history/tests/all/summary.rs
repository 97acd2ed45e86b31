//! The summary of a history that can be counted by hand.

use taketurns_history::{Summary, read};

const HISTORY: &str = r#"
{"at_us":1000000,"what":"begins","title":"a small one","locks":[{"name":"m","kind":"mutex"}],"waiter_lease_us":600000,"max_lease_us":2000000}
{"at_us":1000000,"what":"asked","op":1,"client":1,"lock":"m","ask":"mutex","endless":true}
{"at_us":1000100,"what":"asked","op":2,"client":2,"lock":"m","ask":"mutex","endless":true}
{"at_us":1000200,"what":"line","lock":"m","ops":[1,2]}
{"at_us":1000400,"what":"granted","op":1,"token":5,"member":null,"until_us":2000000}
{"at_us":1100000,"what":"asked","op":3,"client":3,"lock":"m","ask":"mutex","endless":true}
{"at_us":1150000,"what":"line","lock":"m","ops":[2,3]}
{"at_us":1200000,"what":"wrote","op":1,"fenced":true,"accepted":true,"stale":false}
{"at_us":1200000,"what":"wrote","op":1,"fenced":false,"accepted":true,"stale":true}
{"at_us":1200000,"what":"releases","op":1}
{"at_us":1201000,"what":"granted","op":2,"token":6,"member":null,"until_us":2200000}
{"at_us":1300000,"what":"lost","op":2,"cause":"expired"}
{"at_us":1310000,"what":"wrote","op":2,"fenced":true,"accepted":false,"stale":true}
{"at_us":1400000,"what":"fault","kind":"kill -9","on":"server","excuses":["G6"]}
{"at_us":1900000,"what":"mended","kind":"kill -9","on":"server"}
{"at_us":2000000,"what":"granted","op":3,"token":7,"member":null,"until_us":3000000}
{"at_us":2100000,"what":"releases","op":3}
{"at_us":2200000,"what":"asked","op":4,"client":1,"lock":"m","ask":"mutex","endless":false}
{"at_us":2300000,"what":"failed","op":4,"error":"timeout"}
{"at_us":2300000,"what":"asked","op":5,"client":1,"lock":"m","ask":"mutex","endless":false}
{"at_us":2400000,"what":"cancelled","op":5}
{"at_us":2500000,"what":"asked","op":6,"client":1,"lock":"m","ask":"mutex","endless":false}
{"at_us":2600000,"what":"died","client":1}
{"at_us":2700000,"what":"left","thing":"a key"}
{"at_us":3900000,"what":"asked","op":7,"client":3,"lock":"m","ask":"mutex","endless":true}
{"at_us":3900100,"what":"granted","op":7,"token":8,"member":null,"until_us":4900000}
{"at_us":3950000,"what":"releases","op":7}
{"at_us":4000000,"what":"left","thing":"another key"}
"#;

const TABLE: &str = "\
a small one
  history          28 events in 3.0 s
  operations       7 asked, 4 granted
                           1 cancelled
                           1 without an outcome
                           1 timeout
                           1 lost
  turns            1 to 2 each, of 3 clients
  waits            4: half within 400 µs, 99 % within 900 ms, all within 900 ms
  hand-overs       2: half within 1.00 ms, 99 % within 800 ms, all within 800 ms
  longest stall    700 ms, of m after 300 ms
                   during kill -9 on server
  fenced writes    1 accepted, 1 refused; hurt 0 times
  unfenced writes  1 accepted, 0 refused; hurt 1 times
  order seen       in 1 neighbours

  fault                                        count       in all no grant for
  death                                            1            -        1.9 s
  kill -9                                          1       500 ms       799 ms

  guarantee                                             violations  excused
  G1    no more holders than the kind allows                     0        0
  G2    tokens grow with every grant                             0        0
  G3    no live waiter is overtaken                              0        0
  G4    who waits gets its turn                                  0        0
  G5    lost before the next is granted, and for good            0        0
  G6    nothing is left behind                                   1        1
  G7    one outcome each, whatever the network does              0        0
  G8    work is done once                                        0        0
  Fence the fenced resource is never hurt                        0        0
";

fn summary() -> Summary {
    Summary::of(&read(HISTORY.as_bytes()).expect("a history"))
}

#[test]
fn everything_in_a_history_is_counted() {
    assert_eq!(summary().to_string(), TABLE);
    assert!(TABLE.lines().all(|line| line.chars().count() <= 80), "wider than 80 columns");
}

#[test]
fn only_what_has_no_excuse_counts_as_a_violation() {
    assert_eq!(summary().unexcused(), 1);
    assert_eq!(summary().violations.len(), 2);
}

#[test]
fn scripts_get_the_same_figures_as_json() {
    let json = serde_json::to_value(summary()).expect("JSON");
    for (pointer, expected) in [
        ("/operations/failed/timeout", 1),
        ("/turns/clients", 3),
        ("/waits/max_us", 900_000),
        ("/hand_overs/p50_us", 1_000),
        ("/longest_stall/lasted_us", 700_000),
        ("/faults/kill -9/total_us", 500_000),
        ("/unfenced/hurt", 1),
        ("/order_judged", 1),
        ("/guarantees/5/excused", 1),
    ] {
        assert_eq!(json.pointer(pointer), Some(&expected.into()), "{pointer} in {json:#}");
    }
}
