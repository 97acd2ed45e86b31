use super::*;

#[test]
fn our_state_is_in_the_slot_of_the_foreign_key() {
    for name in ["orders", "{a}b", "a{b}c", "}x", "a}b", "{}x", "a{b", "{", "}{", "{}{a}"] {
        let lock = Name::new(name).unwrap();
        let key = format!("tt:{}", tagged_name(&lock));
        assert_eq!(slot(key.as_bytes()), slot(name.as_bytes()), "{name}");
        assert_eq!(name_beside(&tagged_name(&lock)), name);
    }
}

#[test]
fn two_names_never_share_their_state() {
    let key = |name: &str| tagged_name(&Name::new(name).unwrap());
    assert_ne!(key("orders"), key("{orders}"));
}
